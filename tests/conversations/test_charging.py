"""Charges and invoices: only verified money comes back, and no verified money is lost."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore, forbidden
from town import ALI, CHAT, SARA, TEXTS, Town, open_town
from trio.testing import MockClock

from triobot.conversations.charges.charging import BUTTON_LIFE, HELD, is_trusted
from triobot.conversations.charges.paid import Paid, paid
from triobot.conversations.chat import Chat
from triobot.conversations.data import Key
from triobot.conversations.routes.filters import command, text
from triobot.conversations.routes.router import Router
from triobot.errors import (
    AmountMismatchError,
    BadRequestError,
    ConfigError,
    DeliveryUnknownError,
    ForbiddenError,
    LocalProtocolError,
    PaymentDeclinedError,
    PaymentExpiredError,
    PaymentHandedOverError,
    StoreFullError,
)
from triobot.payments import cashier
from triobot.payments.entries import Entries
from triobot.payments.facts import Hint, PaymentAnswer, Plain, PlainName, new_ref_id
from triobot.seams.money import Charge, MovePayment
from triobot.seams.outbox import OnUnknown, Urgency
from triobot.seams.writes import Write
from triobot.wire.content import Location
from triobot.wire.ids import ChatId, MessageId, RefId, as_ref_id
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


@attrs.frozen
class Pizza:
    """What is bought."""

    size: int = 1


def verifies(operation: object) -> bool:
    return isinstance(operation, VerifyPayment | VerifyInvoice)


def inquires(operation: object) -> bool:
    return isinstance(operation, InquirePayment | InquireInvoice)


SOLD = Key("sold", int, default=0)


class Shop:
    """A bot that sells one pizza, and remembers how it went."""

    def __init__(self, **charge: Any) -> None:
        self.bot = Router()
        self.outcomes: list[object] = []
        self.given: list[Paid[Pizza]] = []
        self.failing = 0
        self.slow = 0.0

        @self.bot.interrupt(command("cancel"))
        async def cancel(chat: Chat) -> None:
            await chat.send("Cancelled.")

        @self.bot.aside(paid(Pizza))
        async def deliver(chat: Chat[Paid[Pizza]]) -> None:
            self.given.append(chat.event)
            if self.failing:
                self.failing -= 1
                raise RuntimeError("the oven is cold")
            if self.slow:
                await chat.sleep(self.slow)
            await chat.send("Here it is.")
            chat.data[SOLD] += 1

        @self.bot.conversation(text("buy"))
        async def buy(chat: Chat) -> None:
            try:
                self.outcomes.append(await chat.charge(PRICE, "Pizza", item=Pizza(), **charge))
            except Exception as error:
                self.outcomes.append(error)
                raise

        @self.bot.conversation(text("later"))
        async def buy_in_time(chat: Chat) -> None:
            with chat.move_on_after(60) as limit:
                self.outcomes.append(await chat.charge(PRICE, "Pizza", item=Pizza(2), **charge))
            self.outcomes.append(limit.cancelled_caught)


def asked(town: Town) -> list[str]:
    """What was asked about the payment, in order."""
    return [op.path for op in town.operations() if verifies(op) or inquires(op)]


async def state(town: Town, ref_id: str) -> str:
    """How far a payment got in the ledger."""
    row = await town.store.payments.get(RefId(ref_id))
    assert row is not None
    return row.state


async def alarms(town: Town) -> list[str]:
    """The kinds of the ledger's open alarms."""
    return [alarm.kind for alarm in await town.store.alarms.open(limit=9)]


# --- the button


async def test_the_button_says_what_it_costs() -> None:
    """Above a fresh number, which is written down before it leaves."""
    shop = Shop(options={"no": "Not now"})
    async with open_town(shop.bot) as town:
        await town.says("buy")
        button = town.pay_button()
        assert button == PayButton(TEXTS.pay, PRICE, button.ref_id, "IRR", "Pizza")
        assert town.newest().content == "Pizza"
        assert town.labels() == [TEXTS.pay, "Not now"]
        assert town.outbox.urgencies == [Urgency.MONEY]
        assert await state(town, button.ref_id) == "open"


async def test_what_cannot_be_written_down_asks_for_no_money(autojump_clock: MockClock) -> None:
    """The order is: written, then sent. It waits for room, as whatever a conversation does."""
    shop = Shop()

    class FullForMoney(FakeStore):
        room = False

        async def commit(self, *writes: Write) -> None:
            if not self.room and any(isinstance(write, MovePayment) for write in writes):
                raise StoreFullError("the disk is full")
            await super().commit(*writes)

    store = FullForMoney()
    async with open_town(shop.bot, store=store) as town:
        await town.says("buy", wait=False)
        await trio.sleep(10.5)
        assert town.sent() == []
        assert {alarm.kind for alarm in town.alarms} == {"store_unwritable"}
        store.room = True
        await trio.sleep(1)
        assert town.sent() == ["Pizza"]


