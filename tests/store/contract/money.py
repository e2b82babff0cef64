"""What every store must do with payments and alarms, as one suite."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio

from triobot.errors import LocalProtocolError
from triobot.seams.money import (
    AcknowledgeAlarms,
    AlarmTold,
    Decided,
    MovePayment,
    PaymentMove,
    PaymentRow,
    PaymentTotal,
    PutPayment,
    RaiseAlarm,
)
from triobot.seams.writes import Consume, PutSetting, StaleRowError
from triobot.wire.ids import ChatId, InvoiceId, RefId

from .contract import DAY, NOON, ROOMY, Contract, SettableClock, accepted, arrival

ROW = PaymentRow(RefId("1111"), 1, "open", "button IRR", ChatId(7), 500, NOON, "{}")


def put(row: PaymentRow = ROW, /, **changes: object) -> PutPayment:
    """Make the write that moves a payment."""
    return PutPayment(attrs.evolve(row, **changes), "send_ok", NOON)  # type: ignore[arg-type]


def raised(told: list[int], number: int) -> MovePayment:
    """Make a move that adds one to the amount, whatever it is."""

    def grow(row: PaymentRow | None) -> list[Decided]:
        assert row is not None
        return [put(row, revision=row.revision + 1, amount=row.amount + 1)]

    return MovePayment(ROW.id, grow, lambda: told.append(number))


class MoneyContract(Contract):
    """Payments and alarms."""

    async def test_a_payment_moves_from_the_revision_that_was_read(
        self, clock: SettableClock, tmp_path: Path
    ) -> None:
        """Let one of two moves from the same revision win; store nothing of the other's commit."""
        async with self.opened(clock, tmp_path) as store:
            await store.commit(put())
            await store.commit(put(revision=2, state="check"))
            with pytest.raises(StaleRowError):
                await store.commit(PutSetting("other", "1"), put(revision=2, state="closing"))
            with pytest.raises(StaleRowError):
                await store.commit(put(revision=4))
            row = await store.payments.get(ROW.id)

            assert row is not None
            assert (row.state, row.revision) == ("check", 2)
            assert await store.setting("other") is None

    async def test_a_history_is_folded_into_its_last_line(self, clock: SettableClock, tmp_path: Path) -> None:
        """Keep the payment and another's history; nothing of a commit that is refused is folded."""
        other = attrs.evolve(ROW, id=RefId("2222"))
        async with self.opened(clock, tmp_path) as store:
            await store.commit(put(), put(other))
            await store.commit(*(put(revision=number) for number in range(2, 9)))
            with pytest.raises(StaleRowError):
                await store.commit(attrs.evolve(put(revision=9), folds=True), put(revision=3))
            assert len(await store.payments.history(ROW.id)) == 8
            await store.commit(PutPayment(attrs.evolve(ROW, revision=9, state="lapsed"), "over", NOON, True))
            moves = await store.payments.history(ROW.id)
            row = await store.payments.get(ROW.id)

            assert [(move.revision, move.fact, move.state) for move in moves] == [(9, "over", "lapsed")]
            assert row is not None
            assert row.state == "lapsed"
            await store.commit(put(revision=10))
            assert [move.revision for move in await store.payments.history(ROW.id)] == [9, 10]
            assert len(await store.payments.history(other.id)) == 1

    async def test_a_move_is_decided_from_the_row_as_it_is_when_it_is_stored(
        self, clock: SettableClock, tmp_path: Path
    ) -> None:
        """Build each of many simultaneous moves upon the one before, in one commit or in several."""
        told: list[int] = []
        async with self.opened(clock, tmp_path) as store:
            await store.commit(put())

            async def mover(number: int) -> None:
                await store.commit(raised(told, number), PutSetting(f"unrelated{number}", "1"))

            async with trio.open_nursery() as nursery:
                for number in range(10):
                    nursery.start_soon(mover, number)
            await store.commit(raised(told, 10), put(ROW, revision=13), raised(told, 11))
            row = await store.payments.get(ROW.id)
            moves = await store.payments.history(ROW.id)

            assert row is not None
            assert (row.revision, row.amount) == (14, ROW.amount + 1)
            assert [move.revision for move in moves] == list(range(1, 15))
            assert sorted(told[:10]) == list(range(10))
            assert told[10:] == [10, 11]
            assert await store.setting("unrelated9") == "1"

    async def test_a_move_that_cannot_be_refuses_its_own_commit_only(
        self, clock: SettableClock, tmp_path: Path
    ) -> None:
        """Call no `on_commit` of the refused commit."""
        told: list[int] = []

        def refuse(row: PaymentRow | None) -> list[Decided]:
            raise StaleRowError(ROW.id)

        async with self.opened(clock, tmp_path) as store:
            await store.commit(put())

            async def other(number: int) -> None:
                await store.commit(raised(told, number))

            async def refused() -> None:
                never = MovePayment(ROW.id, refuse, lambda: told.append(-1))
                with pytest.raises(StaleRowError):
                    await store.commit(raised(told, -2), PutSetting("refused", "1"), never)

            async with trio.open_nursery() as nursery:
                for number in range(3):
                    nursery.start_soon(other, number)
                nursery.start_soon(refused)
            row = await store.payments.get(ROW.id)

            assert row is not None
            assert row.revision == 4
            assert sorted(told) == [0, 1, 2]
            assert await store.setting("refused") is None

    async def test_a_move_goes_with_an_event_that_is_accepted(
        self, clock: SettableClock, tmp_path: Path
    ) -> None:
        """Store both or neither; the move may make the payment's first row."""
        told: list[int] = []

        def first(row: PaymentRow | None) -> list[Decided]:
            return [put()] if row is None else []

        async with self.opened(clock, tmp_path) as store:
            writes = MovePayment(ROW.id, first, lambda: told.append(1))
            row = await accepted(store, arrival(), also=(writes, raised(told, 2)))
            await store.commit(writes)
            payment = await store.payments.get(ROW.id)

            assert payment is not None
            assert payment.revision == 2
            assert told == [1, 2, 1]
            assert [kept.seq for kept in await store.backlog(after=0, limit=9)] == [row.seq]

    async def test_of_many_that_move_it_at_once_one_wins(self, clock: SettableClock, tmp_path: Path) -> None:
        """Store whatever shares a batch with the moves that lose."""
        won: list[int] = []
        async with self.opened(clock, tmp_path) as store:
            await store.commit(put())

            async def mover(number: int) -> None:
                await store.commit(PutSetting(f"unrelated{number}", "1"))
                try:
                    await store.commit(put(revision=2, amount=number))
                except StaleRowError:
                    return
                won.append(number)

            async with trio.open_nursery() as nursery:
                for number in range(10):
                    nursery.start_soon(mover, number)
            row = await store.payments.get(ROW.id)

            assert row is not None
            assert won == [row.amount]
            assert [await store.setting(f"unrelated{number}") for number in range(10)] == ["1"] * 10

    async def test_several_moves_in_one_commit(self, clock: SettableClock, tmp_path: Path) -> None:
        """Build them on one another, and keep each in the history."""
        async with self.opened(clock, tmp_path) as store:
            await store.commit(put(), put(revision=2, state="check"), put(revision=3, state="closing"))

            assert await store.payments.history(ROW.id) == [
                PaymentMove(1, NOON, "send_ok", "open"),
                PaymentMove(2, NOON, "send_ok", "check"),
                PaymentMove(3, NOON, "send_ok", "closing"),
            ]

    async def test_a_number_is_used_once(self, clock: SettableClock, tmp_path: Path) -> None:
        """Refuse a payment's id, and an invoice's, that is in use."""
        async with self.opened(clock, tmp_path) as store:
            await store.commit(put(invoice_id="i1"))
            with pytest.raises(StaleRowError):
                await store.commit(put())
            with pytest.raises(StaleRowError):
                await store.commit(put(id="2222", invoice_id="i1"))
            await store.commit(put(id="2222"))
            with pytest.raises(StaleRowError):
                await store.commit(put(id="2222", revision=2, invoice_id="i1"))
            found = await store.payments.of_invoice(InvoiceId("i1"))

            assert found is not None
            assert found.id == ROW.id
            assert await store.payments.of_invoice(InvoiceId("i2")) is None

    async def test_an_event_is_taken_with_the_move_that_it_brings(
        self, clock: SettableClock, tmp_path: Path
    ) -> None:
        """Refuse an event's consumption, and its acceptance, together with a stale move."""
        async with self.opened(clock, tmp_path) as store:
            await store.commit(put())
            event = await accepted(store, arrival())
            with pytest.raises(StaleRowError):
                await store.commit(Consume((event.seq,)), put())
            assert len(await store.backlog(after=0, limit=9)) == 1
            with pytest.raises(StaleRowError):
                await store.accept(arrival(2), quota=ROOMY, also=[put()])
            assert len(await store.backlog(after=0, limit=9)) == 1

    async def test_what_is_due_comes_by_urgency(self, clock: SettableClock, tmp_path: Path) -> None:
        """Order equal urgency by how long it has waited; return nothing that isn't due."""
        async with self.opened(clock, tmp_path) as store:
            for id_, due, urgent in (
                ("1", 30, None),
                ("2", 20, None),
                ("3", 40, 7),
                ("4", 45, 6),
                ("5", None, 1),
                ("6", 90, 1),
            ):
                await store.commit(put(id=id_, due_at=due, urgent=urgent))

            assert [row.id for row in await store.payments.due(50, limit=9)] == ["4", "3", "2", "1"]
            assert [row.id for row in await store.payments.due(50, limit=3)] == ["4", "3", "2"]
            assert [row.id for row in await store.payments.due(50, limit=1)] == ["4"]
            assert await store.payments.next_due() == 20

    async def test_nothing_is_due_in_an_empty_store(self, clock: SettableClock, tmp_path: Path) -> None:
        async with self.opened(clock, tmp_path) as store:
            assert await store.payments.next_due() is None
            assert await store.payments.due(NOON, limit=9) == []

    async def test_payments_are_found_by_state_chat_and_age(
        self, clock: SettableClock, tmp_path: Path
    ) -> None:
        """Return them in pages, by their numbers."""
        async with self.opened(clock, tmp_path) as store:
            for number in range(6):
                state, chat = ("open", "check", "settled")[number % 3], 7 + number % 2
                await store.commit(put(id=str(number), state=state, chat_id=chat, made_at=number))

            def ids(rows: object) -> str:
                return "".join(row.id for row in rows)  # type: ignore[attr-defined]

            find = store.payments.find
            assert ids(await find(limit=9)) == "012345"
            assert ids(await find(states=["open", "check"], limit=9)) == "0134"
            assert ids(await find(chat_id=ChatId(8), limit=9)) == "135"
            assert ids(await find(before=3, limit=9)) == "012"
            assert ids(await find(after=RefId("2"), limit=2)) == "34"
            assert (
                ids(await find(states=["open"], chat_id=ChatId(8), before=9, after=RefId("0"), limit=9))
                == "3"
            )
            assert await store.payments.counts() == {"open": 2, "check": 2, "settled": 2}

    async def test_totals_never_mix_groups_or_days(self, clock: SettableClock, tmp_path: Path) -> None:
        """Keep 100 coin apart from 100 rials."""
        async with self.opened(clock, tmp_path) as store:
            for id_, group, at, amount in (
                ("1", "button IRR", 3 * DAY, 100),
                ("2", "button IRR", 4 * DAY - 1, 50),
                ("3", "button coin", 3 * DAY, 100),
                ("4", "button IRR", 4 * DAY, 7),
            ):
                await store.commit(put(id=id_, group=group, captured=amount, captured_at=at))
            await store.commit(put(id="5"))

            assert await store.payments.totals(since=0, until=4 * DAY) == [
                PaymentTotal(3, "button IRR", 2, 150),
                PaymentTotal(3, "button coin", 1, 100),
            ]
            assert len(await store.payments.totals(since=0, until=9 * DAY)) == 3

    @pytest.mark.parametrize(
        "changes",
        [
            {"record": "\ud800"},
            {"record": "a\0"},
            {"amount": 2**63},
            {"revision": 0},
            {"state": ""},
            {"due_at": -1},
        ],
    )
    async def test_a_payment_that_cant_be_stored(
        self, clock: SettableClock, tmp_path: Path, changes: dict[str, object]
    ) -> None:
        """Refuse it before it is written, with the field's name."""
        async with self.opened(clock, tmp_path) as store:
            with pytest.raises(LocalProtocolError) as caught:
                await store.commit(put(**changes))
            assert caught.value.field == next(iter(changes))

    # --- alarms

    async def test_one_alarm_a_thing(self, clock: SettableClock, tmp_path: Path) -> None:
        """Count repetitions in one alarm: ten thousand forged callbacks are one."""
        async with self.opened(clock, tmp_path) as store:
            for at in range(3):
                await store.commit(RaiseAlarm("foreign_payment", "1", f"text {at}", at))
            await store.commit(RaiseAlarm("foreign_payment", "2", "text", 9))
            first, second = await store.alarms.open(limit=9)

            assert (first.key, first.text, first.first, first.last, first.count) == ("1", "text 2", 0, 2, 3)
            assert second.key == "2"

    async def test_an_alarm_is_open_until_it_is_acknowledged(
        self, clock: SettableClock, tmp_path: Path
    ) -> None:
        """Open an acknowledged alarm anew when it is raised again."""
        async with self.opened(clock, tmp_path) as store:
            await store.commit(
                RaiseAlarm("adopted", "1", "text", 5), RaiseAlarm("id_unknown", "1", "text", 5)
            )
            await store.commit(AlarmTold("adopted", "1", 6), AcknowledgeAlarms(("adopted",), "1", 7))
            assert [alarm.kind for alarm in await store.alarms.open(limit=9)] == ["id_unknown"]
            assert {alarm.acknowledged for alarm in await store.alarms.all(limit=9)} == {7, None}

            await store.commit(RaiseAlarm("adopted", "1", "text", 8))
            again = (await store.alarms.open(limit=9))[1]
            assert (again.first, again.last, again.count, again.told) == (8, 8, 1, None)
            await store.commit(AcknowledgeAlarms((), None, 9))
            assert await store.alarms.open(limit=9) == []

    async def test_who_has_been_told(self, clock: SettableClock, tmp_path: Path) -> None:
        """Return alarms again whose last telling is long ago."""
        async with self.opened(clock, tmp_path) as store:
            for key in ("1", "2", "3"):
                await store.commit(RaiseAlarm("adopted", key, "text", 5))
            await store.commit(AlarmTold("adopted", "1", 10), AlarmTold("adopted", "2", 20))

            assert [alarm.key for alarm in await store.alarms.open(told_before=15, limit=9)] == ["1", "3"]

    async def test_what_happened_once_is_told_once(self, clock: SettableClock, tmp_path: Path) -> None:
        """Return what tells of an event again only if it was raised again; kinds can be chosen."""
        async with self.opened(clock, tmp_path) as store:
            for key in ("1", "2"):
                await store.commit(RaiseAlarm("conversation_crashed", key, "text", 5))
                await store.commit(AlarmTold("conversation_crashed", key, 10))
            await store.commit(RaiseAlarm("adopted", "3", "text", 5), AlarmTold("adopted", "3", 10))
            await store.commit(RaiseAlarm("conversation_crashed", "2", "text", 12))

            ask = store.alarms.open
            assert [alarm.key for alarm in await ask(told_before=15, limit=9)] == ["3", "2"]
            assert await ask(told_before=10, limit=9) == []
            assert [alarm.key for alarm in await ask(kinds=("conversation_crashed",), limit=9)] == ["1", "2"]
            chosen = await ask(told_before=15, kinds=("adopted", "id_unknown"), limit=9)
            assert [alarm.key for alarm in chosen] == ["3"]
