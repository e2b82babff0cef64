"""The emulated payments: codes, the hour, refunds, and what verify says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from triobot.emulator.acts import Acting
from triobot.emulator.faults import HOUR, Switches
from triobot.emulator.performing import Refusal, perform
from triobot.emulator.world import ImpossibleActError, User, World
from triobot.wire.events import InvoiceCallback, PayCallback
from triobot.wire.ids import InvoiceId, MessageId, RefId
from triobot.wire.markup import InlineKeyboard, PayButton
from triobot.wire.operations import (
    CreateInvoice,
    EditMessage,
    InquireInvoice,
    InquirePayment,
    SendMessage,
    VerifyInvoice,
    VerifyPayment,
)
from triobot.wire.results import InvoiceCreated, PaymentState, Sent

NOW = 1_700_000_000_000
BUTTON = PayButton("Pay", 700, RefId("1234567890123456"))


def shop(switches: Switches | None = None, *, irr: int = 1_000) -> tuple[World, User, MessageId]:
    world = World(chance=random.Random(1), switches=switches)
    ali = world.add_user("Ali", irr=irr)
    Acting(world, ali, NOW).join()
    answer, _ = perform(
        world, SendMessage(ali.chat_id, "Pizza", inline_keyboard=InlineKeyboard(((BUTTON,),))), NOW
    )
    assert isinstance(answer, Sent)
    return world, ali, answer.id


def paid(world: World, ali: User, message: MessageId, now: int = NOW) -> PayCallback:
    [event] = Acting(world, ali, now).pay(message, BUTTON)
    assert isinstance(event, PayCallback)
    return event


def verify(world: World, ali: User, now: int = NOW) -> object:
    return perform(world, VerifyPayment(ali.chat_id, BUTTON.ref_id), now)[0]


def inquire(world: World, ali: User, now: int = NOW) -> object:
    return perform(world, InquirePayment(ali.chat_id, BUTTON.ref_id), now)[0]


def test_paid_money_leaves_the_wallet_and_is_verified() -> None:
    world, ali, message = shop()
    assert verify(world, ali) == PaymentState(False, 700)

    event = paid(world, ali, message)

    assert event == PayCallback(ali.chat_id, BUTTON.ref_id, message, "success", sender=ali.sender())
    assert ali.wallet["IRR"] == 300
    assert inquire(world, ali) == PaymentState(False, 700)
    assert verify(world, ali) == PaymentState(True, 700)
    assert inquire(world, ali) == PaymentState(True, 700)


def test_inquiry_may_see_paid_money() -> None:
    world, ali, message = shop(Switches(inquiry_sees_paid=True))
    paid(world, ali, message)

    assert inquire(world, ali) == PaymentState(True, 700)
    assert inquire(world, ali, NOW + HOUR) == PaymentState(False, 700)


@pytest.mark.parametrize(("word", "again"), [("verified", True), ("error", False)])
def test_a_second_verify_says_what_the_switch_says(word: str, again: bool) -> None:
    world, ali, message = shop(Switches(second_verify=word))  # type: ignore[arg-type]
    paid(world, ali, message)
    verify(world, ali)

    assert verify(world, ali) == PaymentState(again, 700)
    assert inquire(world, ali) == PaymentState(True, 700)


def test_the_hour_ends_to_the_millisecond() -> None:
    for late, state in ((HOUR - 1, PaymentState(True, 700)), (HOUR, PaymentState(False, 700))):
        world, ali, message = shop()
        paid(world, ali, message)
        assert verify(world, ali, NOW + late) == state


def test_what_nobody_verified_goes_back_and_captured_money_stays() -> None:
    world, ali, message = shop()
    paid(world, ali, message)
    world.catch_up(NOW + HOUR)
    assert ali.wallet["IRR"] == 1_000

    world, ali, message = shop()
    paid(world, ali, message)
    verify(world, ali)
    world.catch_up(NOW + 10 * HOUR)
    assert ali.wallet["IRR"] == 300


def test_an_empty_wallet_is_code_1000_with_a_place_to_top_up() -> None:
    world, ali, message = shop(irr=699)

    event = paid(world, ali, message)

    assert (event.status, event.code) == ("error", 1000)
    assert event.charge_url is not None and event.charge_url.startswith(world.uploads.base_url)
    Acting(world, ali, NOW).top_up(irr=1)
    assert paid(world, ali, message).code is None
    assert ali.wallet["IRR"] == 0


def test_a_second_payment_is_code_1003() -> None:
    world, ali, message = shop(irr=2_000)
    paid(world, ali, message)

    assert paid(world, ali, message).code == 1003
    assert ali.wallet["IRR"] == 1_300


def test_paying_twice_by_switch_lets_the_second_lapse_unless_it_is_verified() -> None:
    world, ali, message = shop(Switches(pay_twice=True), irr=2_000)
    paid(world, ali, message)
    verify(world, ali)
    assert paid(world, ali, message).code is None
    assert ali.wallet["IRR"] == 600
    world.catch_up(NOW + HOUR)
    assert ali.wallet["IRR"] == 1_300


@pytest.mark.parametrize("code", range(1000, 1007))
def test_a_payment_fails_with_the_code_asked_for(code: int) -> None:
    world, ali, message = shop()

    [event] = Acting(world, ali, NOW).pay(message, BUTTON, code=code)

    assert isinstance(event, PayCallback)
    assert (event.status, event.code) == ("error", code)
    assert (event.charge_url is not None) == (code == 1000)
    assert ali.wallet["IRR"] == 1_000
    assert verify(world, ali) == PaymentState(False, 700)


def test_a_negative_callback_may_hide_taken_money() -> None:
    world, ali, message = shop()

    [event] = Acting(world, ali, NOW).pay(message, BUTTON, code=1006, taken=True)

    assert isinstance(event, PayCallback) and event.code == 1006
    assert verify(world, ali) == PaymentState(True, 700)


def test_another_amount_can_be_taken() -> None:
    world, ali, message = shop()
    Acting(world, ali, NOW).pay(message, BUTTON, amount=7)

    assert verify(world, ali) == PaymentState(True, 7)


def test_codes_out_of_the_list_and_vanished_buttons_are_refused() -> None:
    world, ali, message = shop()
    with pytest.raises(ImpossibleActError):
        Acting(world, ali, NOW).pay(message, BUTTON, code=1007)
    perform(world, EditMessage(ali.chat_id, message, "gone"), NOW)
    with pytest.raises(ImpossibleActError):
        paid(world, ali, message)
    assert ali.wallet["IRR"] == 1_000


def test_who_verifies_needs_the_right_chat_and_a_known_id() -> None:
    world, ali, message = shop()
    sara = world.add_user("Sara")
    paid(world, ali, message)

    def answer(chat_id: int, ref_id: str) -> object:
        return perform(world, VerifyPayment(chat_id, RefId(ref_id)), NOW)[0]  # type: ignore[arg-type]

    assert answer(99, BUTTON.ref_id) == Refusal(400, "chat_id is not valid")
    assert answer(sara.chat_id, BUTTON.ref_id) == Refusal(400, "ref_id is not valid")
    assert answer(ali.chat_id, "1") == Refusal(400, "ref_id is not valid")
    world.switches = Switches(unknown_ref_status=200)
    assert answer(ali.chat_id, "1") == PaymentState(False, None)


def test_coin_and_rials_are_different_money() -> None:
    world, ali, _ = shop()
    coin = PayButton("Pay", 700, RefId("2"), "coin")
    answer, _ = perform(world, SendMessage(ali.chat_id, "x", inline_keyboard=InlineKeyboard(((coin,),))), NOW)
    assert isinstance(answer, Sent)

    [event] = Acting(world, ali, NOW).pay(answer.id, coin)

    assert isinstance(event, PayCallback) and event.code == 1000


def test_a_member_of_a_group_pays_for_all() -> None:
    world, ali, _ = shop()
    group = world.add_group("team")
    Acting(world, ali, NOW, group.id).join()
    button = PayButton("Pay", 10, RefId("3"))
    perform(world, SendMessage(group.id, "x", inline_keyboard=InlineKeyboard(((button,),))), NOW)
    message, found = Acting(world, ali, NOW, group.id).newest_pay_button()
    assert found == button

    [event] = Acting(world, ali, NOW, group.id).pay(message, button)

    assert (event.chat_id, event.sender) == (group.id, ali.sender())
    assert perform(world, VerifyPayment(group.id, button.ref_id), NOW)[0] == PaymentState(True, 10)


def invoice(world: World, ali: User, *, expire_time: int | None = None) -> InvoiceId:
    answer, _ = perform(world, CreateInvoice(ali.chat_id, 500, "Tea", expire_time=expire_time), NOW)
    assert isinstance(answer, InvoiceCreated)
    return answer.id


def test_an_invoice_is_paid_captured_and_asked_for() -> None:
    world, ali, _ = shop()
    tea = invoice(world, ali)
    assert tea.isdigit()
    assert perform(world, VerifyInvoice(ali.chat_id, tea), NOW)[0] == PaymentState(False, 500)

    assert Acting(world, ali, NOW).newest_invoice() == tea
    assert Acting(world, ali, NOW).pay_invoice(tea) == (InvoiceCallback(ali.chat_id, tea, ali.sender()),)

    assert ali.wallet["IRR"] == 500
    assert perform(world, InquireInvoice(ali.chat_id, tea), NOW)[0] == PaymentState(False, 500)
    assert perform(world, VerifyInvoice(ali.chat_id, tea), NOW)[0] == PaymentState(True, 500)
    assert perform(world, InquireInvoice(ali.chat_id, tea), NOW)[0] == PaymentState(True, 500)
    with pytest.raises(ImpossibleActError, match="paid before"):
        Acting(world, ali, NOW).pay_invoice(tea)


def test_a_failed_invoice_posts_the_same_callback() -> None:
    world, ali, _ = shop(irr=1)
    tea = invoice(world, ali)

    assert Acting(world, ali, NOW).pay_invoice(tea) == (InvoiceCallback(ali.chat_id, tea, ali.sender()),)
    assert ali.wallet["IRR"] == 1
    assert perform(world, VerifyInvoice(ali.chat_id, tea), NOW)[0] == PaymentState(False, 500)


def test_an_unverified_invoice_goes_back_after_the_hour() -> None:
    world, ali, _ = shop()
    tea = invoice(world, ali)
    Acting(world, ali, NOW).pay_invoice(tea)

    assert perform(world, VerifyInvoice(ali.chat_id, tea), NOW + HOUR)[0] == PaymentState(False, 500)
    assert ali.wallet["IRR"] == 1_000


def test_an_expired_invoice_is_not_paid() -> None:
    world, ali, _ = shop()
    tea = invoice(world, ali, expire_time=300)

    with pytest.raises(ImpossibleActError, match="expired"):
        Acting(world, ali, NOW + 300_000).pay_invoice(tea)
    Acting(world, ali, NOW + 299_999).pay_invoice(tea)


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["pay", "fail", "verify", "inquire", "wait"]), st.integers(0, HOUR + HOUR // 2)
        ),
        max_size=20,
    ),
    st.booleans(),
    st.sampled_from(["verified", "error"]),
)
def test_no_money_appears_or_vanishes(steps: list[tuple[str, int]], twice: bool, second: str) -> None:
    """Wallet, money on its way and captured money add up, whatever happens in whichever order."""
    world, ali, message = shop(Switches(pay_twice=twice, second_verify=second), irr=2_000)  # type: ignore[arg-type]
    now = NOW
    for what, later in steps:
        match what:
            case "pay":
                Acting(world, ali, now).pay(message, BUTTON)
            case "fail":
                Acting(world, ali, now).pay(message, BUTTON, code=1005)
            case "verify":
                verify(world, ali, now)
            case "inquire":
                inquire(world, ali, now)
            case _:
                now += later
        world.catch_up(now)
        bill = world.bills.payment(BUTTON.ref_id)
        assert bill is not None
        out = sum(taking.amount for taking in bill.takings if taking.refunded_at is None)
        assert ali.wallet["IRR"] + out == 2_000
        assert all(taking.captured_at is None or taking.refunded_at is None for taking in bill.takings)
        assert all(not taking.waits or now < taking.paid_at + HOUR for taking in bill.takings)