async def test_a_number_that_was_taken_meanwhile_stops_only_who_drew_it(autojump_clock: MockClock) -> None:
    """Others share the commit that is refused; and nothing is sent of what was not written down."""
    shop = Shop()

    class Slow(FakeStore):
        seconds = 0

        async def commit(self, *writes: Write) -> None:
            await trio.sleep(self.seconds)
            await super().commit(*writes)

    store = Slow()
    async with open_town(shop.bot, store=store) as town:
        town.at_once, store.seconds = False, 1
        taken = new_ref_id()
        other = Charge("button", ChatId(3), 1, "IRR", "1", "-", "another's", "nobody", 1)
        write = town.cashier.opened(taken, other)
        town.store.put(write)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cashier, "new_ref_id", lambda: taken)
            await town.says("buy")
        await town.says("buy", chat=8, sender=SARA)
        await trio.sleep(20)

        assert town.sent(chat=8) == ["Pizza"]
        assert town.sent(chat=CHAT) == []
        (alarm,) = town.alarms
        assert alarm.kind == "conversation_parked"
        assert "start the bot again" in alarm.text
        await town.says("/cancel")
        await trio.sleep(5)
        assert town.sent(chat=CHAT) == ["Cancelled."]


def test_reference_ids_fit_everywhere() -> None:
    """Letters and digits, and a number below 2**53."""

    for _ in range(100):
        ref_id = new_ref_id()
        assert as_ref_id(ref_id) == ref_id
        assert len(ref_id) == 16
        assert int(ref_id) < 2**53


@pytest.mark.parametrize("amount", [0, -1, True, 1.5, 250_000.0, "250000", 2**53, 1_000_001])
@pytest.mark.parametrize("how", ["charge", "invoice"])
async def test_an_amount_is_a_whole_number_within_bounds(amount: object, how: str) -> None:
    """Before anything is written or sent."""
    bot = Router()

    @bot.aside(paid(int))
    async def deliver(chat: Chat[Paid[int]]) -> None:
        """Give it."""

    @bot.conversation
    async def buy(chat: Chat) -> None:
        await getattr(chat, how)(amount, "Pizza", item=1, late="refund")

    async with open_town(bot) as town:
        town.at_once = False
        town.services = attrs.evolve(town.services, max_amount=1_000_000)
        town.dispatcher.shared.services = town.services
        await town.says("hi")
        assert town.sent() == [TEXTS.apology]
        assert await town.store.payments.find(limit=9) == []


@pytest.mark.parametrize("how", ["charge", "invoice"])
@pytest.mark.parametrize("late", ["deliver", "refund"])
async def test_nobody_is_charged_for_what_no_aside_gives(how: str, late: str) -> None:
    """Whatever is to become of money that comes late; the line is named."""
    bot = Router()
    errors: list[object] = []

    @bot.aside(paid(int))
    async def deliver(chat: Chat[Paid[int]]) -> None:
        """Give something else."""

    @bot.conversation
    async def buy(chat: Chat) -> None:
        try:
            await getattr(chat, how)(PRICE, "Pizza", item=Pizza(), late=late)
        except ConfigError as error:
            errors.append(str(error))

    async with open_town(bot) as town:
        await town.says("hi")
        assert "@bot.aside(paid(Pizza))" in str(errors[0])
        assert str(errors[0]).startswith(f"{__file__}:")
        assert town.sent() == []
        assert await town.store.payments.find(limit=9) == []


# --- success


async def test_verified_money_comes_back_with_its_item() -> None:
    """Once; the button goes, the aside gives, and its normal end settles it."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        ref_id = town.pay_button().ref_id
        town.outbox.reply(YES, verifies)
        await town.pays()
        assert shop.given == [Paid(PRICE, "IRR", Pizza(), f"button-{ref_id}", ALI, reference=ref_id)]
        assert shop.outcomes == [None]
        assert asked(town) == ["payment/verify"]
        assert town.edits() == [EditMessage(CHAT, town.messages()[0][0], "Pizza")]
        assert await state(town, ref_id) == "settled"
        assert town.store.rows == {}
        assert town.alarms == []
        assert await alarms(town) == []
        assert town.left_over() == {}


async def test_a_forged_callback_grants_nothing() -> None:
    """Success that the platform doesn't confirm; a number that isn't ours."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.pays()
        assert shop.outcomes == []
        assert asked(town) == ["payment/verify", "payment/inquiry"]
        await town.pays(ref_id="1111111111111111")
        assert len(asked(town)) == 2
        assert await alarms(town) == ["foreign_payment"]
        town.outbox.reply(YES, verifies)
        await town.pays()
        assert shop.outcomes[0] is None


