"""What an author gets wrong, and what the bot says of it: in one line, without what a user wrote."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from town import TEXTS, open_town

from triobot.conversations.chat import Chat
from triobot.conversations.filters import command, join, message, text
from triobot.conversations.flooding import flooding
from triobot.conversations.routes import Router
from triobot.errors import ConfigError

Mistake = Callable[[Any], Awaitable[object]]


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (lambda chat: chat.send(""), "data: must not be empty"),
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


async def test_a_function_that_can_t_be_awaited_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever its decorators made of it, this is where it shows."""
    bot = Router()
    declare: Any = bot.conversation

    @declare
    def talk(chat: Chat) -> None:
        """Not async."""

    with caplog.at_level(logging.ERROR, "triobot.conversations"):
        async with open_town(bot) as town:
            await town.says("hello")
            assert town.sent() == [TEXTS.apology]
    assert "talk can't be awaited; declare it with `async def`" in caplog.text


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

    with pytest.raises(ConfigError, match="one argument, the chat"):
        declare(none)
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
