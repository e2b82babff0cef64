"""The send of a button or an invoice, which goes on beside its conversation, whatever becomes of that.

A button that nobody knows of could be paid for ever. So how the send ended is stored at once, in the
transaction that keeps the answer for the conversation, if there still is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, final

import trio

from ...engine.records import Id
from ...errors import DeliveryUnknownError, LocalProtocolError, NotDeliveredError, RefusedError
from ...money import MovePayment, Ticket
from ...seams import OnUnknown, Urgency
from ...wire.operations import CreateInvoice, EditMessage, SendMessage
from ...wire.results import Sent
from ..journal_writer import outcome_of

if TYPE_CHECKING:
    from ..conversation import Conversation


@final
class Sending:
    """One send.

    Args:
        own: the conversation's operation that waits for it.
    """

    def __init__(
        self,
        conversation: Conversation,
        ticket: Ticket,
        operation: SendMessage | CreateInvoice | EditMessage,
        own: Id,
    ) -> None:
        self._conversation = conversation
        self._ticket = ticket
        self._operation = operation
        self._own = own
        self._over = trio.Event()
        self._twice = False
        self._message: Sent | None = None
        self._error: Exception | None = None

    async def outcome(self) -> Sent | None:
        """Wait for the send, and return the new message, if it makes one; raise what the outbox raised."""
        await self._over.wait()
        if self._error is not None:
            raise self._error
        return self._message

    async def run(self) -> None:
        """Send it, and store how that ended."""
        try:
            moved = [await self._perform()]
        except Exception as error:
            self._error = error
            moved = self._not_sent(error)
        finally:
            self._over.set()
        self._keep(moved)

    async def _perform(self) -> MovePayment:
        outbox, ticket, operation = self._conversation.services.outbox, self._ticket, self._operation
        match operation:
            case SendMessage():
                noted = trio.Event()
                try:
                    self._message = await outbox.perform(
                        operation,
                        urgency=Urgency.MONEY,
                        on_unknown=OnUnknown.RESEND,
                        doubted=self._doubt,
                        noted=noted,
                    )
                finally:
                    self._conversation.house.when_written(noted.set)
                return ticket.sent(message_id=self._message.id, twice=self._twice)
            case EditMessage():
                await outbox.perform(operation, urgency=Urgency.MONEY)
                return ticket.sent(message_id=operation.message_id)
            case CreateInvoice():
                created = await outbox.perform(operation, urgency=Urgency.MONEY, on_unknown=OnUnknown.RAISE)
                return ticket.sent(invoice_id=created.id)

    def _doubt(self) -> None:
        self._twice = True

    def _not_sent(self, error: Exception) -> list[MovePayment]:
        why: Literal["refused", "never_left", "unknown"]
        match error:
            case RefusedError() | LocalProtocolError():
                why = "refused"
            case NotDeliveredError():
                why = "never_left"
            case DeliveryUnknownError():
                why = "unknown"
            case _:
                return []  # nobody knows: to be found by the next start
        # What is said, is said of the last attempt only.
        doubted = [self._ticket.not_sent("unknown")] if self._twice and why != "unknown" else []
        return [*doubted, self._ticket.not_sent(why)]

    def _keep(self, moved: list[MovePayment]) -> None:
        world, error = self._conversation.writer, self._error
        if world is None or world.over:
            self._conversation.house.write(moved)
        else:
            outcome = outcome_of(self._message if error is None else error)
            world.write([*moved, *world.result_of(self._own, "charge")(*outcome)])
