"""How long a message takes into a busy page: ``python -m tests.benchmarks.page``.

A chat of 5,000 messages is open, and beside it the panel through which 10,000 requests have passed. Measured
is the time from the bot's message to the picture after its bubble, with its request in the panel; it holds
the 20 ms that the stream waits for company.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import trio

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))

from chrome import running_browser
from window import Window, window

MESSAGES: Final = 5_000
REQUESTS: Final = 10_000
ROUNDS: Final = 30

# Ends with the picture that is painted after the text has come.
_DRAWN: Final = """
window.drawn = new Promise((done) => {
  const list = document.querySelector(".messages");
  const seen = new MutationObserver(() => {
    if (!list.lastElementChild?.innerText.includes(TEXT)) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(Date.now())));
  });
  seen.observe(list, { childList: true, subtree: true });
});
1
"""


def ask(shown: Window, body: bytes) -> None:
    """Let a request pass through the panel."""
    traffic, kind = shown.exchange.traffic, "application/x-www-form-urlencoded"
    call = traffic.begin("operation", "sendMessage", shown.exchange.clock.now(), content_type=kind, body=body)
    traffic.end(call, 0.001, 200, b'{"id":1}')


async def measure(browser: str) -> list[float]:
    """The milliseconds of each round."""
    async with window(browser) as shown:
        page = shown.page
        await page.click(".rail .tab", "Requests")
        for number in range(MESSAGES):
            shown.sends(f"message {number} of many")
            if number % 100 == 99:
                shown.exchange.tell()
                await trio.sleep(0.05)
        for number in range(REQUESTS):
            ask(shown, b"chat_id=1&type=text&data=hello")
            if number % 100 == 99:
                shown.exchange.tell()
                await trio.sleep(0.05)
        await page.sees(f"message {MESSAGES - 1}", within=".bubble")
        await trio.sleep(2)
        took: list[float] = []
        for number in range(ROUNDS):
            text = f"round {number} begins"
            await page.run(_DRAWN.replace("TEXT", repr(text)))
            began = time.time() * 1_000
            shown.sends(text)
            ask(shown, b"data=round")
            shown.exchange.tell()
            took.append(float(await page.run("window.drawn")) - began)
            await trio.sleep(0.05)
        return took


def main() -> None:
    """Measure, and print."""
    with tempfile.TemporaryDirectory() as folder, running_browser(Path(folder) / "profile") as browser:
        took = trio.run(measure, browser)
    print(f"median {statistics.median(took):.0f} ms, longest {max(took):.0f} ms, of {ROUNDS} rounds")


if __name__ == "__main__":
    main()
