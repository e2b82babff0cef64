"""Routers behind a filter, and people who write too much."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from doubles import FakeOutbox
from town import ALI, CHAT, SARA, open_town
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import (
    REMEMBERED,
    Flood,
    Setting,
    by,
    command,
    flooding,
    in_chat,
    message,
    text,
)
from triobot.conversations.routes.router import Router, table_of
from triobot.errors import ConfigError
from triobot.wire.events import Event, Join, Message, PayCallback

# --- routers behind a filter


async def say(chat: Chat) -> None:
    await chat.send("said")


def another(name: str) -> Any:
    """Each route has a function of its own."""

    async def route(chat: Chat) -> None: ...

    route.__qualname__ = name
    return route


def takes(bot: Router, event: Event) -> list[str]:
    """The kinds of the routes that take an event, and whether it is ignored."""
    table, setting = table_of(bot), Setting()
    routes = (*table.interrupts, *table.asides, *table.conversations)
    found = [route.kind.value for route in routes if route.filter.look(event, setting) is not None]
    return [*found, *("ignored" for one in table.ignored if one.filter.look(event, setting) is not None)]


def test_the_routes_of_a_router_share_a_filter() -> None:
    """Of each kind, and what it ignores; the routes beside it don't."""
    admin, bot = Router(when=by(71)), Router()
    stop, ban, anything, start = (another(name) for name in ("stop", "ban", "anything", "start"))
    admin.interrupt(command("stop"))(stop)
    admin.aside(command("ban"))(ban)
    admin.conversation(anything)
    admin.ignore(text("x"))
    bot.include(admin)
    bot.conversation(command("start"))(start)
    for words, expected in {
        "/stop": ["interrupt", "conversation"],
        "/ban": ["aside", "conversation"],
        "x": ["conversation", "ignored"],
    }.items():
        assert takes(bot, Message(CHAT, words, ALI)) == expected
        assert takes(bot, Message(CHAT, words, SARA)) == []
    assert takes(bot, Message(CHAT, "/start", SARA)) == ["conversation"]


def test_filters_of_routers_within_routers_add_up() -> None:
    """And the value is that of the route's own filter."""
    inner, outer, bot = Router(when=in_chat(CHAT)), Router(when=by(71)), Router()
    inner.aside(command("a"))(say)
    outer.include(inner)
    bot.include(outer)
    [route] = table_of(bot).asides
    found = route.filter.look(Message(CHAT, "/a b", ALI), Setting())
    assert getattr(found, "rest", None) == "b"
    assert route.filter.look(Message(CHAT, "/a b", SARA), Setting()) is None
    assert route.filter.look(Message(CHAT + 1, "/a b", ALI), Setting()) is None


def test_two_routers_with_a_bare_conversation_are_refused() -> None:
    """Which of them is tried last would be nobody's guess; but one behind a filter comes before the other."""
    for when in (None, by(71)):
        one, two, bot = Router(when=when), Router(), Router()
        two.conversation(another("second"))
        one.conversation(another("first"))
        bot.conversation(text("hi"))(another("third"))
        bot.include(two)
        bot.include(one)
        if when is None:
            with pytest.raises(ConfigError, match=r"first .* can never start: before it .*second"):
                table_of(bot)
        else:
            names = [route.name.rpartition(".")[2] for route in table_of(bot).conversations]
            assert names == ["third", "first", "second"]


def test_two_bare_conversations_behind_one_filter_are_refused() -> None:
    admin = Router(when=by(71))
    admin.conversation(another("first"))
    admin.conversation(another("second"))
    bot = Router()
    bot.include(admin)
    with pytest.raises(ConfigError, match=r"second .* can never start"):
        table_of(bot)