async def test_the_wrong_amount_grants_nothing() -> None:
    """It is the operator's to give back."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        town.outbox.reply(PaymentState(True, PRICE - 1), verifies)
        await town.pays()
        assert isinstance(shop.outcomes[0], AmountMismatchError)
        assert shop.outcomes[0].captured == PRICE - 1
        assert await alarms(town) == ["amount_mismatch"]
        assert shop.given == []


# --- no


@pytest.mark.parametrize("code", [1001, 1002])
async def test_it_is_declined_only_when_verify_and_inquiry_agree(code: int) -> None:
    """A callback is a hint, also a negative one."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.pays(code=code)
        assert asked(town)[:2] == ["payment/verify", "payment/inquiry"]
        assert isinstance(shop.outcomes[0], PaymentDeclinedError)
        assert shop.outcomes[0].code == code

    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        town.outbox.reply(YES, verifies)
        await town.pays(code=code)
        assert shop.outcomes[0] is None


async def test_a_number_that_is_said_to_be_used_can_be_pressed_again() -> None:
    """1003 comes of a second press, or is forged: the number has sixteen digits by chance."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        number = town.pay_button().ref_id
        await town.pays(code=1003)
        assert (shop.outcomes, town.edits()) == ([], [])
        assert town.sent() == ["Pizza", TEXTS.pay_again]
        town.outbox.reply(YES, lambda op: verifies(op) and op.ref_id == number)  # type: ignore[union-attr]
        await town.pays(ref_id=number)
        assert shop.outcomes[0] is None
        assert [one.key for one in shop.given] == [f"button-{number}"]


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://pay.example/charge?x=1", True),
        ("https://wallet.pay.example/charge", True),
        ("https://evil.example/charge", False),
        ("https://pay.example.evil.example/", False),
        ("http://pay.example/", False),
        ("https://pay.example@evil.example/", False),
        ("javascript:alert(1)", False),
        ("https://[broken", False),
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
        assert shop.outcomes[0] is None


def test_no_hosts_trust_nothing() -> None:
    """Without a list there is no link."""
    assert not is_trusted("https://pay.example/", ())
    assert is_trusted("https://PAY.example/", ("pay.example",))


async def test_a_failed_payment_may_be_tried_again() -> None:
    """With the same button, each time with a word."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.pays(code=1004)
        await town.pays(code=1004)
        assert town.sent() == ["Pizza", TEXTS.pay_again, TEXTS.pay_again]
        town.outbox.reply(YES, verifies)
        await town.pays()
        assert shop.outcomes[0] is None


@pytest.mark.parametrize("code", [1005, 1006, 9999])
async def test_an_unknown_outcome_is_no_decline(code: int) -> None:
    """The charge waits on, and the payer reads that the button can be pressed again."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.pays(code=code)
        assert shop.outcomes == []
        assert town.sent() == ["Pizza", TEXTS.pay_again]
        town.outbox.reply(YES, verifies)
        await town.pays(code=code)
        assert shop.outcomes[0] is None


# --- other buttons, and other words


async def test_another_button_ends_the_charge_with_its_key() -> None:
    """And takes all buttons away."""
    shop = Shop(options={"no": "Not now"})
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.presses("Not now")
        assert shop.outcomes == ["no"]
        assert len(town.edits()) == 1
        assert await state(town, town.pay_button().ref_id) == "check"
        assert town.left_over() == {}


async def test_what_is_said_beside_the_button_gets_a_hint() -> None:
    """In a private chat."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.says("how?")
        assert town.sent() == ["Pizza", TEXTS.want_payment]


