"""Charges and invoices: only verify and inquiry are believed, and no verified money is lost."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import ALI, CHAT, TEXTS, Town, open_town
from trio.testing import MockClock

from triobot.conversations.charging import BUTTON_LIFE, Paid, is_trusted, new_ref_id
from triobot.conversations.chat import Chat
from triobot.conversations.filters import command, leave, text, when
from triobot.conversations.holding import HELD
from triobot.conversations.routes import Router
from triobot.errors import (
    AmountMismatchError,
    BadRequestError,
    DeliveryUnknownError,
    ForbiddenError,
    NotDeliveredError,
    PaymentDeclinedError,
    RemoteProtocolError,
)
from triobot.seams import OnUnknown, Urgency
from triobot.wire.ids import as_ref_id
from triobot.wire.markup import LinkButton, PayButton
from triobot.wire.operations import (
    CreateInvoice,
    EditMessage,
    InquireInvoice,
    InquirePayment,
    SendMessage,
    VerifyInvoice,
    VerifyPayment,
)
from triobot.wire.results import PaymentState

PRICE = 250_000
YES, NO = PaymentState(True, PRICE), PaymentState(False, None)
LOST = DeliveryUnknownError("payment/verify", "no answer")


def verifies(operation: object) -> bool:
    return isinstance(operation, VerifyPayment | VerifyInvoice)


def inquires(operation: object) -> bool:
    return isinstance(operation, InquirePayment | InquireInvoice)


class Shop:
    """A bot that sells one pizza, and remembers how it went."""

    def __init__(self, **charge: Any) -> None:
        self.bot = Router()
        self.outcomes: list[object] = []

        @self.bot.interrupt(command("cancel"))
        async def cancel(chat: Chat) -> None:
            await chat.send("Cancelled.")

        @self.bot.conversation(text("buy"))
        async def buy(chat: Chat) -> None:
            try:
                self.outcomes.append(await chat.charge(PRICE, "Pizza", item=("pizza", 1), **charge))
            except Exception as error:
                self.outcomes.append(error)
                raise

        @self.bot.conversation(text("later"))
        async def buy_in_time(chat: Chat) -> None:
            with chat.move_on_after(60) as limit:
                self.outcomes.append(await chat.charge(PRICE, "Pizza", item="late"))
            self.outcomes.append(limit.cancelled_caught)


def asked(town: Town) -> list[str]:
    """What was asked about the payment, in order."""
    return [op.path for op in town.operations() if verifies(op) or inquires(op)]


# --- the button


async def test_the_button_says_what_it_costs() -> None:
    """Above a fresh reference, with the intent written down before it leaves."""
    shop = Shop(options={"no": "Not now"})
    store = FakeStore()
    async with open_town(shop.bot, store=store) as town:
        await town.says("buy")
        button = town.pay_button()
        assert button == PayButton(TEXTS.pay, PRICE, button.ref_id, "IRR", "Pizza")
        assert town.newest().content == "Pizza"
        assert town.labels() == [TEXTS.pay, "Not now"]
        assert town.outbox.urgencies == [Urgency.MONEY]
        assert list(store.intended) == [button.ref_id]
        assert store.intended[button.ref_id].kind == "sendMessage"


async def test_an_intent_that_cannot_be_written_asks_for_no_money() -> None:
    """The order is: written, then sent."""
    shop = Shop()
    store = FakeStore()
    async with open_town(shop.bot, store=store) as town:
        store.full = 1
        await town.says("buy")
        assert town.sent() == [TEXTS.apology]


def test_reference_ids_fit_everywhere() -> None:
    """Letters and digits, and a number below 2**53."""

    class Drawing:
        """A conversation, as far as it draws lots."""

        journal = property(lambda self: self)

        def token(self, size: int) -> bytes:
            return secrets.token_bytes(size)

    for _ in range(100):
        ref_id = new_ref_id(Drawing())  # type: ignore[arg-type]
        assert as_ref_id(ref_id) == ref_id
        assert len(ref_id) == 16
        assert int(ref_id) < 2**53


@pytest.mark.parametrize("amount", [0, -1, True, 1.5, "250000", 2**53])
async def test_an_amount_is_a_whole_number_of_rials(amount: object) -> None:
    """Before anything is written or sent."""
    bot = Router()

    @bot.conversation
    async def buy(chat: Chat) -> None:
        await chat.charge(amount, "Pizza", item=1)  # type: ignore[arg-type]

    store = FakeStore()
    async with open_town(bot, store=store) as town:
        await town.says("hi")
        assert town.sent() == [TEXTS.apology]
        assert store.intended == {}


# --- success


async def test_verified_money_comes_back_with_its_item() -> None:
    """Once; the button goes, and the intent is settled."""
    shop = Shop()
    store = FakeStore()
    async with open_town(shop.bot, store=store) as town:
        await town.says("buy")
        ref_id = town.pay_button().ref_id
        town.outbox.reply(YES, verifies)
        await town.pays()
        assert shop.outcomes == [Paid(PRICE, "IRR", ("pizza", 1), f"payment-{ref_id}", ALI)]
        assert asked(town) == ["payment/verify"]
        assert town.edits() == [EditMessage(CHAT, town.messages()[0][0], "Pizza")]
        assert store.intended == {}
        assert store.rows == {}
        assert town.alarms == []


async def test_a_lost_answer_of_verify_is_made_good_by_the_inquiry() -> None:
    """Captured is captured."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        town.outbox.fail(LOST, verifies)
        town.outbox.reply(YES, inquires)
        await town.pays()
        assert len(shop.outcomes) == 1
        assert isinstance(shop.outcomes[0], Paid)
        assert asked(town) == ["payment/verify", "payment/inquiry"]


