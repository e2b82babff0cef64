"""What a store does with conversations: rows, journals, standings, effects, ends.

Leases and runs as well, and what goes for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from triobot.errors import LocalProtocolError
from triobot.seams.inbox import InboxRow, Quota, Redelivered, RedeliveredError
from triobot.seams.journals import (
    LARGEST_RECORD,
    AcceptedChange,
    AppendRecords,
    BeginConversation,
    ContinueConversation,
    ConversationId,
    ConversationRow,
    Deployed,
    DropEffects,
    Effect,
    EndConversation,
    JournalWrite,
    KeepCode,
    KeepIntent,
    KeepResult,
    ParkConversation,
    PutRested,
    PutStanding,
    TakeInHand,
    WakeEarlier,
)
from triobot.seams.writes import (
    Accept,
    Consume,
    JournalConflictError,
    KeepRaw,
    PutData,
    PutSetting,
)
from triobot.store import Store
from triobot.wire.ids import ChatId, SenderId

from .contract import ALI, DAY, MINUTE, NOON, ROOMY, SARA, SECOND, Contract, SettableClock, accepted, arrival


def begin(store: Store, id_: int, chat: int = 1, **rest: Any) -> BeginConversation:
    """Make the write that begins a conversation."""
    write = BeginConversation(ConversationId(id_), ChatId(chat), route="pizza", version="v1", at=NOON)
    return attrs.evolve(write, **rest)


def append(store: Store, id_: int, position: int, *records: str) -> AppendRecords:
    return AppendRecords(ConversationId(id_), position, records)


def standing(
    store: Store, id_: int, *, unfinished: bool = False, wake_at: int | None = None, at: int = NOON
) -> PutStanding:
    return PutStanding(ConversationId(id_), at, unfinished, wake_at)


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
    id_ = ConversationId(5)
    return [
        append(store, 5, 1, "y"),
        standing(store, 5),
        ParkConversation(id_, NOON, "differs"),
        TakeInHand(id_, NOON),
        ContinueConversation(id_, 1, ("y",), "pizza", "v1", NOON),
        KeepIntent(id_, 1, "a", NOON, "b"),
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
        assert not before.occupied
        await store.commit(begin(store, before.seq, 7))

        after = await accepted(store, arrival(7))
        other = await accepted(store, arrival(8))

        assert after.occupied and not other.occupied
        assert [row.occupied for row in await store.pending(ChatId(7), after=0, limit=9)] == [True, True]
        assert [row.occupied for row in await store.backlog(after=0, limit=9)] == [True, True, False]
        await store.commit(EndConversation(ConversationId(before.seq), NOON))
        assert not (await accepted(store, arrival(7))).occupied
        assert not any(row.occupied for row in await store.backlog(after=0, limit=9))

    async def test_a_crashed_conversation_that_is_kept_is_none_of_the_chats(self, store: Store) -> None:
        await store.commit(begin(store, 5, 7))
        await store.commit(EndConversation(ConversationId(5), NOON, error="E-1"))
        assert not (await accepted(store, arrival(7))).occupied
        assert list(await store.conversations(ChatId(7))) == []

    async def test_a_chats_crashed_conversations_can_be_read(self, store: Store) -> None:
        await store.commit(*(begin(store, n, 7) for n in (5, 6, 7)), begin(store, 8, 9))
        await store.commit(EndConversation(ConversationId(6), NOON, error="E-1"))
        await store.commit(EndConversation(ConversationId(5), NOON + 1, error="E-2"))
        await store.commit(EndConversation(ConversationId(7), NOON + 1))
        await store.commit(EndConversation(ConversationId(8), NOON, error="E-3"))
        crashed = await store.conversations(ChatId(7), ended=True)
        assert [(row.id, row.error, row.ended_at) for row in crashed] == [
            (5, "E-2", NOON + 1),
            (6, "E-1", NOON),
        ]
        assert list(await store.conversations(ChatId(6), ended=True)) == []

    async def test_statistics_count_conversations(self, store: Store) -> None:
        await store.commit(*(begin(store, n, n) for n in (1, 2, 3)))
        await store.commit(ParkConversation(ConversationId(2), NOON, "differs"))
        assert (store.statistics().conversations, store.statistics().parked) == (3, 1)

        await store.commit(ParkConversation(ConversationId(2), NOON, "still differs"))
        await store.commit(EndConversation(ConversationId(1), NOON, error="E-1"))
        assert (store.statistics().conversations, store.statistics().parked) == (2, 1)

        await store.commit(EndConversation(ConversationId(2), NOON))
        await store.commit(EndConversation(ConversationId(2), NOON))
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
                EndConversation(ConversationId(6), NOON),
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
        await store.commit(ParkConversation(ConversationId(5), NOON, "differs"))
        await store.commit(EndConversation(ConversationId(6), NOON, "E-1"))

        first = await store.unfinished(after=0, limit=2)
        second = await store.unfinished(after=first[-1].id, limit=2)

        assert [row.id for row in [*first, *second]] == [1, 3, 7]

    async def test_what_is_due_comes_earliest_first_page_by_page(self, store: Store) -> None:
        for n, wake in enumerate([30, 10, 20, 20, 20, 41, None, 15, 16], start=1):
            await store.commit(begin(store, n, n), standing(store, n, wake_at=wake))
        await store.commit(ParkConversation(ConversationId(8), NOON, "differs"))
        await store.commit(EndConversation(ConversationId(9), NOON, "E-1"))

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
        await store.commit(begin(store, 5, wake_at=NOON))
        await store.commit(TakeInHand(ConversationId(5), NOON))
        await store.commit(ParkConversation(ConversationId(5), NOON + 1, "differs", error="E-1"))

        (row,) = await store.parked(after=0, limit=10)
        assert (row.parked_because, row.error, row.in_hand, row.updated_at) == ("differs", "E-1", 1, NOON + 1)
        assert list(await store.parked(after=5, limit=10)) == []
        assert list(await store.unfinished(after=0, limit=10)) == []
        assert list(await store.due(NOON, limit=10)) == []
        assert await store.next_wake() is None
        assert [one.id for one in await store.conversations(ChatId(1))] == [5]

        await store.commit(ParkConversation(ConversationId(5), NOON + 2, None))
        assert list(await store.parked(after=0, limit=10)) == []
        (row,) = await store.unfinished(after=0, limit=10)
        assert (row.parked_because, row.error, row.in_hand) == (None, None, 1)

    async def test_a_clock_set_back_lets_all_wake_earlier(self, store: Store) -> None:
        for n, wake in enumerate([NOON, 30, None], start=1):
            await store.commit(begin(store, n, n), standing(store, n, wake_at=wake))
        await store.commit(ParkConversation(ConversationId(1), NOON, "differs"))

        await store.commit(WakeEarlier(100))

        rows = await store.all_conversations(after=0, limit=10)
        assert [row.wake_at for row in rows] == [NOON - 100, 0, None]
        assert [row.updated_at for row in rows] == [NOON, NOON, NOON]

    async def test_revivals_are_counted_until_it_comes_to_rest(self, store: Store) -> None:
        in_hand = TakeInHand(ConversationId(5), NOON)
        await store.commit(begin(store, 5))
        await store.commit(in_hand)
        await store.commit(in_hand, standing(store, 5, unfinished=True))
        assert (await row_of(store, 5)).in_hand == 2
        await store.commit(standing(store, 5))
        assert (await row_of(store, 5)).in_hand == 0

    # --- effects

    async def test_intent_and_result_are_kept_beside_the_journal(self, store: Store) -> None:
        id_ = ConversationId(5)
        await store.commit(begin(store, 5), begin(store, 6))
        await store.commit(KeepIntent(id_, 1, "0.1", NOON, "meant"))
        await store.commit(KeepIntent(id_, 1, "0.1", NOON + 1, "meant again"))
        await store.commit(KeepResult(id_, 1, "0.1", NOON + 2, "came"))
        await store.commit(KeepResult(id_, 1, "0.1", NOON + 3, "came again"))
        await store.commit(KeepResult(id_, 1, "0.2", NOON + 4, "alone"))
        await store.commit(KeepResult(ConversationId(6), 1, "0.1", NOON, "another's"))

        journal = await store.journal(id_)

        assert journal is not None
        assert journal.effects == {
            "0.1": Effect(NOON + 1, "meant again", NOON + 2, "came"),
            "0.2": Effect(resulted_at=NOON + 4, result="alone"),
        }

    async def test_effects_of_unknown_outcome_are_counted(self, store: Store) -> None:
        id_ = ConversationId(5)
        assert await store.unknown_effects() == 0
        await store.commit(begin(store, 5), begin(store, 6))
        for operation in "abc":
            await store.commit(KeepIntent(id_, 1, operation, NOON, "meant"))
        await store.commit(KeepIntent(id_, 1, "a", NOON + 1, "meant again"))
        await store.commit(KeepResult(id_, 1, "alone", NOON, "came"))
        await store.commit(KeepIntent(ConversationId(6), 1, "a", NOON, "meant"))
        assert await store.unknown_effects() == 4
        await store.commit(KeepResult(id_, 1, "a", NOON + 2, "came"))
        assert await store.unknown_effects() == 3
        await store.commit(DropEffects(id_, 1, ("b",)))
        assert await store.unknown_effects() == 2
        await store.commit(EndConversation(id_, NOON))
        assert await store.unknown_effects() == 1
        await store.forget((await row_of(store, 6)).chat_id)
        assert await store.unknown_effects() == 0

    async def test_effects_are_dropped_by_name(self, store: Store) -> None:
        id_ = ConversationId(5)
        await store.commit(begin(store, 5), *(KeepResult(id_, 1, n, NOON, n) for n in "abc"))
        await store.commit(DropEffects(id_, 1, ("a", "c", "never seen")))
        await store.commit(DropEffects(id_, 2, ("b",)))
        journal = await store.journal(id_)
        assert journal is not None
        assert set(journal.effects) == {"b"}

    async def test_a_late_result_is_nothing_and_a_late_intent_is_refused(self, store: Store) -> None:
        id_ = ConversationId(5)
        late_result = KeepResult(id_, 1, "0.1", NOON, "late")
        late_intent = KeepIntent(id_, 1, "0.1", NOON, "late")
        await store.commit(late_result, PutSetting("and", "the rest"))
        assert await store.setting("and") == "the rest"

        await store.commit(begin(store, 5), ContinueConversation(id_, 0, ("x",), "pizza", "v1", NOON))
        await store.commit(late_result)
        with pytest.raises(JournalConflictError):
            await store.commit(late_intent)
        journal = await store.journal(id_)
        assert journal is not None
        assert journal.effects == {}

        await store.commit(EndConversation(id_, NOON, "E-1"))
        await store.commit(attrs.evolve(late_result, run=2), DropEffects(id_, 2, ("0.1",)))
        with pytest.raises(JournalConflictError):
            await store.commit(attrs.evolve(late_intent, run=2))

    # --- the ends

    async def test_an_ended_conversation_leaves_nothing(self, store: Store) -> None:
        id_ = ConversationId(5)
        await store.commit(begin(store, 5), append(store, 5, 0, "x"), KeepResult(id_, 1, "a", 1, "b"))
        await store.commit(EndConversation(id_, NOON))

        assert await store.journal(id_) is None
        # A number never comes twice; if it did, nothing of the old one would be in its way.
        await store.commit(begin(store, 5))
        assert await records_of(store, 5) == (0, ())

    async def test_a_crashed_one_is_kept_and_changes_no_more(self, store: Store) -> None:
        id_ = ConversationId(5)
        await store.commit(begin(store, 5, wake_at=NOON), append(store, 5, 0, "x"))
        await store.commit(EndConversation(id_, NOON + 1, error="E-1"))

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
        await store.commit(EndConversation(id_, NOON + 9))
        assert await row_of(store, 5) == row

    async def test_what_is_not_there_cannot_be_written(self, store: Store) -> None:
        for write in late_writes(store):
            with pytest.raises(JournalConflictError) as caught:
                await store.commit(write, PutSetting("trace", "of it"))
            assert caught.value.conversation == 5
        assert await store.setting("trace") is None

    async def test_a_new_run_replaces_the_journal_and_positions_count_on(self, store: Store) -> None:
        id_ = ConversationId(5)
        await store.commit(begin(store, 5, wake_at=NOON), append(store, 5, 0, "0", "1"))
        await store.commit(append(store, 5, 2, "2"), KeepResult(id_, 1, "a", NOON, "b"))
        for position in (0, 2, 4):
            with pytest.raises(JournalConflictError):
                await store.commit(ContinueConversation(id_, position, ("x",), "pizza", "v2", NOON + 1))
        assert await records_of(store, 5) == (0, ("0", "1", "2"))

        await store.commit(ContinueConversation(id_, 3, ("3", "4"), "pasta", "v2", NOON + 1, "aside"))

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


class LeaseContract(Contract):
    """Leases, and what is deleted for good."""

    # --- taken where it is accepted

    async def test_an_event_can_be_taken_in_the_transaction_that_accepts_it(self, store: Store) -> None:
        """It has no row then; its delivery is known all the same."""
        await store.commit(begin(store, 5, 7), standing(store, 5))
        given = arrival(7, key="k", sender_id=ALI)

        await store.commit(Accept(given), append(store, 5, 0, "taken"), standing(store, 5, unfinished=True))

        assert await records_of(store, 5) == (0, ("taken",))
        assert (store.statistics().inbox, store.statistics().inbox_bytes) == (0, 0)
        assert (await row_of(store, 5)).unfinished
        with pytest.raises(RedeliveredError):
            await store.commit(Accept(given), append(store, 5, 1, "again"))
        assert await records_of(store, 5) == (0, ("taken",))
        assert (await accepted(store, arrival(7, sender_id=SARA))).group

    async def test_an_event_that_cannot_be_taken_is_not_accepted_either(self, store: Store) -> None:
        await store.commit(begin(store, 5, 7))
        for error, write in (
            (JournalConflictError, append(store, 5, 1, "x")),
            (LocalProtocolError, append(store, 5, 0, "\ud800")),
        ):
            with pytest.raises(error):
                await store.commit(
                    Accept(arrival(7, key="k")), PutSetting("trace", "of it"), standing(store, 5), write
                )
        assert await store.setting("trace") is None
        assert (await row_of(store, 5)).unfinished
        assert isinstance(await store.accept(arrival(7, key="k"), quota=ROOMY), InboxRow)

    async def test_something_begins_with_an_event_whose_chat_is_at_rest(self, store: Store) -> None:
        """Show `beginning` what the chat keeps; keep its text in the row."""
        seen: list[tuple[ChatId, Mapping[str, str]]] = []

        async def come(chat: int, sender: SenderId | None = None) -> InboxRow:
            def beginning(read: Callable[[], Mapping[str, str]]) -> str | None:
                seen.append((ChatId(chat), read()))
                return None if chat == 10 else "words"

            return await accepted(store, arrival(chat, sender_id=sender), beginning=beginning)

        await store.commit(PutData(ChatId(7), "a", "b"), begin(store, 5, 8))
        rows = [await come(7, ALI), await come(7, ALI), await come(8), await come(9, ALI), await come(10)]
        over = EndConversation(ConversationId(5), NOON)
        await store.commit(Consume(tuple(row.seq for row in rows)), over)
        # Nothing waits any more, nothing goes on; but now a second one speaks in chat 9.
        rows += [await come(7, ALI), await come(8), await come(9, SARA)]

        assert seen == [(7, {"a": "b"}), (9, {}), (10, {}), (7, {"a": "b"}), (8, {})]
        assert [row.seq for row in rows if row.begun] == [rows[n].seq for n in (0, 3, 5, 6)]
        assert [row.begun for row in await store.backlog(after=0, limit=9)] == ["words", "words", None]

    async def test_what_comes_together_begins_as_one_after_another(self, store: Store) -> None:
        rows: list[InboxRow] = []

        async def come(chat: int) -> None:
            rows.append(await accepted(store, arrival(chat), beginning=lambda _: "words"))

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(come, number % 20)
        first = {row.chat_id: row.seq for row in sorted(rows, key=lambda row: -row.seq)}
        assert {row.seq for row in rows if row.begun} == set(first.values())
        for chat in range(20):
            own = sorted([row for row in rows if row.chat_id == chat], key=lambda row: row.seq)
            assert list(await store.pending(ChatId(chat), after=0, limit=9)) == own
        assert (await store.forget(ChatId(0))).events == 3
        assert list(await store.pending(ChatId(0), after=0, limit=9)) == []

    async def test_what_has_begun_is_the_oldest_that_waits_in_its_chat(
        self, clock: SettableClock, tmp_path: Path
    ) -> None:
        """Also in the next run, and where what was noted of it could not be written."""
        async with self.opened(clock, tmp_path) as store:
            others = [await accepted(store, arrival(8), beginning=lambda _: "words")]
            rows = [await accepted(store, arrival(7), beginning=lambda _: "words") for _ in range(3)]
            with pytest.raises(LocalProtocolError):
                await store.commit(Consume((rows[0].seq,)), PutSetting("trace", "\ud800"))
            with pytest.raises(JournalConflictError):
                await store.commit(Consume((rows[0].seq,)), append(store, 5, 0, "x"))
            assert [row.begun for row in rows] == ["words", None, None]
            assert list(await store.pending(ChatId(7), after=0, limit=1)) == rows[:1]
        async with self.opened(clock, tmp_path) as store:
            for after, limit, told in (
                (0, 9, rows),
                (0, 1, rows[:1]),
                (0, 2, rows[:2]),
                (0, 0, []),
                (rows[0].seq, 9, rows[1:]),
            ):
                assert list(await store.pending(ChatId(7), after=after, limit=limit)) == told
            if not store.note_consumed([rows[0].seq]):
                await store.commit(Consume((rows[0].seq,)))
            assert list(await store.pending(ChatId(7), after=0, limit=9)) == rows[1:]
            await store.commit(Consume((rows[1].seq, rows[2].seq)))
            later = await accepted(store, arrival(8))
            assert list(await store.pending(ChatId(8), after=0, limit=9)) == [*others, later]
            await store.commit(Consume((later.seq,)))
            assert list(await store.pending(ChatId(8), after=0, limit=9)) == others
            again = await accepted(store, arrival(7), beginning=lambda _: "more words")
            assert list(await store.pending(ChatId(7), after=0, limit=9)) == [again]
            assert (await store.forget(ChatId(7))).events == 1
            assert list(await store.pending(ChatId(7), after=0, limit=9)) == []
            assert list(await store.backlog(after=0, limit=9)) == others

    async def test_nothing_begins_with_an_event_that_is_not_stored(self, store: Store) -> None:
        asked: list[object] = []

        def words(read: object) -> str:
            asked.append(read)
            return "words" if len(asked) == 1 else "x" * (LARGEST_RECORD + 1)

        await accepted(store, arrival(7, key="press-1", once=True), beginning=words)

        for other, quota in ((arrival(7, key="press-1", once=True), ROOMY), (arrival(7), Quota(1))):
            refused = await store.accept(other, quota=quota, beginning=words)
            assert not isinstance(refused, InboxRow)
        assert len(asked) == 1
        with pytest.raises(LocalProtocolError, match="begun"):
            await store.accept(arrival(8), quota=ROOMY, beginning=words)

        (row,) = await store.backlog(after=0, limit=9)
        assert (row.chat_id, row.begun) == (7, "words")

    # --- runs of the program

    async def test_each_run_has_a_number_of_its_own(self, clock: SettableClock, tmp_path: Path) -> None:
        async with self.opened(clock, tmp_path) as store:
            before = store.opening()
            await store.commit(begin(store, 5))
        clock.time += MINUTE
        async with self.opened(clock, tmp_path) as store:
            now = store.opening()
            assert (before.boot, before.at, before.unclean, before.previous_at) == (1, NOON, 0, None)
            assert (now.boot, now.at, now.unclean, now.previous_at) == (2, NOON + MINUTE, 0, NOON)
            await store.commit(AppendRecords(ConversationId(5), 0, ("x",)))

    async def test_conversations_survive_a_restart(self, clock: SettableClock, tmp_path: Path) -> None:
        id_ = ConversationId(5)
        async with self.opened(clock, tmp_path) as store:
            await store.commit(begin(store, 5), append(store, 5, 0, "0"), begin(store, 6))
            await store.commit(KeepIntent(id_, 1, "a", NOON, "b"))
            await store.commit(ParkConversation(ConversationId(6), NOON, "differs"))
            before = await store.journal(id_)
            assert before is not None
        async with self.opened(clock, tmp_path) as store:
            after = await store.journal(id_)
            assert after is not None
            assert after == before
            assert (store.statistics().conversations, store.statistics().parked) == (2, 1)
            assert (await accepted(store, arrival(1))).occupied

    async def test_what_is_left_over_goes_after_a_week(self, store: Store, clock: SettableClock) -> None:
        """Delete crashed conversations and unreadable requests after a week, and never what lives."""
        for id_, day in ((5, 0), (6, 5)):
            at = NOON + day * DAY
            await store.commit(
                begin(store, id_),
                append(store, id_, 0, "x"),
                EndConversation(ConversationId(id_), at, "E-1"),
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
        for chat in (7, 8):
            await accepted(store, arrival(chat, sender_id=ALI))
            await store.commit(
                begin(store, 10 + chat, chat),
                append(store, 10 + chat, 0, "0", "1"),
                append(store, 10 + chat, 2, "2"),
                begin(store, 20 + chat, chat),
                EndConversation(ConversationId(20 + chat), NOON, "E-1"),
                begin(store, 30 + chat, chat),
                ParkConversation(ConversationId(30 + chat), NOON, "differs"),
                KeepResult(ConversationId(10 + chat), 1, "a", NOON, "b"),
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

    # --- code

    async def test_where_it_stands_and_the_code_that_fits_it_are_kept(self, store: Store) -> None:
        await store.commit(begin(store, 5))
        assert ((row := await row_of(store, 5)).rests, row.build) == (None, 0)
        for rests in ("[1,[]]", None):
            await store.commit(PutRested(ConversationId(5), rests, 2**40))
            await store.commit(standing(store, 5))
            assert ((row := await row_of(store, 5)).rests, row.build) == (rests, 2**40)
        with pytest.raises(JournalConflictError):
            await store.commit(PutRested(ConversationId(6), None, 1))

    async def test_sources_and_sites_are_kept_once(self, store: Store) -> None:
        text = "async def order(chat): ...\n# \u062f\n"
        sites = ((7, 0, "d1", "order", 1, 0, 1, 9), (2**40, 7, "!c", "<lambda>", None, None, None, None))
        kept = KeepCode((("d1", "shop", text),), sites, Deployed(NOON, 3, ("d1",)))
        for _ in range(2):
            await store.commit(kept)
        code = await store.code.all()
        assert code.deployed == (Deployed(NOON, 3, ("d1",)),)
        assert code.sources == {"d1": ("shop", text)}
        assert code.sites == sites

    async def test_what_no_conversation_can_name_goes_when_other_code_runs(self, store: Store) -> None:

        async def deploy(at: int) -> None:
            sources = ((f"d{at}", "shop", f"# {at}"), ("all", "texts", ""))
            sites = ((10 * at, 0, f"d{at}", "order", 1, 0, 1, 9), (10 * at + 1, 10 * at, "", "", *[None] * 4))
            told = Deployed(at, at, (f"d{at}", "all"))
            await store.commit(KeepCode(sources, sites, told))

        async def event() -> int:
            return (await accepted(store, arrival())).seq

        await deploy(1)
        await store.commit(AcceptedChange("order", "_.ask('A')", "_.ask('B')"))
        first = await event()
        await store.commit(begin(store, first), Consume((first,)))
        for at in (2, 3):
            await deploy(at)
        assert [one.at for one in (await store.code.all()).deployed] == [1, 2, 3]
        await store.commit(EndConversation(ConversationId(first), NOON))
        second = await event()
        await store.commit(begin(store, second), Consume((second,)))
        await deploy(4)
        code = await store.code.all()
        assert [one.at for one in code.deployed] == [3, 4]
        assert code.sources.keys() == {"d3", "d4", "all"}
        assert [site[0] for site in code.sites] == [30, 31, 40, 41]
        assert code.accepted == ()

    # --- what can't be stored

    async def test_a_journal_write_that_cannot_be_stored_is_refused(self, store: Store) -> None:
        id_ = ConversationId(5)
        await store.commit(begin(store, 5))
        bad: list[JournalWrite] = [
            begin(store, 0),
            begin(store, 2**63),
            begin(store, 6, 2**63),
            begin(store, 6, route=""),
            begin(store, 6, route="a\0b"),
            begin(store, 6, kind="chore"),
            begin(store, 6, at=-1),
            begin(store, 6, wake_at=2**53),
            begin(store, 6, sender_id=True),
            begin(store, 6, at=None),
            append(store, 5, 0),
            append(store, 5, -1, "x"),
            append(store, 5, 0, "two\nlines"),
            append(store, 5, 0, "\ud800"),
            append(store, 5, 0, ""),
            standing(store, 5, wake_at=-1),
            KeepIntent(id_, 0, "a", NOON, "b"),
            KeepResult(id_, 1, "", NOON, "b"),
            KeepResult(id_, 1, "a", NOON, "\0"),
            ParkConversation(id_, NOON, ""),
            EndConversation(id_, NOON, ""),
        ]
        for write in bad:
            with pytest.raises(LocalProtocolError):
                await store.commit(write)
        with pytest.raises(LocalProtocolError):
            await store.conversations(ChatId(2**63))
        assert await records_of(store, 5) == (0, ())
