"""The page of `triobot inspect`: the list with its search, and the time travel with hidden texts."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio
from chrome import Browser, Page
from test_browser_travel import AXE, complaints
from travels import Told, pizza
from window import needs_browser

from tests.loopback import PATIENCE
from tests.passing import SCHEMA
from tests.schema import wrong
from triobot.conversations.inspection.replay_state import ReplayState
from triobot.emulator.server import ServedPage
from triobot.studio.errors import TravelError
from triobot.studio.inspector import serve_inspector
from triobot.studio.travel.hiding import hidden
from triobot.studio.travel.passes import Passed
from triobot.wire.rules import JsonValue

pytestmark = [needs_browser, pytest.mark.processes]

WIDE = (1440, 900)
SAID = ("Sara", "Small", "cutlery", "Enghelab", "pizza for")
ORDER, OTHER = 13601, 13700


def outlined(told: Told) -> Told:
    """Return the pass with hidden texts; variables are descriptions such as "text, 4 letters"."""
    for notch in told.notches:
        for frames in notch.get("v", {}).values():
            for frame in frames or []:
                frame.update({name: value and "text, 4 letters" for name, value in frame.items()})
        notch["data"] = {key: value and "number" for key, value in notch.get("data", {}).items()}
    covered = hidden(Passed(told.head, told.notches, (), [told.source], ReplayState()), ())
    head, notches = {**covered.head, "id": "p1"}, [*covered.turns]
    assert wrong(head, SCHEMA["$defs"]["head"], SCHEMA) is None
    assert [wrong(one, SCHEMA["$defs"]["notch"], SCHEMA) for one in notches] == [None] * len(notches)
    return Told(head, notches, told.source)


@attrs.frozen
class Looked:
    """The inspector's data: one pass, and a list of made-up conversations."""

    order: Told

    async def conversations(self, chat_id: int) -> JsonValue:
        await trio.lowlevel.checkpoint()
        rows = [row for row in self.rows(ORDER, 12) if row["chat_id"] == chat_id]
        return {"conversations": [*rows, *self.rows(OTHER, 1)] if chat_id == OTHER else list[JsonValue](rows)}

    def rows(self, chat: int, count: int) -> list[dict[str, JsonValue]]:
        states = ("waits", "parked", "crashed", "ended")
        return [
            {
                "chat_id": chat + n,
                "conversation": chat - ORDER + n + 1,
                "route": "pizza.order" if n % 3 else "pizza.complain",
                "kind": "conversation",
                "state": states[n % 4],
                "because": None,
                "started_at": 1_798_880_400_000 + n,
                "updated_at": 1_798_880_400_000 - 60_000 * n,
            }
            for n in range(count)
        ]

    async def open(self, chat_id: int, conversation: int) -> JsonValue:
        await trio.lowlevel.checkpoint()
        return {"id": "p1"}

    def passed(self, id: str) -> JsonValue:
        head: JsonValue = self.order.head
        return head

    async def notches(self, id: str, start: int, end: int) -> JsonValue:
        await trio.lowlevel.checkpoint()
        found = [self.order.whole_at(start), *self.order.notches[start + 1 : end]]
        return {"from": start, "to": start + len(found), "notches": found}

    async def source(self, id: str, source: int) -> str:
        await trio.lowlevel.checkpoint()
        return self.order.source

    async def value(self, id: str, notch: int, branch: str, frame: int, name: str) -> JsonValue:
        await trio.lowlevel.checkpoint()
        raise TravelError("values are hidden here")

    async def close(self, id: str) -> None:
        await trio.lowlevel.checkpoint()

    async def listed(self, about: Mapping[str, JsonValue], after: int) -> Mapping[str, JsonValue]:
        await trio.lowlevel.checkpoint()
        told: list[JsonValue] = [*self.rows(ORDER, 12)]
        return {"about": dict(about), "conversations": told, "after": None if after else 12}


@asynccontextmanager
async def inspected(
    browser: Browser, told: Told, *, size: tuple[int, int] = WIDE, dark: bool = False
) -> AsyncGenerator[Page]:
    """Open the page of a server that shows `told`."""
    looks = Looked(told)
    about = {"what": "store", "bot": "pizza:bot", "hidden": True}
    async with trio.open_nursery() as nursery:
        serve = partial(serve_inspector, cast("Any", looks), partial(looks.listed, about), key="key")
        inspector: ServedPage = await nursery.start(serve)
        async with browser.page(inspector.page_address, size=size, dark=dark) as page:
            await page.has(".conversation-choice")
            yield page
            assert not page.errors, page.errors
        nursery.cancel_scope.cancel()


async def test_a_conversation_is_found_and_gone_through(browser: Browser) -> None:
    """The page offers no acts and contains no texts of people; axe finds no fault."""
    async with inspected(browser, outlined(pizza())) as page:
        await page.has(".conversation-choice", times=12)
        await page.sees("What people wrote is hidden")
        await page.push("button", "Read more")
        await page.lacks(".inspected > .button")
        await page.push("searchbox", "Find by chat")
        await page.type("complain crashed")
        await page.has(".conversation-choice", times=1)
        await page.press("Control+a")
        await page.type("order crashed")
        await page.has(".conversation-choice", times=2)
        await page.press("Control+a")
        await page.type(str(OTHER))
        await page.press("Enter")
        await page.has(".conversation-choice", times=1)
        if AXE.exists():
            assert await complaints(page, "body") == []
        await page.press("Enter")

        await page.finds("slider", "Time line")
        await page.sees("conversation 1 of", within=".travel-head")
        await page.press("Home")
        await page.press("Shift+ArrowRight")
        await page.sees("4 letters", within=".notch-words")
        await page.sees("text, 4 letters", within=".variables")
        await page.has(".mine.now [role=img][aria-label='4 letters']")
        text = await page.run("document.body.innerText")
        code = await page.run("document.querySelector('.column-code').innerText")
        assert [said for said in SAID if said in text.replace(code, "")] == []
        buttons = "[...document.querySelectorAll('button')].map((one) => one.textContent.trim())"
        assert {"Answer differently", "Keep as a test", "Its request"}.isdisjoint(await page.run(buttons))
        await page.press("b")
        await page.lacks(".branch")
        if AXE.exists():
            assert await complaints(page) == []
        await page.press("Escape")
        await page.has(".conversation-choice", times=1)


