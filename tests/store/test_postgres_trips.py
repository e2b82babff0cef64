"""How often a batch goes to the server and back, counted on the wire, however much is in it.

Two times, where no event comes in: all statements, then COMMIT, once they are known to have done what they
should. Three times with events: before them all that is known of their chats is read at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from tests.postgres import Server
from tests.store.contract import SettableClock
from tests.store.contract.contract import NOON, accepted, arrival
from tests.store.contract.money import ROW, put
from tests.wire_proxy import Proxy, proxying
from triobot.journals import AppendRecords, BeginConversation, ConversationId, PutStanding
from triobot.seams import Consume, InboxRow, PutData, Store
from triobot.store import Stamp, open_store
from triobot.wire.ids import ChatId, SenderId

WITH_EVENTS, WITHOUT = 3, 2
MANY = 60


@asynccontextmanager
async def opened(server: Server) -> AsyncGenerator[tuple[Store, Proxy]]:
    """A store that has taken an event in, so that nothing is asked for the first time."""
    with proxying(server.port) as proxy:
        url = server.url(port=proxy.port)
        async with open_store(url, stamp=Stamp("https://platform.test", "t"), clock=SettableClock()) as store:
            await accepted(store, arrival(999))
            yield store, proxy


async def come(store: Store, chats: range) -> list[InboxRow]:
    """Take an event of each chat in, all at once: one batch, or one and a lone one before it."""
    rows: list[InboxRow] = []

    async def one(chat: int) -> None:
        an_arrival = arrival(chat, key=f"k{chat}", sender_id=SenderId(chat))
        rows.append(await accepted(store, an_arrival, beginning=lambda data: str(len(data()))))

    async with trio.open_nursery() as nursery:
        for chat in chats:
            nursery.start_soon(one, chat)
    return rows


@pytest.mark.parametrize("busy", [False, True])
async def test_events_that_come_in(postgres: Server, busy: bool) -> None:
    """Alone or together, in chats that are new or in the midst of conversations."""
    async with opened(postgres) as (store, proxy):
        lease = store.lease(ChatId(1))
        assert lease is not None
        if busy:
            begun = [
                BeginConversation(lease, ConversationId(5000 + chat), ChatId(chat), "pizza", "v", NOON)
                for chat in range(1, MANY, 2)
            ]
            await store.commit(*begun, PutData(ChatId(2), "k", "v"))
        before = proxy.trips
        (alone,) = await come(store, range(500, 501))
        assert proxy.trips - before == WITH_EVENTS
        before = proxy.trips
        rows = await come(store, range(1, MANY))
        # The first of them may have begun a batch before the others were there.
        assert proxy.trips - before in (WITH_EVENTS, 2 * WITH_EVENTS)
    assert alone.begun == "0"
    by_chat = {row.chat_id: row for row in rows}
    assert [row.parked for row in by_chat.values()] == [busy and chat % 2 == 1 for chat in by_chat]
    assert by_chat[ChatId(2)].begun == ("1" if busy else "0")


async def test_turns_payments_and_data(postgres: Server) -> None:
    """What turns of many conversations write goes in two trips, and so does what one writes."""
    async with opened(postgres) as (store, proxy):
        lease = store.lease(ChatId(1))
        assert lease is not None
        rows = await come(store, range(1, MANY))
        begun = [
            BeginConversation(lease, ConversationId(row.seq), row.chat_id, "pizza", "v", NOON) for row in rows
        ]
        before = proxy.trips
        await store.commit(*begun, put(ROW), PutData(ChatId(1), "k", "v"))
        assert proxy.trips - before == WITHOUT

        async def turn(row: InboxRow) -> None:
            number = ConversationId(row.seq)
            await store.commit(
                AppendRecords(lease, number, 0, ("x", "y")),
                PutStanding(lease, number, NOON, True, NOON),
                Consume((row.seq,)),
            )

        before = proxy.trips
        async with trio.open_nursery() as nursery:
            for row in rows:
                nursery.start_soon(turn, row)
        assert proxy.trips - before in (WITHOUT, 2 * WITHOUT)
        assert store.statistics().inbox == 1
        before = proxy.trips
        await store.data(ChatId(1))
        assert proxy.trips - before == 1
