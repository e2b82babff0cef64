"""What a store does with conversations besides: leases, runs, what goes for good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from ...errors import JournalConflictError, LeaseLostError, LocalProtocolError
from ...journals import (
    LARGEST_RECORD,
    AppendRecords,
    ConversationId,
    EndConversation,
    JournalWrite,
    KeepIntent,
    KeepResult,
    Lease,
    ParkConversation,
)
from ...seams import (
    Accepted,
    ChatAtArrival,
    Consume,
    InboxRow,
    KeepRaw,
    PutData,
    PutSetting,
    Quota,
    Redelivered,
    Store,
    Write,
)
from ...wire.ids import ChatId
from .contract import ALI, DAY, MINUTE, NOON, ROOMY, SARA, Contract, SettableClock, accepted, arrival
from .journals import append, begin, late_writes, lease_of, records_of, row_of, standing


class LeaseContract(Contract):
    """Leases, and what is deleted for good."""

    # --- taken where it is accepted

    async def test_an_event_can_be_taken_in_the_transaction_that_accepts_it(self, store: Store) -> None:
        await store.commit(begin(store, 5, 7), standing(store, 5))
        announced: list[InboxRow] = []

        def taking(row: InboxRow) -> list[Any]:
            return [
                append(store, 5, 0, f'{{"event":{row.seq}}}'),
                standing(store, 5, unfinished=True),
                Consume((row.seq,)),
            ]

        row = await accepted(store, arrival(7), taking=taking, on_commit=announced.append)

        assert announced == [row]
        assert await records_of(store, 5) == (0, (f'{{"event":{row.seq}}}',))
        assert list(await store.pending(ChatId(7), after=0, limit=9)) == []
        assert (store.statistics().inbox, store.statistics().inbox_bytes) == (0, 0)
        assert (await row_of(store, 5)).unfinished

    async def test_what_begins_with_an_event_is_told_what_is_there(self, store: Store) -> None:
        """Show `beginning` the chat as it is before the event; keep its text in the row."""
        seen: list[ChatAtArrival] = []
        inside: list[object] = []

        def beginning(chat: ChatAtArrival) -> str:
            seen.append(chat)
            positions = [chat.position(ConversationId(number)) for number in (5, 6)]
            inside.append((dict(chat.data()), *positions))
            return "words"

        def none(chat: ChatAtArrival) -> None:
            seen.append(chat)

        first = await accepted(store, arrival(7, sender_id=ALI), beginning=beginning)
        await store.commit(begin(store, 5, 7), append(store, 5, 0, "0", "1"), PutData(ChatId(7), "a", "b"))
        await store.commit(begin(store, 6, 8), EndConversation(lease_of(store), ConversationId(6), NOON))
        second = await accepted(store, arrival(7, sender_id=SARA), beginning=beginning)
        await store.commit(Consume((first.seq, second.seq)))
        third = await accepted(store, arrival(7), beginning=none)

        assert [chat.at_rest for chat in seen] == [True, False, False]
        assert [(chat.waiting, chat.parked, chat.group) for chat in seen] == [
            (0, False, False),
            (1, True, True),
            (0, True, True),
        ]
        assert inside == [({}, None, None), ({"a": "b"}, 2, None)]
        assert (first.begun, second.begun, third.begun) == ("words", "words", None)
        assert [row.begun for row in await store.backlog(after=0, limit=9)] == [None]

    async def test_nothing_begins_with_an_event_that_is_not_stored(self, store: Store) -> None:
        asked: list[ChatAtArrival] = []

        def words(chat: ChatAtArrival) -> str:
            asked.append(chat)
            return "words" if chat.at_rest and len(asked) == 1 else "x" * (LARGEST_RECORD + 1)

        await accepted(store, arrival(7, key="press-1", once=True), beginning=words)

        for other, quota in ((arrival(7, key="press-1", once=True), ROOMY), (arrival(7), Quota(1))):
            refused = await store.accept(other, quota=quota, beginning=words)
            assert not isinstance(refused, Accepted)
        assert len(asked) == 1
        with pytest.raises(LocalProtocolError, match="begun"):
            await store.accept(arrival(8), quota=ROOMY, beginning=words)

        (row,) = await store.backlog(after=0, limit=9)
        assert (row.chat_id, row.begun) == (7, "words")

    async def test_an_event_can_begin_a_conversation_where_it_is_accepted(self, store: Store) -> None:
        def taking(row: InboxRow) -> list[Write]:
            return [begin(store, row.seq, 7), append(store, row.seq, 0, "0")]

        row = await accepted(store, arrival(7), taking=taking)
        assert not row.parked
        assert [one.id for one in await store.conversations(ChatId(7))] == [row.seq]
        assert (await accepted(store, arrival(7))).parked

    async def test_an_event_that_cannot_be_taken_is_not_accepted_either(self, store: Store) -> None:
        await store.commit(begin(store, 5, 7))
        announced: list[InboxRow] = []
        for error, write in (
            (JournalConflictError, append(store, 5, 1, "x")),
            (LocalProtocolError, append(store, 5, 0, "\ud800")),
        ):
            with pytest.raises(error):
                await store.accept(
                    arrival(7, key="k", sender_id=ALI),
                    quota=ROOMY,
                    also=[PutSetting("trace", "of it"), standing(store, 5)],
                    taking=lambda row, write=write: [PutData(ChatId(7), "a", "b"), write],  # type: ignore[misc]
                    on_commit=announced.append,
                )
        assert announced == []
        assert store.statistics().inbox == 0
        assert await store.setting("trace") is None
        assert await store.data(ChatId(7)) == {}
        assert (await row_of(store, 5)).unfinished
        assert isinstance(await store.accept(arrival(7, key="k"), quota=ROOMY), Accepted)

    # --- leases, and runs of the program

    async def test_a_write_under_another_lease_is_refused(self, store: Store) -> None:
        lease = lease_of(store)
        await store.commit(begin(store, 5))
        for stale in (Lease(lease.shard, lease.fence - 1), Lease(lease.shard + 1, lease.fence)):
            for write in (*late_writes(store), KeepResult(lease, ConversationId(5), 1, "a", NOON, "b")):
                with pytest.raises(LeaseLostError):
                    await store.commit(PutSetting("trace", "of it"), attrs.evolve(write, lease=stale))
        assert await store.setting("trace") is None

    async def test_each_run_has_a_lease_of_its_own(self, clock: SettableClock, tmp_path: Path) -> None:
        async with self.opened(clock, tmp_path) as store:
            before, first = store.opening(), lease_of(store)
            await store.commit(begin(store, 5))
        clock.time += MINUTE
        async with self.opened(clock, tmp_path) as store:
            now = store.opening()
            assert (before.boot, before.at, before.unclean, before.previous_at) == (1, NOON, 0, None)
            assert (now.boot, now.at, now.unclean, now.previous_at) == (2, NOON + MINUTE, 0, NOON)
            (row,) = await store.conversations(ChatId(1))
            assert row.lease == lease_of(store) != first
            with pytest.raises(LeaseLostError):
                await store.commit(AppendRecords(first, ConversationId(5), 0, ("x",)))
            await store.commit(AppendRecords(row.lease, ConversationId(5), 0, ("x",)))

    async def test_conversations_survive_a_restart(self, clock: SettableClock, tmp_path: Path) -> None:
        id_ = ConversationId(5)
        async with self.opened(clock, tmp_path) as store:
            await store.commit(begin(store, 5), append(store, 5, 0, "0"), begin(store, 6))
            await store.commit(KeepIntent(lease_of(store), id_, 1, "a", NOON, "b"))
            await store.commit(ParkConversation(lease_of(store), ConversationId(6), NOON, "differs"))
            before = await store.journal(id_)
            assert before is not None
        async with self.opened(clock, tmp_path) as store:
            after = await store.journal(id_)
            assert after is not None
            assert attrs.evolve(after, row=attrs.evolve(after.row, lease=before.row.lease)) == before
            assert (store.statistics().conversations, store.statistics().parked) == (2, 1)
            assert (await accepted(store, arrival(1))).parked

    async def test_what_is_left_over_goes_after_a_week(self, store: Store, clock: SettableClock) -> None:
        """Delete crashed conversations and unreadable requests after a week, and never what lives."""
        lease = lease_of(store)
        for id_, day in ((5, 0), (6, 5)):
            at = NOON + day * DAY
            await store.commit(
                begin(store, id_),
                append(store, id_, 0, "x"),
                EndConversation(lease, ConversationId(id_), at, "E-1"),
                KeepRaw(at, "why", "text/plain", b"%d" % id_),
            )
        await store.commit(begin(store, 7), append(store, 7, 0, "x"))
        for days, left in ((6, [5, 6, 7]), (8, [6, 7]), (11, [6, 7]), (30, [7])):
            clock.time = NOON + days * DAY
            await store.check()  # what is old goes with a write, once a minute
            await store.commit(PutSetting("a", "b"))
            rows = await store.all_conversations(after=0, limit=9)
            assert [row.id for row in rows] == left
            assert [int(raw.body) for raw in await store.raw(limit=9)] == [n for n in (6, 5) if n in left]
            assert store.statistics().raw == len(left) - 1
        assert await records_of(store, 7) == (0, ("x",))

    # --- forgetting

    async def test_a_forgotten_chat_leaves_nothing(self, store: Store) -> None:
        lease = lease_of(store)
        for chat in (7, 8):
            await accepted(store, arrival(chat, sender_id=ALI))
            await store.commit(
                begin(store, 10 + chat, chat),
                append(store, 10 + chat, 0, "0", "1"),
                append(store, 10 + chat, 2, "2"),
                begin(store, 20 + chat, chat),
                EndConversation(lease, ConversationId(20 + chat), NOON, "E-1"),
                begin(store, 30 + chat, chat),
                ParkConversation(lease, ConversationId(30 + chat), NOON, "differs"),
                KeepResult(lease, ConversationId(10 + chat), 1, "a", NOON, "b"),
                PutData(ChatId(chat), "name", '"x"'),
                KeepRaw(NOON, "why", "text/plain", b"chat_id=%d&" % chat),
            )

        told = await store.forget(ChatId(7))

        assert (told.events, told.conversations, told.records, told.values) == (1, 3, 3, 1)
        assert list(await store.conversations(ChatId(7))) == []
        assert [await store.journal(ConversationId(n)) for n in (17, 27, 37)] == [None] * 3
        assert await store.data(ChatId(7)) == {}
        assert list(await store.pending(ChatId(7), after=0, limit=9)) == []
        assert [raw.body for raw in await store.raw(limit=9)] == [b"chat_id=8&"]
        # The neighbour is untouched, and so are the counts.
        assert [row.id for row in await store.conversations(ChatId(8))] == [18, 38]
        assert await records_of(store, 18) == (0, ("0", "1", "2"))
        assert len(await store.pending(ChatId(8), after=0, limit=9)) == 1
        found = store.statistics()
        assert (found.inbox, found.conversations, found.parked, found.raw) == (1, 2, 1, 1)
        # A person who writes in it now counts as its first sender.
        assert not (await accepted(store, arrival(7, sender_id=ALI))).group
        with pytest.raises(JournalConflictError):
            await store.commit(append(store, 17, 3, "late"))
        assert (await store.forget(ChatId(9))).conversations == 0

    async def test_a_forgotten_chat_leaves_no_digest(self, store: Store) -> None:
        theirs = [
            "event:7:0af3",
            "press:7:N7Yc",
            "bytes:7:9b",
            "signal:8:7/17/3.1/c0de",
            "call:8:shop:7/17/4/f",
        ]
        others = ["event:8:0af3", "press:77:N7Yc", "event:-7:9b", "signal:8:order 7/17", "press:8::7:"]
        for key in theirs + others:
            await accepted(store, arrival(8, key=key, once=True))

        told = await store.forget(ChatId(7))

        assert told.others == len(theirs)
        for key in theirs:
            await accepted(store, arrival(8, key=key, once=True))
        for key in others:
            assert await store.accept(arrival(8, key=key, once=True), quota=ROOMY) == Redelivered()

    # --- what can't be stored

    async def test_a_journal_write_that_cannot_be_stored_is_refused(self, store: Store) -> None:
        lease, id_ = lease_of(store), ConversationId(5)
        await store.commit(begin(store, 5))
        bad: list[JournalWrite] = [
            begin(store, 0),
            begin(store, 2**63),
            begin(store, 6, 10**18),
            begin(store, 6, route=""),
            begin(store, 6, route="a\0b"),
            begin(store, 6, kind="chore"),
            begin(store, 6, at=-1),
            begin(store, 6, wake_at=2**53),
            begin(store, 6, sender_id=True),
            begin(store, 6, lease=Lease(-1, 0)),
            append(store, 5, 0),
            append(store, 5, -1, "x"),
            append(store, 5, 0, "two\nlines"),
            append(store, 5, 0, "\ud800"),
            append(store, 5, 0, ""),
            standing(store, 5, wake_at=-1),
            KeepIntent(lease, id_, 0, "a", NOON, "b"),
            KeepResult(lease, id_, 1, "", NOON, "b"),
            KeepResult(lease, id_, 1, "a", NOON, "\0"),
            ParkConversation(lease, id_, NOON, ""),
            EndConversation(lease, id_, NOON, ""),
        ]
        for write in bad:
            with pytest.raises(LocalProtocolError):
                await store.commit(write)
        for ask in (
            store.journal(ConversationId(-1)),
            store.due(-1, limit=1),
            store.unfinished(after=-1, limit=1),
            store.conversations(ChatId(10**18)),
        ):
            with pytest.raises(LocalProtocolError):
                await ask
        assert await records_of(store, 5) == (0, ())
