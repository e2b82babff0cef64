"""Declarations that make no sense are refused before the first event, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from triobot.conversations.charges.paid import paid
from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import (
    Filter,
    by,
    command,
    in_chat,
    join,
    message,
    pressed,
    signal,
    starting,
    text,
    when,
)
from triobot.conversations.routes.matching import matches
from triobot.conversations.routes.router import Router, table_of
from triobot.errors import ConfigError
from triobot.wire.content import File, Media


@attrs.frozen
class Nothing:
    """A pattern's class without fields."""


def route(name: str) -> Any:
    """A function of its own."""

    async def handler(chat: Chat) -> None: ...

    handler.__qualname__ = name
    return handler


def refusal(declare: Callable[[Router], object]) -> str:
    """What the bot says when it starts."""
    router = Router()
    with pytest.raises(ConfigError) as caught:
        declare(router)
        table_of(router)
    return str(caught.value)


def test_the_same_function_twice() -> None:
    def declare(router: Router) -> None:
        both = route("both")
        router.conversation(command("a"))(both)
        router.interrupt(command("b"))(both)

    said = refusal(declare)
    assert "both is declared twice, as conversation and as interrupt" in said
    assert "join the filters with |" in said


def test_two_functions_of_one_name() -> None:
    """What is stored could belong to either."""

    def declare(router: Router) -> None:
        router.aside(command("a"))(route("same"))
        router.aside(command("b"))(route("same"))

    assert "rename one" in refusal(declare)


SAME: list[Callable[[], Filter[Any]]] = [
    lambda: command("Cancel", "stop"),
    lambda: text("ﻻ", "b"),
    lambda: message(),
    lambda: join() | command("a"),
    lambda: by(1, 2) & in_chat(5) & ~text("x"),
    lambda: pressed(),
    lambda: pressed(int),
    lambda: signal(int),
]


@pytest.mark.parametrize("same", SAME)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ignore", "interrupt"),
        ("ignore", "conversation"),
        ("interrupt", "interrupt"),
        ("interrupt", "aside"),
        ("aside", "conversation"),
        ("conversation", "conversation"),
    ],
)
def test_a_filter_behind_an_equal_one(first: str, second: str, same: Callable[[], Filter[Any]]) -> None:
    """It could never start; in whatever order they were declared."""

    def declare(router: Router) -> None:
        for number, kind in enumerate((second, first)):
            if kind == "ignore":
                router.ignore(same())
            else:
                getattr(router, kind)(same())(route(f"route{number}"))

    said = refusal(declare)
    assert "can never start" in said
    assert "change its filter" in said


@pytest.mark.parametrize("kind", ["conversation", "interrupt"])
def test_what_was_paid_for_is_given_by_asides(kind: str) -> None:
    """Nothing else ever gets the money."""
    said = refusal(lambda router: getattr(router, kind)(paid(int))(route("gives")))
    assert "can never start" in said
    assert "@bot.aside" in said


class Item:
    """A class of items."""


class Priced:
    """A class that items have beside."""


class Pizza(Item, Priced):
    """An item of both."""


@pytest.mark.parametrize(("first", "second"), [(int, bool), (Item, Pizza), (Priced, Pizza)])
@pytest.mark.parametrize("taken", [paid, signal])
def test_what_was_paid_for_is_given_by_one_aside(
    first: type[object], second: type[object], taken: Callable[[type[object]], Filter[Any]]
) -> None:
    """The second would never give; one for another item is no mistake."""

    def declare(router: Router) -> None:
        router.aside(taken(first))(route("first"))
        router.aside(taken(str))(route("other"))
        router.aside(taken(second))(route("second"))

    assert "second (" in refusal(declare)


def test_many_alternatives_of_several_filters_are_not_compared() -> None:
    """They would take minutes and gigabytes at the start."""
    some, more = in_chat(*range(1, 1001)), by(*range(1, 1001))
    assert len((some & by(1)).kinds) == 1000
    assert len((some & more).kinds) == 1


