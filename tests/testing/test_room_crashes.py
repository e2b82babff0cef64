"""A room, and a process that is killed at each write: what it is told, what it keeps, what begins it anew."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import attrs
import pytest
import trio
from crash_scenes import Killer, write_one_by_one

from tests.samples import sample
from triobot import Bot, Chat, ChatId, Key, Room
from triobot.filters import command, signal
from triobot.testing import drive

TOTAL = Key("total", int, default=0)
RUNS = Key("runs", tuple[int, ...], default=())


@attrs.frozen
class Add:
    n: int
    chat: ChatId


@attrs.frozen
class Stop:
    pass


@attrs.frozen
class Noise:
    pass


def add(old: int, more: int) -> int:
    return old + more


def an_adding_room() -> Bot:
    bot = Bot()

    @bot.room(signal(Add))
    async def adds(room: Room[Add]) -> None:
        event, sum = room.event, 0
        while not isinstance(event, Stop):
            sum += event.n
            await room.shared.update(TOTAL, add, event.n)
            with room.move_on_after(60):
                event = await room.receive(signal(Add) | signal(Stop))
        room.data[RUNS] = (*room.data[RUNS], sum)
        await room.to(room.event.chat).send(f"{room.key}: {sum}")

    @bot.aside(command("go"))
    async def go(chat: Chat) -> None:
        room = chat.to(adds, chat.id)
        told: Sequence[object] = (
            Add(1, chat.id),
            Add(2, chat.id),
            Stop(),
            Noise(),
            Add(10, chat.id),
            Noise(),
        )
        for value in (*told, Stop(), Noise()):
            await room.signal(value)
        await chat.send("Told.")

    return bot


@pytest.mark.parametrize("at", sample(range(101)))
async def test_whenever_the_process_is_killed_a_room_hears_all_once_and_in_order(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    write_one_by_one(monkeypatch)
    bot, killer = an_adding_room(), Killer(monkeypatch, at, told=True)
    async with drive(bot, attempts=100, replay_check=not at) as world:
        people = [world.user("Ali"), world.user("Sara")]
        for person in people:
            await person.joins()
        await world.waits(seconds=5)
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            for person in people:
                await person.says("/go")
            await world.waits(minutes=5)
            killer.nursery = None
        room = next(route.handler for route in bot._routes if route.name.endswith("adds"))
        for person in people:
            assert await bot.to(room, person.chat_id).get(RUNS) == (3, 10)
            said = [seen.text for seen in await person.history() if seen.from_bot and seen.text != "Told."]
            assert [text for text, _ in groupby(said)] == [f"{person.chat_id}: 3", f"{person.chat_id}: 10"]
            assert len(said) <= 2 + (0 < at <= killer.count)
        assert await bot.shared.get(TOTAL) == 26
        statistics = bot.statistics()
        assert (statistics.store.inbox, statistics.store.conversations) == (0, 0)
    assert killer.count >= 60


async def test_a_room_that_fails_has_its_name_and_key_in_the_log(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    bot = Bot()

    @bot.room(signal(Stop), name="shop.lobby")
    async def lobby(room: Room[Stop]) -> None:
        raise LookupError

    async with drive(bot) as world:
        for key in ("2026-03-01", "two\nlines"):
            await bot.to(lobby, key).signal(Stop())
        await world.waits(minutes=1)
        world.takes_alarm("conversation_crashed")

    said = [record.getMessage() for record in caplog.records if "failed:" in record.getMessage()]
    places = sorted(line.partition(" of ")[2].partition(" failed")[0] for line in said)
    assert places == ["room shop.lobby 'two\\nlines'", "room shop.lobby 2026-03-01"]
