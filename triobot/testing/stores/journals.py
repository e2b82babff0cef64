"""What a store does with conversations: rows, journals, standings, effects, ends."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio

from ...errors import JournalConflictError
from ...journals import (
    AppendRecords,
    BeginConversation,
    ContinueConversation,
    ConversationId,
    ConversationRow,
    DropEffects,
    Effect,
    EndConversation,
    JournalWrite,
    KeepIntent,
    KeepResult,
    Lease,
    ParkConversation,
    PutStanding,
    TakeInHand,
    WakeEarlier,
)
from ...seams import PutSetting, Store
from ...wire.ids import ChatId
from .contract import ALI, MINUTE, NOON, SECOND, Contract, accepted, arrival


def lease_of(store: Store, chat: int = 1) -> Lease:
    """Return the store's lease of a chat."""
    lease = store.lease(ChatId(chat))
    assert lease is not None
    return lease


def begin(store: Store, id_: int, chat: int = 1, **rest: Any) -> BeginConversation:
    """Make the write that begins a conversation."""
    write = BeginConversation(
        lease_of(store, chat), ConversationId(id_), ChatId(chat), route="pizza", version="v1", at=NOON
    )
    return attrs.evolve(write, **rest)


def append(store: Store, id_: int, position: int, *records: str) -> AppendRecords:
    return AppendRecords(lease_of(store), ConversationId(id_), position, records)


def standing(
    store: Store, id_: int, *, unfinished: bool = False, wake_at: int | None = None, at: int = NOON
) -> PutStanding:
    return PutStanding(lease_of(store), ConversationId(id_), at, unfinished, wake_at)


async def row_of(store: Store, id_: int) -> ConversationRow:
    journal = await store.journal(ConversationId(id_))
    assert journal is not None
    return journal.row


async def records_of(store: Store, id_: int) -> tuple[int, tuple[str, ...]]:
    journal = await store.journal(ConversationId(id_))
    assert journal is not None
    return journal.first, journal.records


def late_writes(store: Store) -> list[JournalWrite]:
    """Return writes that need a conversation 5."""
    lease, id_ = lease_of(store), ConversationId(5)
    return [
        append(store, 5, 1, "y"),
        standing(store, 5),
        ParkConversation(lease, id_, NOON, "differs"),
        TakeInHand(lease, id_, NOON),
        ContinueConversation(lease, id_, 1, ("y",), "pizza", "v1", NOON),
        KeepIntent(lease, id_, 1, "a", NOON, "b"),
    ]


