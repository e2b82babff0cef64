"""What a store does with what is accepted: order, pages, redelivery, quotas, groups."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from triobot.seams.inbox import InboxRow, OverQuota, Quota, Redelivered, RedeliveredError
from triobot.seams.writes import Accept, Consume, KeepRaw, PutSetting
from triobot.store import Store
from triobot.store.rules import Retention
from triobot.wire.ids import ChatId

from .contract import ALI, DAY, MINUTE, NOON, ROOMY, SARA, SECOND, Contract, SettableClock, accepted, arrival


class InboxContract(Contract):
    """The inbox."""

    # --- the inbox

    async def test_an_accepted_event_is_pending_as_it_came(self, store: Store) -> None:
        given = arrival(7, body=b"\x00\xffraw", content_type="text/plain", at=NOON + 5)

        row = await accepted(store, given)

        assert row == InboxRow(row.seq, ChatId(7), NOON + 5, "text/plain", b"\x00\xffraw")
        assert list(await store.pending(ChatId(7), after=0, limit=10)) == [row]

    async def test_rows_come_in_the_order_of_acceptance_page_by_page(self, store: Store) -> None:
        rows = [await accepted(store, arrival(7, body=b"%d" % n)) for n in range(5)]
        await accepted(store, arrival(8))

        first = await store.pending(ChatId(7), after=0, limit=2)
        second = await store.pending(ChatId(7), after=first[-1].seq, limit=2)
        third = await store.pending(ChatId(7), after=second[-1].seq, limit=2)

        assert [*first, *second, *third] == rows
        assert [row.seq for row in rows] == sorted({row.seq for row in rows})

    async def test_the_backlog_is_all_chats_in_the_order_of_acceptance(self, store: Store) -> None:
        rows = [await accepted(store, arrival(chat)) for chat in (3, 1, 3, 2, 1)]

        first = await store.backlog(after=0, limit=3)
        second = await store.backlog(after=first[-1].seq, limit=3)

        assert [*first, *second] == rows
        assert list(await store.backlog(after=rows[-1].seq, limit=3)) == []

    async def test_a_consumed_row_is_gone_and_its_number_never_comes_again(self, store: Store) -> None:
        first = await accepted(store, arrival(7))
        second = await accepted(store, arrival(7))

        await store.commit(Consume((first.seq,)))
        assert list(await store.pending(ChatId(7), after=0, limit=10)) == [second]

        await store.commit(Consume((second.seq, first.seq, 10**9)))
        assert list(await store.backlog(after=0, limit=10)) == []
        assert (await accepted(store, arrival(7))).seq > second.seq

    async def test_statistics_count_what_waits(self, store: Store) -> None:
        row = await accepted(store, arrival(7, body=b"12345"))
        await accepted(store, arrival(8, body=b"123"))
        await store.commit(Consume((row.seq,)), KeepRaw(NOON, "why", "text/plain", b"??"))

        found = store.statistics()

        assert (found.inbox, found.inbox_bytes, found.raw) == (1, 3, 1)

    async def test_two_hundred_at_once_all_arrive_in_one_order(self, store: Store) -> None:
        announced: list[InboxRow] = []
        returned: list[InboxRow] = []

        async def one(n: int) -> None:
            row = await accepted(store, arrival(n % 7, body=b"%d" % n), on_commit=announced.append)
            assert row in announced
            returned.append(row)

        async with trio.open_nursery() as nursery:
            for n in range(200):
                nursery.start_soon(one, n)

        assert announced == sorted(announced, key=lambda row: row.seq)
        assert {row.body for row in announced} == {b"%d" % n for n in range(200)}
        assert sorted(returned, key=lambda row: row.seq) == announced
        assert store.statistics().inbox == 200

    # --- on_commit, also, cancellation

    async def test_on_commit_is_called_before_accept_returns(self, store: Store) -> None:
        announced: list[InboxRow] = []

        row = await accepted(store, arrival(), on_commit=announced.append)

        assert announced == [row]

    async def test_on_commit_is_called_before_anybody_has_read_the_row(self, store: Store) -> None:
        announced: list[InboxRow] = []

        async def read() -> None:
            while len(announced) < 50:
                rows = await store.backlog(after=0, limit=100)
                assert list(rows) == announced[: len(rows)]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(read)
            for _ in range(50):
                await accepted(store, arrival(), on_commit=announced.append)

    async def test_also_is_stored_with_the_event(self, store: Store) -> None:
        old = await accepted(store, arrival(7))

        new = await accepted(store, arrival(7), also=[Consume((old.seq,)), PutSetting("colour", "blue")])

        assert list(await store.pending(ChatId(7), after=0, limit=10)) == [new]
        assert await store.setting("colour") == "blue"

    async def test_also_is_not_stored_when_the_event_is_not(self, store: Store) -> None:
        announced: list[InboxRow] = []
        await accepted(store, arrival(key="press-1", once=True))

        again = await store.accept(
            arrival(key="press-1", once=True),
            quota=ROOMY,
            also=[PutSetting("colour", "blue")],
            on_commit=announced.append,
        )
        full = await store.accept(
            arrival(),
            quota=Quota(events_per_chat=1),
            also=[PutSetting("colour", "red")],
            on_commit=announced.append,
        )

        assert (again, full) == (Redelivered(), OverQuota(whole=False))
        assert announced == []
        assert await store.setting("colour") is None

    async def test_whoever_stops_waiting_does_not_undo_what_was_handed_over(self, store: Store) -> None:
        """Cancel an accept at its n-th checkpoint: it is stored and announced, or neither."""
        announced: list[InboxRow] = []

        async def impatient(scope: trio.CancelScope, n: int) -> None:
            with scope:
                await store.accept(arrival(n + 1), quota=ROOMY, on_commit=announced.append)

        for patience in range(8):
            async with trio.open_nursery() as nursery:
                scope = trio.CancelScope()
                nursery.start_soon(impatient, scope, patience)
                for _ in range(patience):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

        await store.check()  # behind everything that was handed over before
        stored = [row for n in range(8) for row in await store.pending(ChatId(n + 1), after=0, limit=10)]
        assert announced == sorted(stored, key=lambda row: row.seq)
        assert len(announced) >= 1

    async def test_a_cancelled_commit_is_done_whole_or_not_at_all(self, store: Store) -> None:
        for patience in range(8):
            row = await accepted(store, arrival(7))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, Consume((row.seq,)), PutSetting("done", str(row.seq)))
                for _ in range(patience):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()

            await store.check()
            left = await store.pending(ChatId(7), after=0, limit=10)
            done = await store.setting("done") == str(row.seq)
            assert done == (row not in left)

    # --- redelivery

    @pytest.mark.parametrize(
        ("once", "acknowledged", "later", "dropped"),
        [
            (False, False, 0, True),
            (False, False, 30 * SECOND, True),
            (False, False, 60 * SECOND, True),
            (False, False, 61 * SECOND, False),
            (False, False, -2 * 60 * MINUTE, False),
            (False, True, 0, False),
            (False, True, 30 * SECOND, False),
            (True, False, 30 * SECOND, True),
            (True, True, 30 * SECOND, True),
            (True, True, 6 * DAY, True),
            (True, False, 7 * DAY + 1, False),
            (True, True, 7 * DAY + 1, False),
        ],
    )
    async def test_what_counts_as_a_redelivery(
        self, store: Store, clock: SettableClock, once: bool, acknowledged: bool, later: int, dropped: bool
    ) -> None:
        first = await accepted(store, arrival(key="k", once=once))
        if acknowledged:
            store.note_answered("k")
        clock.time += later

        answer = await store.accept(arrival(key="k", once=once, at=NOON + later), quota=ROOMY)

        rows = await store.pending(ChatId(1), after=first.seq, limit=10)
        if dropped:
            assert answer == Redelivered()
            assert list(rows) == []
        else:
            assert isinstance(answer, InboxRow)
            assert list(rows) == [answer]

    async def test_without_a_key_everything_is_new(self, store: Store) -> None:
        await accepted(store, arrival())
        await accepted(store, arrival())

    async def test_another_key_is_another_event(self, store: Store) -> None:
        await accepted(store, arrival(key="a"))
        await accepted(store, arrival(key="b"))

    async def test_a_dropped_delivery_does_not_prolong_the_minute(self, store: Store) -> None:
        await accepted(store, arrival(key="k"))
        assert await store.accept(arrival(key="k", at=NOON + 50 * SECOND), quota=ROOMY) == Redelivered()
        await accepted(store, arrival(key="k", at=NOON + 70 * SECOND))

    async def test_a_redelivery_is_known_although_the_row_was_consumed(self, store: Store) -> None:
        row = await accepted(store, arrival(key="k"))
        await store.commit(Consume((row.seq,)))
        assert await store.accept(arrival(key="k"), quota=ROOMY) == Redelivered()

    async def test_a_new_delivery_after_an_acknowledged_one_counts_afresh(self, store: Store) -> None:
        await accepted(store, arrival(key="k"))
        store.note_answered("k")
        await accepted(store, arrival(key="k", at=NOON + SECOND))
        assert await store.accept(arrival(key="k", at=NOON + 2 * SECOND), quota=ROOMY) == Redelivered()

    async def test_old_deliveries_are_forgotten_and_young_ones_kept(
        self, store: Store, clock: SettableClock
    ) -> None:
        await accepted(store, arrival(key="press", once=True))
        clock.time += 6 * DAY
        await accepted(store, arrival(key="text", at=clock.time))
        clock.time += 1
        await accepted(store, arrival(key="other", at=clock.time))
        assert (
            await store.accept(arrival(key="press", once=True, at=clock.time), quota=ROOMY) == Redelivered()
        )
        assert await store.accept(arrival(key="text", at=clock.time), quota=ROOMY) == Redelivered()

    @pytest.mark.parametrize("days", [1, 7, 30])
    async def test_a_key_of_code_is_known_as_long_as_told(
        self, clock: SettableClock, tmp_path: Path, days: int
    ) -> None:
        """One of the platform's isn't; and what is swept is neither more nor less."""
        words = ("call", "signal", "press", "submission", "order")
        async with self.opened(clock, tmp_path, Retention(keys=days * DAY)) as store:
            for word in words:
                await accepted(store, arrival(key=f"{word}:1:k", once=True))
            # The first of them is taken while what is old is looked for.
            for later in (MINUTE, days * DAY - 1, 7 * DAY - 1, days * DAY + 1, 7 * DAY + 1):
                clock.time = max(clock.time, NOON + later)
                await accepted(store, arrival(at=clock.time))
                for word in words:
                    known = days if word in ("call", "signal") else 7
                    if clock.time - NOON < known * DAY:
                        again = arrival(key=f"{word}:1:k", once=True, at=clock.time)
                        assert await store.accept(again, quota=ROOMY) == Redelivered(), word
            for word in words:
                await accepted(store, arrival(key=f"{word}:1:k", once=True, at=NOON + 40 * DAY))

    async def test_numbers_go_on_behind_the_last_one_after_a_stop(
        self, clock: SettableClock, tmp_path: Path
    ) -> None:
        async with self.opened(clock, tmp_path) as store:
            rows = [await accepted(store, arrival(key=key)) for key in ("one", "two")]
            with pytest.raises(RedeliveredError):
                await store.commit(Accept(arrival(key="two")))  # what is refused leaves nothing unknown
        async with self.opened(clock, tmp_path) as store:
            row = await accepted(store, arrival())
        assert row.seq - rows[1].seq == rows[1].seq - rows[0].seq

    async def test_an_acknowledgement_of_an_unknown_key_is_nothing(self, store: Store) -> None:
        store.note_answered("never seen")
        await accepted(store, arrival(key="never seen"))

    # --- what is noted

    async def test_a_row_that_is_noted_as_consumed_is_read_no_more(self, store: Store) -> None:
        rows = [await accepted(store, arrival(chat, body=b"123")) for chat in (7, 7, 8)]

        if not store.note_consumed([rows[0].seq, rows[2].seq]):
            await store.commit(Consume((rows[0].seq, rows[2].seq)))

        assert list(await store.backlog(after=0, limit=10)) == [rows[1]]
        assert list(await store.pending(ChatId(8), after=0, limit=10)) == []
        assert (store.statistics().inbox, store.statistics().inbox_bytes) == (1, 3)
        assert isinstance(await store.accept(arrival(8), quota=Quota(events_per_chat=1)), InboxRow)

    # --- quota

    async def test_a_full_chat_is_refused_alone(self, store: Store) -> None:
        quota = Quota(events_per_chat=2)
        first = await accepted(store, arrival(1))
        await accepted(store, arrival(1))

        assert await store.accept(arrival(1), quota=quota) == OverQuota(whole=False)
        assert isinstance(await store.accept(arrival(2), quota=quota), InboxRow)
        await store.commit(Consume((first.seq,)))
        assert isinstance(await store.accept(arrival(1), quota=quota), InboxRow)

    async def test_a_full_inbox_refuses_everybody(self, store: Store) -> None:
        quota = Quota(bytes_in_all=10)
        assert isinstance(await store.accept(arrival(1, body=b"x" * 10), quota=quota), InboxRow)
        assert await store.accept(arrival(2, body=b"x"), quota=quota) == OverQuota(whole=True)
        assert store.statistics().inbox_bytes == 10

    async def test_the_quota_holds_among_those_who_arrive_together(self, store: Store) -> None:
        answers: list[object] = []

        async def one() -> None:
            answers.append(await store.accept(arrival(1), quota=Quota(events_per_chat=3)))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(one)

        assert sum(isinstance(answer, InboxRow) for answer in answers) == 3
        assert answers.count(OverQuota(whole=False)) == 17
        assert store.statistics().inbox == 3

    async def test_a_redelivery_is_no_question_of_quota(self, store: Store) -> None:
        await accepted(store, arrival(key="k"))
        again = await store.accept(arrival(key="k"), quota=Quota(events_per_chat=1, bytes_in_all=1))
        assert again == Redelivered()

    # --- groups

    async def test_two_senders_make_a_group_for_good(self, store: Store) -> None:
        first = await accepted(store, arrival(7, sender_id=ALI))
        nameless = await accepted(store, arrival(7, sender_id=None))
        again = await accepted(store, arrival(7, sender_id=ALI))
        assert not (first.group or nameless.group or again.group)

        await store.commit(Consume((first.seq,)))
        assert (await accepted(store, arrival(7, sender_id=SARA))).group
        assert (await accepted(store, arrival(7, sender_id=ALI))).group

        assert all(row.group for row in await store.pending(ChatId(7), after=0, limit=10))
        assert not (await accepted(store, arrival(8, sender_id=SARA))).group