async def test_the_button_lives_for_a_day(autojump_clock: MockClock) -> None:
    """Then it is taken away."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await trio.sleep(BUTTON_LIFE + 1)
        assert isinstance(shop.outcomes[0], trio.TooSlowError)
        assert len(town.edits()) == 1


async def test_two_charges_at_once_keep_apart() -> None:
    """Each number pays its own item, once, in whatever order."""
    bot = Router()
    got: list[int] = []
    given: list[Paid[int]] = []

    @bot.aside(paid(int))
    async def deliver(chat: Chat[Paid[int]]) -> None:
        given.append(chat.event)

    @bot.conversation
    async def two(chat: Chat) -> None:
        async def one(item: int) -> None:
            await chat.charge(PRICE, str(item), item=item, late="refund")
            got.append(item)

        async with chat.open_nursery() as nursery:
            nursery.start_soon(one, 1)
            nursery.start_soon(one, 2)

    async with open_town(bot) as town:
        await town.says("two")
        refs = {sent.content: sent.inline_keyboard.rows[0][0].ref_id for _, sent in town.messages()}  # type: ignore[union-attr]
        town.outbox.reply(YES, verifies)
        await town.pays(ref_id=refs["2"])
        assert got == [2]
        await town.pays(ref_id=refs["1"])
        assert got == [one.item for one in given] == [2, 1]
        assert len({one.key for one in given}) == 2
        assert town.left_over() == {}


@pytest.mark.parametrize("how", ["there", "restarted"])
async def test_two_that_are_paid_wait_for_their_own_goods(how: str, autojump_clock: MockClock) -> None:
    """Given one after the other, in whatever order, and over a restart."""
    bot, store, outbox = Router(), FakeStore(), FakeOutbox()

    @bot.aside(paid(int))
    async def deliver(chat: Chat[Paid[int]]) -> None:
        await chat.sleep(100 * chat.event.item)

    @bot.conversation
    async def two(chat: Chat) -> None:
        async def one(item: int) -> None:
            await chat.charge(PRICE, str(item), item=item)
            await chat.send(f"got {item}")

        async with chat.open_nursery() as nursery:
            for item in (2, 1):
                nursery.start_soon(one, item)

    outbox.reply(YES, verifies)
    async with open_town(bot, store=store, outbox=outbox) as town:
        await town.says("two")
        for row in await store.payments.find(limit=9):
            await town.pays(ref_id=row.id)
        if how == "there":
            await trio.sleep(300)
    if how == "restarted":
        async with open_town(bot, store=store, outbox=outbox) as town:
            await trio.sleep(300)
    got = [int(str(said)[4:]) for said in town.sent() if str(said).startswith("got")]
    assert got == [1, 2]
    assert {row.state for row in await store.payments.find(limit=9)} == {"settled"}


# --- time and interrupts while money is being looked at


async def test_a_timeout_waits_for_money_that_is_being_verified(autojump_clock: MockClock) -> None:
    """Paid in the last second is paid, and the block isn't ended any more."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("later")
        await trio.sleep(59)
        town.outbox.reply(YES, verifies)
        town.outbox.latency = 4
        await town.pays()
        await trio.sleep(20)
        assert shop.outcomes[0] is None
        assert shop.outcomes[1:] == [False]
        assert [money.item for money in shop.given] == [Pizza(2)]


async def test_a_timeout_waits_only_some_seconds(autojump_clock: MockClock) -> None:
    """Then the block ends; what is verified after that is for the aside."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("later")
        await trio.sleep(59)
        held = town.outbox.hold(verifies)
        await town.pays()
        await trio.sleep(1 + HELD - 0.1)
        assert shop.outcomes == []
        await trio.sleep(0.2)
        assert shop.outcomes == [True]
        town.outbox.forget(held)
        town.outbox.reply(YES, verifies)
        held.release()
        await trio.sleep(60)
        assert [money.item for money in shop.given] == [Pizza(2)]
        assert await state(town, town.pay_button().ref_id) == "settled"


async def test_an_interrupt_does_not_wait(autojump_clock: MockClock) -> None:
    """The user is never locked out; the money that comes is for the aside."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        held = town.outbox.hold(verifies)
        await town.pays()
        await town.says("/cancel")
        assert town.sent() == ["Pizza", "Cancelled."]
        town.outbox.forget(held)
        town.outbox.reply(YES, verifies)
        held.release()
        await trio.sleep(10)
        assert shop.outcomes == []
        assert [money.key for money in shop.given] == [f"button-{town.pay_button().ref_id}"]
        assert town.sent()[-1] == "Here it is."


async def test_refused_late_money_is_left_to_go_back(autojump_clock: MockClock) -> None:
    """``late="refund"``: it is never verified, but by the question that is asked when the charge ends."""
    shop = Shop(late="refund")
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.says("/cancel")
        town.outbox.reply(YES, verifies)
        await town.pays()
        await trio.sleep(3600)
        assert asked(town) == ["payment/verify", "payment/inquiry"]
        assert shop.given == []
        assert await alarms(town) == ["paid_will_lapse"]


