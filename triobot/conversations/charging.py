"""Charges: ask for money, wait until the ledger knows, and hand over nothing but verified money.

What a charge consists of, in this order: the payment is written down (`Payments.open`, the same one for the
same operation after a restart); the button or invoice is sent, and how that ended is stored (`Ticket.sent`,
`Ticket.not_sent`); notices are waited for; the money is taken (`Ticket.take`). Each stores its move of the
ledger by itself, before the conversation goes on; all of them are safe to repeat. Callbacks never come here:
they are the ledger's.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs
import trio

from ..errors import (
    AmountMismatchError,
    ConfigError,
    DeliveryUnknownError,
    LocalProtocolError,
    NotDeliveredError,
    PaymentDeclinedError,
    PaymentHandedOverError,
    RefusedError,
    StoreError,
)
from ..money import Charge, PaymentNotice, Payments, Ticket
from ..seams import OnUnknown, Urgency
from ..values import encode_value
from ..wire.events import Event, Press
from ..wire.ids import ChatId
from ..wire.markup import InlineKeyboard, PayButton
from ..wire.operations import CreateInvoice, EditMessage, SendMessage
from ..wire.results import Sent
from ..wire.rules import check_integer
from .asking import answered, new_token, open_wait, policy
from .buttons import Buttons, question_data
from .conversation import Conversation, OperationKind
from .filters import Setting
from .holding import hold
from .paid import WRITE_DEADLINE, Currency, Paid, paid_of, refuse_without_aside
from .top_up import offer_top_up
from .waits import Delivery, OtherwisePolicy, Taken, Wait

Late: TypeAlias = Literal["deliver", "refund"]

BUTTON_LIFE: Final = 24 * 3600
"""Seconds that a charge waits; then `trio.TooSlowError`."""

log: Final = logging.getLogger("triobot.conversations")

_DUPLICATE: Final = 1003
_NOT_ENOUGH: Final = 1000


@final
@attrs.frozen
class _News:
    """Wakes a charge's wait: its payment has news. Never stored, never routed."""

    chat_id: ChatId
    sender: None = None


async def charge(
    conversation: Conversation,
    amount: int,
    text: str,
    item: object,
    currency: Currency,
    options: Buttons[Any] | None,
    late: Late,
    otherwise: OtherwisePolicy | None,
) -> Paid[Any] | object:
    """Send a payment button and wait until it is paid, or another button is pressed."""
    owner = str(conversation.enter(OperationKind.CHARGE))
    asked = _asked(conversation, "button", amount, text, item, currency, late, BUTTON_LIFE, owner)
    token = new_token()
    keys = {question_data(token, key): key for key in (options.keys.values() if options else ())}
    more = options.keyboard(token).rows if options else ()

    def look(event: Event, setting: Setting) -> object | None:
        return (keys[event.value],) if isinstance(event, Press) and event.value in keys else None

    def keyboard(ticket: Ticket) -> InlineKeyboard:
        pay = PayButton(conversation.texts.pay, amount, ticket.id, currency, text)
        return InlineKeyboard(((pay,), *more))

    said = policy(conversation, otherwise, conversation.texts.want_payment)
    with open_wait(conversation, look, said, question=True, token=token) as wait:
        till = _Till(conversation, wait, asked)
        async with till:
            operation = SendMessage(asked.chat_id, text, inline_keyboard=keyboard(till.ticket))
            await till.send(operation)
            with trio.fail_after(BUTTON_LIFE):
                while True:
                    try:
                        return await till.wait()
                    except PaymentDeclinedError as error:
                        # Our number was taken, for all that we know: one more try with another.
                        if error.code != _DUPLICATE or till.message is None or till.replaced:
                            raise
                    await till.replace()
                    again = EditMessage(asked.chat_id, till.message.id, text, keyboard(till.ticket))
                    await conversation.services.outbox.perform(again, urgency=Urgency.MONEY)
                    await till.ticket.sent(message_id=till.message.id)


