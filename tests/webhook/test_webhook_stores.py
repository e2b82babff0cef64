"""The same promises over the engines that bots really have."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import trio
from webhook_rig import Clock, text_event

from triobot.seams.inbox import InboxRow, Quota
from triobot.store import Stamp, Store, open_sqlite
from triobot.store.memory import open_memory
from triobot.webhook.inbox import EventStored, Inbox
from triobot.wire.events import Event, Message, PayCallback, Press
from triobot.wire.ids import CallbackId, ChatId, MessageId, RefId
from triobot.wire.platform_side import encode_event

Opener = Callable[[Clock], AbstractAsyncContextManager[Store]]
STAMP = Stamp("https://api.example.com", "a-token")


@pytest.fixture(params=["memory", "sqlite"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    if request.param == "memory":
        return lambda clock: open_memory(clock=clock)
    return lambda clock: open_sqlite(str(tmp_path / "bot.db"), stamp=STAMP, clock=clock)


@asynccontextmanager
async def inbox_of(store: Store, clock: Clock) -> AsyncGenerator[tuple[Inbox, list[tuple[int, Event]]], None]:
    delivered: list[tuple[int, Event]] = []

    def deliver(row: InboxRow, event: Event) -> None:
        delivered.append((row.seq, event))

    inbox = Inbox(store, clock=clock, quota=Quota(events_per_chat=30), deliver=deliver)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(inbox.run)
        yield inbox, delivered
        nursery.cancel_scope.cancel()


async def test_events_and_rubbish_side_by_side(opener: Opener) -> None:
    clock = Clock()
    bodies = [text_event(str(number), chat=number % 3 + 1).data for number in range(60)]
    bodies[20] = b"\xff not an event"
    bodies[40] = b'{"chat_id": 1, "type": "text", "data": "\\ud800\\u0000"}'
    outcomes: list[object] = []
    async with opener(clock) as store, inbox_of(store, clock) as (inbox, delivered):

        async def accept(body: bytes) -> None:
            outcomes.append(await inbox.accept("", body))

        async with trio.open_nursery() as nursery:
            for body in bodies:
                nursery.start_soon(accept, body)

        seqs = [seq for seq, _ in delivered]
        assert seqs == sorted(seqs)
        assert len(delivered) == sum(isinstance(outcome, EventStored) for outcome in outcomes) >= 58
        assert {row.body for row in await store.backlog(after=0, limit=100)} <= set(bodies)
        assert bodies[20] in [kept.body for kept in await store.raw(limit=10)]
        assert sum(outcome == "unread" for outcome in outcomes) == 60 - len(delivered)


async def test_what_counts_once_and_what_counts_again(opener: Opener) -> None:
    clock = Clock()
    word = encode_event(Message(ChatId(1), "yes"))
    press = encode_event(Press(ChatId(1), "yes", MessageId(2), CallbackId("abc")))
    hint = encode_event(PayCallback(ChatId(1), RefId("1234567890123456")))
    async with opener(clock) as store, inbox_of(store, clock) as (inbox, delivered):
        for _ in range(2):
            for body in (word, press, hint):
                await inbox.accept(body.content_type, body.data)
        assert len(delivered) == 4

        taken = await inbox.accept(word.content_type, word.data)
        assert isinstance(taken, EventStored)
        inbox.answered(taken)
        await inbox.accept(word.content_type, word.data)

        assert len(delivered) == 5


async def test_answered_is_remembered_over_a_clean_restart(tmp_path: Path) -> None:
    clock = Clock()
    word = text_event("yes")
    for _ in range(2):
        async with open_sqlite(str(tmp_path / "bot.db"), stamp=STAMP, clock=clock) as store:
            async with inbox_of(store, clock) as (inbox, delivered):
                taken = await inbox.accept(word.content_type, word.data)
                assert isinstance(taken, EventStored)
                assert not taken.repeated
                inbox.answered(taken)
            assert len(delivered) == 1
        clock.at += 5_000


async def test_a_chat_over_its_quota_is_alone(opener: Opener) -> None:
    clock = Clock()
    async with opener(clock) as store, inbox_of(store, clock) as (inbox, _):
        outcomes = [await inbox.accept("", text_event(str(number)).data) for number in range(31)]

        assert outcomes[-1] == "no room"
        assert isinstance(await inbox.accept("", text_event("x", chat=8).data), EventStored)