async def test_a_send_that_is_in_flight_goes_on(autojump_clock: MockClock) -> None:
    """A button that nobody knows of could be paid for ever: it is shown, known, and taken away."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        held = town.outbox.hold(lambda op: isinstance(op, SendMessage) and op.inline_keyboard is not None)
        await town.says("buy")
        await town.says("/cancel", wait=False)
        await trio.sleep(1)
        (row,) = await town.store.payments.find(limit=9)
        assert row.state in ("closing", "check")
        held.release()
        await trio.sleep(1)
        assert len(town.edits()) == 1


# --- the goods


async def test_a_charge_returns_when_the_goods_are_given(autojump_clock: MockClock) -> None:
    """However long that takes; and the payment is settled by then."""
    shop = Shop()
    shop.slow = 3 * 24 * 3600
    async with open_town(shop.bot) as town:
        town.outbox.reply(YES, verifies)
        await town.says("buy")
        await town.pays()
        await trio.sleep(shop.slow - 1)
        assert (len(shop.given), shop.outcomes) == (1, [])
        await trio.sleep(2)
        assert shop.outcomes == [None]
        assert town.sent() == ["Pizza", "Here it is."]
        assert await state(town, town.pay_button().ref_id) == "settled"


@pytest.mark.parametrize("end", ["normal", "raises", "interrupt", "leave"])
async def test_what_follows_a_charge_changes_nothing(end: str) -> None:
    """The goods are given by then."""
    shop = Shop()

    @shop.bot.conversation(text("sell"))
    async def sell(chat: Chat) -> None:
        await chat.charge(PRICE, "Pizza", item=Pizza())
        if end == "raises":
            raise RuntimeError("later")
        if end != "normal":
            await chat.receive(text("never"))

    async with open_town(shop.bot) as town:
        town.outbox.reply(YES, verifies)
        await town.says("sell")
        await town.pays()
        if end == "interrupt":
            await town.says("/cancel")
        if end == "leave":
            await town.leaves()
        await town.rest()
        assert [money.redelivered for money in shop.given] == [False]
        assert await state(town, town.pay_button().ref_id) == "settled"
        assert await alarms(town) == []


@pytest.mark.parametrize("late", ["deliver", "refund"])
@pytest.mark.parametrize("end", ["raises", "interrupt", "timeout"])
async def test_goods_are_given_whatever_becomes_of_who_waits(
    end: str, late: str, autojump_clock: MockClock
) -> None:
    """Once, by the aside that has begun: nothing of it is cut, and nothing begins again."""
    shop = Shop()
    shop.slow = 100

    @shop.bot.conversation(text("sell"))
    async def sell(chat: Chat) -> None:
        async def fail() -> None:
            await chat.sleep(60)
            raise RuntimeError("something else")

        with chat.move_on_after(60 if end == "timeout" else 600):
            async with chat.open_nursery() as nursery:
                if end == "raises":
                    nursery.start_soon(fail)
                shop.outcomes.append(await chat.charge(PRICE, "Pizza", item=Pizza(), late=late))  # type: ignore[call-overload]

    async with open_town(shop.bot) as town:
        town.outbox.reply(YES, verifies)
        await town.says("sell")
        await town.pays()
        if end == "interrupt":
            await town.says("/cancel")
        await trio.sleep(70)
        assert len(town.dispatcher.tasks.running) == 1
        assert await state(town, town.pay_button().ref_id) == "delivered"
        await trio.sleep(3600)
        assert shop.outcomes == []
        assert [money.redelivered for money in shop.given] == [False]
        assert town.sent()[-1] == "Here it is."
        assert await state(town, town.pay_button().ref_id) == "settled"
        assert await alarms(town) == []


@pytest.mark.parametrize(("slow", "limit"), [(HELD - 1, False), (HELD + 1, True)])
async def test_goods_that_are_given_at_once_are_in_time(
    slow: float, limit: bool, autojump_clock: MockClock
) -> None:
    """A block that would end some seconds after the payment doesn't say that it was too slow."""
    shop = Shop()
    shop.slow = slow
    async with open_town(shop.bot) as town:
        town.outbox.reply(YES, verifies)
        await town.says("later")
        await trio.sleep(60 - (HELD - 2 if not limit else HELD + 0.5))
        await town.pays()
        await trio.sleep(30)
        assert shop.outcomes == [*([] if limit else [None]), limit]
        assert len(shop.given) == 1


