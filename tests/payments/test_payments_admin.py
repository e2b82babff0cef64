"""What an operator asks of the ledger, and does by hand."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from cashier_rig import EPOCH, MINUTE, PRICE, Till, open_till
from trio.testing import MockClock

from triobot.errors import ConfigError, ConflictError
from triobot.payments.admin import PaymentsAdmin
from triobot.payments.entry import NOTHING
from triobot.wire.events import PayCallback
from triobot.wire.ids import RefId
from triobot.wire.operations import VerifyPayment


def admin(till: Till) -> PaymentsAdmin:
    async def inquire(entry: Any) -> Any:
        return await till.cashier.ask(entry, "inquire")

    return PaymentsAdmin(till.store, till.cashier.entries, till.clock.now, inquire=inquire)


async def ask(till: Till, what: str, **fields: Any) -> dict[str, Any]:
    return await admin(till).answer({"ask": f"payments.{what}", **fields})


async def test_payments_are_listed_and_shown(autojump_clock: MockClock) -> None:
    """By state, chat and age; with their history, and without what was bought or said."""
    async with open_till() as till:
        first = await till.charges("1")
        await trio.sleep(100)
        second = await till.charges("2")
        await till.posts(till.pays())
        await trio.sleep(1)

        listed = (await ask(till, "list", limit=10))["payments"]
        assert {payment["ref"]: payment["state"] for payment in listed} == {
            first.id: "open",
            second.id: "verified",
        }
        assert len((await ask(till, "list", limit=10, states=["open"]))["payments"]) == 1
        assert len((await ask(till, "list", limit=10, before=EPOCH + 50_000))["payments"]) == 1
        assert (await ask(till, "list", limit=10, chat=5))["payments"] == []
        shown = await ask(till, "show", ref=second.id)
        assert [move["fact"] for move in shown["history"]][:3] == ["made", "send_begun", "send_ok"]
        assert "Pizza" not in str(shown)
        (total,) = (await ask(till, "totals", since=0, until=EPOCH * 2))["totals"]
        assert (total["group"], total["count"], total["amount"]) == ("button IRR", 1, PRICE)


async def test_a_payment_is_verified_at_once(autojump_clock: MockClock) -> None:
    """Whatever the schedule says; also one that was left to go back."""
    async with open_till() as till:
        ticket = await till.charges(late="nobody")
        await till.ends(ticket, "given_up")
        await trio.sleep(0.25)  # its button is about to go
        till.pays()
        await trio.sleep(60)
        assert await till.state(ticket.id) == "check"
        assert (await ask(till, "inquire", ref=ticket.id))["said"] == "error"
        await ask(till, "verify", ref=ticket.id)
        await trio.sleep(1)
        assert await till.state(ticket.id) == "verified"
        assert await till.alarms() == {"captured_without_taker"}

        got: list[str] = []

        async def settles(captured: Any, till: Any) -> None:
            got.append(captured.key)
            await till.ends(captured, "settled")

        till.aside = settles
        await ask(till, "redeliver", ref=ticket.id)
        await trio.sleep(1)
        assert got == [f"button-{ticket.id}"]
        assert await till.alarms() == set()


@pytest.mark.parametrize(("what", "state"), [("settle", "settled"), ("resolve", "resolved")])
async def test_a_payment_is_closed_by_hand(autojump_clock: MockClock, what: str, state: str) -> None:
    """The goods were given, or the money was paid back; its alarms are over."""
    async with open_till() as till:
        ticket = await till.charges()
        await till.posts(till.pays())
        await trio.sleep(1)
        assert await till.alarms() == {"captured_without_taker"}
        await ask(till, what, ref=ticket.id)
        assert await till.state(ticket.id) == state
        assert await till.alarms() == set()


async def test_how_long_money_has_waited(autojump_clock: MockClock) -> None:
    """For whoever looks at numbers: since when something is said to be paid, or captured."""
    async with open_till() as till:
        nothing = {
            "unverified": 0,
            "oldest_unverified_at": None,
            "unsettled": 0,
            "oldest_unsettled_at": None,
        }
        ticket = await till.charges()
        assert await ask(till, "ages") == nothing
        till.line.fault = lambda operation: "lost"
        await till.posts(till.pays())
        await trio.sleep(MINUTE)
        entry = await till.entry(ticket.id)
        assert await ask(till, "ages") == nothing | {
            "unverified": 1,
            "oldest_unverified_at": entry.claimed_at,
        }
        till.line.fault = lambda operation: None
        await trio.sleep(6 * MINUTE)
        entry = await till.entry(ticket.id)
        assert await ask(till, "ages") == nothing | {
            "unsettled": 1,
            "oldest_unsettled_at": entry.verified_at,
        }
        await ask(till, "settle", ref=ticket.id)
        assert await ask(till, "ages") == nothing


async def test_what_cant_be_done_is_refused_in_words(autojump_clock: MockClock) -> None:
    """Nothing is done, and nothing alarmed."""
    async with open_till() as till:
        ticket = await till.charges()
        for what in ("redeliver", "settle", "resolve"):
            with pytest.raises(ConfigError, match="is open"):
                await ask(till, what, ref=ticket.id)
        with pytest.raises(ConfigError, match="no payment"):
            await ask(till, "verify", ref="77")
        with pytest.raises(ConfigError, match="no state"):
            await ask(till, "list", limit=1, states=["lost"])
        with pytest.raises(ConfigError):
            await ask(till, "steal", ref=ticket.id)
        assert await till.alarms() == set()


async def test_a_number_is_adopted_once(autojump_clock: MockClock) -> None:
    """Of two operators at the same time, one is told that the number is in the books."""
    async with open_till() as till:
        told: list[Any] = []

        async def adopt(amount: int) -> None:
            try:
                asked = {"number": "4444", "chat": till.user.chat_id, "kind": "button"}
                told.append((await ask(till, "adopt", amount=amount, **asked))["payment"]["amount"])
            except ConflictError as error:
                told.append(str(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(adopt, 5)
            nursery.start_soon(adopt, 500)

        assert (await till.entry(RefId("4444"))).amount in told
        assert any("in" in str(one) and "books" in str(one) for one in told)


async def test_a_lost_invoice_is_adopted(autojump_clock: MockClock) -> None:
    """By the number from the portal; the aside gets it."""
    async with open_till() as till:
        till.line.fault = lambda operation: "lost"
        with pytest.raises(Exception, match="no answer"):
            await till.charges(kind="invoice")
        till.line.fault = lambda operation: None
        ticket = till.waiter
        await till.ends(ticket, "unknown")
        await till.ends(ticket, "given_up")
        got: list[str] = []

        async def settles(captured: Any, till: Any) -> None:
            got.append(captured.item)
            await till.ends(captured, "settled")

        till.aside = settles
        number = till.pays_invoice().invoice_id
        told = await ask(till, "adopt", number=number, chat=till.user.chat_id, amount=PRICE)
        assert told["payment"]["ref"] == ticket.id
        await trio.sleep(1)
        assert got == ["[1, 1]"]
        with pytest.raises(ConfigError, match="already"):
            await ask(till, "adopt", number=number, chat=till.user.chat_id, amount=PRICE)


async def test_a_strange_number_is_taken_in(autojump_clock: MockClock) -> None:
    """As after a restored backup: it is watched like any other from here on."""
    async with open_till() as till:
        told = await ask(till, "adopt", number="4444", chat=till.user.chat_id, amount=5, kind="button")
        assert (told["payment"]["ref"], told["payment"]["state"]) == ("4444", "closing")
        await trio.sleep(1)
        assert till.line.asked == ["payment/verify", "payment/inquiry"]


async def test_a_chat_is_forgotten_once_its_money_is_dealt_with(autojump_clock: MockClock) -> None:
    """Numbers and amounts stay, for the books; what was bought and said goes, and so does who paid."""
    async with open_till() as till:
        ticket = await till.charges()
        chat = till.user.chat_id
        event = till.pays()
        refused = str(await failing(till, "forget", chat=chat))
        assert f"payment {ticket.id} is closing" in refused
        assert "was ended. Forget it 75 minutes after its button is gone" in refused
        till.line.fault = lambda operation: "lost" if isinstance(operation, VerifyPayment) else None
        await trio.sleep(1)
        assert "Forget it after 2023-11-14 23:29 UTC" in str(await failing(till, "forget", chat=chat))
        till.line.fault = lambda operation: None
        await till.posts(event)
        await trio.sleep(400)
        assert await till.state(ticket.id) == "verified"
        for captured in (True, False):
            assert "may not have got" in str(await failing(till, "forget", chat=chat, captured=captured))
        await ask(till, "settle", ref=ticket.id)
        lapses = await till.charges("2")
        await till.ends(lapses, "given_up")
        await trio.sleep(2 * 3600)
        assert await ask(till, "forget", chat=chat, captured=True) == {}
        assert await ask(till, "forget", chat=chat) == {"payments": 2}
        assert await ask(till, "forget", chat=chat) == {"payments": 0}

        for number in (ticket.id, lapses.id):
            row = await till.store.payments.get(number)
            assert row is not None
            assert "Pizza" not in row.record
            assert "Sara" not in row.record
            entry = await till.entry(number)
            assert (entry.item, entry.amount, entry.payer) == (NOTHING, PRICE, None)
        # Paid all the same: nobody knows what for, and so an operator is told.
        await till.posts(PayCallback(chat, lapses.id))
        await trio.sleep(1)
        assert "callback_after_end" in await till.alarms()


async def test_without_a_bot_no_button_is_taken_away(autojump_clock: MockClock) -> None:
    """Nobody could watch it; so nothing is done."""
    async with open_till() as till:
        ticket = await till.charges()
        alone = PaymentsAdmin(till.store, till.cashier.entries, till.clock.now)
        with pytest.raises(ConfigError, match=r"75 minutes after its button is gone") as caught:
            await alone.answer({"ask": "payments.forget", "chat": till.user.chat_id})
        assert "was ended" not in str(caught.value)
        assert await till.state(ticket.id) == "open"


async def failing(till: Till, what: str, **fields: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        await ask(till, what, **fields)
    return caught.value
