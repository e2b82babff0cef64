"""Routes that were renamed or moved: what is stored under a former name goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import CHAT, TEXTS, Town, start
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.routes.declarations import Route
from triobot.conversations.routes.filters import command, message, text
from triobot.conversations.routes.router import Router, table_of
from triobot.errors import ConfigError
from triobot.seams.inbox import Acceptance, Arrival


def called(name: str, handler: Any) -> Any:
    """A function as if it stood elsewhere, under this name."""
    handler.__module__, handler.__qualname__ = name.rsplit(".", 1)
    return handler


def ordering(function: str, **names: Any) -> Router:
    """Asks two questions; a signal of code starts a reminder, and another function goes on."""
    bot = Router()

    async def order(chat: Chat) -> None:
        name = await chat.ask("Name?")
        await chat.ask("Street?")
        await chat.send(f"{name} it is.")

    bot.conversation(message(), **names)(called(function, order))
    return bot


async def carried(before: Router, after: Router, *, says: Sequence[str] = ()) -> Town:
    """Order under one bot as far as the second question, then answer it under the other."""
    outbox, store = FakeOutbox(), FakeStore()
    async with trio.open_nursery() as nursery:
        town = Town(before, outbox, store, TEXTS, username="pizzabot")
        run = await start(nursery, town)
        for words in ("hi", "Sara", *says):
            await town.says(words)
        await run.cut()
        town = Town(after, outbox, store, TEXTS, username="pizzabot")
        await start(nursery, town)
        await town.rest()
        await town.says("Valiasr")
        nursery.cancel_scope.cancel()
    return town


NAMED: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    # A name, whatever becomes of the function.
    ({"name": "order"}, "shop.anything", {"name": "order"}),
    # Moved and renamed, without a name.
    ({}, "shop.take", {"formerly": ("pizza.order",)}),
    # Moved again: all its names count.
    ({"name": "order"}, "shop.take", {"name": "sale", "formerly": ("pizza.order", "order")}),
    # Only given a name: of its function it knows by itself.
    ({}, "pizza.order", {"name": "sale"}),
]


@pytest.mark.parametrize(("before", "function", "after"), NAMED)
async def test_what_was_stored_goes_on(
    before: dict[str, Any], function: str, after: dict[str, Any], autojump_clock: MockClock
) -> None:
    town = await carried(ordering("pizza.order", **before), ordering(function, **after))

    assert town.sent() == ["Name?", "Street?", "Sara it is."]
    assert not town.alarms


async def test_a_route_that_is_gone_parks_and_says_what_to_do(autojump_clock: MockClock) -> None:
    town = await carried(ordering("pizza.order"), ordering("shop.take"))

    assert "Sara it is." not in town.sent()
    (alarm,) = town.alarms
    assert alarm.kind == "conversation_parked"
    assert "formerly=('pizza.order',)" in alarm.text


async def test_an_own_name_comes_before_a_former_function_s(autojump_clock: MockClock) -> None:
    """What is declared counts, not what two functions happened to be called."""
    bot = ordering("shop.take", formerly=("pizza.order",))

    async def other(chat: Chat) -> None:
        raise AssertionError("this isn't it")

    bot.aside(command("a"), name="other")(called("pizza.order", other))
    town = await carried(ordering("pizza.order"), bot)

    assert town.sent()[-1] == "Sara it is."


# --- what code asks for


def reminding(function: str, ran: list[str], **names: Any) -> Router:
    """A live conversation that starts a route, whose place is its own, and one that stops it."""
    bot = Router()

    async def remind(chat: Chat, order: int) -> None:
        ran.append(f"{function} {order}")
        await chat.receive(text("never"))

    called(function, remind)
    bot.conversation(message(), name="talk")(_talk)
    bot.aside(**names)(remind)
    return bot


async def _talk(chat: Chat) -> None:
    await chat.receive(text("bye"))


async def test_a_call_and_a_stop_that_wait_know_former_names(autojump_clock: MockClock) -> None:
    """Both were accepted under the old name, and are looked at by the new code."""
    outbox, store, ran = FakeOutbox(), FakeStore(), list[str]()
    before = reminding("pizza.remind", ran)
    after = reminding("shop.remember", ran, formerly=("pizza.remind",))
    async with trio.open_nursery() as nursery:
        town = Town(before, outbox, store, TEXTS, username="pizzabot")
        # Nobody runs: the rows wait in the inbox.
        chat_calls = town.dispatcher.chat_calls
        assert await chat_calls.start(CHAT, "pizza.remind", (1,), key="one", once="one")
        assert await chat_calls.start(CHAT, "pizza.remind", (2,), key="two", once="two")
        assert await chat_calls.stop(CHAT, "pizza.remind", "one")
        town = Town(after, outbox, store, TEXTS, username="pizzabot")
        await start(nursery, town)
        await town.rest()
        assert sorted(ran) == ["shop.remember 1", "shop.remember 2"]
        actor = town.dispatcher.chats.actors.get(CHAT)
        assert actor is not None
        assert [there.facts.key for there in actor.running.asides] == ["two"]
        nursery.cancel_scope.cancel()


class Keyed(FakeStore):
    """Notes what tells a repeated call."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str | None] = []

    async def accept(self, arrival: Arrival, **more: Any) -> Acceptance:
        self.keys.append(arrival.key)
        return await super().accept(arrival, **more)


