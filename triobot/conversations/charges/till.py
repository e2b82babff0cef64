"""One charge while it lasts: what it asks of the ledger, each time as an operation of the journal.

A look at the ledger is never code's own business: what it says differs from run to run. So each is an effect,
whose outcome is recorded: which number the payment has, how its send ended, what is known of it by now, what
was taken. Between them the charge waits as every question does; that the payment has news is an event of the
wait like a press. On replay nothing is asked of the ledger; the payment is looked up again once the
conversation waits for it live.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast, final

import attrs
import trio

from ...errors import (
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
from ...journal.records import OperationId
from ...money import Captured, Charge, PaymentNotice, Payments, Ticket
from ...seams import OnUnknown, Urgency
from ...values import register
from ...wire.events import Event
from ...wire.ids import ChatId, RefId
from ...wire.operations import CreateInvoice, EditMessage, SendMessage
from ...wire.results import Sent
from ..questions.asking import answered
from ..running import taking
from ..running.branches import OperationKind
from ..running.waits import Answer, Delivery, Taken, Wait
from .holding import hold
from .paid import Paid, forsake
from .top_up import offer_top_up

if TYPE_CHECKING:
    from ..conversation import Conversation

log: Final = logging.getLogger("triobot.conversations")

_NOT_ENOUGH: Final = 1000


@final
@attrs.frozen
class PaymentNews:
    """Wakes a charge's wait: its payment has news. Never routed, and of no row of the inbox."""

    chat_id: ChatId
    sender: None = None


register(PaymentNews, name="triobot.PaymentNews")


