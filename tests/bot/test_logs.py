"""Log lines in JSON: each line names its bot and conversation, and none contains people's texts."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import attrs
import httpx
import pytest
import trio

from tests.bot.rig import FORM, SECRET, Chats, make_bot, say
from tests.loopback import text_event
from triobot import Bot, Chat, Message, Settings, Texts
from triobot.filters import message
from triobot.runtime.logs import JsonFormatter, Speaker, structured
from triobot.runtime.serve import serve_together

TEXT, PHONE, TOKEN = "canary-Valiasr-7", "989121234567", "canary-token-0123456789"
CHAT = 1234567
log = logging.getLogger("shop.handlers")


@attrs.frozen
class Lines:
    """What a log for programs holds."""

    stream: io.StringIO

    def all(self) -> list[dict[str, Any]]:
        """All lines, each an object."""
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def one(self, words: str) -> dict[str, Any]:
        """The line with these words."""
        (found,) = [line for line in self.all() if words in line["message"]]
        return found


@pytest.fixture
def lines() -> Iterator[Lines]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield Lines(stream)
    root.setLevel(before)
    root.removeHandler(handler)


def settings(store: str, **more: object) -> Settings:
    return attrs.evolve(make_bot(Chats(), store=store).settings(), token=TOKEN, **more)  # type: ignore[arg-type]


def talkative(chats: Chats, given: Settings) -> Bot:
    """A bot that logs where it is, and fails in each way that there is."""
    bot = Bot(settings=given, transport=httpx.MockTransport(chats.take))

    async def remember(text: str) -> str:
        log.info("in a step of chat %d", CHAT)
        return text

    @bot.conversation(message())
    async def order(chat: Chat[Message]) -> None:
        log.info("order begins")
        await chat.send("What?")
        await chat.step(remember, "thin")
        async with chat.open_nursery() as nursery:
            nursery.start_soon(partial(child, chat))
        answer = await chat.ask("And?")
        raise ValueError(f"{answer} and {TEXT}") from KeyError(PHONE)

    async def child(chat: Chat[Message]) -> None:
        log.info("a child of %d", chat.id)

    return bot


async def test_a_line_says_whose_it_is_and_nothing_that_people_wrote(tmp_path: Path, lines: Lines) -> None:
    chats = Chats()
    given = settings(f"sqlite:{tmp_path}/shop.db", log_tracebacks=True)
    async with talkative(chats, given).running() as intake:
        await say(intake, CHAT, TEXT)
        await chats.wait_for(CHAT, "What?", "And?")
        fields = {"chat_id": CHAT, "type": "contact", "from": "{}", "sender_id": 7, "data": PHONE}
        await intake.inbox.accept(FORM, urlencode({**fields, "data": json.dumps({"phone": PHONE})}).encode())
        await say(intake, CHAT, f"{TEXT} {PHONE}")
        with trio.fail_after(60):
            while "failed" not in lines.stream.getvalue():
                await trio.sleep(0.01)
        log.warning("a stranger asks for /%s with %s", SECRET, TOKEN)

    written = lines.stream.getvalue()
    for canary in (TEXT, PHONE, TOKEN, SECRET, str(CHAT)):
        assert canary not in written

    begins, step, child = lines.one("order begins"), lines.one("in a step"), lines.one("a child of")
    assert {*begins} == {
        *("time", "level", "logger", "message", "bot", "conversation", "route", "operation", "chat")
    }
    assert (begins["level"], begins["logger"], begins["bot"]) == ("info", "shop.handlers", "shop")
    assert begins["conversation"] == 1 and begins["operation"] is None
    assert begins["route"].endswith("order")
    assert step["operation"] is not None
    assert step["message"] == f"in a step of chat {begins['chat']}"
    assert child["message"] == f"a child of {begins['chat']}"
    assert len({line["chat"] for line in (begins, step, child)}) == 1

    crash = lines.one("failed: ValueError")
    assert (crash["conversation"], crash["chat"], crash["level"]) == (1, begins["chat"], "error")
    assert f"of chat {begins['chat']} failed" in crash["message"]
    assert crash["exception"]["type"] == "ValueError"
    assert crash["exception"]["cause"]["type"] == "KeyError"
    last = crash["exception"]["frames"][-1]
    assert (Path(last["file"]).name, last["function"]) == ("test_logs.py", "order")
    assert lines.one("ALARM conversation_crashed")["bot"] == "shop"


async def test_a_chat_has_one_name_in_all_lines_of_its_store(tmp_path: Path, lines: Lines) -> None:
    """Also after a restart; and another in another bot's."""
    for number, store in enumerate(("a.db", "a.db", "b.db")):
        chats = Chats()
        async with talkative(chats, settings(f"sqlite:{tmp_path / store}")).running() as intake:
            await say(intake, CHAT + number, "hi")
            await chats.wait_for(CHAT + number, "What?", "And?")
    named: dict[str, set[str]] = {"a": set(), "b": set()}
    for line in lines.all():
        if "in a step of chat" in line["message"]:
            named[line["bot"]].add(line["message"])
    assert len(named["a"]) == len(named["b"]) == 1
    assert named["a"] != named["b"]


