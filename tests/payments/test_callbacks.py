"""Callbacks that come in numbers, or while the platform can't say whose they are."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.payments.cashier_rig import MINUTE, lost_invoice, open_till, settles
from triobot.payments.callbacks import IN_HAND
from triobot.payments.entry import Kind
from triobot.seams.inbox import Arrival, Quota
from triobot.seams.money import PutPayment
from triobot.wire.events import PayCallback
from triobot.wire.ids import ChatId, RefId


async def test_none_of_a_flood_stays_in_the_inbox(autojump_clock: MockClock) -> None:
    """What came while too many were in hand is read again, the one that matters among them."""
    async with open_till() as till:
        till.aside = settles
        ticket = await till.charges()
        paid = till.pays()
        forged = [PayCallback(ChatId(5_000 + n), RefId(str(10**15 + n))) for n in range(IN_HAND + 300)]
        came: list[tuple[int, PayCallback]] = []
        for event in (*forged, paid):
            data = json.dumps({"ref_id": event.ref_id, "message_id": event.message_id, "status": "success"})
            body = urlencode({"chat_id": event.chat_id, "type": "payCallback", "data": data})
            arrival = Arrival(
                event.chat_id, None, till.clock.now(), "application/x-www-form-urlencoded", body.encode()
            )
            accepted = await till.store.accept(arrival, quota=Quota())
            came.append((accepted.seq, event))  # type: ignore[union-attr]
        for seq, event in came:
            till.cashier.hint(seq, event)
        await trio.sleep(MINUTE)

        assert await till.store.backlog(after=0, limit=9) == []
        assert till.cashier.entries.counts["hint_left_in_the_inbox"] > 0
        assert await till.state(ticket.id) == "settled"


async def test_a_lost_invoice_is_found_after_an_outage(autojump_clock: MockClock) -> None:
    """A quarter of an hour without an answer leaves most of the hour."""
    async with open_till() as till:
        till.aside = settles
        ticket = await lost_invoice(till, "1", 250_000)
        paid = till.pays_invoice()
        till.line.fault = lambda operation: "lost"
        await till.posts(paid)
        await trio.sleep(15 * MINUTE)
        till.line.fault = lambda operation: None
        await trio.sleep(6 * MINUTE)

        assert [money.id for money in till.delivered] == [ticket.id]


@pytest.mark.parametrize("kind", ["button", "invoice"])
async def test_a_callback_of_an_unreadable_payment_is_an_alarm(autojump_clock: MockClock, kind: Kind) -> None:
    """Another version wrote the row. The other callbacks go on."""
    async with open_till() as till:
        ticket = await till.charges(kind=kind)
        paid = till.pays() if kind == "button" else till.pays_invoice()
        row = await till.store.payments.get(ticket.id)
        assert row is not None
        strange = attrs.evolve(row, revision=row.revision + 1, record="[9,1]")
        await till.store.commit(PutPayment(strange, "strange", till.clock.now()))

        await till.posts(paid)
        await trio.sleep(1)

        assert await till.store.backlog(after=0, limit=9) == []
        assert await till.alarms() == {"payment_unverified"}
