"""A held reload on the page: the chats, the differences between code and journals, and the decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import trio
from chrome import Browser, Page
from test_browser_branches import BRANCH
from test_browser_dev import developing, says, sees
from test_browser_past import TRAVEL
from test_browser_travel import AXE, complaints
from window import needs_browser, window

from tests.beside import FakeBeside
from triobot.emulator.exchange import Exchange
from triobot.studio.errors import TravelError
from triobot.studio.travel.routes import past_blueprint

pytestmark = [needs_browser]


class HeldFor:
    """A reload held for one chat; records the decisions."""

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


def holding(exchange: Exchange, chat_id: int) -> HeldFor:
    """Let the reload be held for this chat."""
    reload, nothing = HeldFor(chat_id), cast("Any", None)
    routes = past_blueprint(exchange, nothing, cast("Any", reload))
    exchange.beside = FakeBeside({"held": reload.view}, [routes]).beside()
    return reload


@pytest.mark.slow
async def test_what_becomes_of_a_chat_is_chosen_in_the_banner(browser: Browser) -> None:
    async with window(browser) as shown:
        page, exchange = shown.page, shown.exchange
        await page.has(".held:not([hidden])", times=0)
        reload = holding(exchange, shown.sara.chat_id)
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

        # The page asks for confirmation before a conversation is ended.
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


@pytest.mark.slow
async def test_the_banner_is_read_from_the_right(browser: Browser) -> None:
    async with window(browser, size=(390, 844)) as shown:
        page = shown.page
        await page.run("localStorage.setItem('triobot-language', 'fa')")
        await page.reload()
        await page.has(".chat-item")
        holding(shown.exchange, shown.sara.chat_id)
        shown.exchange.tell()
        await page.sees("کد تازه با", within=".held")
        wide = await page.run("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0
        if AXE.exists():
            assert await complaints(page, ".held") == []


BOT = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def order(chat: Chat) -> None:
    dish = await chat.ask("What would you like?")
    number = await chat.ask("How many?")
    await chat.send(f"{number} of {dish}, then.")
"""
DRINK = '    number = await chat.ask("How many?")\n'
NAMED, RENAMED = "@bot.conversation", "@bot.conversation(formerly=['pizza.order'])"
LONGER = BOT.replace(DRINK, f'    drink = await chat.ask("And to drink?")\n{DRINK}')


async def runs_anew(page: Page, starts: int) -> None:
    """Wait until the bot runs the held code."""
    await page.wait(f"window.world.bot?.starts === {starts} && window.world.bot.phase === 'running'")
    await page.has(".held:not([hidden])", times=0)


@pytest.mark.slow
@pytest.mark.processes
async def test_a_save_in_the_middle_of_a_chat_takes_it_along_or_waits_or_ends_it(
    browser: Browser, tmp_path: Path
) -> None:
    """Add a question before the chat's current question, remove the question, and add it again."""
    pytest.importorskip("watchfiles", reason="watchfiles is not installed (the extra dev)")
    source = tmp_path / "pizza.py"
    async with developing(browser, tmp_path, "pizza", source=BOT) as page:
        await page.run("void (window.world = load('world.js').world)")
        await sees(page, "What would you like?")
        await says(page, "Soup")
        await sees(page, "How many?")
        # The new code gets the recorded answer, asks the added question, and replaces the conversation.
        source.write_text(LONGER)
        await page.finds("region", "The reload is held")
        await page.sees('drink = await chat.ask("And to drink?")', within=".held")
        # The time travel runs under the new code, and shows the difference to the journal.
        await page.push("button", TRAVEL)
        await page.sees("The code parts from this chat here", within=".parting")
        await page.sees('number = await chat.ask("How many?")', within=".parting p")
        await page.sees('drink = await chat.ask("And to drink?")', within=".parting pre")
        await page.press("Escape")
        # For code that can't be loaded, the bar keeps the lines of the code saved before.
        source.write_text(LONGER.replace("bot = Bot()", "bot = Bot("))
        await page.sees("SyntaxError: '(' was never closed", within=".held-head")
        await page.sees('drink = await chat.ask("And to drink?")', within=".held")
        await page.has(".held-chat .button.primary:disabled")
        source.write_text(LONGER)
        await page.sees("does not fit the open chats below (1)", within=".held-head")
        await page.push("button", "Give the same answers", exact=True)
        await page.sees("And to drink?", within=BRANCH)
        await page.type("Tea", selector=f"{BRANCH} .compose")
        await page.press("Enter")
        await page.sees("How many?", within=BRANCH)
        await page.push("button", "Take the chat’s place", exact=True)
        await runs_anew(page, 2)
        await says(page, "2")
        await sees(page, "2 of Soup, then.")

        # The old code serves the chat until its conversation ends.
        await says(page, "Hello?")
        await sees(page, "What would you like?")
        await says(page, "Bread")
        await sees(page, "And to drink?")
        source.write_text(BOT)
        await page.finds("region", "The reload is held")
        await page.push("button", "Wait until it ends", exact=True)
        await page.has(".held button[aria-pressed=true]")
        await says(page, "Water")
        await sees(page, "How many?")
        await says(page, "1")
        await sees(page, "1 of Bread, then.")
        await runs_anew(page, 3)

        # End the conversation; the next conversation starts with the new code.
        await says(page, "Hello?")
        await sees(page, "What would you like?")
        await says(page, "Rice")
        await sees(page, "How many?")
        source.write_text(LONGER)
        await page.finds("region", "The reload is held")
        await page.push("button", "End it", exact=True)
        await page.push("button", "End it now", exact=True)
        await runs_anew(page, 4)
        await says(page, "Hello?")
        await sees(page, "What would you like?")
        await says(page, "Cake")
        await sees(page, "And to drink?")

        # A renamed function: no code can get the answers, and the bar explains `formerly`.
        source.write_text(LONGER.replace("def order", "def dinner"))
        gone = "the bot has no route 'pizza.order'; if it has a new name, give it formerly=('pizza.order',)"
        await page.sees(gone, within=".held-side")
        assert "operation 0" not in await page.run("document.querySelector('.held-words').innerText")
        await page.finds("button", "Give the same answers", times=0)
        await page.push("button", TRAVEL)
        await page.sees(gone, within=".parting")
        await page.has(".parting h3", times=0)
        await page.press("Escape")
        source.write_text(LONGER.replace("def order", "def dinner").replace(NAMED, RENAMED))
        await runs_anew(page, 5)