def test_filters_that_differ_are_no_mistake() -> None:
    router = Router()
    yes: Callable[[object], bool] = lambda event: True  # noqa: E731
    filters = [
        text("a") & by(1),
        command("a"),
        command("a", "b"),
        command(),
        text("a"),
        by(2) | by(3),
        ~text("a"),
        when(yes),
        when(lambda event: True),
        by(1),
        in_chat(1),
        pressed(str),
    ]
    for number, taken in enumerate(filters):
        router.conversation(taken)(route(str(number)))
    first, second = Router(when=by(1)), Router(when=by(2))
    first.interrupt(command("x"))(route("x1"))
    second.interrupt(command("x"))(route("x2"))
    router.include(first)
    router.include(second)
    assert len(table_of(router).routes) == len(filters) + 2


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ([command()], command("a")),
        ([text()], command("a") | text("b")),
        ([text("a", "b")], text("b") & by(1)),
        ([command("a"), command("b")], command("a", "b")),
        ([text("a"), join()], join() | text("a")),
        ([message()], message(File)),
        ([message(Media)], message(File)),
        ([message(str)], text()),
        ([text()], matches("a", Nothing)),
        ([text()], text().where(bool)),
        ([text().where(bool)], text("a").where(bool)),
        ([text()], message(str)),
        ([pressed()], pressed(int)),
        ([by(1, 2) & text()], text("a") & by(2)),
        ([in_chat(1, 2)], in_chat(2)),
        ([signal(object)], signal(int)),
        ([when(bool)], text() & when(bool)),
        ([starting()], message(File) | join()),
    ],
)
def test_a_route_whose_events_are_all_taken_before_it(before: list[Filter[Any]], behind: Filter[Any]) -> None:
    """The refusal names both, with their lines; in an included router, too."""
    own, other = Router(), Router()
    for number, taken in enumerate(before):
        own.interrupt(taken)(route(f"first{number}"))
    other.interrupt(behind)(route("second"))
    own.include(other)
    with pytest.raises(ConfigError) as refused:
        table_of(own)
    said = str(refused.value)
    assert "second (" in said.partition(" can never start")[0]
    assert all(f"first{number} (" in said for number in range(len(before)))


def test_a_filter_may_have_many_conditions() -> None:
    """They are compared one by one; all selections of sixty would take for ever."""
    taken = text()
    for _ in range(60):
        taken &= when(lambda event: True)

    def declare(router: Router) -> None:
        router.interrupt(taken)(route("first"))
        router.interrupt(taken & text("a"))(route("second"))

    assert "second (" in refusal(declare).partition(" can never start")[0]


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (command("a"), command()),
        (command("a"), command("a", "b")),
        (text("a"), text()),
        (text("a"), command("a")),
        (command(), text()),
        (message(File), message(Media)),
        (message(File), message()),
        (pressed(int), pressed()),
        (pressed(int), pressed(str)),
        (text("a") & when(bool), text("a")),
        (text() & by(1), text()),
        (~text("a"), text("b")),
        (signal(int), signal(object)),
        (text(), join()),
        (text(), message()),
        (text().where(bool), text()),
        (matches("a", Nothing), text("a")),
        (matches("a", Nothing), matches("b", Nothing)),
    ],
)
def test_a_route_that_may_take_something_is_not_refused(before: Filter[Any], behind: Filter[Any]) -> None:
    router = Router()
    router.interrupt(before)(route("first"))
    router.interrupt(behind)(route("second"))
    assert len(table_of(router).routes) == 2


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (lambda router: router.conversation(text(), per="everybody"), '"chat" or "sender"'),
        (lambda router: router.conversation(text(), version=0), "from 1"),
        (lambda router: router.interrupt(text(), version=True), "from 1"),
        (lambda router: router.aside(text(), version="2"), "from 1"),
        (lambda router: by("sara"), "by() takes whole numbers"),
        (lambda router: by("me"), "a sender's id"),
        (lambda router: by(), "by() takes whole numbers"),
        (lambda router: by(1, True), "by() takes whole numbers"),
        (lambda router: in_chat("5"), "in_chat() takes whole numbers"),
        (lambda router: router.aside(command), "takes a filter"),
        (lambda router: router.conversation(text())(lambda: None), "one argument, the chat"),
    ],
)
def test_arguments_that_are_something_else(declare: Callable[[Router], object], says: str) -> None:
    assert says in refusal(declare)


def test_what_a_route_remembers_of_its_declaration() -> None:
    router = Router()
    router.conversation(text("a"), per="sender", version=3)(route("a"))
    router.conversation(per="sender")(route("bare"))
    router.aside(route("job"))
    table = table_of(router)
    first, bare = table.conversations
    assert (first.per_sender, first.version, first.bare) == (True, 3, False)
    assert (bare.per_sender, bare.version, bare.bare) == (True, 1, True)
    assert [aside.bare for aside in table.asides] == [True]
    assert table.per_sender
    assert table.named(first.name) is first
    assert table.named("nobody") is None