async def invoice(
    conversation: Conversation,
    amount: int,
    text: str,
    item: object,
    expires: int | None,
    late: Late,
    otherwise: OtherwisePolicy | None,
) -> Paid[Any]:
    """Send an invoice and wait until it is paid on the wallet page."""
    life = BUTTON_LIFE if expires is None else expires
    owner = str(conversation.enter(OperationKind.CHARGE))
    asked = _asked(conversation, "invoice", amount, text, item, "IRR", late, life, owner)
    operation = CreateInvoice(asked.chat_id, amount, text, expire_time=expires)
    said = policy(conversation, otherwise, conversation.texts.want_payment)
    with open_wait(conversation, lambda event, setting: None, said, question=True) as wait:
        till = _Till(conversation, wait, asked)
        async with till:
            await till.send(operation)
            with trio.fail_after(life):
                result = await till.wait()
    return cast("Paid[Any]", result)  # an invoice has no other buttons


def _asked(
    conversation: Conversation,
    kind: Literal["button", "invoice"],
    amount: int,
    text: str,
    item: object,
    currency: Currency,
    late: Late,
    life: float,
    owner: str,
) -> Charge:
    """What is asked for, checked before anything is written or sent.

    Raises:
        LocalProtocolError: the amount is no whole number from 1 up, or above the bot's own limit.
        UnrecordableError: the item can't be recorded.
        ConfigError: nobody would take the money if it came late.
    """
    services, chat_id = conversation.services, conversation.life.chat_id
    check_integer("amount", amount, least=1)
    if services.max_amount is not None and amount > services.max_amount:
        raise LocalProtocolError("amount", f"must be at most {services.max_amount}, the bot's max_amount")
    record = encode_value(item)
    if late == "deliver":
        refuse_without_aside(conversation.house.elsewhere.table, chat_id, item)
    expires_at = services.clock.now() + int(life * 1000)
    return Charge(
        kind,
        chat_id,
        amount,
        currency,
        record,
        text,
        f"{conversation.id}/{owner}",
        "handler" if late == "deliver" else "nobody",
        expires_at,
    )