async def test_goods_that_fail_are_told_of(autojump_clock: MockClock) -> None:
    """Who waits hears it at once, and the user that the payment has arrived; then the aside gets it again."""
    shop = Shop()
    shop.failing = 1
    async with open_town(shop.bot) as town:
        town.outbox.reply(YES, verifies)
        await town.says("buy")
        await town.pays()
        assert [type(one) for one in shop.outcomes] == [PaymentHandedOverError]
        assert TEXTS.handed_over in town.sent()
        await trio.sleep(10)
        assert [money.redelivered for money in shop.given] == [False, True]
        assert len({money.key for money in shop.given}) == 1
        assert town.sent()[-1] == "Here it is."
        assert await state(town, town.pay_button().ref_id) == "settled"


class Asking:
    """Its aside asks where to; its conversation asks something else, once the goods are given."""

    def __init__(self) -> None:
        self.bot = Router()
        self.given: list[object] = []
        self.heard: list[object] = []

        @self.bot.aside(paid(Pizza))
        async def deliver(chat: Chat[Paid[Pizza]]) -> None:
            self.given.append(await chat.ask("Where to?", Location))
            await chat.send("Here it is.")

        @self.bot.conversation(text("buy"))
        async def buy(chat: Chat) -> None:
            try:
                sold = await chat.charge(PRICE, "Pizza", item=Pizza(), options={"no": "No, thanks"})
            except PaymentHandedOverError:
                await chat.send("By hand, then.")
                return
            self.heard.append(sold)
            self.heard.append(await chat.ask("Anything else?"))


HERE = Location(35.7, 51.4)


async def test_a_delivery_may_ask_the_buyer(autojump_clock: MockClock) -> None:
    """In the charge's place: its hint is said, the charge's own buttons are over, its hint isn't said."""
    shop = Asking()
    async with open_town(shop.bot) as town:
        town.outbox.reply(YES, verifies)
        await town.says("buy")
        await town.pays()
        await town.says("hm")
        await town.presses("No, thanks")
        assert town.sent() == ["Pizza", "Where to?", TEXTS.want_location]
        assert shop.heard == []
        await town.says(HERE)
        assert town.sent()[3:] == ["Here it is.", "Anything else?"]
        await town.says("No")
        assert shop.given == [HERE]
        assert shop.heard[1:] == ["No"]
        assert town.left_over() == {}


@pytest.mark.parametrize("how", ["evicted", "restarted"])
async def test_a_delivery_and_who_waits_for_it_come_back(how: str, autojump_clock: MockClock) -> None:
    """While the buyer thinks about the answer."""
    shop, store, outbox = Asking(), FakeStore(), FakeOutbox()
    outbox.reply(YES, verifies)
    async with open_town(shop.bot, store=store, outbox=outbox) as town:
        await town.says("buy")
        await town.pays()
        if how == "evicted":
            actor = town.dispatcher.chats.actors.get(CHAT)
            assert actor is not None
            assert actor.can_evict
            town.dispatcher.chats.evict(actor)
            await town.rest()
            assert town.dispatcher.chats.actors.get(CHAT) is None
            await town.says(HERE)
    if how == "restarted":
        async with open_town(shop.bot, store=store, outbox=outbox) as town:
            await town.says(HERE)
    assert town.sent()[-2:] == ["Here it is.", "Anything else?"]
    assert (shop.given, len(shop.heard)) == ([HERE], 1)


@pytest.mark.parametrize("fact", ["operator_settled", "operator_resolved", "operator_redeliver"])
@pytest.mark.parametrize("how", ["there", "evicted", "restarted"])
async def test_who_waits_hears_of_what_an_operator_does(
    fact: PlainName, how: str, autojump_clock: MockClock
) -> None:
    """In memory or not, and if nothing but the ledger's own move was stored of it."""
    shop, store, outbox = Asking(), FakeStore(), FakeOutbox()
    outbox.reply(YES, verifies)
    async with open_town(shop.bot, store=store, outbox=outbox) as town:
        await town.says("buy")
        await town.pays()
        ref_id = RefId(town.pay_button().ref_id)
        if how == "evicted":
            actor = town.dispatcher.chats.actors.get(CHAT)
            assert actor is not None
            town.dispatcher.chats.evict(actor)
            await town.rest()
        if how != "restarted":
            await town.cashier.entries.move(ref_id, Plain(fact))
            await town.rest()
            assert "By hand, then." in town.sent()
    if how == "restarted":
        # Nobody is there who could be told.
        entries = Entries(store.payments, store.commit, town.services.clock.now, lambda moved: None)  # type: ignore[arg-type]
        await entries.move(ref_id, Plain(fact))
        async with open_town(shop.bot, store=store, outbox=outbox) as town:
            await town.rest()
            assert "By hand, then." in town.sent()
    assert shop.heard == []


