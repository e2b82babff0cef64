"""The task that verifies: hints at once, the sweep in time, restarts, restored backups, lost numbers."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from cashier_rig import (
    HOUR,
    MINUTE,
    PRICE,
    Clock,
    Till,
    Waiter,
    again,
    lost_invoice,
    open_till,
    rest,
    settles,
    takes_a_minute,
)
from trio.testing import MockClock

from triobot.errors import DeliveryUnknownError, StoreAwayError, StoreFullError
from triobot.payments.facts import Plain
from triobot.seams.money import AcknowledgeAlarms, Captured, PaymentNotice
from triobot.store import ReadPayments
from triobot.store.memory import MemoryRows, open_memory
from triobot.wire.events import InvoiceCallback, PayCallback
from triobot.wire.ids import ChatId, InvoiceId, RefId
from triobot.wire.operations import EditMessage, InquirePayment, VerifyPayment

LOST = DeliveryUnknownError("payment/verify", "no answer")


def fails(*kinds: type) -> Any:
    """A fault: these operations don't arrive."""

    def fault(operation: Any) -> None:
        if isinstance(operation, kinds):
            raise LOST

    return fault


def loses_one_verify(how: str = "lost") -> Any:
    """A fault: the first verify arrives, and its answer doesn't."""
    lost = [how]

    def fault(operation: Any) -> str | None:
        return lost.pop() if isinstance(operation, VerifyPayment) and lost else None

    return fault


async def test_a_payment_from_the_button_to_the_goods(autojump_clock: MockClock) -> None:
    """The callback is taken in the transaction that stores what it hints at; the button goes."""
    async with open_till() as till:
        till.aside = takes_a_minute
        ticket = await till.charges()
        assert ticket.captured is None
        await till.posts(till.pays())
        assert await ticket.wait_notice() is None
        assert await ticket.wait_decided() == PaymentNotice("paid", captured=PRICE)
        assert ticket.captured is not None
        assert (ticket.captured.amount, ticket.captured.key) == (PRICE, f"button-{ticket.id}")
        await trio.sleep(30)
        assert [(paid.id, paid.redelivered) for paid in till.delivered] == [(ticket.id, False)]
        assert (ticket.ending, await till.state(ticket.id)) == (None, "delivered")
        await trio.sleep(60)

        assert (ticket.ending, await till.state(ticket.id)) == ("given", "settled")
        assert await till.store.backlog(after=0, limit=9) == []
        assert not any(entry.inline_keyboard for entry in till.world.chat(till.user.chat_id).in_sight())
        assert till.wallet == 10**9 - PRICE
        assert await till.alarms() == set()


