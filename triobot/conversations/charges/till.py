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
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

import attrs
import trio

from ...engine.records import Id
from ...errors import (
    AmountMismatchError,
    DeliveryUnknownError,
    LocalProtocolError,
    PaymentDeclinedError,
    PaymentHandedOverError,
    StoreError,
)
from ...journals import KeepResult
from ...money import Captured, Charge, PaymentNotice, Payments, Ticket
from ...seams import Write
from ...values import register
from ...wire.events import Event
from ...wire.ids import ChatId, RefId
from ...wire.operations import CreateInvoice, EditMessage, SendMessage
from ...wire.results import Sent
from ..journal_writer import outcome_of
from ..questions.asking import answered
from ..running import taking
from ..running.branches import OperationKind
from ..running.waits import Delivery, Taken, Wait
from .holding import hold
from .paid import Paid, moves, payments_of
from .sending import Sending
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


Seen: TypeAlias = tuple[list[PaymentNotice], Captured | None]
"""What a look at the ledger brought, and the money, if that is there and not somebody else's."""


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
        self._opened: list[RefId] = []
        self._heard = 0  # the revision of the last notice that was dealt with
        self.id = RefId("")
        self.message: Sent | None = None
        self.replaced = False

    async def __aenter__(self) -> None:
        own = self._conversation.check_task()
        self._asked = attrs.evolve(self._asked, owner=f"{self._conversation.id}/{own}")
        await self._open()
        self._wait.parking = self._listen_again

    async def _open(self) -> None:
        """Have a number; the payment is written down under it in the transaction that records that."""
        conversation = self._conversation
        body = self._number
        self.id = await conversation.effect(OperationKind.CHARGE, lambda _: body(), inside=True)
        self._opened.append(self.id)
        self._began = False
        if not conversation.replaying:
            ticket, write = payments_of(conversation).opened(self.id, self._asked)
            # A turn that runs again has opened it: and it may have moved since.
            if conversation.also("opened", [write]):
                self._hold(ticket)

    async def _number(self) -> RefId:
        limit = self._conversation.services.max_amount
        if limit is not None and self._asked.amount > limit:
            raise LocalProtocolError("amount", f"must be at most {limit}, the bot's max_amount")
        return await payments_of(self._conversation).number(self._asked)

    async def __aexit__(self, *error: object) -> None:
        self._forget_news()
        # When the program stops, the conversation isn't over, only its process.
        if not self._taken:
            self._conversation.also("given up", moves(self._conversation, self._given_up))

    def _given_up(self, ledger: Payments) -> Sequence[Write]:
        """Return the writes that give up every payment this charge has opened."""
        never: list[Write] = []
        ticket = self._ticket
        # If that is certain: what may be on a screen has to be watched.
        if ticket is not None and ticket.to_send and not ticket.in_doubt and not self._began:
            never.append(ledger.ended(ticket.id, "never_left"))
        return [*never, *(ledger.ended(id_, "given_up") for id_ in self._opened)]

    # --- its payment, live

    async def _ticket_now(self) -> Ticket:
        """Return the payment's handle; in the body of an effect, read it from the ledger if need be."""
        if self._ticket is None:
            self._hold(await payments_of(self._conversation).again(self.id, since=self._heard))
        if self._ticket is None:
            raise PaymentHandedOverError  # its chat was forgotten
        return self._ticket

    def _hold(self, ticket: Ticket | None) -> None:
        self._ticket = ticket
        if ticket is not None:
            ticket.listen(self._tell)

    def _listen_again(self) -> None:
        """Look the payment up, unless it is held: after a restart the parked wait has to hear of it."""
        if self._ticket is None and not self._looking_up:
            self._looking_up = True
            self._conversation.house.beside(self._look_up)

    async def _look_up(self) -> None:
        try:
            ticket = await payments_of(self._conversation).again(self.id, since=self._heard)
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
        """Wake the wait with the payment's news, between the user's own presses."""
        conversation = self._conversation
        if 0 in self._wait.ready:
            return
        event = cast("Event", PaymentNews(self._asked.chat_id))
        self._wait.give(Taken(Delivery(0, event, conversation.services.clock.now()), None))

    def _forget_news(self) -> None:
        self._wait.parking = None
        if self._ticket is not None:
            self._ticket.listen(None)
        if self._wait.ready.pop(0, None) is not None and not self._conversation.dead:
            self._conversation.run.withdraw(0)

    # --- sending

    async def send(self, operation: SendMessage | CreateInvoice) -> None:
        """Send it, and store how that ended.

        Once it is begun it goes on, whatever becomes of the conversation: a button that nobody knows of
        could be paid for ever.

        Raises: as the outbox.
        """
        self.message = await self._sent(operation)

    async def _sent(self, operation: SendMessage | CreateInvoice | EditMessage) -> Sent | None:
        body = partial(self._send, operation)
        return await self._conversation.effect(OperationKind.CHARGE, body)

    async def _send(self, operation: SendMessage | CreateInvoice | EditMessage, own: Id) -> Sent | None:
        ticket = await self._ticket_now()
        if not ticket.to_send:  # it was sent before
            return None if ticket.message_id is None else Sent(self._asked.chat_id, ticket.message_id)
        if ticket.in_doubt and isinstance(operation, CreateInvoice):
            # A button's number keeps it from being paid twice; a second invoice would be another one.
            raise DeliveryUnknownError(operation.path, "the program ended while it was in flight")
        await trio.lowlevel.checkpoint_if_cancelled()
        self._began = True
        sending = Sending(self._conversation, ticket, operation, own)
        self._conversation.house.beside(sending.run)
        return await sending.outcome()

    async def replace(self, message: Sent, edit: Callable[[Sent, RefId], EditMessage]) -> None:
        """Exchange the payment for another one of the same charge, under another number."""
        before, ticket = self.id, self._ticket
        self.replaced = True
        self._asked = attrs.evolve(self._asked, owner=f"{self._asked.owner}/2")
        await self._open()
        await self._sent(edit(message, self.id))
        # Not before: until then the user sees the old button, and the charge still waits for it.
        if ticket is not None:
            ticket.listen(None)
        conversation = self._conversation
        conversation.also("replaced", moves(conversation, lambda ledger: [ledger.ended(before, "replaced")]))
        self._opened.remove(before)
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
            notices, captured = await hold(conversation, self._look, _is_decided)
            for notice in notices:
                self._heard = max(self._heard, notice.revision)
                if notice.outcome == "paid":
                    if captured is None:
                        raise PaymentHandedOverError
                    self._taken = True
                    return conversation.money.owe(captured)
                await self._deal_with(notice)

    async def _look(self, own: Id) -> Seen:
        """What is known by now, up to what ends the charge; a callback is looked at to its end."""
        ticket, found = await self._ticket_now(), list[PaymentNotice]()
        while ticket.has_news and not _ends(found):
            notice = await ticket.wait_notice()
            if notice is not None:
                found = _and(found, notice)
                continue
            # What doesn't end the charge is said later: a timeout doesn't wait for that.
            while not _ends(found) and (notice := await ticket.wait_decided()) is not None:
                found = _and(found, notice)
        if any(notice.outcome == "paid" for notice in found):
            return await self._take(own, ticket, found)
        return found, None

    async def _take(self, own: Id, ticket: Ticket, found: list[PaymentNotice]) -> Seen:
        """Have the money, if nobody else has it: decided in the transaction that records the answer."""
        conversation = self._conversation
        world = conversation.writer
        assert world is not None
        kept = world.result_of(own, "verify")
        answers: list[Seen] = []

        def keep(captured: Captured | None) -> Sequence[KeepResult]:
            answers[:] = [(found, captured)]
            return kept(*outcome_of(answers[0]))

        await conversation.house.wait_written(world.write([ticket.take(keep)]))
        return answers[0]

    async def _deal_with(self, notice: PaymentNotice) -> None:
        conversation = self._conversation
        match notice.outcome:
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
                pass  # paid, which is dealt with; refused, unknown: the send itself has said so


def _and(found: Sequence[PaymentNotice], notice: PaymentNotice) -> list[PaymentNotice]:
    """Append a notice, in place of an equal one: the user hears "try again" once."""
    return [*(one for one in found if one.outcome != notice.outcome), notice]


def _is_decided(seen: Seen) -> bool:
    return _ends(seen[0])


def _ends(found: Sequence[PaymentNotice]) -> bool:
    """Return whether one of these ends the charge; after "retry" the user may press again."""
    return any(notice.outcome != "retry" for notice in found)