@final
class _Till:
    """One charge while it lasts: gives the payment up, however it ends, unless the money was taken."""

    def __init__(self, conversation: Conversation, wait: Wait, asked: Charge) -> None:
        self._conversation = conversation
        self._wait = wait
        self._asked = asked
        self._ticket: Ticket | None = None
        self._sent: trio.Event = trio.Event()
        self._error: Exception | None = None
        self._later: list[PaymentNotice] = []
        self._taken = False
        self.message: Sent | None = None
        self.replaced = False

    @property
    def ticket(self) -> Ticket:
        """The payment that is waited for."""
        assert self._ticket is not None
        return self._ticket

    @property
    def _payments(self) -> Payments:
        payments = self._conversation.services.payments
        if payments is None:
            raise ConfigError("this bot runs without a ledger, and can't ask for money")
        return payments

    async def __aenter__(self) -> None:
        self._ticket = await self._payments.open(self._asked)
        self._ticket.listen(self._tell)

    async def __aexit__(self, *error: object) -> None:
        self._forget_news()
        # When the program stops, the conversation isn't over, only its process.
        if not self._taken and not self._conversation.house.cut:
            await self._give_up(self.ticket)

    async def _give_up(self, ticket: Ticket) -> None:
        with trio.move_on_after(WRITE_DEADLINE, shield=True):
            try:
                await ticket.give_up()
            except (StoreError, trio.ClosedResourceError) as error:
                # Its time runs out by itself: it is watched until then.
                log.error(  # noqa: TRY400  # a store's traceback says nothing more
                    "payment %s could not be given up: %s", ticket.id, type(error).__name__
                )

    # --- sending

    async def send(self, operation: SendMessage | CreateInvoice) -> None:
        """Send it, and store how that ended.

        Once it is begun it goes on, whatever becomes of the conversation: a button that nobody knows of
        could be paid for ever.

        Raises: as the outbox.
        """
        if not self.ticket.to_send:
            return  # this operation has sent it before
        await trio.lowlevel.checkpoint_if_cancelled()
        self._conversation.house.beside(partial(self._send, self.ticket, operation))
        await self._sent.wait()
        if self._error is not None:
            raise self._error

    async def _send(self, ticket: Ticket, operation: SendMessage | CreateInvoice) -> None:
        outbox = self._conversation.services.outbox
        known = OnUnknown.RESEND if self._asked.kind == "button" else OnUnknown.RAISE
        try:
            if isinstance(operation, SendMessage):
                self.message = await outbox.perform(operation, urgency=Urgency.MONEY, on_unknown=known)
                await ticket.sent(message_id=self.message.id)
            else:
                created = await outbox.perform(operation, urgency=Urgency.MONEY, on_unknown=known)
                await ticket.sent(invoice_id=created.id)
        except Exception as error:
            self._error = error
            await self._not_sent(ticket, error)
        finally:
            self._sent.set()

    async def _not_sent(self, ticket: Ticket, error: Exception) -> None:
        why: Literal["refused", "never_left", "unknown"]
        match error:
            case RefusedError() | LocalProtocolError():
                why = "refused"
            case NotDeliveredError():
                why = "never_left"
            case DeliveryUnknownError():
                why = "unknown"
            case _:
                return  # the ledger's own store failed: to be found by the next start
        try:
            await ticket.not_sent(why)
        except (StoreError, trio.ClosedResourceError) as failure:
            log.error(  # noqa: TRY400  # a store's traceback says nothing more
                "payment %s: how its send ended is not stored: %s", ticket.id, type(failure).__name__
            )

    async def replace(self) -> None:
        """Exchange the payment for another one of the same charge, under another number."""
        before = self.ticket
        self._ticket = await self._payments.open(attrs.evolve(self._asked, owner=f"{self._asked.owner}/2"))
        self.replaced = True
        self._ticket.listen(self._tell)
        await before.replaced()

    # --- waiting

    def _tell(self) -> None:
        """The payment has news: wake the wait, between the user's own presses."""
        chat_id = self._asked.chat_id
        news = Taken(Delivery(0, cast("Event", _News(chat_id)), 0), None)
        if self._wait.open:
            self._wait.give(news)
        else:
            self._wait.hints.append(news)

    def _forget_news(self) -> None:
        if self._ticket is not None:
            self._ticket.listen(None)
        self._wait.hints.clear()
        answer = self._wait.answer
        if isinstance(answer, Taken) and isinstance(cast("object", answer.delivery.event), _News):
            self._wait.answer = None

    async def wait(self) -> Paid[Any] | object:
        """Wait until it is paid, or another button was pressed.

        Raises: as `Chat.charge`.
        """
        conversation = self._conversation
        while True:
            while (notice := await self._next()) is not None:
                money = await self._deal_with(notice)
                if money is not None:
                    return money
            value = await answered(conversation, self._wait)
            if isinstance(value, tuple):
                return cast("tuple[object]", value)[0]
            # Open again at once: the next press may come while this is being looked at.
            conversation.reopen_wait(self._wait)

    async def _next(self) -> PaymentNotice | None:
        """What is known by now; while a callback is being looked at, timeouts wait for that, a little."""
        if self._later:
            return self._later.pop(0)
        while self.ticket.has_news:
            notice = await self.ticket.wait_notice()
            if notice is not None:
                return notice
            decided = await hold(self._conversation, self._decided, _nobody_waits)
            if decided is not None:
                return decided
            if self._later:
                return self._later.pop(0)
        return None

    async def _decided(self) -> PaymentNotice | None:
        """What ends the charge; what doesn't is for later: a timeout doesn't wait for that."""
        while (notice := await self.ticket.wait_decided()) is not None:
            if notice.outcome != "retry":
                return notice
            self._later.append(notice)
        return None

    async def _deal_with(self, notice: PaymentNotice) -> Paid[Any] | None:
        conversation = self._conversation
        match notice.outcome:
            case "paid":
                captured = await self.ticket.take()
                if captured is None:
                    raise PaymentHandedOverError
                self._taken = True
                conversation.money.owe(self.ticket)
                return paid_of(captured, self.ticket)
            case "declined":
                raise PaymentDeclinedError(notice.code)
            case "mismatch":
                raise AmountMismatchError(self._asked.amount, notice.captured or 0)
            case "handed_over":
                raise PaymentHandedOverError
            case "retry" if notice.code == _NOT_ENOUGH:
                await offer_top_up(conversation, notice.charge_url)
            case "retry":
                operation = SendMessage(self._asked.chat_id, conversation.texts.pay_again)
                await conversation.perform(operation)
            case _:
                pass  # refused, unknown: the send itself has said so
        return None


async def settle(money: Paid[object]) -> None:
    """Settle what a step gave: it is given, so a cancellation comes too late to change that."""
    with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITE_DEADLINE):
        await money.settle()
    await trio.lowlevel.checkpoint_if_cancelled()


def _nobody_waits(notice: PaymentNotice | None) -> None:
    """The charge gives the payment up, and the ledger hands it to the aside."""