def test_what_is_included_is_another_router() -> None:
    """Itself it would include for ever."""
    bot = Router()
    bot.conversation(another("first"))
    for wrong in (bot, 5):
        with pytest.raises(ConfigError, match="another Router"):
            bot.include(wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# --- flooding


def test_a_burst_and_then_as_many_a_minute() -> None:
    flood = Flood(6)
    assert [flood.is_over("a", n, 0) for n in range(8)] == [False] * 6 + [True] * 2
    assert flood.is_over("a", 8, 9_999)
    assert not flood.is_over("a", 9, 20_000)
    assert not flood.is_over("b", 10, 20_000)
    assert [flood.is_over("a", n, 600_000) for n in range(11, 19)] == [False] * 6 + [True] * 2


def test_an_event_that_was_let_through_is_not_counted_again() -> None:
    """Its turn comes later, and filters look at it once more."""
    flood = Flood(2)
    assert [flood.is_over("a", seq, 0) for seq in (1, 1, 1, 2, 2, 1)] == [False] * 6
    assert flood.is_over("a", 3, 0)


def test_a_clock_that_is_set_back_stands_still() -> None:
    flood = Flood(2)
    assert [flood.is_over("a", n, 100_000 - n) for n in range(3)] == [False, False, True]


def test_only_so_many_senders_are_remembered() -> None:
    """Who is silent for longest is forgotten first."""
    flood = Flood(1)
    flood.is_over("flooder", 0, 0)
    for n in range(1, REMEMBERED + 10):
        flood.is_over(n, n, 0)
        assert n % 100 or flood.is_over("flooder", n, 0)
    assert len(flood) == REMEMBERED


def test_payments_are_no_flood_and_each_person_counts_alone() -> None:
    taken, memory = flooding(per_minute=1), {}

    def over(event: Event, seq: int) -> bool:
        return taken.look(event, Setting(seq=seq, memory=memory)) is not None

    assert not over(Message(CHAT, "a", ALI), 1)
    assert over(Message(CHAT, "a", ALI), 2)
    assert not over(Message(CHAT, "a", SARA), 3)
    assert not over(Message(CHAT + 1, "a", ALI), 4)
    assert not over(Join(CHAT), 5)
    assert over(Message(CHAT, "a", None), 6)
    assert not over(PayCallback(CHAT, "abc", sender=ALI), 7)
    assert not flooding(per_minute=1).look(Message(CHAT, "a", ALI), Setting(seq=8, memory=memory))


@pytest.mark.parametrize("per_minute", [0, -1, 1.5, True, None])
def test_a_limit_that_is_none_is_refused(per_minute: int) -> None:
    with pytest.raises(ConfigError):
        flooding(per_minute=per_minute)


async def test_a_flood_is_ignored_and_the_others_are_not(autojump_clock: MockClock) -> None:
    """Each run counts for itself."""
    bot = Router()
    bot.ignore(flooding(per_minute=3))

    @bot.conversation(message())
    async def echo(chat: Chat) -> None:
        await chat.send(chat.event.content)

    for _ in range(2):
        async with open_town(bot) as town:
            for n in range(10):
                await town.says(str(n))
            await town.says("other", chat=6)
            assert town.sent() == ["0", "1", "2"]
            assert town.sent(6) == ["other"]
            assert town.counts["ignored"] == 7
            await trio.sleep(25)
            await town.says("later")
            assert town.sent() == ["0", "1", "2", "later"]


async def test_what_waits_for_its_turn_is_counted_once() -> None:
    """It is routed a second time when the conversation is over."""
    bot = Router()
    bot.ignore(flooding(per_minute=3))

    @bot.conversation
    async def echo(chat: Chat) -> None:
        await chat.send("said")

    outbox = FakeOutbox()
    held = outbox.hold()
    async with open_town(bot, outbox=outbox) as town:
        for _ in range(5):
            await town.says("x")
        held.release()
        await town.rest()
        assert town.sent() == ["said"] * 3


# --- with a word


async def test_who_floods_is_told_once_a_minute(autojump_clock: MockClock) -> None:
    """The chat hears the words once, whoever writes; then again in the next minute."""
    bot = Router()
    bot.ignore(flooding(per_minute=2), say="Slowly, please.")
    bot.aside(text("hello"))(say)
    bot.conversation(another("first"))
    async with open_town(bot) as town:
        for _ in range(6):
            await town.says("hello")
        assert town.sent() == ["said", "said", "Slowly, please."]
        await trio.sleep(61)
        for _ in range(5):
            await town.says("hello")
        assert town.sent()[3:] == ["said", "said", "Slowly, please."]


async def test_a_press_that_is_ignored_is_told_so_each_time(autojump_clock: MockClock) -> None:
    """A press is answered anyway, to whoever pressed alone."""
    bot = Router()
    bot.ignore(by(ALI.id), say="You can't vote.")
    bot.conversation(another("first"))
    async with open_town(bot) as town:
        for n in range(3):
            await town.presses_data("x", n + 1)
        await town.rest()
        assert [(what, words) for what, _, words in town.outbox.presses] == [
            ("refused", "You can't vote.")
        ] * 3
        await town.says("and now?")
        assert town.sent() == ["You can't vote."]


def test_the_words_are_a_text() -> None:
    with pytest.raises(ConfigError, match=r"ignore\(say=\) takes a text"):
        Router().ignore(text("x"), say=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
