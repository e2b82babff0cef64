"""All that code can do first in a block that has ended: the same live, in a replay and after an eviction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

import pytest

from tests.everything import OPERATIONS, Act, Routes, Things, missing
from triobot import Bot, Chat
from triobot.filters import command, text
from triobot.testing import DrivenWorld, drive
from triobot.wire.ids import ChatId

First: TypeAlias = Callable[[], Awaitable[None]]


async def by_its_deadline(chat: Chat[Any], first: First) -> None:
    with chat.move_on_after(2):
        try:
            await chat.sleep(60)
        finally:
            await first()


async def by_a_deadline_behind_a_shield(chat: Chat[Any], first: First) -> None:
    with chat.move_on_after(1):
        with chat.shield():
            await chat.sleep(2)
        await first()


async def by_a_deadline_that_is_over(chat: Chat[Any], first: First) -> None:
    with chat.move_on_after(0):
        await first()


async def by_an_event(chat: Chat[Any], first: First) -> None:
    with chat.move_on_when(text("stop")):
        try:
            await chat.receive(text("never"))
        finally:
            await first()


async def by_an_event_behind_a_shield(chat: Chat[Any], first: First) -> None:
    with chat.move_on_when(text("stop")):
        with chat.shield():
            await chat.receive(text("word"))
        await first()


async def by_its_cancel(chat: Chat[Any], first: First) -> None:
    with chat.cancel_scope() as scope:
        scope.cancel()
        await first()


async def by_a_nursery(chat: Chat[Any], first: First) -> None:
    async with chat.open_nursery() as nursery:
        nursery.cancel()
        await first()


async def by_a_nursery_in_a_child(chat: Chat[Any], first: First) -> None:
    async def child() -> None:
        try:
            await chat.sleep(60)
        finally:
            await first()

    async with chat.open_nursery() as nursery:
        nursery.start_soon(child)
        await chat.sleep(1)
        nursery.cancel()


async def by_an_outer_block(chat: Chat[Any], first: First) -> None:
    with chat.cancel_scope() as outer, chat.move_on_after(100):
        outer.cancel()
        await first()


WAYS: Final = (
    *(by_its_deadline, by_a_deadline_behind_a_shield, by_a_deadline_that_is_over, by_an_event),
    *(by_an_event_behind_a_shield, by_its_cancel, by_a_nursery, by_a_nursery_in_a_child, by_an_outer_block),
)
Way: TypeAlias = Callable[[Chat[Any], First], Awaitable[None]]
Trace: TypeAlias = list[tuple[str, str]]


async def do(name: str, act: Act, things: Things, trace: Trace) -> None:
    try:
        await act(things)
    except BaseException as error:
        trace.append((name, type(error).__name__))
        raise
    trace.append((name, "went on"))


async def one_by_one(way: Way, things: Things, trace: Trace) -> None:
    """Do everything, each first in a block of its own."""
    for name, act in OPERATIONS.items():
        try:
            await way(things.chat, partial(do, name, act, things, trace))
        except Exception as error:
            trace.append((name, f"out of the block: {type(error).__name__}"))
        await things.chat.send(f"{len(trace)}")
    await things.chat.ask("Your name?")
    await things.chat.send("Thanks.")


async def in_the_end(things: Things, trace: Trace) -> None:
    """Do everything in a run that ends, as heedless code does; it still asks, behind a shield."""
    chat = things.chat
    try:
        await chat.receive(text("never"))
    finally:
        for name, act in OPERATIONS.items():
            with suppress(BaseException):
                await do(name, act, things, trace)
        with chat.shield():
            await chat.ask("Your name?")
            await chat.send("Thanks.")


def bot_of(work: Callable[[Things, Trace], Awaitable[None]], traces: list[Trace]) -> tuple[Bot, Any]:
    """Make a bot, and return its conversation, too; that notes what came of everything, run by run."""
    bot = Bot()
    routes = Routes(bot)

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.ask("Cancelled. Why?")

    @bot.conversation(text("go"))
    async def main(chat: Chat) -> None:
        traces.append([])
        sent = await chat.send("A message.")
        async with chat.live("0 %") as over:
            pass
        async with chat.live("0 %") as live:
            await work(Things(chat, sent, live, over, routes), traces[-1])

    return bot, main


async def evicts(bot: Bot, chat_id: int) -> None:
    assert bot._work is not None
    dispatcher = bot._work.dispatcher
    life = dispatcher.chats.actors.get(ChatId(chat_id))
    assert life is not None and life.can_evict
    dispatcher.chats.evict(life)


async def dies(world: DrivenWorld, bot: Bot, chat_id: int, how: str) -> None:
    if how == "crash":
        await world.crashes()
    elif how == "restart":
        await world.restarts()
    elif how == "evict":
        await evicts(bot, chat_id)


HOW: Final = ("crash", "restart", "evict", "check")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_it_is_the_same_in_a_block_that_has_ended(way: Way, how: str, autojump_clock: object) -> None:
    traces = list[Trace]()
    bot, _ = bot_of(partial(one_by_one, way), traces)
    async with drive(bot, replay_check=how == "check") as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("go")
        for _ in OPERATIONS if way in (by_an_event, by_an_event_behind_a_shield) else ():
            await world.waits(seconds=0.5)
            await sara.says("stop")
            if way is by_an_event_behind_a_shield:
                await world.waits(seconds=0.5)
                await sara.says("word")
        await sara.sees("Your name?", within=1_000)
        await world.waits(seconds=3)
        await dies(world, bot, sara.chat_id, how)
        await sara.says("Sara")
        await sara.sees("Thanks.")
        assert_same(traces, how)


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (end, how)
        for end in ("interrupted", "stopped")
        for how in HOW
        if (end, how) != ("interrupted", "evict")  # a chat leaves no memory while a conversation waits in it
    ],
)
async def test_it_is_the_same_in_the_cleanup_of_a_run_that_ends(
    end: str, how: str, autojump_clock: object
) -> None:
    traces = list[Trace]()
    bot, main = bot_of(in_the_end, traces)
    async with drive(bot, replay_check=how == "check") as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("go")
        await world.waits(seconds=3)
        if end == "interrupted":
            await sara.says("/cancel")
        else:
            await bot.to(sara.chat_id).stop(main)
        await sara.sees("Your name?")
        await world.waits(seconds=3)
        await dies(world, bot, sara.chat_id, how)
        await sara.says("Sara")
        await sara.sees("Thanks.")
        if end == "interrupted":
            await sara.sees("Cancelled. Why?")
        assert_same(traces, how)


def assert_same(traces: list[Trace], how: str) -> None:
    live = traces[0]
    assert {name for name, _ in live} == set(OPERATIONS)
    if how != "check":  # the replay-check has looked by itself
        assert traces[1:] == [live]


def test_everything_is_tried() -> None:
    assert missing(OPERATIONS) == set()
