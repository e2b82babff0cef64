"""Hooks and money: the normal end of the code that gives settles a payment, and no end of a hook does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import attrs
import pytest
import trio
from crash_scenes import Pizzeria, play

from tests.samples import sample
from tests.stores import payments_of
from triobot import Bot, Chat, Key, Paid, Room
from triobot.errors import PaymentHandedOverError
from triobot.filters import command, paid, text
from triobot.testing import DrivenWorld, drive

Call: TypeAlias = Callable[[], Awaitable[None]]

ENDED = Key("ended", int, default=0)


@attrs.frozen
class Month:
    """What is bought."""


class Shop:
    """Sells a month; its aside has a hook around it.

    Attributes:
        given: the keys that were given.
        heard: what became of the charge.
    """

    def __init__(self, hook: Callable[[Room[Any], Call], Awaitable[None]], *, fails: bool = False) -> None:
        self.bot = Bot()
        self.given: list[str] = []
        self.heard: list[str] = []
        self.fails = fails

        @self.bot.around
        async def around(room: Room[Any], call: Call) -> None:
            if isinstance(room.event, Paid):
                await hook(room, call)
            else:
                await call()

        @self.bot.aside(paid(Month))
        async def deliver(chat: Chat[Paid[Month]]) -> None:
            if self.fails and not chat.event.redelivered:
                raise ValueError
            await chat.step(self.give, chat.event.key)

        @self.bot.conversation(text("buy"))
        async def buy(chat: Chat) -> None:
            try:
                await chat.charge(1_000, "A month", item=Month())
                self.heard.append("given")
            except PaymentHandedOverError:
                self.heard.append("handed over")
            await chat.send("Bye.")

    async def give(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        self.given.append(key)

    async def sell(self) -> Sequence[str]:
        """Sell one, and wait for long; return the kinds of alarms."""
        async with drive(self.bot, replay_check=False) as world:
            ali = world.user("Ali", wallet=10_000)
            await ali.joins()
            await ali.says("buy")
            await ali.sees("A month")
            await ali.pays()
            await ali.sees("Bye.", within=3600)
            await world.waits(hours=3)
            kinds = sorted({alarm.kind for alarm in world.alarms})
            world.alarms.clear()
            rows = await payments_of(world)
            assert [row.state for row in rows] == ["settled"]
            return kinds


async def raises_after(room: Room[Any], call: Call) -> None:
    await call()
    raise LookupError


async def asks_after(room: Room[Any], call: Call) -> None:
    await call()
    with room.move_on_after(60):
        assert isinstance(room, Chat)
        await room.ask("Content?")


@pytest.mark.parametrize("hook", [raises_after, asks_after])
async def test_what_a_hook_does_behind_the_handler_unsettles_nothing(
    autojump_clock: object, hook: Callable[[Room[Any], Call], Awaitable[None]]
) -> None:
    """The code that gives has come to its end: it is not given again."""
    shop = Shop(hook)
    kinds = await shop.sell()
    assert (len(shop.given), shop.heard) == (1, ["given"])
    assert kinds == (["conversation_crashed"] if hook is raises_after else [])


async def test_what_is_ended_behind_the_handler_has_been_given(autojump_clock: object) -> None:
    """By code that stops the aside while its hook is still busy."""
    bot, given, ended = Bot(), list[str](), list[str]()

    @bot.around
    async def slow(room: Room, call: Call) -> None:
        await call()
        if isinstance(room.event, Paid):
            try:
                await room.sleep(3600)
            finally:
                ended.append("hook")

    async def give(key: str) -> None:
        await trio.lowlevel.checkpoint()
        given.append(key)

    @bot.aside(paid(Month))
    async def deliver(chat: Chat[Paid[Month]]) -> None:
        await chat.step(give, chat.event.key)
        await chat.send("Here it is.")

    @bot.aside(command("stop"))
    async def stop(chat: Chat) -> None:
        await chat.stop(deliver)

    @bot.conversation(text("buy"))
    async def buy(chat: Chat) -> None:
        await chat.charge(1_000, "A month", item=Month())
        await chat.send("Thank you.")

    async with drive(bot, replay_check=False) as world:
        ali = world.user("Ali", wallet=10_000)
        await ali.joins()
        await ali.says("buy")
        await ali.sees("A month")
        await ali.pays()
        await ali.sees("Here it is.")
        await world.waits(seconds=5)
        await ali.says("/stop")
        await ali.sees("Thank you.")
        await world.waits(hours=1)
        rows = await payments_of(world)
        assert [row.state for row in rows] == ["settled"]
    assert (len(given), ended) == (1, ["hook"])


async def test_a_hook_that_declines_has_given_nothing(autojump_clock: object) -> None:
    """It is given again under the same key, and the charge says that it was handed over."""

    async def declines(room: Room[Any], call: Call) -> None:
        if room.event.redelivered:
            await call()

    shop = Shop(declines)
    await shop.sell()
    assert (len(shop.given), shop.heard) == (1, ["handed over"])


async def test_a_hook_that_raises_before_has_given_nothing(autojump_clock: object) -> None:
    async def raises(room: Room[Any], call: Call) -> None:
        if not room.event.redelivered:
            raise LookupError
        await call()

    shop = Shop(raises)
    assert await shop.sell() == ["conversation_crashed"]
    assert (len(shop.given), shop.heard) == (1, ["handed over"])


async def test_a_hook_that_swallows_an_error_settles_nothing(autojump_clock: object) -> None:
    async def swallows(room: Room[Any], call: Call) -> None:
        try:
            await call()
        except ValueError:
            assert isinstance(room, Chat)
            await room.send("Sorry.")

    shop = Shop(swallows, fails=True)
    await shop.sell()
    assert (len(shop.given), shop.heard) == (1, ["handed over"])


async def buys(world: DrivenWorld, ali: Any) -> None:
    """Ali buys what the aside asks about."""
    await ali.says("large")
    await world.waits(seconds=60)
    await ali.pays()
    await world.waits(seconds=60)
    await ali.says("Valiasr")
    await world.waits(seconds=60)
    await ali.says("No")
    await world.waits(seconds=60)


@pytest.mark.parametrize("at", sample(range(1, 40)))
async def test_a_sale_with_hooks_outlives_a_kill_at_any_act(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Before and behind `call()` as everywhere: given once, settled, each hook's own count once."""
    pizzeria = Pizzeria()

    async def look() -> str:
        await trio.lowlevel.checkpoint()
        return "open"

    @pizzeria.bot.around
    async def counted(room: Room, call: Call) -> None:
        await room.step(look)
        await call()
        room.data[ENDED] += 1

    @pizzeria.bot.around
    async def plain(room: Room, call: Call) -> None:
        await call()
        await room.step(look)

    ended = list[int]()

    async def scene(world: DrivenWorld, ali: Any) -> None:
        await buys(world, ali)
        await world.waits(hours=3)
        ended.append(await pizzeria.bot.to(ali.chat_id).get(ENDED))

    count, states = await play(pizzeria, monkeypatch, at, scene)
    assert count >= min(at, 30)
    assert states == ["settled"]
    # The sale and the aside.
    assert ended == [2]
