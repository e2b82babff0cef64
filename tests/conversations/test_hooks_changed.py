"""Hooks that come, go and move while people wait: without operations they park nobody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import TEXTS, Town, start
from trio.testing import MockClock

from triobot.conversations.chat import Chat, Room
from triobot.conversations.routes.filters import text
from triobot.conversations.routes.router import Router
from triobot.wire.operations import SendMessage

Call: TypeAlias = Callable[[], Awaitable[None]]
Around: TypeAlias = Callable[[Room, Call], Awaitable[None]]


async def plain(room: Room, call: Call) -> None:
    await call()


async def timed(room: Room, call: Call) -> None:
    room.now()
    try:
        await call()
    finally:
        room.now()


async def limited(room: Room, call: Call) -> None:
    with room.move_on_after(7 * 24 * 3600):
        await call()


async def flag() -> str:
    await trio.lowlevel.checkpoint()
    return "new"


async def guarded(room: Room, call: Call) -> None:
    if room.patched("flags"):
        await room.step(flag)
    await call()


async def stepping(room: Room, call: Call) -> None:
    await room.step(flag)
    await call()


def shop(hooks: Sequence[Around]) -> Router:
    """Asks three questions, one in a block, one beside a child; of the hooks one is the bot's."""
    bot, inner = Router(), Router()

    @inner.conversation(text())
    async def order(chat: Chat) -> None:
        number = chat.uuid()
        await chat.ask(f"{number}?")
        with chat.move_on_after(3 * 24 * 3600):
            await chat.ask("Street?")
        async with chat.open_nursery() as nursery:
            nursery.start_soon(chat.sleep, 24 * 3600)
            await chat.ask("Floor?")
            nursery.cancel()
        await chat.send(f"{number}!")

    for hook in hooks[1:]:
        inner.around(hook)
    bot.include(inner)
    for hook in hooks[:1]:
        bot.around(hook)
    return bot


async def lived(generations: Sequence[Sequence[Around]], many: int) -> Town:
    """Have so many people say one thing under the hooks of each generation, but for those that wait on."""
    outbox, store = FakeOutbox(), FakeStore()
    async with trio.open_nursery() as nursery:
        for number, hooks in enumerate(generations):
            town = Town(shop(hooks), outbox, store, TEXTS, username="pizzabot")
            run = await start(nursery, town)
            await town.rest()
            for chat in range(many):
                if number == 0 or (chat + number) % 3:
                    await town.says("words", chat + 1, wait=False)
            await town.rest()
            await run.cut()
        nursery.cancel_scope.cancel()
    return town


@pytest.mark.slow
async def test_nobody_is_parked_when_hooks_come_go_and_move(autojump_clock: MockClock, long: bool) -> None:
    """Many people, at each place of the talk; each hears what there was to be said, once."""
    people = 1_000 if long else 120
    town = await lived(
        ([], [plain, timed, limited], [limited, plain], [guarded, plain, timed], [plain, guarded]),
        people,
    )
    assert not town.alarms
    talks = dict[int, list[str]]()
    for op in town.outbox.left:
        if isinstance(op, SendMessage):
            talks.setdefault(op.chat_id, []).append(str(op.content))
    assert len(talks) == people
    for said in talks.values():
        number = said[0].rstrip("?")
        assert said == [f"{number}?", "Street?", "Floor?", f"{number}!"][: len(said)]
    assert {len(said) for said in talks.values()} == {3, 4}


@pytest.mark.parametrize(
    ("before", "after", "parked"),
    [
        ([plain], [plain, stepping], True),
        ([stepping], [plain], True),
        ([plain], [guarded], False),
        ([stepping], [plain, stepping], False),
        ([stepping, guarded], [guarded, stepping], True),
    ],
)
async def test_a_hook_with_operations_changes_as_any_code_does(
    before: Sequence[Around], after: Sequence[Around], parked: bool, autojump_clock: MockClock
) -> None:
    """Those that have begun with it, or without, wait for code that fits; unless it asks `patched`."""
    town = await lived((before, before, after), 2)
    assert {alarm.kind for alarm in town.alarms} == ({"conversation_parked"} if parked else set())