async def test_two_bots_in_one_process_are_told_apart(tmp_path: Path, lines: Lines) -> None:
    """What the shared listener does for one of them is that one's, too."""
    chats, pairs = (Chats(), Chats()), []
    for number, name in enumerate(("shop", "desk")):
        given = attrs.evolve(
            settings(f"sqlite:{tmp_path}/{number}.db", name=name),
            token=f"{TOKEN}-{number}",
            webhook_secret=f"{SECRET}-{number}",
        )
        bot = talkative(chats[number], given)

        def picky(event: object) -> bool:
            raise ValueError(TEXT)

        bot.aside(message().where(picky))(
            aside
        )  # runs in the task of the listener, before the event is stored
        pairs.append((bot, given))

    async def together(*, task_status: trio.TaskStatus[list[str]]) -> None:
        await serve_together(pairs, task_status=task_status)

    async with trio.open_nursery() as nursery:
        (address,) = await nursery.start(together)
        async with httpx.AsyncClient(base_url=address) as client:
            for number, said in ((0, "hi"), (1, "hi"), (0, "thin")):
                body = text_event(CHAT + number, said)
                await client.post(f"/{SECRET}-{number}", content=body, headers={"content-type": FORM})
        await chats[0].wait_for(CHAT, "What?", "And?", Texts.english().apology)
        await chats[1].wait_for(CHAT + 1, "What?", "And?")
        pairs[0][0].stop()

    assert {line["bot"] for line in lines.all() if "order begins" in line["message"]} == {"shop", "desk"}
    ours = [line for line in lines.all() if line["logger"].startswith(("triobot.conv", "triobot.alarms"))]
    assert ours
    assert {line["bot"] for line in ours} == {"shop", "desk"}
    assert TEXT not in lines.stream.getvalue()


async def aside(chat: Chat[Message]) -> None:
    """Does nothing."""


def test_what_stands_for_a_chat_can_not_be_guessed() -> None:
    """There are few numbers; the key is what makes a digest of one no number."""
    first, second = Speaker("shop", "k1", str), Speaker("shop", "k2", str)
    assert first.digest(CHAT) == first.digest(str(CHAT)) != second.digest(CHAT)


def test_an_exception_s_groups_and_circles_are_written() -> None:
    error = ExceptionGroup("people wrote this", [ValueError("and this")])
    error.__cause__ = error
    told = structured(error)
    assert "wrote" not in json.dumps(told) and "this" not in json.dumps(told)
    assert told["exceptions"] == [{"type": "ValueError", "frames": []}]


def test_a_bot_is_named_by_what_is_its_own() -> None:
    assert Settings(name="pizza").label == "pizza"
    assert Settings(env="SHOP_", store="sqlite:/var/lib/x/y.db").label == "shop"
    assert Settings(store="sqlite:/var/lib/pizza/bakery.db").label == "bakery"
    assert Settings(store="memory:").label == "triobot"