@pytest.mark.parametrize(
    "failure",
    [
        LOST,
        NotDeliveredError("payment/verify", "down"),
        BadRequestError("payment/verify", 400),
        ForbiddenError("payment/verify", 403),
        RemoteProtocolError("status", "must be there"),
    ],
)
async def test_it_is_asked_again_until_the_platform_answers(
    failure: Exception, autojump_clock: MockClock
) -> None:
    """No failure of verify or inquiry is final."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        town.outbox.reply(YES, verifies)
        town.outbox.fail(failure, lambda op: verifies(op) or inquires(op), times=4)
        await town.pays()
        assert shop.outcomes == []
        await trio.sleep(13)
        assert isinstance(shop.outcomes[0], Paid)
        assert len(asked(town)) == 5
        assert town.alarms == []


async def test_an_error_of_verify_and_a_silent_inquiry_decide_nothing(autojump_clock: MockClock) -> None:
    """`error` is not believed without an inquiry; nor does an inquiry's speak for a lost verify."""
    for silent, telling in ((inquires, verifies), (verifies, inquires)):
        shop = Shop()
        async with open_town(shop.bot) as town:
            await town.says("buy")
            town.outbox.fail(LOST, silent)
            town.outbox.reply(NO, telling)
            await town.pays(code=1001)
            await trio.sleep(3600)
            assert shop.outcomes == []
            assert [alarm.kind for alarm in town.alarms] == ["payment_unverified"]
            assert "does not answer" in town.alarms[0].text
            town.outbox.reply(YES, verifies)
            await town.pays()
            assert isinstance(shop.outcomes[0], Paid)


async def test_the_wrong_amount_grants_nothing() -> None:
    """It is the operator's to give back."""
    for answer, wanted in (
        (PaymentState(True, PRICE - 1), verifies),
        (PaymentState(True, PRICE * 10), inquires),
    ):
        shop = Shop()
        async with open_town(shop.bot) as town:
            await town.says("buy")
            town.outbox.reply(answer, wanted)
            await town.pays()
            assert isinstance(shop.outcomes[0], AmountMismatchError)
            assert shop.outcomes[0].captured == answer.amount
            assert [alarm.kind for alarm in town.alarms] == ["amount_mismatch", "conversation_crashed"]
            assert town.sent() == ["Pizza", TEXTS.apology]


# --- no


@pytest.mark.parametrize("code", [1001, 1002, 1003])
async def test_it_is_declined_only_when_verify_and_inquiry_agree(code: int) -> None:
    """A callback is a hint, also a negative one."""
    shop = Shop()
    store = FakeStore()
    async with open_town(shop.bot, store=store) as town:
        await town.says("buy")
        await town.pays(code=code)
        assert asked(town) == ["payment/verify", "payment/inquiry"]
        assert isinstance(shop.outcomes[0], PaymentDeclinedError)
        assert shop.outcomes[0].code == code
        assert store.intended == {}

    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        town.outbox.reply(YES, inquires)
        await town.pays(code=code)
        assert isinstance(shop.outcomes[0], Paid)


