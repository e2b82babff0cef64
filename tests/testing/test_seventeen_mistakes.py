"""Seventeen mistakes that newcomers make: each is told with what it is, whose it is, and what to write."""

# ruff: noqa: DTZ005 - a mistake that is looked for

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import attrs
import pytest
import trio

from triobot import Bot, Chat, Key
from triobot.filters import command, text
from triobot.testing import drive

HERE = "test_seventeen_mistakes.py"
LIST = Key("list", list[int], default=[])


@attrs.frozen
class Order:
    """What is sold; no aside gives it."""

    size: str


@dataclass
class Cart:
    """A dataclass as everybody writes it."""

    pizzas: int


async def told(bot: Bot, *words: str) -> None:
    """Say something to a bot, as its author's first test would."""
    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        for word in words:
            await sara.says(word)
            await world.waits(seconds=1)


async def talks(handler: Callable[..., Awaitable[None]]) -> None:
    """Have a conversation by this coroutine."""
    bot = Bot()
    bot.conversation(handler)
    await told(bot, "hi", "two")


# --- the mistakes


async def no_await() -> None:
    async def hello(chat: Chat) -> None:
        chat.send("Hello.")

    await talks(hello)


async def an_except_that_takes_all() -> None:
    async def hello(chat: Chat) -> None:
        try:
            await chat.ask("Who?")
        except BaseException:
            await chat.send("Oops.")

    await talks(hello)


async def the_sleep_of_trio() -> None:
    async def hello(chat: Chat) -> None:
        await trio.sleep(0.1)
        await chat.send("Hello.")

    await talks(hello)


async def the_timeout_of_trio() -> None:
    async def hello(chat: Chat) -> None:
        with trio.move_on_after(60):
            await chat.ask("Who?")

    await talks(hello)


async def the_clock_of_the_machine() -> None:
    async def hello(chat: Chat) -> None:
        await chat.send(f"It is {datetime.now()}.")

    await talks(hello)


async def a_list_that_is_not_put_back() -> None:
    async def hello(chat: Chat) -> None:
        chat.data[LIST].append(1)
        await chat.send("Noted.")

    await talks(hello)


async def a_command_with_an_argument() -> None:
    command("order pizza")


async def a_filter_that_is_not_called() -> None:
    Bot().conversation(cast("Any", text))


async def a_handler_that_is_not_async() -> None:
    bot = Bot()

    @cast("Any", bot.conversation)
    def hello(chat: Chat) -> None:
        """Say nothing."""


async def a_handler_without_a_chat() -> None:
    bot = Bot()

    @cast("Any", bot.conversation)
    async def hello() -> None:
        """Say nothing."""


async def a_route_that_another_one_hides() -> None:
    bot = Bot()

    @bot.conversation(text())
    async def talk(chat: Chat) -> None:
        await chat.send("You said something.")

    @bot.conversation(command("edit"))
    async def edit(chat: Chat) -> None:
        await chat.send("What?")

    await told(bot, "/edit")


async def a_word_that_no_route_takes() -> None:
    bot = Bot()

    @bot.conversation(command("start"))
    async def start(chat: Chat) -> None:
        await chat.send("Hello.")

    await told(bot, "/strat")


async def a_button_whose_key_is_a_tuple() -> None:
    async def hello(chat: Chat) -> None:
        await chat.choose("Which?", cast("Any", {("a", "b"): "Both"}))

    await talks(hello)


async def a_default_that_is_a_class() -> None:
    Key("cart", list[int], default=cast("Any", list))


async def a_dataclass_that_is_not_frozen() -> None:
    Key("cart", Cart)


async def money_for_which_nothing_is_given() -> None:
    async def shop(chat: Chat) -> None:
        await chat.charge(250_000, "Pizza", item=Order("s"))

    await talks(shop)


async def a_step_that_has_been_called() -> None:
    async def bake() -> int:
        return 1

    async def hello(chat: Chat) -> None:
        await chat.step(cast("Any", await bake()))

    await talks(hello)


@attrs.frozen
class Mistake:
    """A mistake, and what its message has to say.

    Attributes:
        what: what is wrong.
        write: what to write in its place.
    """

    make: Callable[[], Awaitable[None]]
    what: str
    write: str


MISTAKES = [
    Mistake(no_await, "chat.send() is not awaited, so it does nothing", "write await in front of it"),
    Mistake(an_except_that_takes_all, "except BaseException takes trio.Cancelled", "write except Exception"),
    Mistake(
        the_sleep_of_trio, "waits for something that is not a chat operation", "use chat.step(), chat.sleep()"
    ),
    Mistake(the_timeout_of_trio, "trio.move_on_after() is unknown to a restart", "use chat.move_on_after"),
    Mistake(the_clock_of_the_machine, "datetime.now() gives something else when a restart", "use chat.now()"),
    Mistake(a_list_that_is_not_put_back, "'list' was changed after it was read", "chat.data[KEY] = value"),
    Mistake(a_command_with_an_argument, "names without blanks", "as in command('start'), not 'order pizza'"),
    Mistake(a_filter_that_is_not_called, "takes a filter, and text makes one", "call it, as in text()"),
    Mistake(a_handler_that_is_not_async, "hello is none", "declare it with `async def`"),
    Mistake(a_handler_without_a_chat, "of one argument, the chat", "as in async def f(chat: Chat)"),
    Mistake(a_route_that_another_one_hides, "can never start: before it", "change its filter"),
    Mistake(a_word_that_no_route_takes, "nobody took '/strat' (Sara", "nearest is command(start)"),
    Mistake(a_button_whose_key_is_a_tuple, "not a tuple", "of a button is a str, int, bool, date"),
    Mistake(a_default_that_is_a_class, "Key('cart', default=) takes a value", "such as [] or 0"),
    Mistake(a_dataclass_that_is_not_frozen, "and those of Cart can", "@dataclass(frozen=True)"),
    Mistake(
        money_for_which_nothing_is_given, "no aside gives what is bought", "declare @bot.aside(paid(Order))"
    ),
    Mistake(a_step_that_has_been_called, "not what calling", "as in chat.step(bake, 3)"),
]


# Python's own word about the first one, which names no line of the author's.
@pytest.mark.filterwarnings("ignore:coroutine 'Chat.send' was never awaited:RuntimeWarning")
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.make.__name__)
async def test_a_mistake_is_told_with_what_it_is_where_it_is_and_what_to_write(
    mistake: Mistake, caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    """In the error of the first test, or in the log beside it; the author's own line stands there."""
    said = ""
    with caplog.at_level(logging.WARNING):
        try:
            await mistake.make()
        except Exception as error:
            said = "".join(traceback.format_exception(error))
    said = f"{said}{caplog.text}"

    assert mistake.what in said
    assert mistake.write in said
    first = cast("Any", mistake.make).__code__.co_firstlineno
    lines = {int(found) for found in re.findall(rf'{HERE}(?:", line |:)(\d+)', said)}
    about = {line for line in lines if first < line < first + 20}
    # Of an event that nobody takes there is no line: all routes that were asked are named.
    assert about or "also asked:" in said


def test_there_are_seventeen() -> None:
    assert len({mistake.make for mistake in MISTAKES}) == 17