@final
class Till:
    """Gives the payment up, however the charge ends, unless the money was taken.

    Attributes:
        id: the payment's number, once it is open.
        message: the message with its button.
        replaced: the button was exchanged for another one.
    """

    def __init__(self, conversation: Conversation, wait: Wait, asked: Charge) -> None:
        self._conversation = conversation
        self._wait = wait
        self._asked = asked
        self._ticket: Ticket | None = None
        self._looking_up = False
        self._began = False
        self._taken = False
        self._heard = 0  # the revision of the last notice that was dealt with
        self.id = RefId("")
        self.message: Sent | None = None
        self.replaced = False

    @property
    def _payments(self) -> Payments:
        payments = self._conversation.services.payments
        if payments is None:
            raise ConfigError("this bot runs without a ledger, and can't ask for money")
        return payments

    async def __aenter__(self) -> None:
        self._wait.parking = self._listen_again
        conversation = self._conversation
        own = conversation.check_task()
        self._asked = attrs.evolve(self._asked, owner=f"{conversation.id}/{own}")
        try:
            self.id = await conversation.effect(OperationKind.CHARGE, lambda _: self._open())
        except trio.Cancelled:
            await self._leave()
            raise

    async def _open(self) -> RefId:
        limit = self._conversation.services.max_amount
        if limit is not None and self._asked.amount > limit:
            raise LocalProtocolError("amount", f"must be at most {limit}, the bot's max_amount")
        self._hold(await self._payments.open(self._asked))
        assert self._ticket is not None
        return self._ticket.id

    async def __aexit__(self, *error: object) -> None:
        await self._leave()

    async def _leave(self) -> None:
        self._forget_news()
        # When the program stops, the conversation isn't over, only its process.
        if not self._taken and not self._conversation.journal.over:
            await forsake(self._conversation, self._asked.owner, self._unsent)

    async def _unsent(self) -> None:
        """Say that it never left, if that is certain: what may be on a screen has to be watched."""
        ticket = self._ticket
        if ticket is not None and ticket.to_send and not ticket.in_doubt and not self._began:
            await ticket.not_sent("never_left")

    # --- its payment, live

    async def _ticket_now(self) -> Ticket:
        """The payment, in the body of an effect."""
        if self._ticket is None:
            self._hold(await self._payments.again(self.id, since=self._heard))
        if self._ticket is None:
            raise PaymentHandedOverError  # its chat was forgotten
        return self._ticket

    def _hold(self, ticket: Ticket | None) -> None:
        self._ticket = ticket
        if ticket is not None:
            ticket.listen(self._tell)

    def _listen_again(self) -> None:
        """The wait takes events now: after a restart it has to hear of its payment, too."""
        if self._ticket is None and not self._looking_up:
            self._looking_up = True
            self._conversation.house.beside(self._look_up)

    async def _look_up(self) -> None:
        try:
            ticket = await self._payments.again(self.id, since=self._heard)
        except (StoreError, trio.ClosedResourceError) as error:
            log.error(  # noqa: TRY400  # a store's traceback says nothing more
                "payment %s could not be read: %s", self.id, type(error).__name__
            )
            return
        finally:
            self._looking_up = False
        if self._ticket is None and self._wait.parking is not None:
            self._hold(ticket)
        if ticket is None or ticket.has_news:
            self._tell()

    def _tell(self) -> None:
        """The payment has news: wake the wait, between the user's own presses."""
        conversation = self._conversation
        if _is_news(self._wait.answer) or any(map(_is_news, self._wait.hints)):
            return
        event = cast("Event", PaymentNews(self._asked.chat_id))
        news = Taken(Delivery(0, event, conversation.services.clock.now()), None)
        if self._wait.open:
            self._wait.give(news)
        else:
            self._wait.hints.append(news)

    def _forget_news(self) -> None:
        self._wait.parking = None
        if self._ticket is not None:
            self._ticket.listen(None)
        self._wait.hints.clear()
        if _is_news(self._wait.answer):
            self._wait.answer = None

    # --- sending

    async def send(self, operation: SendMessage | CreateInvoice) -> None:
        """Send it, and store how that ended.

        Once it is begun it goes on, whatever becomes of the conversation: a button that nobody knows of
        could be paid for ever.

        Raises: as the outbox.
        """
        body = partial(self._send, operation)
        self.message = await self._conversation.effect(OperationKind.CHARGE, lambda _: body())

    async def _send(self, operation: SendMessage | CreateInvoice) -> Sent | None:
        ticket = await self._ticket_now()
        if not ticket.to_send:  # it was sent before
            return None if ticket.message_id is None else Sent(self._asked.chat_id, ticket.message_id)
        if ticket.in_doubt and isinstance(operation, CreateInvoice):
            # A button's number keeps it from being paid twice; a second invoice would be another one.
            raise DeliveryUnknownError(operation.path, "the program ended while it was in flight")
        await trio.lowlevel.checkpoint_if_cancelled()
        self._began = True
        sending = _Sending(self._conversation, ticket, operation)
        self._conversation.house.beside(sending.run)
        return await sending.outcome()

    async def replace(self, message: Sent, edit: Callable[[Sent, RefId], EditMessage]) -> None:
        """Exchange the payment for another one of the same charge, under another number."""

        async def body(own: OperationId) -> RefId:
            before = self._ticket
            owner = f"{self._asked.owner}/2"
            ticket = await self._payments.open(attrs.evolve(self._asked, owner=owner))
            self._hold(ticket)
            if ticket.to_send:
                sending = _Sending(self._conversation, ticket, edit(message, ticket.id))
                self._conversation.house.beside(sending.run)
                await sending.outcome()
            # Not before: until then the user sees the old button, and the charge still waits for it.
            before = before or await self._payments.again(self.id)
            if before is not None and before.id != ticket.id:
                await before.replaced()
            return ticket.id

        self.replaced = True
        self.id = await self._conversation.effect(OperationKind.CHARGE, body)
        self._heard = 0

    # --- waiting

    async def wait(self) -> Paid[Any] | object:
        """Wait until it is paid, or another button was pressed.

        Raises: as `Chat.charge`.
        """
        conversation = self._conversation
        while True:
            value = await answered(conversation, self._wait)
            if isinstance(value, tuple):
                return cast("tuple[object]", value)[0]
            # Open again at once: the next press may come while this is being looked at.
            taking.reopen_wait(conversation, self._wait)
            for notice in await hold(conversation, self._look, _is_decided):
                self._heard = max(self._heard, notice.revision)
                if (money := await self._deal_with(notice)) is not None:
                    return money

    async def _look(self) -> Sequence[PaymentNotice]:
        """What is known by now, up to what ends the charge; a callback is looked at to its end."""
        ticket, found = await self._ticket_now(), list[PaymentNotice]()
        while ticket.has_news and not _is_decided(found):
            notice = await ticket.wait_notice()
            if notice is not None:
                found = _and(found, notice)
                continue
            # What doesn't end the charge is said later: a timeout doesn't wait for that.
            while not _is_decided(found) and (notice := await ticket.wait_decided()) is not None:
                found = _and(found, notice)
        return found

    async def _deal_with(self, notice: PaymentNotice) -> Paid[Any] | None:
        conversation = self._conversation
        match notice.outcome:
            case "paid":
                captured = await conversation.effect(OperationKind.CHARGE, self._take)
                if captured is None:
                    raise PaymentHandedOverError
                self._taken = True
                return conversation.money.owe(captured)
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

    async def _take(self, own: OperationId) -> Captured | None:
        return await (await self._ticket_now()).take()


