"""What a notch costs the page that travels: ``python -m tests.benchmarks.travel_page``.

A conversation of 4,004 notches, with tables among its variables and 400 lines of code, is opened, and the
slider goes through it: by one notch, and by leaps. Measured are the script with styles and layout, and the
time to the picture.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

import trio

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))

from chrome import Browser, running_browser
from travels import Told, pizza, travel
from window import window

NOTCHES: Final = 4_004
ROUNDS: Final = 200

_STEPS: Final = """
(async () => {
  const slider = document.querySelector(".travel input[type=range]");
  const worked = [], painted = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const began = performance.now();
    STEP;
    document.querySelector(".travel").getBoundingClientRect();
    worked.push(performance.now() - began);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    painted.push(performance.now() - began);
  }
  return [worked, painted];
})()
""".replace("ROUNDS", str(ROUNDS))
_KEY: Final = "slider.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true}))"
_LEAP: Final = "slider.value = (round * 37) % 120; slider.dispatchEvent(new Event('input', {bubbles: true}))"


def heavy() -> Told:
    """A conversation in a loop, with variables that change at each turn."""
    told = pizza()
    every: list[dict[str, Any]] = []
    table = "[" + ", ".join(f"Row({number}, 'name')" for number in range(20)) + ", …]"
    for n in range(NOTCHES):
        notch: dict[str, Any] = {"n": n, "t": 1_798_880_400_000 + 1_000 * n, "r": n, "id": str(n)}
        if n % 2:
            notch |= {"k": "receive", "dot": "person"}
            notch["in"] = {"what": "message", "from": 1, "name": "Sara", "text": f"answer {n}"}
            notch["out"] = [{"id": str(n + 1), "kind": "send", "text": f"More? {n}", "line": [0, 51]}]
            frames = [{f"name{depth}": repr(f"{n}"), f"rows{depth}": table} for depth in range(7)]
            notch["v"] = {"": frames}
        else:
            notch |= {"k": "send" if n else "begin", "dot": "bot" if n else "begin", "done": [[str(n), n]]}
            notch["f"] = {"": [[0, 10 * depth + n % 20 + 1, f"level{depth}"] for depth in range(7)]}
        every.append(notch)
    every[0] |= {"whole": True, "v": {"": [{}] * 7}, "parked": [], "blocks": [], "data": {}}
    head = told.head | {"notches": NOTCHES, "records": NOTCHES, "state": "ended"}
    return Told(head, every, told.source * 5)


async def measure(browser: Browser) -> None:
    """Print a line of each kind."""
    async with window(browser, size=(1440, 900)) as shown:
        page = shown.page
        began = time.time()
        await travel(shown, heavy())
        await page.has(".travel .line.lit")
        print(f"the newest notch of {NOTCHES:,} shows after {1_000 * (time.time() - began):.0f} ms")
        await page.press("Home")
        await page.wait("document.querySelector('.travel .notch')?.className.includes('begin')")
        await page.press("End")
        for called, step in (("a notch further", _KEY), ("a leap", _LEAP)):
            worked, painted = await page.run(_STEPS.replace("STEP", step))
            print(
                f"{called}: {statistics.median(worked):.1f} ms of script, style and layout (median),"
                f" {max(worked):.1f} ms (longest); painted after {statistics.median(painted):.1f} ms,"
                f" {max(painted):.1f} ms; of {ROUNDS}"
            )


def main() -> None:
    """Measure, and print."""
    with running_browser() as browser:
        trio.run(measure, browser)


if __name__ == "__main__":
    main()
