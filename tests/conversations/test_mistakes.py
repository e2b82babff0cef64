"""What an author gets wrong, and what the bot says of it: in one line, without what a user wrote."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial, wraps
from math import inf
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from town import TEXTS, open_town

from triobot.conversations.charges.paid import paid
from triobot.conversations.chat import Chat
from triobot.conversations.data import Key
from triobot.conversations.routes.filters import command, flooding, join, message, signal, text, when
from triobot.conversations.routes.router import Router
from triobot.errors import ConfigError
from triobot.wire.ids import ChatId, MessageId
from triobot.wire.results import Sent


@attrs.frozen
class Named:
    name: str


async def _later(event: object) -> bool:
    return False


async def _read(chat: Any, key: Any) -> object:
    return chat.data[key]


Mistake = Callable[[Any], Awaitable[object]]


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (lambda chat: chat.send(""), "content: must not be empty"),
        (lambda chat: chat.send(5), "content: must be text, a media value"),
        (lambda chat: chat.send("x", on_unknown="again"), 'on_unknown: is "resend" or "raise"'),
        (lambda chat: chat.edit("x", "y"), "sent: must be a Sent"),
        (lambda chat: chat.edit(Sent(ChatId(7), MessageId(1))), "buttons=Buttons({}) takes buttons away"),
        (lambda chat: chat.delete(None), "sent: must be a Sent"),
        (lambda chat: chat.answer(5), "text: must be text"),
        (lambda chat: chat.ask(5), "question: must be text"),
        (lambda chat: chat.ask("Who?", _later), "what has to wait is a step after it"),
        (lambda chat: chat.ask("Who?", otherwise=5), "otherwise= is a text to say"),
        (lambda chat: chat.receive(text(), otherwise=5), "otherwise= is a text to say"),
        (lambda chat: chat.choose("Which?", {"a": 5}), "text: must be text"),
        (lambda chat: chat.choose("Which?", {"a": "A"}, into="x"), "into: must be a Sent"),
        (lambda chat: chat.fill(Named, labels={"nam": "Name"}), "names 'nam', and Named has no such field"),
        (lambda chat: chat.fill(Named, labels=["name"]), "fill(labels=) takes labels by the names"),
        (lambda chat: chat.fill(Named, prefill={"name": "x"}), "fill(prefill=) takes a Named"),
        (lambda chat: chat.fill(Named("x")), "fill() takes an attrs class"),
        (lambda chat: chat.step(_later, 1, raises=[ValueError]), "step(raises=) takes a class of errors"),
        (lambda chat: chat.step(_later, 1, raises=BaseException), "step(raises=) takes a class of errors"),
        (lambda chat: chat.sleep(inf), "seconds: must come to an end"),
        (lambda chat: chat.charge(5, "x", item=1, late="never"), 'late: is "deliver" or "refund"'),
        (lambda chat: chat.charge(5, "x", item=1, currency="USD"), 'currency: is "IRR" or "coin"'),
        (lambda chat: chat.to(8).get("visits"), "has a Key, as in"),
        (lambda chat: chat.to(8).clear("visits"), "has a Key, as in"),
        (lambda chat: _read(chat, "visits"), "has a Key, as in"),
        (lambda chat: _read(chat, Key("mistaken", "int")), "takes the class of its value"),
        (lambda chat: chat.send("x", buttons=chat.use(5)), "use() takes a resource"),
        (lambda chat: chat.send("Which?", buttons={"a": "A"}), "buttons: must be Buttons"),
        (lambda chat: chat.send("Which?", keyboard={"a": "A"}), "keyboard: must be a Keyboard"),
        (lambda chat: chat.step(len, "abc"), "step() takes an async function"),
        (lambda chat: chat.step(None), "step() takes an async function"),
        (lambda chat: chat.ask("How many?", 5), "ask() takes str"),
        (lambda chat: chat.ask("Who?", by="sara"), "by= takes a whole number"),
        (lambda chat: chat.choose("Which?", {"a": "A"}, by="me"), "by= takes a whole number"),
        (lambda chat: chat.choose("Which?", {}), "at least one option"),
        (lambda chat: chat.choose("Which?", ["a"]), "must be labels by key"),
        (lambda chat: chat.receive("yes"), "receive() takes a filter"),
        (lambda chat: chat.receive(message), "message makes one: call it, as in message()"),
        (lambda chat: chat.fill(dict), "fill() takes an attrs class"),
        (lambda chat: chat.send(Path("absent-secret").read_text()), "No such file or directory"),
    ],
)
async def test_the_log_says_what_the_author_got_wrong(
    mistake: Mistake, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The error's own text, where it can't hold what a user wrote."""
    bot = Router()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        await mistake(chat)

    with caplog.at_level(logging.ERROR, "triobot.conversations"):
        async with open_town(bot) as town:
            await town.says("hello")
            assert town.sent() == [TEXTS.apology]
    assert says in caplog.text
    assert "absent-secret" not in caplog.text


