"""A room under ``triobot dev``, in a real browser: a room's id is too long for a JavaScript number."""

from __future__ import annotations

from pathlib import Path

import pytest
from chrome import Browser
from test_browser_dev import developing, sees
from test_browser_past import LIT
from window import needs_browser

pytest.importorskip("watchfiles", reason="watchfiles is not installed (the extra dev)")
pytestmark = [needs_browser, pytest.mark.processes]

BOT = """\
from triobot import Bot, Chat, Room
from triobot.filters import join, signal

bot = Bot()


@bot.aside(join())
async def come(chat: Chat) -> None:
    await chat.to(lobby).signal("somebody came")
    await chat.send("Wait a moment.")


@bot.room(signal(str))
async def lobby(room: Room[str]) -> None:
    await room.to(table, "one").signal(room.event)
    await room.receive(signal(str))


@bot.room(signal(str))
async def table(room: Room[str]) -> None:
    told = room.event
    await room.receive(signal(int))
"""
PLACES = "[...document.querySelectorAll('.inside-chat')].map((one) => one.dataset.insideChat)"


@pytest.mark.slow
async def test_rooms_and_an_aside_are_opened(browser: Browser, tmp_path: Path) -> None:
    """Open two rooms from the panel "Inside", and from the chat the aside that called the first room."""
    async with developing(browser, tmp_path, "duel", source=BOT) as page:
        await sees(page, "Wait a moment.")
        await page.click(".rail .tab", "Inside")
        await page.has(".inside-conversation", times=2)
        rooms = await page.run(PLACES)
        assert all(len(room.lstrip("-")) > 16 for room in rooms)
        for place, room in enumerate(rooms):
            await page.click(".inside-conversation .icon-button", nth=place)
            await page.wait(f"{LIT}.includes('await room.receive')")
            await page.wait(f"location.hash.startsWith('#c/{room}/')")
            await page.sees("somebody came", within=".travel")
            # The address leads to the room, too.
            await page.reload()
            await page.wait(f"{LIT}.includes('await room.receive')")
            assert (await page.run("location.hash")).startswith(f"#c/{room}/")
            await page.push("button", "Answer differently")
            await page.has(".branch-clock .digits")
            await page.press("Escape")
            await page.press("Escape")
            await page.has(".inside-conversation", times=2)
        # The last event before, Sara's, is the likely cause.
        await page.click(".inside-conversation .icon-button", nth=0)
        await page.wait(f"{LIT}.includes('await room.receive')")
        await page.press("Home")
        await page.push("button", "The last event before it")
        await page.sees("Sara", within=".call-details")
        await page.push("button", "The line that took this")
        await page.sees("async def come", within=".travel")
        await page.press("Escape")
        await page.click("main [title^='Go through what happened']")
        await page.sees("async def come", within=".travel")