async def test_an_aside_that_fails_gets_the_money_again(autojump_clock: MockClock) -> None:
    """With the same key."""
    shop = Shop()
    shop.failing = 2
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await town.says("/cancel")
        town.outbox.reply(YES, verifies)
        await town.pays()
        await trio.sleep(40)
        assert len(shop.given) == 3
        assert len({money.key for money in shop.given}) == 1
        assert await state(town, town.pay_button().ref_id) == "settled"


@pytest.mark.parametrize("slow", [0.0, 60.0])
async def test_goods_survive_the_process(slow: float, autojump_clock: MockClock) -> None:
    """Given, or on their way, when it was stopped: they are given once, and who waited is told."""
    shop = Shop()
    shop.slow = slow
    store, outbox = FakeStore(), FakeOutbox()

    @shop.bot.conversation(text("sell"))
    async def sell(chat: Chat) -> None:
        await chat.charge(PRICE, "Pizza", item=Pizza())
        await chat.send("Thank you.")
        await chat.receive(text("never"))

    outbox.reply(YES, verifies)
    async with open_town(shop.bot, store=store, outbox=outbox) as town:
        await town.says("sell")
        await town.pays()
        (row,) = await store.payments.find(limit=9)
        assert row.state == ("delivered" if slow else "settled")
    async with open_town(shop.bot, store=store, outbox=outbox) as town:
        await trio.sleep(slow + 1)
        (row,) = await store.payments.find(limit=9)
        assert row.state == "settled"
        assert [town.sent().count(said) for said in ("Here it is.", "Thank you.")] == [1, 1]
        assert {money.redelivered for money in shop.given} == {False}
        await town.says("never")
        assert town.left_over() == {}


async def test_a_chat_that_left_memory_is_called_back_to_its_payment() -> None:
    """Nobody but the ledger knows that there is news."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        actor = town.dispatcher.chats.actors.get(CHAT)
        assert actor is not None
        town.dispatcher.chats.evict(actor)
        await town.rest()
        assert town.dispatcher.chats.actors.get(CHAT) is None
        town.outbox.reply(YES, verifies)
        await town.pays()
        assert (shop.outcomes, len(shop.given)) == ([None], 1)


@pytest.mark.parametrize("evicted", [False, True])
async def test_what_an_operator_has_to_deal_with_is_not_granted(evicted: bool) -> None:
    """A conversation that still waits is told at once, in memory or not."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        if evicted:
            actor = town.dispatcher.chats.actors.get(CHAT)
            assert actor is not None
            town.dispatcher.chats.evict(actor)
            await town.rest()
        captured = PaymentAnswer("verify", "verified", PRICE)
        await town.cashier.entries.move(RefId(town.pay_button().ref_id), Plain("restored"), captured)
        await town.rest()
        assert isinstance(shop.outcomes[0], PaymentHandedOverError)