async def test_an_error_of_the_author_s_own_keeps_its_text(caplog: pytest.LogCaptureFixture) -> None:
    """It may hold what a user wrote."""
    bot = Router()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        raise ValueError("a secret")

    with caplog.at_level(logging.ERROR, "triobot.conversations"):
        async with open_town(bot) as town:
            await town.says("hello")
    assert "failed: ValueError at" in caplog.text
    assert "a secret" not in caplog.text


def test_a_function_that_is_not_async_is_refused() -> None:
    """When it is declared: nothing of it is to run before somebody notices."""
    bot = Router()

    def talk(chat: Chat) -> None:
        """Not async."""

    async def many(chat: Chat) -> AsyncIterator[int]:
        yield 1

    class Called:
        def __call__(self, chat: Chat) -> None:
            """Not async."""

    for wrong in cast("list[Any]", [talk, many, partial(talk), lambda chat: None, Called()]):  # pyright: ignore[reportUnknownLambdaType]
        decorators: list[Any] = [bot.conversation, bot.conversation(text()), bot.interrupt(text()), bot.aside]
        for declare in decorators:
            with pytest.raises(ConfigError, match=r"decorates an async function, and .* is none"):
                declare(wrong)


def test_what_can_be_awaited_is_taken() -> None:
    """Methods, objects, what functools makes: whatever has an async function in it."""

    class Shop:
        async def buy(self, chat: Chat) -> None: ...

        async def __call__(self, chat: Chat) -> None: ...

    @wraps(Shop.buy)
    def wrapped(chat: Chat) -> Awaitable[None]:
        return Shop().buy(chat)

    for right in cast("list[Any]", [Shop().buy, Shop(), partial(Shop.buy, Shop()), wrapped]):
        Router().aside(right)  # they have one name, so that no bot can have two of them


async def test_a_function_that_can_t_be_awaited_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever its decorators made of it, this is where it shows."""
    bot = Router()

    async def asked(chat: Chat) -> None: ...

    @bot.conversation
    @wraps(asked)
    def talk(chat: Chat) -> Any:
        """Not async."""

    with caplog.at_level(logging.ERROR, "triobot.conversations"):
        async with open_town(bot) as town:
            await town.says("hello")
            assert town.sent() == [TEXTS.apology]
    assert "asked can't be awaited; declare it with `async def`" in caplog.text


@pytest.mark.parametrize("wrong", ["cancel", command, None])
def test_a_route_refuses_what_is_no_filter(wrong: Any) -> None:
    """When it is declared, not when an event comes."""
    bot = Router()
    for use in (
        bot.interrupt,
        bot.aside,
        bot.ignore,
        lambda taken: text() | taken,
        lambda taken: text() & taken,
    ):
        with pytest.raises(ConfigError, match="takes a filter"):
            use(wrong)


def test_a_handler_takes_the_chat() -> None:
    """One argument: others may have defaults."""
    bot = Router()
    declare: Any = bot.conversation

    async def none() -> None: ...
    async def more(chat: Chat, times: int = 1) -> None: ...
    async def started(chat: Chat, times: int) -> None: ...

    with pytest.raises(ConfigError, match="one argument, the chat"):
        declare(none)
    with pytest.raises(ConfigError, match="an @aside without a filter may take more"):
        declare(started)
    assert bot.aside(started) is started
    assert declare(more) is more


@pytest.mark.parametrize(
    "function", [command, message, join, flooding], ids=lambda function: function.__name__
)
@pytest.mark.parametrize("kind", ["conversation", "interrupt", "aside", "ignore"])
def test_a_filter_s_function_must_be_called(kind: str, function: Callable[..., object]) -> None:
    """Those that take arguments would pass for handlers."""
    declare = getattr(Router(), kind)
    with pytest.raises(ConfigError, match=rf"{function.__name__} makes one: call it"):
        declare(function)


FILTERS: dict[str, Callable[[], object]] = {
    "words, each a text": lambda: text(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "words, each a text, as": lambda: text(["a", "b"]),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "words, each a name": lambda: command(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "without blanks and without @, as": lambda: command("two words"),
    "without @": lambda: command("help@bot"),
    "names without blanks": lambda: command(""),
    "a function of an event": lambda: when("x"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "takes a plain function": lambda: when(_later),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "the class of what is told": lambda: signal(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "the class of what is bought": lambda: paid(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    r"join filters with \|": lambda: text("a") or text("b"),
    "not with or, and, not": lambda: not text("a"),
    r"text\(a\) is a filter": lambda: text("a") and text("b"),
}


@pytest.mark.parametrize("said", FILTERS)
def test_a_filter_that_would_never_do_is_refused(said: str) -> None:
    """Where it is made: an async condition would say yes to everything."""
    with pytest.raises(ConfigError, match=said):
        FILTERS[said]()
