"""Routes: declared by decorators, collected in the order of the lines."""

from __future__ import annotations

from typing import Any

import pytest

from triobot.conversations.chat import Chat
from triobot.conversations.questions.buttons import Buttons, Keyboard, keyboard_of
from triobot.conversations.questions.keys import encode_key
from triobot.conversations.routes.filters import command, join, text
from triobot.conversations.routes.router import Router, table_of
from triobot.conversations.running.lines import calling_line, failing_line
from triobot.errors import ConfigError, LocalProtocolError


def a_route(name: str) -> Any:
    """Each route has a function of its own."""

    async def route(chat: Chat) -> None: ...

    route.__qualname__ = name
    return route


one, two = a_route("one"), a_route("two")


def names(routes: object) -> list[str]:
    return [route.name.rpartition(".")[2] for route in routes]  # type: ignore[attr-defined]


def test_the_order_is_that_of_the_lines_and_the_bare_one_comes_last() -> None:
    """Included routers stand where they are included."""
    bot, part = Router(), Router()
    part.conversation(join())(a_route("joined"))
    part.interrupt(command("stop"))(a_route("stop"))
    bot.conversation(a_route("bare"))
    bot.conversation(command("a"))(a_route("a"))
    bot.interrupt(command("cancel"))(a_route("cancel"))
    bot.include(part)
    bot.conversation(text("b"))(a_route("b"))
    bot.aside(text("help"))(a_route("help"))
    bot.ignore(text("x"))
    table = table_of(bot)
    assert names(table.conversations) == ["a", "joined", "b", "bare"]
    assert [route.bare for route in table.conversations] == [False, False, False, True]
    assert names(table.interrupts) == ["cancel", "stop"]
    assert names(table.asides) == ["help"]
    assert [one.filter.name for one in table.ignored] == ["text(x)"]


def test_the_decorated_function_comes_back() -> None:
    """So that it can be awaited as a part of another."""
    assert Router().conversation(one) is one
    assert Router().aside(text("a"))(one) is one


def test_declarations_that_make_no_sense_are_refused() -> None:
    """When the bot starts, not when the first user comes."""
    bot = Router()
    with pytest.raises(ConfigError, match="no route"):
        table_of(bot)
    bot.conversation(one)
    bot.conversation(two)
    with pytest.raises(ConfigError, match=r"two .*can never start: before it .*one"):
        table_of(bot)
    with pytest.raises(ConfigError, match="decorates an async function"):
        bot.aside(text("a"))("one")  # type: ignore[call-overload]


# --- what buttons are made from


def test_keys_that_cannot_travel_are_refused() -> None:
    """A tuple can't be told from a list; a surrogate can't be sent."""
    for key in ((1, 2), 1.5, None, object()):
        with pytest.raises(LocalProtocolError):
            encode_key(key)
    with pytest.raises(LocalProtocolError):
        keyboard_of(Buttons({"\ud800": "x"}))


def test_rows_of_buttons() -> None:
    """As many in a row as there are columns."""
    rows = keyboard_of(Buttons({n: str(n) for n in range(5)}, columns=2)).rows
    assert [[button.text for button in row] for row in rows] == [["0", "1"], ["2", "3"], ["4"]]
    for wrong in (0, -1):
        with pytest.raises(LocalProtocolError):
            Buttons({1: "a"}, columns=wrong)
        with pytest.raises(LocalProtocolError):
            Keyboard({"a": "A"}, columns=wrong)


# --- the author's line


def fail_in_a_library() -> None:
    import json

    json.loads("{")


def test_the_line_is_the_authors_own() -> None:
    """Not that of the library in which it happened."""
    with pytest.raises(ValueError, match="Expecting") as caught:
        fail_in_a_library()
    line = fail_in_a_library.__code__.co_firstlineno + 3
    assert failing_line(caught.value.__traceback__).endswith(f"test_routes.py:{line}")
    assert failing_line(None) == "?"
    assert "test_routes.py:" in calling_line()
