"""The crowd under ``triobot dev``, in a real browser: from the button to a broken promise."""

from __future__ import annotations

from pathlib import Path

import pytest
from chrome import Browser
from test_browser_dev import developing, sees
from test_browser_past import LIT
from test_browser_travel import AXE, complaints
from window import needs_browser

pytest.importorskip("watchfiles", reason="watchfiles is not installed (the extra dev)")
pytestmark = [needs_browser, pytest.mark.processes]

BOT = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def talk(chat: Chat) -> None:
    name = await chat.ask("Your name?")
    size = await chat.choose("Size?", {"s": "Small", "l": "Large"})
    if size == "l" and not name.isalpha():
        raise ValueError
    await chat.send(f"{name}: {size}.")
"""


@pytest.mark.slow
async def test_a_crowd_ends_where_the_first_promise_breaks(browser: Browser, tmp_path: Path) -> None:
    async with developing(browser, tmp_path, "echo", source=BOT) as page:
        await sees(page, "Your name?")
        await page.click(".rail .tab", "Crowd")
        await page.click(".crowd-fields input", nth=0)
        await page.press("Control+a")
        await page.type("4")
        await page.push("button", "Let a crowd in")
        await page.sees("ValueError", within=".crash-card")
        await page.wait(f"{LIT}.includes('raise ValueError')")
        await page.sees("Person", within=".travel h1")
        await page.press("Escape")
        await page.sees("A promise broke.", within=".crowd-result")
        await page.sees("triobot simulate echo.py:bot --seed 0 --chats 4 --hours 12", within=".again")
        if AXE.exists():
            assert await complaints(page, ".crowd-panel") == []
        # The page's own chat got no message of the crowd.
        assert await page.run("document.querySelectorAll('.row.theirs').length") == 1
        await page.push("button", "Where it broke")
        await page.sees("ValueError", within=".crash-card")
        await page.press("Escape")


KNOCKS = """\
from triobot import Bot, Chat, Room
from triobot.filters import signal, text

bot = Bot()


@bot.aside(text())
async def knocks(chat: Chat) -> None:
    await chat.to(door).signal(chat.sender.name)


@bot.room(signal(str))
async def door(room: Room[str]) -> None:
    if room.event == await room.receive(signal(str)):
        raise ZeroDivisionError
"""


@pytest.mark.slow
async def test_a_rooms_failure_names_who_wrote_before_it(browser: Browser, tmp_path: Path) -> None:
    async with developing(browser, tmp_path, "echo", source=KNOCKS) as page:
        await page.click(".rail .tab", "Crowd")
        await page.push("button", "Let a crowd in")
        await page.sees("ZeroDivisionError", within=".crash-card")
        await page.sees("The last event before it: Person ", within=".side-cards")
        await page.press("ArrowLeft")
        await page.sees("The last event before it: Person ", within=".side-cards")
        await page.press("Escape")