async def test_a_forged_callback_grants_nothing() -> None:
    """Success that the platform doesn't confirm; a reference that isn't ours."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.pays()
        assert shop.outcomes == []
        assert asked(town) == ["payment/verify", "payment/inquiry"]
        await town.pays(ref_id="1111111111111111")
        assert len(asked(town)) == 2
        assert [alarm.kind for alarm in town.alarms] == ["payment_unverified"]
        town.outbox.reply(YES, verifies)
        await town.pays()
        assert isinstance(shop.outcomes[0], Paid)


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://pay.example/charge?x=1", True),
        ("https://wallet.pay.example/charge", True),
        ("https://evil.example/charge", False),
        ("https://pay.example.evil.example/", False),
        ("https://evilpay.example/", False),
        ("http://pay.example/", False),
        ("https://pay.example@evil.example/", False),
        ("javascript:alert(1)", False),
        ("https://[broken", False),
        ("https://pay.example /x", False),
        (None, False),
    ],
)
async def test_too_little_in_the_wallet_offers_a_link_that_we_know(url: str | None, link: bool) -> None:
    """And waits on with the same button."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.pays(code=1000, charge_url=url)
        assert town.sent() == ["Pizza", TEXTS.top_up]
        keyboard = town.newest().inline_keyboard
        assert (keyboard is not None) is link
        if link:
            assert keyboard.rows == ((LinkButton(TEXTS.top_up_button, url),),)
        assert town.counts.get("foreign_charge_url", 0) == int(not link and url is not None)
        assert town.edits() == []
        town.outbox.reply(YES, verifies)
        await town.pays()
        assert isinstance(shop.outcomes[0], Paid)


def test_no_hosts_trust_nothing() -> None:
    """Without a list there is no link."""
    assert not is_trusted("https://pay.example/", ())
    assert is_trusted("https://PAY.example/", ("pay.example",))


async def test_a_failed_payment_may_be_tried_again() -> None:
    """With the same button."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.pays(code=1004)
        await town.pays(code=1004)
        assert town.sent() == ["Pizza", TEXTS.pay_again, TEXTS.pay_again]
        town.outbox.reply(YES, verifies)
        await town.pays()
        assert isinstance(shop.outcomes[0], Paid)


@pytest.mark.parametrize("code", [1005, 1006, 9999])
async def test_an_unknown_outcome_is_no_decline(code: int) -> None:
    """The charge waits on, without a word."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.pays(code=code)
        assert shop.outcomes == []
        assert town.sent() == ["Pizza"]
        town.outbox.reply(YES, verifies)
        await town.pays(code=code)
        assert isinstance(shop.outcomes[0], Paid)


# --- several hints at once


async def test_the_second_tap_of_one_moment_is_looked_at_too() -> None:
    """The wallet was empty, then it wasn't: both callbacks come before the first is looked at."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        town.outbox.reply(YES, verifies)
        town.outbox.reply(NO, verifies, times=1)
        await town.pays(code=1000, wait=False)
        await town.pays()
        assert isinstance(shop.outcomes[0], Paid)
        assert town.sent() == ["Pizza", TEXTS.top_up]
        assert town.alarms == []
        assert town.store.rows == {}


async def test_more_callbacks_of_a_payment_that_is_verified_say_nothing_new() -> None:
    """They came while it was being looked at."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        held = town.outbox.hold(verifies)
        await town.pays()
        await town.pays()
        await town.pays(code=1006)
        town.outbox.reply(YES, inquires)
        held.release()
        await town.rest()
        assert isinstance(shop.outcomes[0], Paid)
        assert town.alarms == []
        assert town.store.rows == {}
        assert len(asked(town)) == 2


async def test_a_callback_without_a_charge_is_an_alarm() -> None:
    """Somebody may have paid for nothing."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.pays(ref_id="1234567890123456")
        await town.pays_invoice("inv1")
        assert [alarm.kind for alarm in town.alarms] == ["payment_unverified"] * 2
        assert town.counts["payment_without_charge"] == 2
        assert town.store.rows == {}
        assert town.left_over() == {}


async def test_an_authors_filter_never_swallows_a_payment() -> None:
    """Also not one that takes everything."""
    bot = Router()
    got: list[object] = []

    @bot.aside(command("aside"))
    async def aside(chat: Chat) -> None:
        got.append(await chat.charge(PRICE, "Aside", item=1))

    @bot.conversation
    async def listen(chat: Chat) -> None:
        while True:
            got.append(await chat.receive(when(lambda event: True)))

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("/aside")
        await town.joins()
        town.outbox.reply(YES, verifies)
        await town.pays()
        assert [type(event).__name__ for event in got] == ["Join", "Paid"]


# --- other buttons, and other words


async def test_another_button_ends_the_charge_with_its_key() -> None:
    """And takes all buttons away."""
    shop = Shop(options={"no": "Not now"})
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.presses("Not now")
        assert shop.outcomes == ["no"]
        assert len(town.edits()) == 1
        assert town.store.intended == {}


async def test_what_is_said_beside_the_button_gets_a_hint() -> None:
    """In a private chat."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.says("how?")
        assert town.sent() == ["Pizza", TEXTS.want_payment]


