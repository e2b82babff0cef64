"""A reload that is held, in the page: which chats hold it, where new code parts from them, what is chosen."""

from __future__ import annotations

from typing import Any

import trio
from chrome import Browser
from test_browser_travel import AXE, complaints
from window import needs_browser, window

from triobot.emulator.exchange import TravelError

pytestmark = [needs_browser]


class HeldFor:
    """Holds the reload for one chat, and notes what is chosen."""

    def __init__(self, chat_id: int) -> None:
        self.held: list[Any] = [
            {
                "chat_id": chat_id,
                "conversation": 1,
                "route": "bot.order",
                "notch": 4,
                "was": {"file": "bot.py", "line": 8, "code": 'size = await chat.choose("Size?", SIZES)'},
                "now": {"file": "bot.py", "line": 8, "code": 'drink = await chat.ask("A drink?")'},
                "what": "operation 3: a choice ended here; now it is a question",
                "way": None,
                "can_wait": True,
            }
        ]

    def view(self) -> list[Any]:
        return [dict(one) for one in self.held]

    async def choose(self, chat_id: int, conversation: int, way: str) -> None:
        await trio.lowlevel.checkpoint()
        if (chat_id, conversation) != (self.held[0]["chat_id"], 1):
            raise TravelError("it doesn't hold the reload")
        self.held[0]["way"] = way


async def test_what_becomes_of_a_chat_is_chosen_in_the_banner(browser: Browser) -> None:
    async with window(browser) as shown:
        page, exchange = shown.page, shown.exchange
        await page.has(".held:not([hidden])", times=0)
        exchange.reload = reload = HeldFor(shown.sara.chat_id)
        exchange.tell()
        await page.finds("region", "The reload is held")
        await page.sees("does not fit the open chats below (1)", within=".held")
        await page.sees("Sara", within=".held-words b")
        await page.sees('drink = await chat.ask("A drink?")', within=".held")

        await page.push("button", "Wait until it ends", exact=True)
        with trio.fail_after(60):
            while reload.held[0]["way"] != "wait":
                await trio.sleep(0.01)
        exchange.tell()
        await page.has(".held button[aria-pressed=true]")
        if AXE.exists():
            assert await complaints(page, ".held") == []

        # To end it is asked about first.
        await page.push("button", "End it", exact=True)
        await page.push("button", "End it now", exact=True)
        with trio.fail_after(60):
            while reload.held[0]["way"] != "end":
                await trio.sleep(0.01)
        exchange.tell()
        await page.sees("Ends…", within=".held")
        reload.held.clear()
        exchange.tell()
        await page.has(".held:not([hidden])", times=0)


async def test_the_banner_is_read_from_the_right(browser: Browser) -> None:
    async with window(browser, size=(390, 844)) as shown:
        page = shown.page
        await page.run("localStorage.setItem('triobot-language', 'fa')")
        await page.reload()
        await page.has(".chat-item")
        shown.exchange.reload = HeldFor(shown.sara.chat_id)
        shown.exchange.tell()
        await page.sees("کد تازه با", within=".held")
        wide = await page.run("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0
        if AXE.exists():
            assert await complaints(page, ".held") == []