async def test_what_a_backup_says_is_unpaid_goes_on() -> None:
    """Its button stays, and its conversation gets the money."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        asked, ref_id = town.sent(), town.pay_button().ref_id
        await town.cashier.entries.move(RefId(ref_id), Plain("restored"))
        await town.rest()
        assert (town.sent(), shop.outcomes) == (asked, [])
        assert town.pay_button().ref_id == ref_id
        town.outbox.reply(YES, verifies)
        await town.pays()
        assert shop.outcomes[0] is None


# --- invoices


@pytest.fixture
def bill() -> Shop:
    """A shop that sends invoices."""
    shop = Shop()

    @shop.bot.conversation(text("bill"))
    async def sell(chat: Chat) -> None:
        try:
            shop.outcomes.append(await chat.invoice(PRICE, "Pizza", item=Pizza(), expires=600))
        except Exception as error:
            shop.outcomes.append(error)
            raise

    return shop


async def test_an_invoice_is_paid_on_the_wallet_page(bill: Shop) -> None:
    """A failure's callback is the same bytes as a success's."""
    async with open_town(bill.bot) as town:
        await town.says("bill")
        (created,) = [op for op in town.operations() if isinstance(op, CreateInvoice)]
        assert created == CreateInvoice(CHAT, PRICE, "Pizza", expire_time=600)
        assert town.outbox.on_unknown == [OnUnknown.RAISE]
        await town.pays_invoice("inv1001")
        assert bill.outcomes == []
        town.outbox.reply(YES, verifies)
        await town.pays_invoice("inv1001")
        assert bill.outcomes == [None]
        assert [one.currency for one in bill.given] == ["IRR"]


async def test_an_invoice_expires(bill: Shop, autojump_clock: MockClock) -> None:
    """Then nobody waits for it."""
    async with open_town(bill.bot) as town:
        await town.says("bill")
        await trio.sleep(601)
        assert isinstance(bill.outcomes[0], trio.TooSlowError)


async def test_a_charge_ends_at_the_time_that_it_was_given(autojump_clock: MockClock) -> None:
    """Who pays later gets the goods all the same, as with any charge that is over."""
    shop = Shop(expires=60)
    async with open_town(shop.bot) as town:
        await town.says("buy")
        await trio.sleep(59)
        assert shop.outcomes == []
        await trio.sleep(2)
        assert isinstance(shop.outcomes[0], PaymentExpiredError)


@pytest.mark.parametrize("expires", [0, -1, 86_401, 1.5])
async def test_a_charge_expires_within_its_buttons_day(expires: int) -> None:
    shop = Shop(expires=expires)
    async with open_town(shop.bot) as town:
        await town.says("buy")
        assert isinstance(shop.outcomes[0], LocalProtocolError)
        assert await town.store.payments.find(limit=9) == []


async def test_an_invoice_whose_answer_is_lost(bill: Shop) -> None:
    """It is never sent twice; its callback finds it, for the aside."""
    async with open_town(bill.bot) as town:
        town.outbox.fail(DeliveryUnknownError("invoice", "lost"), lambda op: isinstance(op, CreateInvoice))
        await town.says("bill")
        assert isinstance(bill.outcomes[0], DeliveryUnknownError)
        assert await alarms(town) == ["id_unknown"]
        town.outbox.reply(PaymentState(False, PRICE), inquires, times=1)
        town.outbox.reply(YES, verifies)
        await town.pays_invoice("lost-7")
        assert [money.item for money in bill.given] == [Pizza()]


async def test_a_refused_send_is_the_authors() -> None:
    """Nothing is watched then."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        town.outbox.fail(BadRequestError("sendMessage", 400), times=1)
        await town.says("buy")
        assert isinstance(shop.outcomes[0], BadRequestError)
        (row,) = await town.store.payments.find(limit=9)
        assert (row.state, row.due_at) == ("refused", None)


@pytest.mark.parametrize("how", ["buy", "bill"])
async def test_a_buyer_who_left_is_no_crash(how: str, bill: Shop) -> None:
    """A button or a bill that is refused in its own chat ends the conversation as a message does."""
    shop = Shop() if how == "buy" else bill
    outbox = FakeOutbox()
    outbox.fail(forbidden())
    async with open_town(shop.bot, outbox=outbox) as town:
        await town.says(how)
        assert isinstance(shop.outcomes[0], ForbiddenError)
        assert (town.counts.get("gone"), town.counts.get("crashed")) == (1, None)
        assert (town.alarms, TEXTS.apology in town.sent()) == ([], False)


async def test_an_invoice_that_was_in_flight_at_a_restart(bill: Shop) -> None:
    """A second one would be another debt: the code learns that its outcome is unknown."""
    async with open_town(bill.bot) as town:
        town.outbox.hold()
        await town.says("bill")
        assert [type(op) for op in town.operations()] == [CreateInvoice]
        store = town.store
    async with open_town(bill.bot, store=store) as town:
        await town.rest()
        assert CreateInvoice not in map(type, town.operations())
        assert isinstance(bill.outcomes[0], DeliveryUnknownError)


async def test_who_paid_a_button_that_was_in_flight_at_a_restart(autojump_clock: MockClock) -> None:
    """It was captured before its conversation came back to send it: that need not be told of it again."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        town.outbox.hold()
        await town.says("buy")
        store = town.store
        (row,) = await store.payments.find(limit=9)
        assert row.state == "sending"
    entries = Entries(store.payments, store.commit, town.services.clock.now, lambda moved: None)
    captured = PaymentAnswer("verify", "verified", PRICE)
    callback = Hint(None, ChatId(CHAT), MessageId(5))
    await entries.move(row.id, Plain("restart"), callback, Plain("verify_begun"), captured)
    async with open_town(shop.bot, store=store) as town:
        await trio.sleep(1)
        assert (shop.outcomes, [money.item for money in shop.given]) == ([None], [Pizza()])
        assert await alarms(town) == []
