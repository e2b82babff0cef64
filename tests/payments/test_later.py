"""Moves that are decided in the transaction which stores them with something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
from cashier_rig import Clock

from triobot.payments.entries import Entries, claiming, moving, opening
from triobot.payments.entry import Entry
from triobot.payments.facts import ClockSet, Plain, SendOk
from triobot.payments.ledger import Moved
from triobot.payments.records import entry_of
from triobot.seams.money import MovePayment, PaymentRow, PutPayment
from triobot.seams.values import encode_value
from triobot.seams.writes import PutSetting, StaleRowError
from triobot.store import Store
from triobot.store.memory import open_memory
from triobot.wire.ids import ChatId, MessageId, RefId

NOW = 1_700_000_000_000
ID = RefId("1234567890123456")
ENTRY = Entry(
    id=ID,
    kind="button",
    chat_id=ChatId(7),
    amount=5,
    currency="IRR",
    item="[1,1]",
    text="Pizza",
    owner="7/1/1",
    taker="conversation",
    late="handler",
    made_at=NOW,
    expires_at=NOW + 1,
)
SHOWN = SendOk(MessageId(3))


@attrs.define
class Ledger:
    """Books over a store, and what was said of their moves."""

    store: Store
    entries: Entries
    heard: list[str]

    async def state(self) -> str:
        row = await self.store.payments.get(ID)
        assert row is not None
        return row.state

    async def facts(self) -> list[str]:
        return [move.fact for move in await self.store.payments.history(ID)]

    async def alarms(self) -> list[str]:
        return [alarm.kind for alarm in await self.store.alarms.open(limit=9)]

    def moving(self, *facts: Plain | SendOk, **how: object) -> MovePayment:
        return moving(self.entries, ID, *facts, now=NOW, **how)  # type: ignore[arg-type]


@asynccontextmanager
async def ledger(*facts: Plain | SendOk) -> AsyncGenerator[Ledger]:
    async with open_memory(clock=Clock()) as store:
        heard: list[str] = []

        def listen(moved: Moved) -> None:
            heard.append(moved.fact)

        entries = Entries(store.payments, store.commit, lambda: NOW, listen, Counter())
        await store.commit(opening(entries, ENTRY, NOW)[1])
        for fact in facts:
            await store.commit(moving(entries, ID, fact, now=NOW))
        heard.clear()
        yield Ledger(store, entries, heard)


async def test_it_moves_from_where_it_is_and_is_announced() -> None:
    """What came in between, such as a callback, is what it builds upon."""
    async with ledger() as there:
        shown = there.moving(SHOWN)
        await there.entries.move(ID, Plain("taker_gone"))
        await there.store.commit(shown)

        assert await there.facts() == ["made", "send_begun", "taker_gone", "send_ok"]
        assert there.heard == ["taker_gone", "send_ok"]
        assert there.entries.counts["send_ok"] == 1


async def test_what_it_can_not_do_changes_nothing_but_is_alarmed() -> None:
    """And what it came with is stored all the same."""
    async with ledger(SHOWN) as there:
        await there.store.commit(there.moving(Plain("settled")), PutSetting("with", "1"))

        assert await there.state() == "open"
        assert await there.alarms() == ["impossible_transition"]
        assert there.entries.counts["impossible"] == 1
        assert await there.store.setting("with") == "1"


@pytest.mark.parametrize("how", [{"may_fail": True}, {"taker": "handler"}])
async def test_what_may_fail_or_is_somebody_elses_is_nothing(how: dict[str, object]) -> None:
    async with ledger(SHOWN) as there:
        await there.store.commit(there.moving(Plain("settled"), **how), PutSetting("with", "1"))

        assert await there.state() == "open"
        assert await there.alarms() == []
        assert there.heard == []
        assert await there.store.setting("with") == "1"


async def test_what_has_happened_does_not_happen_again() -> None:
    """Whoever was stopped in the middle of a commit stores it once more, not knowing."""
    async with ledger() as there:
        shown, opened = there.moving(SHOWN), opening(there.entries, ENTRY, NOW)[1]
        for _ in range(2):
            await there.store.commit(shown)
            await there.store.commit(opened)

        assert await there.facts() == ["made", "send_begun", "send_ok"]
        assert await there.alarms() == []


async def test_a_number_of_somebody_else_is_refused_whole() -> None:
    async with ledger() as there:
        other = opening(there.entries, attrs.evolve(ENTRY, owner="8/1/1"), NOW)[1]
        with pytest.raises(StaleRowError):
            await there.store.commit(PutSetting("with", "1"), other)

        assert await there.store.setting("with") is None
        assert await there.facts() == ["made", "send_begun"]


async def test_a_claim_is_refused_once_it_has_moved() -> None:
    """Nothing that was begun on the strength of it may be there then."""
    async with ledger(SHOWN) as there:
        row = await there.store.payments.get(ID)
        assert row is not None
        after, claim = claiming(there.entries, entry_of(row), Plain("taker_gone"), NOW)
        assert after.state == "closing"
        await there.entries.move(ID, ClockSet(-1))
        with pytest.raises(StaleRowError):
            await there.store.commit(PutSetting("begun", "1"), claim)

        assert await there.store.setting("begun") is None
        assert await there.state() == "open"


@pytest.mark.parametrize("record", ["[9,1]", encode_value(attrs.evolve(ENTRY, id=RefId("9")))])
async def test_an_entry_of_another_version_holds_nobody_up(record: str) -> None:
    """An operator looks after it, and after a row with another's entry; what the move came with is stored."""
    async with ledger(SHOWN) as there:
        row = await there.store.payments.get(ID)
        assert row is not None
        strange: PaymentRow = attrs.evolve(row, revision=row.revision + 1, record=record)
        await there.store.commit(PutPayment(strange, "later", NOW))
        await there.store.commit(there.moving(Plain("taker_gone")), PutSetting("with", "1"))

        assert await there.alarms() == ["payment_unverified"]
        assert await there.store.setting("with") == "1"
