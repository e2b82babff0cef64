"""The two wrong ways to sell: goods behind `charge` and in the aside, and goods behind `charge` alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from triobot import Bot, Chat, Image, Key, Paid, Room
from triobot.filters import command, paid, signal
from triobot.testing import drive

COINS = Key("coins", int, default=5)
NAMES = Key("names", list[str], default=[])
OWNS = Key("owns", dict[str, int], default={})
PLAN = Key("plan", str, default="free")
SEEN = Key("seen", float, default=0.0)


@attrs.frozen
class Pack:
    """What is bought."""

    coins: int


@attrs.frozen
class Sold:
    """What another chat is told."""

    coins: int


async def credit(coins: int, key: str = "") -> None:
    await trio.lowlevel.checkpoint()


async def audit(chat_id: int, what: str) -> None:
    await trio.lowlevel.checkpoint()


async def plus(chat: Chat[Any]) -> None:
    chat.data[COINS] += 100


async def appends(chat: Chat[Any]) -> None:
    chat.data[NAMES] = [*chat.data[NAMES], "gold"]


async def counts(chat: Chat[Any]) -> None:
    owns = chat.data[OWNS]
    chat.data[OWNS] = {**owns, "gold": owns.get("gold", 0) + 1}


async def shares(chat: Chat[Any]) -> None:
    await chat.shared.update(COINS, lambda old: old + 100)


async def puts(chat: Chat[Any]) -> None:
    await chat.to(chat.id).set(COINS, 100)


async def steps(chat: Chat[Any]) -> None:
    key = chat.event.key if isinstance(chat.event, Paid) else ""
    await (chat.step(credit, 100, key) if key else chat.step(credit, 100))


async def partials(chat: Chat[Any]) -> None:
    key = chat.event.key if isinstance(chat.event, Paid) else ""
    await (chat.step(partial(credit, 100), key) if key else chat.step(partial(credit, 100)))


async def signals(chat: Chat[Any]) -> None:
    await chat.to(chat.id).signal(Sold(100))


async def branches(chat: Chat[Any]) -> None:
    async with chat.open_nursery() as nursery:
        nursery.start_soon(plus, chat)


Gives = Callable[[Chat[Any]], Awaitable[None]]
TWICE = (plus, appends, counts, shares, puts, steps, partials, signals, branches)


def shop(gives: Gives, behind: Gives) -> Bot:
    bot = Bot()

    @bot.conversation
    async def sell(chat: Chat) -> None:
        await chat.charge(1_000, "100 coins", item=Pack(100))
        await chat.ask("For which account?")
        await behind(chat)
        await chat.send("Done.")

    @bot.aside(paid(Pack))
    async def deliver(chat: Chat[Paid[Pack]]) -> None:
        await gives(chat)

    @bot.aside(signal(Sold))
    async def hears(chat: Chat[Sold]) -> None:
        """Hear it."""

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    return bot


async def sells(bot: Bot, *says: str, sees: str) -> list[tuple[str, str]]:
    """Return the alarms of a sale."""
    async with drive(bot, replay_check=True) as world:
        sara = world.user("Sara", wallet=5_000)
        await sara.joins()
        await sara.sees_buttons("Pay")
        await sara.pays()
        await sara.sees("For which account?")
        for word in says:
            await sara.says(word)
        await sara.sees(sees)
        await world.waits(hours=1)
        alarms = [(alarm.kind, alarm.text) for alarm in world.alarms]
        world.alarms.clear()
        return alarms


async def thanks(chat: Chat[Any]) -> None:
    await chat.send("Thank you.")


@pytest.mark.parametrize("gives", TWICE)
async def test_goods_in_both_places_are_told_of(autojump_clock: object, gives: Gives) -> None:
    """With both lines and the cure; also of whoever shares a function with the aside."""
    (alarm,) = await sells(shop(gives, gives), "Sara", sees="Done.")
    kind, text = alarm
    assert kind == "goods_misplaced"
    assert text.count("test_given_behind.py:") == 2
    assert "only in the aside" in text


@pytest.mark.parametrize("gives", TWICE)
async def test_goods_behind_alone_are_told_of(autojump_clock: object, gives: Gives) -> None:
    """Also of whoever writes /cancel, before the code that gives has begun."""
    (alarm,) = await sells(shop(thanks, gives), "/cancel", sees="Cancelled.")
    kind, text = alarm
    assert kind == "goods_misplaced"
    assert "test_given_behind.py:" in text and "only in the aside" in text


@pytest.mark.parametrize("gives", TWICE)
async def test_goods_in_the_aside_alone_are_right(autojump_clock: object, gives: Gives) -> None:
    assert await sells(shop(gives, thanks), "Sara", sees="Done.") == []


async def notes(chat: Chat[Any]) -> None:
    """Do what is no gift, as one does anywhere."""
    mine = isinstance(chat.event, Paid)
    chat.data[SEEN] = chat.now().timestamp()
    chat.data[PLAN] = "gold"
    await chat.step(audit, chat.id, "paid" if mine else "done")
    await chat.step(partial(audit, chat.id, what="paid" if mine else "done"))
    chat.data[COINS] -= 0 if mine else 3


async def test_what_is_no_second_gift_stops_nothing(autojump_clock: object) -> None:
    assert await sells(shop(notes, notes), "Sara", sees="Done.") == []


async def test_a_hook_does_the_same_everywhere(autojump_clock: object) -> None:
    bot = shop(plus, thanks)

    @bot.around
    async def counted(room: Room, call: Callable[[], Awaitable[None]]) -> None:
        await room.step(credit, 1)
        await call()
        room.data[COINS] += 1
        await room.step(credit, 1)

    assert await sells(bot, "Sara", sees="Done.") == []


async def test_a_file_may_be_the_goods(autojump_clock: object) -> None:
    async def sends(chat: Chat[Any]) -> None:
        await chat.send(Image.from_bytes(b"a picture", "a.png"))

    assert await sells(shop(sends, thanks), "Sara", sees="Done.") == []


async def test_one_alarm_a_route(autojump_clock: object) -> None:
    async with drive(shop(thanks, thanks)) as world:
        for name in ("Sara", "Ali"):
            person = world.user(name, wallet=5_000)
            await person.joins()
            await person.sees_buttons("Pay")
            await person.pays()
            await person.sees("For which account?")
        await world.waits(hours=30)
        assert [alarm.kind for alarm in world.alarms] == ["goods_misplaced"]
        world.alarms.clear()