async def test_the_button_lives_for_a_day(autojump_clock: MockClock) -> None:
    """Then it is gone; the intent stays, for it may have been paid."""
    shop = Shop()
    store = FakeStore()
    async with open_town(shop.bot, store=store) as town:
        await town.says("buy")
        await trio.sleep(BUTTON_LIFE + 1)
        assert isinstance(shop.outcomes[0], trio.TooSlowError)
        assert len(town.edits()) == 1
        assert len(store.intended) == 1


# --- time and interrupts while money is being looked at


async def test_a_timeout_waits_for_money_that_is_being_verified(autojump_clock: MockClock) -> None:
    """Paid in the last second is paid, and the block isn't ended any more."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("later")
        await trio.sleep(59)
        held = town.outbox.hold(verifies)
        await town.pays()
        await trio.sleep(4)
        town.outbox.reply(YES, inquires)
        held.release()
        await trio.sleep(1)
        assert isinstance(shop.outcomes[0], Paid)
        assert shop.outcomes[1:] == [False]
        assert town.alarms == []


async def test_a_timeout_waits_only_some_seconds(autojump_clock: MockClock) -> None:
    """Then the block ends, and an operator knows."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("later")
        await trio.sleep(59)
        town.outbox.hold(verifies)
        await town.pays()
        await trio.sleep(1 + HELD - 0.1)
        assert shop.outcomes == []
        await trio.sleep(0.2)
        assert shop.outcomes == [True]
        assert [alarm.kind for alarm in town.alarms] == ["payment_unverified"]
        assert "was being verified" in town.alarms[0].text


async def test_a_timeout_between_two_tries_is_held_no_longer(autojump_clock: MockClock) -> None:
    """Waiting to ask again is being looked at, too."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("later")
        await trio.sleep(59)
        town.outbox.fail(LOST)
        await town.pays()
        await trio.sleep(1 + HELD + 0.1)
        assert shop.outcomes == [True]
        assert len(town.alarms) == 1


@pytest.mark.parametrize("held_already", [False, True])
async def test_an_interrupt_does_not_wait(held_already: bool, autojump_clock: MockClock) -> None:
    """The user is never locked out, not even while a timeout is being held."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("later")
        await trio.sleep(59)
        town.outbox.hold(verifies)
        await town.pays()
        await trio.sleep(3 if held_already else 0.5)
        await town.says("/cancel")
        assert town.sent() == ["Pizza", "Cancelled."]
        assert shop.outcomes == []
        assert len(town.alarms) == 1
        assert town.left_over() == {}


async def test_a_stop_does_not_wait_and_forgets_nothing(autojump_clock: MockClock) -> None:
    """Money that was being looked at is looked at by the next run: it is the conversation's own work."""
    shop = Shop()
    store = FakeStore()
    with trio.fail_after(1):
        async with open_town(shop.bot, store=store) as town:
            await town.says("buy")
            town.outbox.hold(verifies)
            hint = await town.pays()
        assert hint not in store.rows
        assert town.alarms == []
        assert len(store.intended) == 1
        assert town.edits() == []
    outbox = FakeOutbox()
    outbox.reply(YES, verifies)
    async with open_town(shop.bot, store=store, outbox=outbox) as town:
        await town.rest()
        assert town.alarms == []
        assert isinstance(shop.outcomes[0], Paid)
        assert store.intended == {}