async def test_a_payment_that_is_due_after_another_wakes_no_sweep(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep reads the store when the first is due; one that is due before that wakes it."""
    looks: list[float] = []
    async with open_till() as till:
        due = till.store.payments.due

        async def counted(now: int, *, limit: int) -> Any:
            looks.append(trio.current_time())
            return await due(now, limit=limit)

        monkeypatch.setattr(type(till.store.payments), "due", lambda _, *given, **how: counted(*given, **how))
        await till.charges()
        await trio.sleep(1)
        looks.clear()
        await till.charges("2")
        await trio.sleep(1)
        assert looks == []

        await till.posts(till.pays())
        await trio.sleep(1)
        assert looks != []


async def test_a_lost_callback_costs_nothing(autojump_clock: MockClock) -> None:
    """The sweep finds it within its hour."""
    async with open_till() as till:
        ticket = await till.charges()
        await trio.sleep(5 * MINUTE)
        till.pays()
        with trio.fail_after(20 * MINUTE):
            assert await ticket.wait_notice() == PaymentNotice("paid", captured=PRICE)


@pytest.mark.parametrize("second", ["verified", "error"])
async def test_an_answer_lost_after_the_capture(autojump_clock: MockClock, second: str) -> None:
    """Whatever the platform answers the second time, the money is found."""
    async with open_till(second_verify=second) as till:
        ticket = await till.charges()
        lost = ["lost", "lost"]
        till.line.fault = lambda op: lost.pop() if isinstance(op, VerifyPayment) and lost else None
        await till.posts(till.pays())
        assert await ticket.wait_notice() is None
        assert await ticket.wait_decided() is None  # for a while: a timeout needn't wait any longer
        with trio.fail_after(5 * MINUTE):
            assert await ticket.wait_notice() == PaymentNotice("paid", captured=PRICE)


@pytest.mark.parametrize("sees", [True, False])
async def test_who_pays_after_an_outage_is_served_at_once(autojump_clock: MockClock, sees: bool) -> None:
    """What was asked in vain is asked every five minutes; a callback doesn't wait for that."""
    async with open_till(inquiry_sees_paid=sees) as till:
        ticket = await till.charges()
        till.line.fault = fails(VerifyPayment, InquirePayment)
        await till.posts(PayCallback(till.user.chat_id, ticket.id, None, "ok", None))
        await trio.sleep(15 * MINUTE)
        assert await till.state(ticket.id) == "verifying"
        till.line.fault = lambda operation: None
        assert await ticket.wait_decided() is None
        await till.posts(till.pays())
        with trio.fail_after(1):
            assert await ticket.wait_notice() is None
            assert await ticket.wait_decided() == PaymentNotice("paid", captured=PRICE)


async def test_who_pays_does_not_wait_for_the_old_button_to_go(autojump_clock: MockClock) -> None:
    """An edit may be answered late or never: it is done again behind what can't wait, and hasn't failed."""
    async with open_till() as till:
        till.aside = settles
        ticket = await till.charges()

        def fault(operation: Any) -> str | None:
            if isinstance(operation, VerifyPayment | InquirePayment):
                raise LOST
            return "hangs" if isinstance(operation, EditMessage) else None

        till.line.fault = fault
        event = till.pays()
        await till.ends(ticket, "given_up")
        await trio.sleep(1)
        assert till.line.asked[-1] == "editMessage"
        till.line.fault = lambda operation: None
        await till.posts(event)
        with trio.fail_after(5):
            while not till.delivered:
                await trio.sleep(0.1)
        await trio.sleep(1)
        assert await till.state(ticket.id) == "settled"
        assert (await till.facts(ticket.id)).count("removed") == 1
        assert "remove_failed" not in await till.facts(ticket.id)


async def test_a_decline_is_confirmed_first(autojump_clock: MockClock) -> None:
    """Verify and inquiry agree, then the conversation is told."""
    async with open_till() as till:
        ticket = await till.charges()
        await till.posts(till.pays(code=1003))
        assert await ticket.wait_notice() is None
        assert await ticket.wait_decided() == PaymentNotice("retry", 1003)
        assert till.line.asked[-2:] == ["payment/verify", "payment/inquiry"]


async def test_a_forged_decline_declines_nothing(autojump_clock: MockClock) -> None:
    """The money is there."""
    async with open_till() as till:
        ticket = await till.charges()
        till.pays()
        await till.posts(PayCallback(till.user.chat_id, ticket.id, None, "error", 1001))
        assert await ticket.wait_notice() is None
        assert await ticket.wait_decided() == PaymentNotice("paid", captured=PRICE)


async def test_not_enough_money_is_told_at_once(autojump_clock: MockClock) -> None:
    """And waited on, with the same button."""
    async with open_till() as till:
        ticket = await till.charges()
        await till.posts(till.pays(code=1000))
        notice = await ticket.wait_notice()
        assert notice == PaymentNotice("retry", 1000, notice and notice.charge_url)
        assert await ticket.wait_decided() is None
        await till.posts(till.pays())
        assert await ticket.wait_notice() is None
        assert await ticket.wait_decided() == PaymentNotice("paid", captured=PRICE)


async def test_another_amount_is_captured(autojump_clock: MockClock) -> None:
    """Nothing is granted, and an operator is told."""
    async with open_till() as till:
        ticket = await till.charges()
        await till.posts(till.pays(amount=5))
        await ticket.wait_notice()
        assert await ticket.wait_decided() == PaymentNotice("mismatch", captured=5)
        assert await till.alarms() == {"amount_mismatch"}


async def test_who_waits_when_a_death_follows_another_amount(autojump_clock: MockClock) -> None:
    """The next start brings the conversation back: no further event would."""
    async with open_till() as till:
        ticket = await till.charges()
        await till.posts(till.pays(amount=5))
        await ticket.wait_notice()
        assert await ticket.wait_decided() == PaymentNotice("mismatch", captured=5)
        till.crash()
        recalled: list[ChatId] = []
        cashier = till.new_cashier()
        cashier._recall = recalled.append

        async def alive(chat_id: object, owner: str) -> bool:
            return True

        await cashier.start(alive)
        assert recalled == [till.user.chat_id]


async def test_a_platform_that_is_away_for_too_long(autojump_clock: MockClock) -> None:
    """An operator is told while there is time: after half an hour, and of the sweep after twenty minutes."""
    async with open_till() as till:
        await till.charges()
        till.line.fault = fails(VerifyPayment, InquirePayment)
        await till.posts(till.pays())
        await trio.sleep(19 * MINUTE)
        assert await till.alarms() == set()
        await trio.sleep(2 * MINUTE)
        assert await till.alarms() == {"sweep_blind"}
        await trio.sleep(10 * MINUTE)
        assert await till.alarms() == {"sweep_blind", "paid_maybe_unverified"}


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("by", ["half an hour", "operator"])
async def test_a_verify_is_repeated_at_last_without_an_inquiry(
    autojump_clock: MockClock, by: str, restored: bool
) -> None:
    """Its answer was lost, and no inquiry is answered: within the hour, unless from a backup."""
    lost = [LOST]

    def fault(operation: Any) -> None:
        if isinstance(operation, InquirePayment) or (isinstance(operation, VerifyPayment) and lost):
            raise lost.pop() if isinstance(operation, VerifyPayment) else LOST

    async with open_till() as till:
        ticket = await till.charges()
        till.line.fault = fault
        await till.posts(till.pays())
        await trio.sleep(5)
        async with again(till, epoch=int(restored)) as cashier:
            await trio.sleep(25 * MINUTE)
            assert await till.state(ticket.id) == "verifying"
            if by == "operator":
                await cashier.entries.move(ticket.id, Plain("operator_verify"))
                await trio.sleep(1)
            else:
                await trio.sleep(10 * MINUTE)
            assert await till.state(ticket.id) == ("verifying" if restored else "verified")
            assert till.line.asked.count("payment/verify") == (1 if restored else 2)


@pytest.mark.parametrize("how", ["lost", "death"])
async def test_one_lost_answer_is_no_silence(autojump_clock: MockClock, how: str) -> None:
    """It is asked again before an operator is told, however often it was looked at before."""
    async with open_till() as till:
        ticket = await till.charges()
        await trio.sleep(100 * MINUTE)
        asked = list[str]()

        def fault(operation: Any) -> str | None:
            asked.append(operation.path)
            return how if len(asked) <= 2 else None

        if how == "death":  # while a verify is on its way
            till.line.fault = lambda operation: "hangs"
            while await till.state(ticket.id) != "verifying":
                await trio.sleep(1)
            till.line.fault = lambda operation: None
            async with again(till):
                await trio.sleep(30 * MINUTE)
        else:
            till.line.fault = fault
            await trio.sleep(30 * MINUTE)
            assert len(asked) > 2
        assert await till.alarms() == set()
        assert (await till.entry(ticket.id)).clean


async def test_who_has_acknowledged_hears_of_what_goes_on(autojump_clock: MockClock) -> None:
    """What is paid an hour after the alarm was raised goes back two hours after it."""
    async with open_till() as till:
        await till.charges()
        till.line.fault = lambda operation: "lost"
        await trio.sleep(50 * MINUTE)
        assert await till.alarms() == {"sweep_blind"}
        await till.store.commit(AcknowledgeAlarms((), None, till.clock.now()))
        till.pays()
        await trio.sleep(31 * MINUTE)
        assert await till.alarms() == {"sweep_blind"}


async def test_what_is_captured_was_not_unwatched(autojump_clock: MockClock) -> None:
    """Nor was the bot down because there was nothing to do."""
    async with open_till() as till:
        ticket = await till.charges()
        await till.posts(till.pays())
        assert await ticket.wait_notice() is None
        await ticket.wait_decided()  # and there is no aside
        await trio.sleep(HOUR)
        assert await till.state(ticket.id) == "verified"
        async with again(till):
            await rest()
            assert "unwatched" not in await till.alarms()


async def test_late_money_goes_to_the_aside(autojump_clock: MockClock) -> None:
    """Its conversation has ended; the button is taken away, and what was paid before that is verified."""
    async with open_till() as till:
        till.aside = settles
        ticket = await till.charges()
        event = till.pays()
        await till.ends(ticket, "given_up")
        await till.posts(event)
        await trio.sleep(1)

        assert [(paid.id, paid.item) for paid in till.delivered] == [(ticket.id, "[1, 1]")]
        assert await till.state(ticket.id) == "settled"


async def test_late_money_that_nobody_wants_goes_back(autojump_clock: MockClock) -> None:
    """``late="refund"``: what is paid behind the question that is asked at the end is never verified."""
    async with open_till() as till:
        till.aside = settles
        ticket = await till.charges(late="nobody")
        await till.ends(ticket, "given_up")
        await trio.sleep(0.25)  # its button is about to go
        await till.posts(till.pays())
        await trio.sleep(3 * HOUR)

        assert till.line.asked.count("payment/verify") == 1
        assert till.wallet == 10**9
        assert await till.state(ticket.id) == "lapsed"
        assert await till.alarms() == {"paid_will_lapse", "lapsed_after_hint"}


@pytest.mark.parametrize("sees", [True, False])
@pytest.mark.parametrize("fault", ["", "lost", "killed", "away"])
async def test_one_question_is_asked_before_a_sale_is_given_up(
    autojump_clock: MockClock, fault: str, sees: bool
) -> None:
    """``late="refund"``, paid in time, the callback lost, and a limit or /cancel ends the charge."""
    async with open_till(inquiry_sees_paid=sees) as till:
        till.aside = settles
        ticket = await till.charges(late="nobody")
        await trio.sleep(5 * MINUTE)
        till.pays()
        await trio.sleep(4 * MINUTE)
        faults = {"lost": loses_one_verify(), "away": fails(VerifyPayment, InquirePayment)}
        till.line.fault = faults.get(fault, lambda operation: None)
        await till.ends(ticket, "given_up")
        if fault == "killed":
            # Whoever is away for long must not take it all the same.
            till.crash()
            await trio.sleep(50 * MINUTE)
            async with again(till, alive=lambda owner: False):
                await trio.sleep(2 * HOUR)
        else:
            await trio.sleep(2 * HOUR)
        given = fault in ("", "lost")
        assert [paid.id for paid in till.delivered] == [ticket.id] * given
        assert till.wallet == 10**9 - PRICE * given


async def test_captured_money_without_an_aside(autojump_clock: MockClock) -> None:
    """An operator is told, until it is dealt with."""
    async with open_till() as till:
        ticket = await till.charges()
        await till.posts(till.pays())
        await ticket.wait_notice()
        await ticket.wait_decided()
        await trio.sleep(1)

        assert (ticket.ending, await till.state(ticket.id)) == ("handed_over", "verified")
        assert await till.alarms() == {"captured_without_taker"}


@pytest.mark.parametrize("late", ["handler", "nobody"])
async def test_who_goes_when_it_is_paid_takes_nothing_along(autojump_clock: MockClock, late: Any) -> None:
    """Left to go back or not: what is captured is the aside's, and stays it."""
    async with open_till() as till:
        till.aside = takes_a_minute
        ticket = await till.charges(late=late)
        await till.posts(till.pays())
        await ticket.wait_notice()
        await ticket.wait_decided()
        await till.ends(ticket, "given_up")
        await trio.sleep(2 * MINUTE)

        assert [paid.redelivered for paid in till.delivered] == [False]
        assert await till.state(ticket.id) == "settled"
        assert "taker_gone" not in await till.facts(ticket.id)
        assert await till.alarms() == set()


async def test_what_is_captured_as_its_conversation_goes_is_given(autojump_clock: MockClock) -> None:
    """The verify was on its way: it can't be taken back, so nobody is left without goods."""
    async with open_till() as till:
        till.aside = settles
        ticket = await till.charges(late="nobody")
        await till.posts(till.pays())
        await ticket.wait_notice()
        await trio.sleep(0.05)
        assert await till.state(ticket.id) == "verifying"
        await till.ends(ticket, "given_up")
        await trio.sleep(1)

        assert [paid.id for paid in till.delivered] == [ticket.id]
        assert await till.state(ticket.id) == "settled"
        assert await till.alarms() == set()


async def test_an_aside_that_fails_is_tried_again(autojump_clock: MockClock) -> None:
    """Ever later, with a mark; after five times an operator is told."""
    async with open_till() as till:

        async def fail(captured: Captured, till: Till) -> None:
            await till.ends(captured, "failed")

        till.aside = fail
        ticket = await till.charges()
        event = till.pays()
        await till.ends(ticket, "given_up")
        await till.posts(event)
        await trio.sleep(2 * HOUR)

        assert ticket.ending == "handed_over"
        assert [paid.redelivered for paid in till.delivered] == [False, True, True, True, True]
        assert {paid.key for paid in till.delivered} == {f"button-{ticket.id}"}
        assert await till.alarms() == {"handler_keeps_failing"}


@pytest.mark.slow
async def test_a_button_that_cant_be_removed(autojump_clock: MockClock) -> None:
    """It is tried again, then told; and watched as long as it is there."""
    async with open_till() as till:
        ticket = await till.charges()
        till.line.fault = fails(EditMessage)
        await till.ends(ticket, "given_up")
        await trio.sleep(10 * MINUTE)
        assert await till.alarms() == {"button_still_live"}
        await trio.sleep(30 * HOUR)
        assert await till.state(ticket.id) == "check"
        till.line.fault = lambda operation: None
        await trio.sleep(3 * HOUR)
        assert await till.state(ticket.id) == "lapsed"
        assert await till.alarms() == set()


# --- restarts


async def test_a_crash_while_a_verify_was_on_its_way(autojump_clock: MockClock) -> None:
    """The intent says so: the inquiry comes first."""
    async with open_till(second_verify="error") as till:
        ticket = await till.charges()
        till.line.fault = lambda operation: "hangs"
        await till.posts(till.pays())
        await trio.sleep(1)
        assert await till.state(ticket.id) == "verifying"
        asked = len(till.line.asked)
        till.line.fault = lambda operation: None
        till.aside = settles
        async with again(till, alive=lambda owner: False):
            await trio.sleep(1)
            assert till.line.asked[asked] == "payment/inquiry"
            assert await till.state(ticket.id) == "settled"


async def test_a_conversation_comes_back_to_its_payment(autojump_clock: MockClock) -> None:
    """By its number, and hears what happened meanwhile."""
    async with open_till() as till:
        ticket = await till.charges()
        await till.posts(till.pays())
        await trio.sleep(1)
        async with again(till) as cashier:
            back = Waiter(cashier, ticket.id)
            assert await back.wait_notice() == PaymentNotice("paid", captured=PRICE)
            assert not back.entry.to_send


@pytest.mark.parametrize("fails", [False, True])
async def test_a_conversation_that_comes_back_later_hears_of_the_goods(
    autojump_clock: MockClock, fails: bool
) -> None:
    """They were given, or not, while it was not in memory."""

    async def ends(captured: Captured, till: Till) -> None:
        await till.ends(captured, "failed" if fails else "settled")

    async with open_till() as till:
        till.aside = ends
        ticket = await till.charges()
        await till.posts(till.pays())
        await trio.sleep(1)
        async with again(till) as cashier:
            back = Waiter(cashier, ticket.id)
            outcome, ending = ("handed_over", "handed_over") if fails else ("paid", "given")
            notice = await back.wait_notice()
            assert notice is not None
            assert (notice.outcome, back.ending) == (outcome, ending)


async def test_a_long_gap_is_told_by_name(autojump_clock: MockClock) -> None:
    """What was paid too long before the start has gone back."""
    async with open_till() as till:
        ticket = await till.charges()
        till.crash()
        await trio.sleep(3 * HOUR)
        async with again(till, alive=lambda owner: False):
            await rest()
            (alarm,) = [alarm for alarm in await till.store.alarms.open(limit=9) if alarm.kind == "unwatched"]
            assert ticket.id in alarm.text
            assert "1 payments were open" in alarm.text


async def test_what_was_not_captured_before_a_restored_backup_goes_on(autojump_clock: MockClock) -> None:
    """Its button stays, and its conversation gets the money as if nothing had been."""
    async with open_till() as till:
        ticket = await till.charges()
        till.aside = settles
        async with again(till, epoch=1) as cashier:
            back = Waiter(cashier, ticket.id)
            await trio.sleep(1)
            assert till.line.asked[-1] == "payment/inquiry"
            await trio.sleep(HOUR)
            await till.posts(till.pays())
            with trio.fail_after(1):
                while await back.wait_decided() != PaymentNotice("paid", captured=PRICE):
                    await back.wait_notice()
            await trio.sleep(1)
            assert [(paid.redelivered, paid.uncertain) for paid in till.delivered] == [(False, False)]
            assert (back.ending, await till.alarms()) == ("given", set())


async def test_whose_conversation_is_not_in_a_restored_backup(autojump_clock: MockClock) -> None:
    """Its button goes, and what is paid before that is the aside's."""
    async with open_till() as till:
        ticket = await till.charges()
        till.aside = settles
        till.line.fault = fails(EditMessage)
        async with again(till, epoch=1, alive=lambda owner: False):
            await trio.sleep(1)
            assert "payment/inquiry" in till.line.asked
            assert "payment/verify" not in till.line.asked
            await till.posts(till.pays())
            till.line.fault = lambda operation: None
            await trio.sleep(20 * MINUTE)
            assert [(paid.id, paid.uncertain) for paid in till.delivered] == [(ticket.id, False)]
            assert await till.alarms() == set()
            assert not any(entry.inline_keyboard for entry in till.world.chat(till.user.chat_id).in_sight())


async def test_who_waits_for_what_was_captured_before_a_restored_backup(autojump_clock: MockClock) -> None:
    """Hears at once that it is an operator's now; whose conversation is not in memory is brought back."""
    async with open_till() as till:
        tickets = []
        for number in range(2):
            tickets.append(await till.charges(str(number)))
            till.pays()
            # Whoever captured and granted it is not in the backup.
            await till.line.perform(VerifyPayment(till.user.chat_id, tickets[-1].id))
        till.crash()
        recalled: list[ChatId] = []
        cashier = till.new_cashier(1)
        cashier._recall = recalled.append
        async with trio.open_nursery() as nursery:

            async def alive(chat_id: object, owner: str) -> bool:
                return True

            await cashier.start(alive)
            back = Waiter(cashier, tickets[0].id)
            assert recalled == []
            await nursery.start(cashier.run)
            with trio.fail_after(MINUTE):
                handed_over = await back.wait_notice()
            assert handed_over is not None
            assert (handed_over.outcome, handed_over.captured) == ("handed_over", PRICE)
            await trio.sleep(MINUTE)
            assert recalled == [till.user.chat_id]
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("late", ["handler", "nobody"])
async def test_what_was_granted_after_the_backup_is_the_operators(
    autojump_clock: MockClock, late: Any
) -> None:
    """Each is named; none is granted again unless an operator says so."""
    rows, clock = MemoryRows(), Clock()
    async with open_memory(clock=clock, rows=rows) as store:
        till = Till(store)
        tickets = [await till.charges(str(number), late=late) for number in range(5)]
    backup = rows.copy()
    till.aside = settles
    async with open_memory(clock=clock, rows=rows) as store:
        till.store = store
        async with again(till) as cashier:
            for ticket in reversed(tickets):
                Waiter(cashier, ticket.id)
                await till.posts(till.pays())
                await trio.sleep(MINUTE)
            assert await store.payments.counts() == {"settled": 5}
    till.delivered.clear()
    before = len(till.line.asked)
    async with open_memory(clock=clock, rows=backup) as store:
        till.store = store
        async with again(till, epoch=1):
            await trio.sleep(2 * HOUR)
            if late == "handler":
                asked = till.line.asked[before:]
                assert asked.index("payment/inquiry") < asked.index("payment/verify")
            assert till.delivered == []
            alarms = await store.alarms.open(limit=99)
            named = {alarm.key for alarm in alarms if alarm.kind == "granted_before_maybe"}
            assert named == {ticket.id for ticket in tickets}
        async with again(till, epoch=1):
            await trio.sleep(2 * HOUR)
            assert till.delivered == []
            await till.cashier.entries.move(tickets[0].id, Plain("operator_redeliver"))
            await trio.sleep(MINUTE)
            assert [(paid.id, paid.uncertain) for paid in till.delivered] == [(tickets[0].id, True)]
            assert await till.state(tickets[0].id) == "settled"


# --- the clock, and a program that stands still


@pytest.mark.parametrize("ahead", [0, 60, 700, 7200, -700])
async def test_a_callback_is_looked_at_at_once_though_the_time_of_day_was_set(
    ahead: int, autojump_clock: MockClock
) -> None:
    """The sweep sleeps meanwhile, by a clock that nobody sets."""
    async with open_till() as till:
        ticket = await till.charges()
        await trio.sleep(5)
        till.clock.ahead += ahead * 1000
        await trio.sleep(1)
        await till.posts(till.pays())
        await trio.sleep(1)
        assert ticket.captured is not None


async def test_money_is_captured_in_the_last_minute_behind_a_standstill(autojump_clock: MockClock) -> None:
    """The sweep has slept as long as the machine did, and its own clock has not."""
    async with open_till() as till:
        ticket = await till.charges()
        await trio.sleep(3)
        event = till.pays()
        till.stands_still(3580)
        await till.posts(event)
        await trio.sleep(10)
        assert ticket.captured is not None


async def test_a_standstill_names_what_was_asked_for_since_the_last_look(autojump_clock: MockClock) -> None:
    """A payment that is due later than another wakes no sweep, and may be the newest by a minute."""
    async with open_till() as till:
        await till.charges()
        await trio.sleep(30)
        second = await till.charges("2")
        await trio.sleep(3)
        till.pays()
        till.stands_still(2 * HOUR)
        await trio.sleep(30 * MINUTE)
        (alarm,) = await till.store.alarms.open(limit=9)
        assert alarm.kind == "unwatched"
        assert f"{second.id} (chat" in alarm.text
        assert "of 500,000 IRR in all" in alarm.text


async def test_a_standstill_names_all_that_was_open(autojump_clock: MockClock) -> None:
    """The gap, the payments and their money; nothing else, once the platform answers again."""
    async with open_till() as till:
        tickets = [await till.charges(str(number)) for number in range(2)]
        await trio.sleep(4.5 * MINUTE)
        till.pays()
        till.stands_still(3 * HOUR)
        await trio.sleep(30 * MINUTE)
        (alarm,) = await till.store.alarms.open(limit=9)
        assert alarm.kind == "unwatched"
        # A bell at rest looks for no rows: it must be told of each.
        assert [told.kind for told in till.noted] == ["unwatched"]
        assert "between 2023-11-14 22:17 and 2023-11-15 01:18" in alarm.text
        assert "of 500,000 IRR in all" in alarm.text
        assert all(f"{ticket.id} (chat" in alarm.text for ticket in tickets)


async def test_a_clock_that_is_set_forward_alarms_about_no_sweep(autojump_clock: MockClock) -> None:
    """Whoever has an hour has an hour; what was open is named, in case the machine stood still."""
    async with open_till() as till:
        ticket = await till.charges()
        gone = await till.charges("2")
        await till.ends(gone, "given_up")
        await trio.sleep(5 * MINUTE)
        till.clock.ahead += int(2 * HOUR * 1000)
        await trio.sleep(30 * MINUTE)
        (alarm,) = await till.store.alarms.open(limit=9)
        assert (alarm.kind, alarm.key) == ("clock_jumped", "payments")
        assert alarm.key in {told.key for told in till.noted}
        assert ticket.id in alarm.text
        # It can still be paid by whoever had its button on the screen.
        assert await till.state(gone.id) == "check"
        await trio.sleep(50 * MINUTE)
        assert await till.state(gone.id) == "lapsed"


@pytest.mark.parametrize("doubt", ["", "lost", "crash", "over"])
@pytest.mark.parametrize("pause", [0.0, 0.05, 1, MINUTE])
async def test_a_second_callback_is_told_of_where_the_first_is_in_doubt(
    autojump_clock: MockClock, pause: float, doubt: str
) -> None:
    """However soon it comes: a platform that doubles it can't be told from a person who pays twice."""
    async with open_till() as till:
        ticket = await till.charges()
        if doubt == "over":
            # A verify whose answer was lost long ago took nothing, as has been found out.
            till.line.fault = loses_one_verify()
            await trio.sleep(40 * MINUTE)
        faults = {"lost": loses_one_verify(), "crash": loses_one_verify("hangs")}
        till.line.fault = faults.get(doubt, lambda operation: None)
        event = till.pays()
        await till.posts(event)
        if doubt == "crash":
            await trio.sleep(1)
            async with again(till):
                await trio.sleep(pause)
                await till.posts(event)
                await trio.sleep(10 * MINUTE)
        else:
            await trio.sleep(pause)
            await till.posts(event)
            await trio.sleep(10 * MINUTE)
        assert await till.state(ticket.id) == "verified"
        told = await till.alarms() - {"captured_without_taker"}
        assert told == ({"maybe_paid_again"} if doubt in ("lost", "crash") else set())


# --- invoices


async def test_an_invoice_is_paid(autojump_clock: MockClock) -> None:
    """Its failures and its success post the same bytes."""
    async with open_till() as till:
        ticket = await till.charges(kind="invoice")
        await till.posts(till.pays_invoice(code=1004))
        assert await ticket.wait_notice() is None
        assert await ticket.wait_decided() is None
        await till.posts(till.pays_invoice())
        assert await ticket.wait_notice() is None
        assert await ticket.wait_decided() == PaymentNotice("paid", captured=PRICE)


async def test_an_invoice_without_a_number_is_found_by_its_callback(autojump_clock: MockClock) -> None:
    """By chat and amount; two of one amount can't be told apart, and are left to an operator."""
    async with open_till() as till:
        till.aside = settles
        await lost_invoice(till, "1", PRICE)
        ticket = await lost_invoice(till, "2", PRICE + 1)
        await till.posts(till.pays_invoice())
        await trio.sleep(1)

        assert [paid.id for paid in till.delivered] == [ticket.id]
        assert await till.alarms() == {"id_unknown", "adopted"}


async def test_two_lost_invoices_of_one_amount(autojump_clock: MockClock) -> None:
    """Nothing is captured for either; an operator hears the number, whatever else is made up."""
    async with open_till() as till:
        for owner in ("1", "2"):
            await lost_invoice(till, owner, PRICE)
        paid = till.pays_invoice()
        seq = await till.posts(paid)
        await till.posts(InvoiceCallback(paid.chat_id, InvoiceId("99")))
        await trio.sleep(1)
        alarms = await till.store.alarms.open(limit=9)
        assert {alarm.key for alarm in alarms if paid.invoice_id in alarm.text} == {paid.invoice_id}

        assert "invoice/verify" not in till.line.asked
        assert "foreign_payment" in await till.alarms()
        assert all(row.seq != seq for row in await till.store.backlog(after=0, limit=9))


@pytest.mark.slow
async def test_a_lost_invoice_of_last_month_is_not_meant(autojump_clock: MockClock) -> None:
    """Of two of one amount it is the one that can still be paid."""
    async with open_till() as till:
        till.aside = settles
        old = await lost_invoice(till, "1", PRICE)
        await trio.sleep(48 * HOUR)
        assert await till.state(old.id) == "lapsed"
        new = await lost_invoice(till, "2", PRICE)
        await till.posts(till.pays_invoice())
        await trio.sleep(1)

        assert [paid.id for paid in till.delivered] == [new.id]


async def test_a_button_is_removed_once_its_message_is_known(autojump_clock: MockClock) -> None:
    """The answer to its send was lost; whoever presses it tells where it is."""
    async with open_till() as till:
        till.user.wallet["IRR"] = 0
        till.line.fault = lambda operation: "lost"
        with pytest.raises(DeliveryUnknownError):
            await till.charges()
        till.line.fault = lambda operation: None
        ticket = till.waiter
        await till.ends(ticket, "unknown")
        await till.ends(ticket, "given_up")
        assert await till.alarms() == {"button_still_live"}
        await till.posts(till.pays())  # too little in the wallet
        await trio.sleep(MINUTE)
        assert (await till.entry(ticket.id)).gone_at is not None
        assert await till.alarms() == set()


async def test_an_alarm_says_how_much_and_until_when(autojump_clock: MockClock) -> None:
    """Who is called at night wants to know whether it can wait."""
    async with open_till() as till:
        await till.charges()
        till.line.fault = fails(VerifyPayment, InquirePayment)
        await till.posts(till.pays())
        await trio.sleep(31 * MINUTE)
        texts = [alarm.text for alarm in await till.store.alarms.open(limit=9)]
        assert len(texts) == 2
        for said in texts:
            assert "250,000 IRR" in said
            assert "may go back from 2023-11-14 23:13 UTC on" in said


async def test_another_amount_is_told_with_both(autojump_clock: MockClock) -> None:
    """What has to be paid back is what was captured."""
    async with open_till() as till:
        ticket = await till.charges()
        await till.posts(till.pays(amount=5))
        await ticket.wait_notice()
        await ticket.wait_decided()
        (alarm,) = await till.store.alarms.open(limit=9)
        assert "250,000 IRR asked for, 5 captured" in alarm.text


@pytest.mark.parametrize(
    "event",
    [
        PayCallback(ChatId(13_601), RefId("7777777777777777")),
        InvoiceCallback(ChatId(13_601), InvoiceId("99")),
    ],
)
async def test_a_number_that_we_never_issued_is_never_verified(
    autojump_clock: MockClock, event: PayCallback | InvoiceCallback
) -> None:
    """One alarm for all of them."""
    async with open_till() as till:
        for _ in range(10):
            await till.posts(event)
        await trio.sleep(1)
        (alarm,) = await till.store.alarms.open(limit=9)

        assert (alarm.kind, alarm.count) == ("foreign_payment", 10)
        assert till.line.asked == []
        assert await till.store.backlog(after=0, limit=99) == []


# --- load, and a full disk


async def test_what_was_hinted_at_comes_first(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep's budget concerns only what nobody said anything about."""
    async with open_till() as till:
        till.aside = settles
        monkeypatch.setattr("triobot.payments.cashier.PER_SECOND", 0.01)
        tickets = [await till.charges(str(number)) for number in range(20)]
        event = till.pays()
        await trio.sleep(17 * MINUTE)
        await till.posts(event)
        with trio.fail_after(5):
            await tickets[-1].wait_notice()
            assert await tickets[-1].wait_decided() == PaymentNotice("paid", captured=PRICE)
        await trio.sleep(5 * MINUTE)
        assert await till.alarms() == {"sweep_blind"}


async def test_what_the_platform_said_outlives_a_full_disk(autojump_clock: MockClock) -> None:
    """It is stored when there is room again."""
    async with open_till() as till:
        ticket = await till.charges()
        commit = till.cashier._store.commit
        full = True

        async def sometimes(*writes: Any) -> None:
            if full and "payment/verify" in till.line.asked:
                raise StoreFullError("no room")
            await commit(*writes)

        till.store.commit = sometimes  # type: ignore[method-assign]
        await till.posts(till.pays())
        await trio.sleep(MINUTE)
        assert [alarm.kind for alarm in till.rung][:1] == ["store_unwritable"]
        assert await till.state(ticket.id) == "verifying"
        asked = len(till.line.asked)
        full = False
        await trio.sleep(10)
        assert await till.state(ticket.id) == "verified"
        assert till.line.asked[asked:] == ["editMessage"]
        await rest()


async def test_where_nothing_is_open_nothing_is_done(autojump_clock: MockClock) -> None:
    """Time passes without work."""
    async with open_till() as till:
        await trio.sleep(1000 * HOUR)
        assert till.line.asked == []


@pytest.mark.slow
@pytest.mark.parametrize("many", [3, 400])
async def test_a_start_does_not_grow_with_open_payments(
    autojump_clock: MockClock, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only has to be asked about is taken up beside everything else, many in one transaction."""
    async with open_till() as till:
        for number in range(many):
            await till.charges(str(number))
        till.crash()
        asked: list[str] = []
        commit, payments = till.store.commit, till.store.payments

        async def counted(*writes: Any) -> None:
            asked.append("commit")
            await commit(*writes)

        class Counted:
            def __getattr__(self, name: str) -> Any:
                asked.append(name)
                return getattr(payments, name)

        till.store.commit = counted  # type: ignore[method-assign]
        till.store.payments = Counted()  # type: ignore[assignment]
        monkeypatch.setattr("triobot.payments.cashier.PER_SECOND", 0.001)
        cashier = till.new_cashier()

        async def nobody(chat_id: object, owner: str) -> bool:
            return False

        await cashier.start(nobody)
        assert len(asked) <= 3
        async with trio.open_nursery() as nursery:
            await nursery.start(cashier.run)
            await rest()
            assert asked.count("commit") <= many // 64 + 6
            # The sweep's budget lets one of them through at once.
            assert await till.store.payments.counts() == {"closing": many - 1, "verifying": 1}
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("name", ["get", "due", "next_due"])
async def test_a_store_that_is_away_for_a_moment_stops_no_payment(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What is due is done when it is back; the task that verifies ends for it no more than a conversation."""
    async with open_till() as till:
        till.aside = settles
        ticket = await till.charges()
        away, read = 3, getattr(ReadPayments, name)

        async def reading(*args: object, **named: object) -> object:
            nonlocal away
            if away:
                away -= 1
                raise StoreAwayError("away")
            return await read(*args, **named)

        monkeypatch.setattr(ReadPayments, name, reading)
        await till.posts(till.pays())
        await trio.sleep(60)
        assert (away, await till.state(ticket.id)) == (0, "settled")