@pytest.mark.slow
async def test_the_page_on_a_phone_in_the_dark_in_persian(browser: Browser) -> None:
    async with inspected(browser, outlined(pizza()), size=(390, 844), dark=True) as page:
        await page.run("localStorage.setItem('triobot-language', 'fa')")
        await page.reload()
        await page.has(".conversation-choice", times=12)
        await page.sees("آنچه نوشته شده پنهان است")
        if AXE.exists():
            assert await complaints(page, "body") == []
        await page.click(".conversation-choice")
        await page.finds("slider", "خط زمان")
        await page.push("tab", "کد")
        await page.push("tab", "مقدارها")
        await page.push("tab", "کد")
        if AXE.exists():
            assert await complaints(page) == []


async def test_what_is_looked_at_is_saved_as_one_page(browser: Browser, tmp_path: Path) -> None:
    """The saved page works from a file, without a server; hidden texts stay hidden."""
    keep = "(blob) => (blob.text().then((text) => (window.saved = text)), 'blob:saved')"
    async with inspected(browser, outlined(pizza())) as page:
        await page.click(".conversation-choice", nth=0)
        await page.finds("slider", "Time line")
        await page.run(f"(URL.createObjectURL = {keep}, HTMLAnchorElement.prototype.click = () => {{}}, 1)")
        await page.push("button", "Save as a page")
        await page.wait("window.saved")
        saved = await page.run("window.saved")
    (tmp_path / "conversation.html").write_text(saved, encoding="utf-8")
    assert [said for said in SAID[:2] if f'"{said}"' in saved] == []
    async with browser.page((tmp_path / "conversation.html").as_uri(), size=WIDE) as page:
        await page.finds("slider", "Time line")
        await page.press("Home")
        await page.press("Shift+ArrowRight")
        await page.sees("4 letters", within=".notch-words")
        await page.has(".line.lit")
        assert not page.errors, page.errors
        assert {one.partition(":")[0] for one in page.requested} <= {"file", "data", "blob"}


BOT = """\
from tests.bot.rig import Chats, make_bot
from triobot import Chat

chats = Chats()
bot = make_bot(chats, store="sqlite:bot.db")


@bot.conversation
async def order(chat: Chat) -> None:
    secret = await chat.ask("Name?")
    letters = len(secret)
    await chat.ask(f"</script> {letters} letters. Phone?")
"""


TALK = """\
import trio
from {name} import bot, chats
from tests.bot.rig import say


async def talk():
    async with bot.running() as intake:
        await say(intake, 7, "Begonia")
        await chats.wait_for(7, "Name?")
        await say(intake, 7, "Hannelore")
        await chats.wait_for(7, "Name?", "</script> 9 letters. Phone?")


trio.run(talk)
"""


@pytest.mark.slow
@pytest.mark.parametrize("shows", [False, True])
async def test_a_command_writes_a_page_that_needs_no_server(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shows: bool
) -> None:
    """The page works from a file, sends no request, and contains people's texts only with --show-values."""
    monkeypatch.chdir(tmp_path)
    name = f"letters_{shows}".lower()
    source = tmp_path / f"{name}.py"
    source.write_text(BOT)
    # In a new process: the build should contain the bot's sources, not those of all tests.
    await run("-c", TALK.format(name=name))
    exported = await triobot("journal", "export", "7", "--store", "sqlite:bot.db")
    (tmp_path / "report.jsonl").write_bytes(exported)
    shown = ("--show-values",) if shows else ()
    # The code has changed since: the page shows the sent words.
    source.write_text(BOT.replace("Name?", "Who are you?"))
    said = await triobot("inspect", "report.jsonl", f"{name}.py:bot", "--to", "report.html", *shown)
    assert b"is in report.html" in said
    source.unlink()

    text = (tmp_path / "report.html").read_text("utf-8")
    assert [word in text for word in ("Hannelore", "Begonia")] == [shows, shows]
    async with browser.page((tmp_path / "report.html").as_uri(), size=WIDE) as page:
        await page.finds("slider", "Time line")
        await page.sees("chat.ask(f", within=".line.lit")
        await page.press("Home")
        await page.has(".then :text('Name?')" if shows else ".then [aria-label='5 letters']")
        await page.press("End")
        await page.sees("'Hannelore'" if shows else "text, 9 letters", within=".variables")
        await page.finds("button", "Save as a page", times=0)
        assert not page.errors, page.errors
        assert {one.partition(":")[0] for one in page.requested} == {"file"}


async def triobot(*arguments: str) -> bytes:
    """Run a triobot command; return its output."""
    return await run("-m", "triobot", *arguments)


async def run(*arguments: str) -> bytes:
    """Run Python; return its output."""
    with trio.fail_after(PATIENCE):
        done = await trio.run_process([sys.executable, *arguments], capture_stdout=True)
    return done.stdout
