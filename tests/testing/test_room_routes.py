"""Rooms: code that belongs to no chat, begun by what it is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import attrs
import pytest
import trio

from triobot import Bot, Chat, ChatId, Failure, Key, Room, RoomRef, SenderId
from triobot.conversations import registry
from triobot.errors import ConfigError, LocalProtocolError
from triobot.filters import command, join, signal, text
from triobot.testing import drive


@attrs.frozen
class Wants:
    chat: ChatId


@attrs.frozen
class GivesUp:
    chat: ChatId


@attrs.frozen
class Met:
    who: tuple[ChatId, ChatId]


MATCHES = Key("matches", int, default=0)


def a_lobby() -> Bot:
    bot = Bot()

    @bot.room(signal(Wants))
    async def lobby(room: Room[Wants]) -> None:
        one = room.event
        with room.move_on_when(signal(GivesUp).where(lambda gone: gone.chat == one.chat)):
            two = await room.receive(signal(Wants).where(lambda other: other.chat != one.chat))
            room.data[MATCHES] += 1
            await room.to(match, str(room.uuid())).signal(Met((one.chat, two.chat)))

    @bot.room(signal(Met))
    async def match(room: Room[Met]) -> None:
        number = await room.to(lobby).get(MATCHES)
        for who in room.event.who:
            await room.to(who).send(f"Match {number} of {len(room.key)}")
        await room.sleep(3600)
        for who in room.event.who:
            await room.to(who).send("Over.")

    @bot.aside(join() | command("play"))
    async def play(chat: Chat) -> None:
        await chat.to(lobby).signal(Wants(chat.id))

    @bot.aside(command("resign"))
    async def resign(chat: Chat) -> None:
        await chat.to(lobby).signal(GivesUp(chat.id))

    return bot


async def test_a_room_begins_with_what_it_is_told_and_anew_when_it_has_ended(autojump_clock: object) -> None:
    bot = a_lobby()
    async with drive(bot) as world:
        people = [world.user(f"Player {number}") for number in range(5)]
        for person in people[:2]:
            await person.joins()
        for person in people[:2]:
            await person.sees("Match 1 of 36")
        for person in people[2:]:
            await person.joins()
        for person in people[2:4]:
            await person.sees("Match 2 of 36")
        await world.crashes()
        await people[0].says("/play")
        await people[4].sees("Match 3 of 36")
        for person in people[2:4]:
            await person.sees("Over.", within=4000)
        await world.waits(hours=2)
        assert bot.statistics().store.conversations == 0
        assert bot.statistics().store.inbox == 0


async def test_what_begins_nothing_is_dropped_and_never_reaches_the_next_run(autojump_clock: object) -> None:
    bot = a_lobby()
    async with drive(bot) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        await ali.joins()
        await ali.says("/resign")
        await world.waits(seconds=1)
        await ali.says("/resign")  # nobody waits any more
        await world.waits(hours=1)
        assert bot.statistics().store.inbox == 0
        await ali.says("/play")
        await sara.joins()
        await ali.sees("Match 1 of 36")


@attrs.frozen
class Count:
    n: int


SUM = Key("sum", int, default=0)


async def test_a_room_that_fails_is_told_and_begins_anew(autojump_clock: object) -> None:
    bot, failures = Bot(), list[Failure]()

    @bot.room(signal(Count), name="counter")
    async def counter(room: Room[Count]) -> None:
        await room.shared.update(SUM, lambda old, more: old + more, room.event.n)
        if room.event.n == 1:
            raise RuntimeError("one is none")

    @bot.on_error
    async def note(failure: Failure) -> None:
        await trio.lowlevel.checkpoint()
        failures.append(failure)

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        for n in (1, 2):
            await bot.to(counter, 7).signal(Count(n))
        await world.waits(seconds=5)
        assert await bot.shared.get(SUM) == 3
        assert bot.statistics().store.inbox == 0
        world.takes_alarm("conversation_crashed")
        await ali.sees_nothing(within=5)
    [failure] = failures
    assert (failure.route, type(failure.place), str(failure.error)) == ("counter", RoomRef, "one is none")


async def test_a_room_whose_code_has_changed_is_parked_and_keeps_its_signals(autojump_clock: object) -> None:
    bot, changed = Bot(), False

    @bot.room(signal(Count))
    async def counter(room: Room[Count]) -> None:
        while room.data[SUM] < 100:
            if changed:
                await room.sleep(1)
            room.data[SUM] += (await room.receive(signal(Count))).n

    async with drive(bot, replay_check=False) as world:
        for n in (0, 1, 2):
            await bot.to(counter).signal(Count(n))
        await world.waits(seconds=1)
        changed = True
        await world.restarts()
        await bot.to(counter).signal(Count(3))
        await world.waits(seconds=1)
        world.takes_alarm("conversation_parked")
        assert bot.statistics().store.parked == 1
        changed = False
        await world.restarts()
        await world.waits(seconds=1)
        assert await bot.to(counter).get(SUM) == 6
        assert bot.statistics().store.parked == 0


async def test_rooms_at_rest_leave_memory_and_come_back(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "KEPT", 2)
    bot = Bot()

    @bot.room(signal(Count))
    async def counter(room: Room[Count]) -> None:
        room.data[SUM] += room.event.n
        with room.move_on_after(3600):
            while True:
                room.data[SUM] += (await room.receive(signal(Count))).n
        room.data[SUM] *= 100

    async with drive(bot) as world:
        for n in (1, 2):
            for key in range(10):
                await bot.to(counter, key).signal(Count(n))
            await world.waits(seconds=5)
        assert bot.statistics().counts["evicted"] >= 10
        assert [await bot.to(counter, key).get(SUM) for key in range(10)] == [3] * 10
        await world.waits(hours=2)
        assert [await bot.to(counter, key).get(SUM) for key in range(10)] == [300] * 10
        assert bot.statistics().store.conversations == 0


async def test_a_room_goes_on_as_itself_and_without_what_was(autojump_clock: object) -> None:
    bot = Bot()

    @bot.room(signal(Count), name="counter")
    async def counter(room: Room[Count]) -> None:
        room.data[SUM] += (await room.receive(signal(Count))).n
        assert room.key == "seven"
        await room.continue_as(counter)

    async with drive(bot) as world:
        for n in range(50):
            await bot.to(counter, "seven").signal(Count(n))
            if n % 10 == 9:
                await world.crashes()
        await world.waits(seconds=5)
        assert await bot.to(counter, "seven").get(SUM) == sum(range(1, 50))


async def test_a_room_with_a_new_name_keeps_what_it_kept(autojump_clock: object) -> None:
    before, after = Bot(), Bot()

    @before.room(signal(Count), name="old")
    @after.room(signal(Count), name="new", formerly=("old",))
    async def counter(room: Room[Count]) -> None:
        room.data[SUM] += room.event.n

    async with drive(before) as world:
        await before.to(counter, "k").signal(Count(4))
        await world.waits(seconds=1)
        assert await before.to(counter, "k").get(SUM) == 4
        ref = before.to(counter, "k")
    async with drive(after):
        assert after.to(counter, "k")._place == ref._place
        assert after.to(counter, "l")._place != ref._place


async def test_what_is_no_room_is_refused_at_its_line(autojump_clock: object) -> None:
    bot, found = Bot(), list[str]()

    @bot.room(signal(Count))
    async def counter(room: Room[Count]) -> None: ...

    @bot.aside
    async def beside(chat: Chat) -> None: ...

    @bot.conversation
    async def tries(chat: Chat) -> None:
        start: Any = chat.start
        for wrong in (
            lambda: chat.to(beside),
            lambda: chat.to(counter, "x" * 129),
            lambda: chat.to(counter, "\0"),
            lambda: chat.to(counter, cast("Any", True)),
            lambda: chat.to(cast("Any", tries)),
        ):
            with pytest.raises(ConfigError) as error:
                wrong()
            found.append(str(error.value))
        for coroutine in (start(counter), chat.continue_as(cast("Any", counter))):
            with pytest.raises(ConfigError) as error:
                await coroutine
            found.append(str(error.value))
        with pytest.raises(LocalProtocolError, match="hears nothing"):
            await chat.person(SenderId(7)).signal(Count(1))

    async with drive(bot, replay_check=False) as world:
        ali = world.user("Ali")
        await ali.joins()
        await world.waits(seconds=1)
    assert len(found) == 7
    assert all("test_room_routes.py:" in words for words in found)
    assert "takes a room, and" in found[0]
    assert "at most 128 characters, or a whole number" in found[1]
    assert "is a room: await chat.to(counter, key).signal(...) begins it" in found[5]
    with pytest.raises(ConfigError, match=r"@room takes signals, and text\(\) takes none"):
        bot.room(text())


async def test_a_hook_is_around_rooms_as_well(autojump_clock: object) -> None:
    bot, seen = Bot(), list[str]()

    @bot.around
    async def notes(room: Room, call: Callable[[], Awaitable[None]]) -> None:
        if not room.replaying:
            seen.append(f"{type(room).__name__} {room.key} of {room.route}")
        await call()

    @bot.room(signal(Count), name="counter")
    async def counter(room: Room[Count]) -> None:
        room.data[SUM] += room.event.n

    async with drive(bot):
        await bot.to(counter, "k").signal(Count(5))
        await trio.sleep(1)
        assert await bot.to(counter, "k").get(SUM) == 5
    assert seen == ["Room k of counter"]


async def test_a_room_drains_what_came_before_it_listens(autojump_clock: object) -> None:
    bot = Bot()

    @bot.room(signal(Count))
    async def counter(room: Room[Count]) -> None:
        await room.sleep(10)
        early = room.drain()
        await room.sleep(10)
        room.data[SUM] = sum(one.n for one in early if isinstance(one, Count))
        room.data[SUM] += (await room.receive(signal(Count))).n * 100

    async with drive(bot) as world:
        for n in (1, 2, 3):
            await bot.to(counter).signal(Count(n))
        await world.waits(seconds=15)
        await world.crashes()
        await bot.to(counter).signal(Count(4))
        await world.waits(seconds=15)
        assert await bot.to(counter).get(SUM) == 405
        assert bot.statistics().store.inbox == 0


async def test_what_is_told_where_nothing_listens_is_dropped_or_refused(autojump_clock: object) -> None:
    bot = Bot()

    @bot.aside(join())
    async def says(chat: Chat) -> None:
        await chat.shared.signal(Count(1))
        with pytest.raises(LocalProtocolError, match="sender_id: must be a person's id"):
            chat.person(cast("Any", "x"))
        await chat.send("Told.")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Told.")
        await world.waits(seconds=1)
        assert bot.statistics().counts["signal_dropped"] == 1
        assert bot.statistics().store.inbox == 0


async def test_a_parked_room_that_an_operator_ends_says_nothing_and_begins_anew(
    autojump_clock: object,
) -> None:
    bot, changed = Bot(), False

    @bot.room(signal(Count))
    async def counter(room: Room[Count]) -> None:
        for _ in range(2):
            if changed:
                await room.sleep(1)
            room.data[SUM] += (await room.receive(signal(Count))).n

    async with drive(bot, replay_check=False) as world:
        for n in (0, 1):
            await bot.to(counter).signal(Count(n))
        await world.waits(seconds=1)
        changed = True
        await world.restarts()
        for n in (3, 4, 5):
            await bot.to(counter).signal(Count(n))
        await world.waits(seconds=1)
        world.takes_alarm("conversation_parked")
        assert bot._work is not None
        intake = world._process.intake
        assert intake is not None
        [row] = await intake.store.parked(after=0, limit=9)
        await bot._work.dispatcher.chat_calls.order(row, end=True, say="Please start again.")
        await world.waits(seconds=5)
        assert await bot.to(counter).get(SUM) == 1 + 4 + 5
        statistics = bot.statistics()
        assert (statistics.store.parked, statistics.store.inbox, statistics.store.conversations) == (0, 0, 0)
        assert statistics.counts.get("tidying_failed", 0) == 0


def test_what_is_no_filter_is_told_what_would_be_one() -> None:
    bot = cast("Any", Bot())

    class Go: ...

    async def function(room: object) -> None: ...

    with pytest.raises(ConfigError, match=r"@room takes a filter such as signal\(Order\), not a function"):
        bot.room(function)
    with pytest.raises(ConfigError, match=r"@room takes a filter such as signal\(Go\), not a type Go"):
        bot.room(Go)
    with pytest.raises(ConfigError, match=r"@interrupt takes a filter such as signal\(Go\)"):
        bot.interrupt(Go)