@final
class _Sending:
    """A send that goes on beside the conversation, whatever becomes of that."""

    def __init__(
        self, conversation: Conversation, ticket: Ticket, operation: SendMessage | CreateInvoice | EditMessage
    ) -> None:
        self._conversation = conversation
        self._ticket = ticket
        self._operation = operation
        self._over = trio.Event()
        self._twice = False
        self._message: Sent | None = None
        self._error: Exception | None = None

    async def outcome(self) -> Sent | None:
        """The new message, if it is one; raises as the outbox."""
        await self._over.wait()
        if self._error is not None:
            raise self._error
        return self._message

    async def run(self) -> None:
        """Send it, and store how that ended."""
        outbox, ticket, operation = self._conversation.services.outbox, self._ticket, self._operation
        try:
            match operation:
                case SendMessage():
                    self._message = await outbox.perform(
                        operation,
                        urgency=Urgency.MONEY,
                        on_unknown=OnUnknown.RESEND,
                        doubted=self._doubt,
                    )
                    await ticket.sent(message_id=self._message.id, twice=self._twice)
                case EditMessage():
                    await outbox.perform(operation, urgency=Urgency.MONEY)
                    await ticket.sent(message_id=operation.message_id)
                case CreateInvoice():
                    created = await outbox.perform(
                        operation, urgency=Urgency.MONEY, on_unknown=OnUnknown.RAISE
                    )
                    await ticket.sent(invoice_id=created.id)
        except Exception as error:
            self._error = error
            await self._not_sent(error)
        finally:
            self._over.set()

    def _doubt(self) -> None:
        self._twice = True

    async def _not_sent(self, error: Exception) -> None:
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
            if self._twice and why != "unknown":
                await self._ticket.not_sent("unknown")  # that is said of the last attempt only
            await self._ticket.not_sent(why)
        except (StoreError, trio.ClosedResourceError) as failure:
            log.error(  # noqa: TRY400  # a store's traceback says nothing more
                "payment %s: how its send ended is not stored: %s", self._ticket.id, type(failure).__name__
            )


def _and(found: Sequence[PaymentNotice], notice: PaymentNotice) -> list[PaymentNotice]:
    """The user hears "try again" once, however often it was said to us."""
    return [*(one for one in found if one.outcome != notice.outcome), notice]


def _is_decided(found: Sequence[PaymentNotice]) -> bool:
    """Whether these end the charge: who asks to pay again goes on waiting."""
    return any(notice.outcome != "retry" for notice in found)


def _is_news(answer: Answer | None) -> bool:
    return isinstance(answer, Taken) and isinstance(cast("object", answer.delivery.event), PaymentNews)