async def test_a_hint_is_in_hand_until_it_has_been_looked_at(autojump_clock: MockClock) -> None:
    """A crash between two tries must not lose it."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        script = town.outbox.fail(LOST)
        hint = await town.pays()
        await trio.sleep(5)
        assert hint not in town.store.rows  # the journal has it
        town.outbox.forget(script)
        town.outbox.reply(YES, verifies)
        await trio.sleep(10)
        assert isinstance(shop.outcomes[0], Paid)
        assert town.store.rows == {}


@pytest.mark.parametrize("full", [0, 1])
async def test_money_that_is_verified_survives_any_cancellation(full: int, autojump_clock: MockClock) -> None:
    """The timeout comes while the settled intent is being written; or that can't be written at all."""
    shop = Shop()
    store = FakeStore(latency=1.0)
    async with open_town(shop.bot, store=store) as town:
        await trio.sleep(5)
        start = trio.current_time()
        await town.says("later")
        await trio.sleep(start + 59.5 - trio.current_time())
        town.outbox.reply(YES, verifies)
        store.full = full
        await town.pays()
        await trio.sleep(10)
        assert isinstance(shop.outcomes[0], Paid)
        assert [alarm.kind for alarm in town.alarms] == ["store_unwritable"] * full


async def test_leaving_ends_a_charge_without_an_edit() -> None:
    """Nobody is there to see it."""
    shop = Shop()

    @shop.bot.aside(leave())
    async def goodbye(chat: Chat) -> None:
        shop.outcomes.append("left")

    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.leaves()
        assert shop.outcomes == ["left"]
        assert town.edits() == []
        assert town.left_over() == {}


# --- invoices


async def sell(chat: Chat, got: list[object]) -> None:
    try:
        got.append(await chat.invoice(PRICE, "Pizza", item="pizza", expires=600))
    except Exception as error:
        got.append(error)


async def test_an_invoice_is_paid_on_the_wallet_page() -> None:
    """Created once, verified by its own id."""
    bot = Router()
    got: list[object] = []

    @bot.conversation
    async def buy(chat: Chat) -> None:
        await sell(chat, got)

    async with open_town(bot) as town:
        await town.says("hi")
        (created,) = town.operations()
        assert created == CreateInvoice(CHAT, PRICE, "Pizza", expire_time=600)
        assert town.outbox.on_unknown == [OnUnknown.RAISE]
        await town.pays_invoice("inv1001")
        assert got == []
        assert town.operations()[1:] == [VerifyInvoice(CHAT, "inv1001"), InquireInvoice(CHAT, "inv1001")]
        town.outbox.reply(YES, verifies)
        await town.pays_invoice("inv1001")
        assert got == [Paid(PRICE, "IRR", "pizza", "invoice-inv1001", ALI)]
        assert town.store.intended == {}


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (DeliveryUnknownError("invoice", "lost"), 1),
        (NotDeliveredError("invoice", "down"), 0),
        (BadRequestError("invoice", 400), 0),
    ],
)
async def test_an_invoice_whose_creation_is_unknown_stays_written_down(error: Exception, left: int) -> None:
    """What surely doesn't exist needs no watch."""
    bot = Router()
    got: list[object] = []

    @bot.conversation
    async def buy(chat: Chat) -> None:
        await sell(chat, got)

    outbox = FakeOutbox()
    outbox.fail(error, lambda op: isinstance(op, CreateInvoice))
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        assert [(type(one), one.args) for one in got] == [(type(error), error.args)]  # type: ignore[attr-defined]
        assert len(town.store.intended) == left


async def test_a_callback_may_overtake_the_invoices_id() -> None:
    """Its own is taken; another's is none of its business."""
    bot = Router()
    got: list[object] = []

    @bot.conversation
    async def buy(chat: Chat) -> None:
        await sell(chat, got)

    outbox = FakeOutbox()
    held = outbox.hold(lambda op: isinstance(op, CreateInvoice))
    outbox.reply(YES, verifies)
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        await town.pays_invoice("another")
        await town.pays_invoice("inv1001")
        held.release()
        await town.rest()
        assert [type(paid).__name__ for paid in got] == ["Paid"]
        assert [alarm.kind for alarm in town.alarms] == ["payment_unverified"]
        assert town.store.rows == {}


async def test_two_invoices_at_once_keep_apart() -> None:
    """Each verifies its own id."""
    bot = Router()
    got: list[object] = []

    @bot.conversation
    async def buy(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(sell, chat, got)
            nursery.start_soon(sell, chat, got)

    async with open_town(bot) as town:
        await town.says("hi")
        town.outbox.reply(YES, verifies)
        for id in ("inv1002", "inv1001"):
            await town.pays_invoice(id)
        assert [paid.key for paid in got] == ["invoice-inv1002", "invoice-inv1001"]
        assert SendMessage.path not in [op.path for op in town.operations()]
