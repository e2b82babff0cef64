"""What a message costs a page that has many chats: ``python -m tests.benchmarks.chats``.

Between two messages the browser counts its own time: scripts, styles and layout together, and the whole task
with what is painted. A message comes to another chat each time, so that the list beside the open one changes.
Then: how long a text of a megabyte holds the page up.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import trio

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))

from chrome import Browser, running_browser
from window import Window, window

SIZES: Final = (10, 320, 1_000)
ROUNDS: Final = 100
LONG: Final = 1_000_000

# Ends with the second picture from now: the first may have been under way.
_PAINTED: Final = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"


Count = Callable[[], Awaitable[dict[str, float]]]


async def counter(shown: Window) -> Count:
    """Have the browser count from now on; what comes back asks it, in milliseconds."""
    browser, tab = shown.page.browser, shown.page._tab

    async def begin() -> Any:
        session = await tab.context.new_cdp_session(tab)
        await session.send("Performance.enable")
        return session

    session = await browser.there(begin)

    async def counted() -> dict[str, float]:
        told = await browser.there(session.send, "Performance.getMetrics")
        return {
            one["name"]: 1_000 * one["value"] for one in told["metrics"] if one["name"].endswith("Duration")
        }

    return counted


async def many(browser: Browser, chats: int) -> None:
    """Print a line for so many chats."""
    async with window(browser) as shown:
        people = [shown.platform.world.add_user(f"Person {number}") for number in range(chats - 1)]
        for number, user in enumerate(people):
            shown.joins(user)
            shown.sends(f"first of {number}", chat=user.chat_id)
        shown.exchange.tell()
        await shown.page.has(".chat-item", times=chats)
        await trio.sleep(1)
        counted = await counter(shown)
        before = await counted()
        for number in range(ROUNDS):
            shown.sends(f"round {number}", chat=people[number * 7 % len(people)].chat_id)
            shown.exchange.tell()
            await trio.sleep(0.06)
            await shown.page.run(_PAINTED)
        after = await counted()
        took = {name: (after[name] - before[name]) / ROUNDS for name in after}
        parts = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
        print(
            f"{chats:5,} chats: {sum(took[part] for part in parts):.1f} ms of script, style and layout"
            f" ({', '.join(f'{took[part]:.1f}' for part in parts)}),"
            f" {took['TaskDuration']:.1f} ms in all, for each message"
        )


async def long(browser: Browser) -> None:
    """Print how long a long text takes."""
    async with window(browser) as shown:
        words = ("A text that somebody sends whole, and that nobody reads whole. " * (LONG // 60))[:LONG]
        counted = await counter(shown)
        before, began = await counted(), time.time()
        shown.sends(words)
        shown.exchange.tell()
        await shown.page.sees("A text that somebody", within=".bubble")
        await shown.page.run(_PAINTED)
        took, after = time.time() - began, await counted()
        print(
            f"a text of {LONG:,} letters: shown after {1_000 * took:.0f} ms,"
            f" of which the page worked {after['TaskDuration'] - before['TaskDuration']:.0f} ms"
        )


async def measure(browser: Browser) -> None:
    """Print all lines."""
    for chats in SIZES:
        await many(browser, chats)
    await long(browser)


def main() -> None:
    """Measure, and print."""
    with running_browser() as browser:
        trio.run(measure, browser)


if __name__ == "__main__":
    main()
