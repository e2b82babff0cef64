"""Payments and alarms in a file outlive the process that wrote them."""

from __future__ import annotations

from pathlib import Path

from tests.store.contract.contract import NOON, SettableClock
from tests.store.contract.money import ROW, put
from triobot.seams.money import RaiseAlarm
from triobot.store import Stamp, open_store

STAMP = Stamp("https://platform.test", "t")


async def test_a_restart_forgets_no_payment(tmp_path: Path) -> None:
    """Row, history and alarm are on the disk."""
    clock = SettableClock()
    for _ in range(2):
        async with open_store(f"sqlite:{tmp_path}/bot.db", stamp=STAMP, clock=clock) as store:
            if await store.payments.get(ROW.id) is None:
                await store.commit(put(invoice_id="i1", due_at=NOON, captured=5, captured_at=6))
                await store.commit(RaiseAlarm("adopted", ROW.id, "text", NOON))
                continue
            assert (await store.payments.due(NOON, limit=1))[0].record == ROW.record
            assert len(await store.payments.history(ROW.id)) == 1
            assert len(await store.alarms.open(limit=9)) == 1
            return
    raise AssertionError("the second opening found nothing")
