"""How often a batch goes to the server and back, counted on the wire, however much is in it.

Once where nothing has to be read: all statements, with the COMMIT behind them. What is read costs a trip
each: a payment that moves, and some for an event of the bot's own; the platform's events come another way.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.postgres import Server
from tests.store.contract import SettableClock
from tests.store.contract.contract import NOON, ROOMY, accepted, arrival, gathering
from tests.store.contract.money import ROW, put, raised
from tests.wire_proxy import Proxy, proxying
from triobot.seams.inbox import Acceptance, InboxRow, OverQuota, Quota, Redelivered, RedeliveredError
from triobot.seams.journals import (
    AppendRecords,
    BeginConversation,
    ConversationId,
    EndConversation,
    PutStanding,
)
from triobot.seams.writes import Accept, Consume, PutData
from triobot.store import Stamp, Store, open_store
from triobot.wire.ids import ChatId, SenderId

WITHOUT = 1
EVENT = 5
"""Its key, the chat's senders and conversations, its number, and the COMMIT."""
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
        if busy:
            begun = [
                BeginConversation(ConversationId(5000 + chat), ChatId(chat), "pizza", "v", NOON)
                for chat in range(1, MANY, 2)
            ]
            await store.commit(*begun, PutData(ChatId(2), "k", "v"))
        before = proxy.trips
        await accepted(store, arrival(500, key="k500", sender_id=SenderId(500)))
        assert proxy.trips - before <= EVENT
        rows = await come(store, range(1, MANY))
    by_chat = {row.chat_id: row for row in rows}
    assert [row.occupied for row in by_chat.values()] == [busy and chat % 2 == 1 for chat in by_chat]
    assert by_chat[ChatId(2)].begun == ("1" if busy else "0")


async def test_turns_payments_and_data(postgres: Server) -> None:
    """What turns of many conversations write goes in one trip, and so does what one writes."""
    async with opened(postgres) as (store, proxy):
        rows = await come(store, range(1, MANY))
        begun = [BeginConversation(ConversationId(row.seq), row.chat_id, "pizza", "v", NOON) for row in rows]
        before = proxy.trips
        await store.commit(*begun, put(ROW), PutData(ChatId(1), "k", "v"))
        assert proxy.trips - before == WITHOUT

        async def turn(row: InboxRow) -> None:
            number = ConversationId(row.seq)
            await store.commit(
                AppendRecords(number, 0, ("x", "y")),
                PutStanding(number, NOON, True, NOON),
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


async def test_ends_redeliveries_and_what_is_over_quota(postgres: Server) -> None:
    """An end tells whether it was one, without a trip; and events that come together are told apart."""
    async with opened(postgres) as (store, proxy):
        rows = await come(store, range(1, MANY))
        numbers = [ConversationId(row.seq) for row in rows]
        await store.commit(
            *(BeginConversation(ConversationId(row.seq), row.chat_id, "p", "v", NOON) for row in rows),
            *(AppendRecords(number, 0, ("x",)) for number in numbers),
        )
        before = proxy.trips
        await store.commit(*(EndConversation(number, NOON) for number in numbers))
        assert proxy.trips - before == WITHOUT
        assert store.statistics().conversations == 0

        answers: dict[int, Acceptance] = {}

        async def one(chat: int, key: int) -> None:
            quota = Quota(events_per_chat=1) if chat == 7 else ROOMY
            answers[key] = await store.accept(
                arrival(chat, key=f"k{key}", sender_id=SenderId(900 + key)), quota=quota
            )

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, 300, 300)  # alone, so that the others come together
            for chat, key in ((1, 1), (1, 301), (7, 302), (302, 303), (302, 304)):
                nursery.start_soon(one, chat, key)
    assert isinstance(answers[1], Redelivered)
    assert isinstance(answers[302], OverQuota)
    groups = {key: row.group for key, row in answers.items() if isinstance(row, InboxRow)}
    assert groups[301]
    # Of the two that came at once into a new chat, the later one has another sender.
    assert sorted([groups[303], groups[304]]) == [False, True]


async def test_payments_that_move_with_events_and_without(postgres: Server) -> None:
    async with opened(postgres) as (store, proxy):
        await store.commit(put())
        told: list[int] = []
        before = proxy.trips
        await store.commit(raised(told, 1), PutData(ChatId(1), "k", "v"), raised(told, 2))
        assert proxy.trips - before == 2 + WITHOUT
        before = proxy.trips
        await accepted(store, arrival(5, key="paid", sender_id=SenderId(5)), also=[raised(told, 3)])
        assert proxy.trips - before <= 1 + EVENT
        row = await store.payments.get(ROW.id)
        assert row is not None
        assert (row.amount, row.revision, told) == (ROW.amount + 3, 4, [1, 2, 3])


async def test_an_event_that_a_conversation_takes(postgres: Server) -> None:
    """Whether it is new is found out by the writing itself."""
    async with opened(postgres) as (store, proxy):
        (row,) = await come(store, range(1, 2))
        number = ConversationId(row.seq)
        await store.commit(BeginConversation(number, row.chat_id, "pizza", "v", NOON))
        taken = Accept(arrival(1, key="said", once=True, sender_id=SenderId(1)))
        before = proxy.trips
        await store.commit(taken, AppendRecords(number, 0, ("x",)))
        assert proxy.trips - before <= EVENT
        with pytest.raises(RedeliveredError):
            await store.commit(taken, AppendRecords(number, 1, ("y",)))
        journal = await store.journal(number)
    assert journal is not None
    assert journal.records == ("x",)


async def test_an_answer_is_known_to_what_comes_behind_it_in_the_same_batch(postgres: Server) -> None:
    """And not to a repetition that came before it."""
    url, told = postgres.url(), dict[str, Acceptance]()
    async with open_store(url, stamp=Stamp("https://platform.test", "t"), clock=SettableClock()) as store:
        await accepted(store, arrival(1, key="word"))

        async def come(name: str, key: str) -> None:
            told[name] = await store.accept(arrival(1, key=key), quota=ROOMY)

        async with gathering(store) as nursery:
            for name, key in (("first", "other"), ("repetition", "word"), ("said again", "word")):
                nursery.start_soon(come, name, key)
                await wait_all_tasks_blocked()
                if name == "repetition":
                    store.note_answered("word")
    assert told["repetition"] == Redelivered()
    assert {type(told[name]) for name in ("first", "said again")} == {InboxRow}