class JournalContract(Contract):
    """Conversations and their journals."""

    # --- rows

    async def test_a_conversation_begins_unfinished_and_empty(self, store: Store) -> None:
        await store.commit(begin(store, 5, 7, sender_id=ALI, key="order-1", wake_at=NOON + SECOND))

        (row,) = await store.conversations(ChatId(7))
        journal = await store.journal(ConversationId(5))

        assert row == ConversationRow(
            id=ConversationId(5),
            lease=lease_of(store),
            chat_id=ChatId(7),
            route="pizza",
            kind="conversation",
            version="v1",
            sender_id=ALI,
            key="order-1",
            run=1,
            unfinished=True,
            wake_at=NOON + SECOND,
            parked_because=None,
            error=None,
            in_hand=0,
            position=0,
            epoch=0,
            started_at=NOON,
            updated_at=NOON,
        )
        assert journal is not None
        assert (journal.row, journal.first, journal.records, journal.effects) == (row, 0, (), {})

    async def test_a_number_begins_once(self, store: Store) -> None:
        await store.commit(begin(store, 5))
        with pytest.raises(JournalConflictError) as caught:
            await store.commit(begin(store, 5, 8))
        assert caught.value.conversation == 5
        assert store.statistics().conversations == 1

    async def test_a_chats_conversations_come_oldest_first_and_alone(self, store: Store) -> None:
        await store.commit(begin(store, 9, 7), begin(store, 3, 7, kind="aside"), begin(store, 4, 8))
        rows = await store.conversations(ChatId(7))
        assert [(row.id, row.kind) for row in rows] == [(3, "aside"), (9, "conversation")]
        assert list(await store.conversations(ChatId(6))) == []

    async def test_the_inbox_says_whether_a_chat_has_conversations(self, store: Store) -> None:
        before = await accepted(store, arrival(7))
        assert not before.parked
        await store.commit(begin(store, before.seq, 7))

        after = await accepted(store, arrival(7))
        other = await accepted(store, arrival(8))

        assert after.parked and not other.parked
        assert [row.parked for row in await store.pending(ChatId(7), after=0, limit=9)] == [True, True]
        assert [row.parked for row in await store.backlog(after=0, limit=9)] == [True, True, False]
        await store.commit(EndConversation(lease_of(store), ConversationId(before.seq), NOON))
        assert not (await accepted(store, arrival(7))).parked
        assert not any(row.parked for row in await store.backlog(after=0, limit=9))

    async def test_a_crashed_conversation_that_is_kept_is_none_of_the_chats(self, store: Store) -> None:
        await store.commit(begin(store, 5, 7))
        await store.commit(EndConversation(lease_of(store), ConversationId(5), NOON, error="E-1"))
        assert not (await accepted(store, arrival(7))).parked
        assert list(await store.conversations(ChatId(7))) == []

    async def test_statistics_count_conversations(self, store: Store) -> None:
        lease = lease_of(store)
        await store.commit(*(begin(store, n, n) for n in (1, 2, 3)))
        await store.commit(ParkConversation(lease, ConversationId(2), NOON, "differs"))
        assert (store.statistics().conversations, store.statistics().parked) == (3, 1)

        await store.commit(ParkConversation(lease, ConversationId(2), NOON, "still differs"))
        await store.commit(EndConversation(lease, ConversationId(1), NOON, error="E-1"))
        assert (store.statistics().conversations, store.statistics().parked) == (2, 1)

        await store.commit(EndConversation(lease, ConversationId(2), NOON))
        await store.commit(EndConversation(lease, ConversationId(2), NOON))
        assert (store.statistics().conversations, store.statistics().parked) == (1, 0)

    # --- journals

    async def test_records_are_kept_in_order_as_they_came(self, store: Store) -> None:
        await store.commit(begin(store, 5), append(store, 5, 0, '{"a":"é"}', '"\\n"'))
        await store.commit(append(store, 5, 2, "[1]"))
        await store.commit(append(store, 5, 3, "2", "3"), append(store, 5, 5, "4"))

        assert await records_of(store, 5) == (0, ('{"a":"é"}', '"\\n"', "[1]", "2", "3", "4"))
        assert (await row_of(store, 5)).position == 6

    @pytest.mark.parametrize("position", [0, 1, 3, 4])
    async def test_an_append_elsewhere_than_at_the_end_is_refused(self, store: Store, position: int) -> None:
        await store.commit(begin(store, 5), append(store, 5, 0, "0", "1"))
        with pytest.raises(JournalConflictError, match="number 2"):
            await store.commit(PutSetting("trace", "of it"), append(store, 5, position, "x"))
        assert await records_of(store, 5) == (0, ("0", "1"))
        assert await store.setting("trace") is None

    async def test_of_two_who_write_the_same_position_one_wins(self, store: Store) -> None:
        await store.commit(begin(store, 5))
        refused: list[int] = []

        async def write(n: int) -> None:
            try:
                await store.commit(append(store, 5, 0, str(n)), PutSetting(f"writer {n}", "won"))
            except JournalConflictError:
                refused.append(n)

        async with trio.open_nursery() as nursery:
            for n in range(10):
                nursery.start_soon(write, n)

        _, (winner,) = await records_of(store, 5)
        assert sorted(refused) == [n for n in range(10) if n != int(winner)]
        assert [await store.setting(f"writer {n}") for n in refused] == [None] * 9

    async def test_a_commit_that_fails_in_its_middle_leaves_every_journal_as_it_was(
        self, store: Store
    ) -> None:
        await store.commit(begin(store, 5), append(store, 5, 0, "0"), begin(store, 6))
        with pytest.raises(JournalConflictError):
            await store.commit(
                append(store, 5, 1, "1"),
                standing(store, 5),
                begin(store, 7),
                EndConversation(lease_of(store), ConversationId(6), NOON),
                append(store, 5, 3, "3"),
            )
        await store.commit(append(store, 5, 1, "another"))
        assert await records_of(store, 5) == (0, ("0", "another"))
        assert (await row_of(store, 5)).unfinished
        assert await store.journal(ConversationId(7)) is None
        assert store.statistics().conversations == 2

    async def test_a_journal_that_is_not_there_is_none(self, store: Store) -> None:
        assert await store.journal(ConversationId(5)) is None

    # --- where it stands

    async def test_standing_is_replaced(self, store: Store) -> None:
        await store.commit(begin(store, 5))
        await store.commit(standing(store, 5, wake_at=NOON + MINUTE, at=NOON + SECOND))
        row = await row_of(store, 5)
        assert (row.unfinished, row.wake_at, row.updated_at) == (False, NOON + MINUTE, NOON + SECOND)
        assert row.started_at == NOON

    async def test_the_unfinished_come_oldest_first_page_by_page(self, store: Store) -> None:
        for n in range(1, 8):
            await store.commit(begin(store, n, n))
        await store.commit(standing(store, 2), standing(store, 4, wake_at=NOON))
        await store.commit(ParkConversation(lease_of(store), ConversationId(5), NOON, "differs"))
        await store.commit(EndConversation(lease_of(store), ConversationId(6), NOON, "E-1"))

        first = await store.unfinished(after=0, limit=2)
        second = await store.unfinished(after=first[-1].id, limit=2)

        assert [row.id for row in [*first, *second]] == [1, 3, 7]

    async def test_what_is_due_comes_earliest_first_page_by_page(self, store: Store) -> None:
        for n, wake in enumerate([30, 10, 20, 20, 20, 41, None, 15, 16], start=1):
            await store.commit(begin(store, n, n), standing(store, n, wake_at=wake))
        await store.commit(ParkConversation(lease_of(store), ConversationId(8), NOON, "differs"))
        await store.commit(EndConversation(lease_of(store), ConversationId(9), NOON, "E-1"))

        found: list[ConversationRow] = []
        while page := await store.due(
            40, after=(found[-1].wake_at or 0, found[-1].id) if found else (-1, -1), limit=2
        ):
            found.extend(page)

        assert [(row.id, row.wake_at) for row in found] == [(2, 10), (3, 20), (4, 20), (5, 20), (1, 30)]
        assert await store.next_wake() == 10
        assert await store.next_wake(after=20) == 30
        assert await store.next_wake(after=41) is None

    async def test_a_parked_conversation_wakes_for_nothing_until_it_is_taken_back(self, store: Store) -> None:
        lease = lease_of(store)
        await store.commit(begin(store, 5, wake_at=NOON))
        await store.commit(TakeInHand(lease, ConversationId(5), NOON))
        await store.commit(ParkConversation(lease, ConversationId(5), NOON + 1, "differs", error="E-1"))

        (row,) = await store.parked(after=0, limit=10)
        assert (row.parked_because, row.error, row.in_hand, row.updated_at) == ("differs", "E-1", 1, NOON + 1)
        assert list(await store.parked(after=5, limit=10)) == []
        assert list(await store.unfinished(after=0, limit=10)) == []
        assert list(await store.due(NOON, limit=10)) == []
        assert await store.next_wake() is None
        assert [one.id for one in await store.conversations(ChatId(1))] == [5]

        await store.commit(ParkConversation(lease, ConversationId(5), NOON + 2, None))
        assert list(await store.parked(after=0, limit=10)) == []
        (row,) = await store.unfinished(after=0, limit=10)
        assert (row.parked_because, row.error, row.in_hand) == (None, None, 0)

    async def test_a_clock_set_back_lets_all_wake_earlier(self, store: Store) -> None:
        for n, wake in enumerate([NOON, 30, None], start=1):
            await store.commit(begin(store, n, n), standing(store, n, wake_at=wake))
        await store.commit(ParkConversation(lease_of(store), ConversationId(1), NOON, "differs"))

        await store.commit(WakeEarlier(lease_of(store), 100))

        rows = await store.all_conversations(after=0, limit=10)
        assert [row.wake_at for row in rows] == [NOON - 100, 0, None]
        assert [row.updated_at for row in rows] == [NOON, NOON, NOON]

    async def test_revivals_are_counted_until_it_comes_to_rest(self, store: Store) -> None:
        in_hand = TakeInHand(lease_of(store), ConversationId(5), NOON)
        await store.commit(begin(store, 5))
        await store.commit(in_hand)
        await store.commit(in_hand, standing(store, 5, unfinished=True))
        assert (await row_of(store, 5)).in_hand == 2
        await store.commit(standing(store, 5))
        assert (await row_of(store, 5)).in_hand == 0

    # --- effects

    async def test_intent_and_result_are_kept_beside_the_journal(self, store: Store) -> None:
        lease, id_ = lease_of(store), ConversationId(5)
        await store.commit(begin(store, 5), begin(store, 6))
        await store.commit(KeepIntent(lease, id_, 1, "0.1", NOON, "meant"))
        await store.commit(KeepIntent(lease, id_, 1, "0.1", NOON + 1, "meant again"))
        await store.commit(KeepResult(lease, id_, 1, "0.1", NOON + 2, "came"))
        await store.commit(KeepResult(lease, id_, 1, "0.1", NOON + 3, "came again"))
        await store.commit(KeepResult(lease, id_, 1, "0.2", NOON + 4, "alone"))
        await store.commit(KeepResult(lease, ConversationId(6), 1, "0.1", NOON, "another's"))

        journal = await store.journal(id_)

        assert journal is not None
        assert journal.effects == {
            "0.1": Effect(NOON + 1, "meant again", NOON + 2, "came"),
            "0.2": Effect(resulted_at=NOON + 4, result="alone"),
        }

    async def test_effects_of_unknown_outcome_are_counted(self, store: Store) -> None:
        lease, id_ = lease_of(store), ConversationId(5)
        assert await store.unknown_effects() == 0
        await store.commit(begin(store, 5), begin(store, 6))
        for operation in "abc":
            await store.commit(KeepIntent(lease, id_, 1, operation, NOON, "meant"))
        await store.commit(KeepIntent(lease, id_, 1, "a", NOON + 1, "meant again"))
        await store.commit(KeepResult(lease, id_, 1, "alone", NOON, "came"))
        await store.commit(KeepIntent(lease, ConversationId(6), 1, "a", NOON, "meant"))
        assert await store.unknown_effects() == 4
        await store.commit(KeepResult(lease, id_, 1, "a", NOON + 2, "came"))
        assert await store.unknown_effects() == 3
        await store.commit(DropEffects(lease, id_, 1, ("b",)))
        assert await store.unknown_effects() == 2
        await store.commit(EndConversation(lease, id_, NOON))
        assert await store.unknown_effects() == 1
        await store.forget((await row_of(store, 6)).chat_id)
        assert await store.unknown_effects() == 0

    async def test_effects_are_dropped_by_name(self, store: Store) -> None:
        lease, id_ = lease_of(store), ConversationId(5)
        await store.commit(begin(store, 5), *(KeepResult(lease, id_, 1, n, NOON, n) for n in "abc"))
        await store.commit(DropEffects(lease, id_, 1, ("a", "c", "never seen")))
        await store.commit(DropEffects(lease, id_, 2, ("b",)))
        journal = await store.journal(id_)
        assert journal is not None
        assert set(journal.effects) == {"b"}

    async def test_a_late_result_is_nothing_and_a_late_intent_is_refused(self, store: Store) -> None:
        lease, id_ = lease_of(store), ConversationId(5)
        late_result = KeepResult(lease, id_, 1, "0.1", NOON, "late")
        late_intent = KeepIntent(lease, id_, 1, "0.1", NOON, "late")
        await store.commit(late_result, PutSetting("and", "the rest"))
        assert await store.setting("and") == "the rest"

        await store.commit(begin(store, 5), ContinueConversation(lease, id_, 0, ("x",), "pizza", "v1", NOON))
        await store.commit(late_result)
        with pytest.raises(JournalConflictError):
            await store.commit(late_intent)
        journal = await store.journal(id_)
        assert journal is not None
        assert journal.effects == {}

        await store.commit(EndConversation(lease, id_, NOON, "E-1"))
        await store.commit(attrs.evolve(late_result, run=2), DropEffects(lease, id_, 2, ("0.1",)))
        with pytest.raises(JournalConflictError):
            await store.commit(attrs.evolve(late_intent, run=2))

    # --- the ends

    async def test_an_ended_conversation_leaves_nothing(self, store: Store) -> None:
        lease, id_ = lease_of(store), ConversationId(5)
        await store.commit(begin(store, 5), append(store, 5, 0, "x"), KeepResult(lease, id_, 1, "a", 1, "b"))
        await store.commit(EndConversation(lease, id_, NOON))

        assert await store.journal(id_) is None
        # A number never comes twice; if it did, nothing of the old one would be in its way.
        await store.commit(begin(store, 5))
        assert await records_of(store, 5) == (0, ())

    async def test_a_crashed_one_is_kept_and_changes_no_more(self, store: Store) -> None:
        lease, id_ = lease_of(store), ConversationId(5)
        await store.commit(begin(store, 5, wake_at=NOON), append(store, 5, 0, "x"))
        await store.commit(EndConversation(lease, id_, NOON + 1, error="E-1"))

        journal = await store.journal(id_)
        assert journal is not None
        assert journal.records == ("x",)
        row = journal.row
        assert (row.ended_at, row.error, row.unfinished, row.wake_at) == (NOON + 1, "E-1", False, None)
        assert list(await store.unfinished(after=0, limit=9)) == list(await store.due(NOON, limit=9)) == []
        assert [one.id for one in await store.all_conversations(after=0, limit=9)] == [5]
        for write in late_writes(store):
            with pytest.raises(JournalConflictError):
                await store.commit(write)
        await store.commit(EndConversation(lease, id_, NOON + 9))
        assert await row_of(store, 5) == row

    async def test_what_is_not_there_cannot_be_written(self, store: Store) -> None:
        for write in late_writes(store):
            with pytest.raises(JournalConflictError) as caught:
                await store.commit(write, PutSetting("trace", "of it"))
            assert caught.value.conversation == 5
        assert await store.setting("trace") is None

    async def test_a_new_run_replaces_the_journal_and_positions_count_on(self, store: Store) -> None:
        lease, id_ = lease_of(store), ConversationId(5)
        await store.commit(begin(store, 5, wake_at=NOON), append(store, 5, 0, "0", "1"))
        await store.commit(append(store, 5, 2, "2"), KeepResult(lease, id_, 1, "a", NOON, "b"))
        for position in (0, 2, 4):
            with pytest.raises(JournalConflictError):
                await store.commit(
                    ContinueConversation(lease, id_, position, ("x",), "pizza", "v2", NOON + 1)
                )
        assert await records_of(store, 5) == (0, ("0", "1", "2"))

        await store.commit(ContinueConversation(lease, id_, 3, ("3", "4"), "pasta", "v2", NOON + 1, "aside"))

        journal = await store.journal(id_)
        assert journal is not None
        row = journal.row
        assert (journal.first, journal.records, journal.effects) == (3, ("3", "4"), {})
        assert (row.route, row.version, row.kind, row.run) == ("pasta", "v2", "aside", 2)
        assert (row.position, row.unfinished, row.wake_at, row.updated_at) == (5, True, None, NOON + 1)
        with pytest.raises(JournalConflictError):
            await store.commit(append(store, 5, 3, "of the old run"))
        await store.commit(append(store, 5, 5, "5"))
        assert await records_of(store, 5) == (3, ("3", "4", "5"))
