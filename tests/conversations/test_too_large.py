"""What is too large for a record is an error at its line, live and after each restart."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import open_town

from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import text
from triobot.conversations.routes.router import Router
from triobot.errors import StepError, UnrecordableError
from triobot.journals import LARGEST_RECORD

LARGE = LARGEST_RECORD + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: "x" * LARGE,
        lambda: '"' * (LARGE // 2),  # two characters each, once it is text in a record
        lambda: ["x" * (LARGE // 3)] * 4,
        lambda: b"\0" * LARGE,
    ],
    ids=["text", "quotes", "list", "bytes"],
)
async def test_a_result_that_is_too_large_is_an_error_at_its_line(
    make: Callable[[], object], autojump_clock: object
) -> None:
    bot = Router()
    ran = list[object]()

    async def fetch() -> object:
        await trio.lowlevel.checkpoint()
        ran.append(None)
        return make()

    @bot.conversation
    async def fetching(chat: Chat) -> None:
        try:
            await chat.step(fetch)
        except UnrecordableError as error:
            await chat.send(f"{error.path} of {error.kind}")
            assert "a record holds at most" in str(error)
        await chat.receive(text())
        await chat.send("Still here.")

    store, outbox = FakeStore(), FakeOutbox()
    for said in "hi", "you there?":
        async with open_town(bot, store=store, outbox=outbox) as town:
            await town.says(said)
            await trio.sleep(10)
            assert not town.alarms
    assert town.sent() == [f"value of {type(make()).__name__}", "Still here."]
    assert len(ran) == 1


async def test_what_just_fits_is_kept(autojump_clock: object) -> None:
    bot = Router()

    async def fetch() -> str:
        await trio.lowlevel.checkpoint()
        return "x" * (LARGEST_RECORD - 100_000)

    @bot.conversation
    async def fetching(chat: Chat) -> None:
        await chat.send(str(len(await chat.step(fetch))))
        await chat.receive(text())

    async with open_town(bot) as town:
        await town.says("hi")
        await trio.sleep(10)
        assert town.sent() == [str(LARGEST_RECORD - 100_000)]
        assert not town.alarms


async def test_an_error_that_says_too_much_is_cut(autojump_clock: object) -> None:
    """It is a StepError then, live as well: what is caught live is caught after a restart."""
    bot = Router()

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("x" * LARGE)

    @bot.conversation
    async def failing(chat: Chat) -> None:
        try:
            await chat.step(fail)
        except StepError as error:
            await chat.send(f"{error.kind} {len(error.text)}")
        await chat.receive(text())
        await chat.send("Still here.")

    store, outbox = FakeStore(), FakeOutbox()
    for said in "hi", "you there?":
        async with open_town(bot, store=store, outbox=outbox) as town:
            await town.says(said)
            await trio.sleep(10)
            assert not town.alarms
    assert town.sent() == ["KeyError 100000", "Still here."]


async def test_arguments_that_are_too_large_are_an_error_where_they_are_given(
    autojump_clock: object,
) -> None:
    bot = Router()

    @bot.conversation(text("hi"))
    async def going_on(chat: Chat) -> None:
        try:
            await chat.continue_as(other, "x" * LARGE)
        except UnrecordableError:
            await chat.send("Refused.")

    @bot.conversation(text("other"))
    async def other(chat: Chat, what: str = "") -> None:
        await chat.send(what)

    async with open_town(bot) as town:
        await town.says("hi")
        await trio.sleep(10)
        assert town.sent() == ["Refused."]
        assert not town.alarms