async def test_a_key_is_the_same_under_all_of_a_route_s_names() -> None:
    """So a call that is repeated after the deploy starts nothing."""
    store, ran = Keyed(), list[str]()
    names: list[dict[str, Any]] = [{}, {"name": "reminder", "formerly": ("pizza.remind",)}]
    for more in names:
        router = reminding("pizza.remind", ran, **more)
        town = Town(router, FakeOutbox(), store, TEXTS, username="pizzabot")
        name = more.get("name", "pizza.remind")
        await town.dispatcher.chat_calls.start(CHAT, name, (1,), key=None, once="order-1")

    assert store.keys == ["call:5:pizza.remind:order-1"] * 2


async def test_a_function_goes_on_as_a_renamed_one(autojump_clock: MockClock) -> None:
    """`continue_as` names a function, and the store has its route's name."""

    def bot_of(function: str, **names: Any) -> Router:
        bot = Router()

        async def second(chat: Chat, name: str) -> None:
            await chat.receive(text())
            await chat.send(f"{name} it is.")

        called(function, second)
        bot.aside(**names)(second)

        @bot.conversation(message(), name="first")
        async def first(chat: Chat) -> None:
            name = await chat.ask("Name?")
            await chat.continue_as(second, name)

        return bot

    town = await carried(bot_of("pizza.second"), bot_of("shop.then", name="then", formerly=("pizza.second",)))

    assert town.sent() == ["Name?", "Sara it is."]
    assert not town.alarms


# --- what is refused, at its line


def named(router: Router, function: str, **names: Any) -> None:
    async def handler(chat: Chat) -> None: ...

    router.aside(**names)(called(function, handler))


def _including(router: Router, function: str, **names: Any) -> None:
    other = Router()
    named(other, function, **names)
    router.include(other)


TAKEN: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({"name": "order"}, "b.two", {"name": "order"}),
    ({"formerly": ("order",)}, "b.two", {"name": "order"}),
    ({"name": "one", "formerly": ("old", "order")}, "b.two", {"name": "two", "formerly": ("order",)}),
    ({}, "b.two", {"formerly": ("a.one",)}),
    ({}, "a.one", {}),
]


@pytest.mark.parametrize("declare", [named, _including])
@pytest.mark.parametrize(("first", "function", "second"), TAKEN)
def test_two_routes_of_one_name(
    declare: Callable[..., None], first: dict[str, Any], function: str, second: dict[str, Any]
) -> None:
    """Refused where the second is declared, or included; both lines are named."""
    router = Router()
    named(router, "a.one", **first)
    with pytest.raises(ConfigError) as caught:
        declare(router, function, **second)

    said = str(caught.value)
    assert "two routes are called" in said
    assert said.count("test_renamed.py:") == 2


def test_a_function_that_is_declared_twice_is_refused_at_the_second() -> None:
    router = Router()

    async def both(chat: Chat) -> None: ...

    router.conversation(command("a"))(both)
    with pytest.raises(ConfigError) as caught:
        router.interrupt(command("b"), name="other")(both)

    said = str(caught.value)
    assert "declared twice, as conversation" in said
    assert said.count("test_renamed.py:") == 2


def test_functions_of_one_name_with_names_of_their_own() -> None:
    """As a function makes them; the function's name alone tells none of them then."""
    router = Router()
    for name in ("one", "two"):
        named(router, "pizza.made", name=name)
    table = table_of(router)

    assert isinstance(table.named("one"), Route)
    assert table.named("pizza.made") is None


@pytest.mark.parametrize(
    "names",
    [
        {"name": ""},
        {"name": "a\0b"},
        {"name": 7},
        {"formerly": "order"},
        {"formerly": 7},
        {"formerly": ("",)},
    ],
)
def test_names_that_are_none(names: dict[str, Any]) -> None:
    for declare in (Router().conversation, Router().aside, lambda **more: Router().interrupt(text(), **more)):
        with pytest.raises(ConfigError, match=f"{next(iter(names))}="):
            declare(**names)
