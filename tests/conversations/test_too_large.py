"""What is too large for a record is an error at its line, live and after each restart."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import open_town

from triobot.conversations.charges.paid import Paid, paid
from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import text
from triobot.conversations.routes.router import Router
from triobot.errors import LocalProtocolError, StepError, UnrecordableError
from triobot.seams.journals import LARGEST_RECORD

LARGE = LARGEST_RECORD + 1


class Own(Exception):
    """An author's error, which `raises=` names."""

    def __init__(self, *about: str) -> None:
        super().__init__("short")
        self.about = about


@attrs.frozen
class Goods:
    """What is bought."""

    name: str


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


@pytest.mark.parametrize(
    ("make", "text_of"),
    [
        (lambda: KeyError("x" * LARGE), 100_000),
        (lambda: ValueError(*["x" * (LARGE // 3)] * 4), 100_000),  # each of its parts would fit
        (lambda: Own("y" * (LARGE // 2), "z" * (LARGE // 2)), 5),
        (lambda: ExceptionGroup("x" * LARGE, [KeyError()]), 100_000),
        (
            lambda: ExceptionGroup("many", [ValueError("x" * (LARGE // 3))] * 4),
            len("many (4 sub-exceptions)"),
        ),
    ],
    ids=["text", "parts", "own", "group", "members"],
)
async def test_an_error_that_says_too_much_is_cut(
    make: Callable[[], Exception], text_of: int, autojump_clock: object
) -> None:
    """It is a StepError then, live as well: what is caught live is caught after a restart."""
    bot, kind = Router(), type(make()).__name__

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise make()

    @bot.conversation
    async def failing(chat: Chat) -> None:
        try:
            await chat.step(fail, raises=(Own, ValueError, ExceptionGroup))
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
    assert town.sent() == [f"{kind} {text_of}", "Still here."]


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


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("x" * LARGE, "a"),
        ("\N{ARABIC LETTER KEHEH}" * 50_000, "a"),  # six characters each, in a row
        ("Goods", '"' * 200_000),  # four each, since it is a record in one
    ],
    ids=["text", "letters", "item"],
)
async def test_a_charge_that_is_too_large_is_an_error_at_its_line(
    words: str, name: str, autojump_clock: object
) -> None:
    """Nothing is asked for, and the conversation goes on."""
    bot = Router()

    @bot.aside(paid(Goods))
    async def deliver(chat: Chat[Paid[Goods]]) -> None:
        """Give nothing."""

    @bot.conversation
    async def charging(chat: Chat) -> None:
        for ask in (chat.charge, chat.invoice):
            try:
                await ask(1_000, words, item=Goods(name))
            except LocalProtocolError as error:
                await chat.send(error.field)
        await chat.receive(text())
        await chat.send("Still here.")

    store, outbox = FakeStore(), FakeOutbox()
    for said in "hi", "you there?":
        async with open_town(bot, store=store, outbox=outbox) as town:
            await town.says(said)
            await trio.sleep(10)
            assert not town.alarms
            assert not await town.store.payments.find(limit=9)
    field = "item" if name != "a" else "text"
    assert town.sent() == [field, field, "Still here."]
