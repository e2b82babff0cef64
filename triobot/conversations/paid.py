"""Verified money in the hands of the author's code, until that has settled it.

A payment that was handed over is the bot's debt. It is settled by the normal end of the conversation or
aside that has it, by `Paid.settle`, or by a step that takes it. Any other end hands it to the aside for its
item, with the same key; the end of the program settles nothing, and the next start hands it over again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast, final

import attrs
import trio

from ..errors import ConfigError, RecordError, StoreError
from ..money import Captured, Ticket
from ..values import decode_value, expect
from ..wire.events import Event, Sender
from ..wire.ids import ChatId
from ..wire.markup import Currency as WireCurrency
from .declarations import Route, Table
from .filters import Filter, Setting
from .routing import Start
from .signals import PaymentArrived
from .waits import Delivery

if TYPE_CHECKING:
    from .conversation import Conversation
    from .house import House
    from .life import ChatLife

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Currency: TypeAlias = WireCurrency

log: Final = logging.getLogger("triobot.conversations")

WRITE_DEADLINE: Final = 5.0
"""Seconds that the end of a conversation waits for the ledger."""


@final
@attrs.frozen
class Paid(Generic[T_co]):
    """Verified money.

    Attributes:
        amount: what was captured, which is what was asked for.
        currency: of the amount.
        item: what was bought, as it was given to `charge`.
        key: the same for this payment for ever: the idempotency key of whatever it grants.
        payer: who paid, if the platform told.
        redelivered: the bot's code may have had it before.
        uncertain: it was open in a backup that was restored: the goods may have been given before.
    """

    amount: int
    currency: Currency
    item: T_co
    key: str
    payer: Sender | None = None
    redelivered: bool = False
    uncertain: bool = False
    _ticket: Ticket | None = attrs.field(init=False, default=None, repr=False, eq=False)

    async def settle(self) -> None:
        """Say that the goods are given: whatever happens from here on, the payment is done with.

        Safe to repeat. Without it, the normal end of the conversation or aside settles it.

        Raises:
            StoreFullError: it could not be stored; nothing has changed.
        """
        if self._ticket is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._ticket.settle()


def paid_of(captured: Captured, ticket: Ticket) -> Paid[Any]:
    """Money as the author's code gets it.

    Raises:
        RecordError: this program doesn't know what was bought.
    """
    money: Paid[Any] = Paid(
        captured.amount,
        captured.currency,
        decode_value(captured.item),
        captured.key,
        captured.payer,
        captured.redelivered,
        captured.uncertain,
    )
    # No argument: nobody else makes money that can be settled.
    object.__setattr__(money, "_ticket", ticket)
    return money


def paid(kind: type[T]) -> Filter[Paid[T]]:
    """Take money for items of this class whose conversation has ended; for `@bot.aside`.

    The aside gets each such payment until it has come to its normal end with it, each time with the same
    key. A payment that its conversation still waits for doesn't come here.

    Example:
        >>> @bot.aside(paid(Order))
        ... async def late(chat: Chat[Paid[Order]]) -> None:
        ...     await chat.step(kitchen.submit, chat.event.item, chat.event.key, paid=chat.event)
    """
    expect(kind)

    def see(event: Event, setting: Setting) -> Paid[T] | None:
        found = cast("object", event)
        if not isinstance(found, PaymentArrived):
            return None
        money = cast("Paid[object]", found.paid)
        return cast("Paid[T]", money) if isinstance(money.item, kind) else None

    return Filter(see, f"paid({kind.__name__})", signals=True)


def aside_for(table: Table, chat_id: ChatId, money: Paid[object]) -> tuple[Route, object] | None:
    """The aside that takes money for this item, and as what; None if there is none."""
    event = cast("Event", PaymentArrived(chat_id, money))
    for route in table.asides:
        value = route.filter.look(event, Setting())
        if value is not None:
            return route, value
    return None


def refuse_without_aside(table: Table, chat_id: ChatId, item: object) -> None:
    """Refuse to ask for money that nobody would take once its conversation has ended.

    Raises:
        ConfigError: there is no aside for such an item.
    """
    if aside_for(table, chat_id, Paid(0, "IRR", item, "")) is None:
        kind = type(item).__name__
        raise ConfigError(
            f"nobody takes money for a {kind} that comes after its conversation has ended: declare "
            f'@bot.aside(paid({kind})), or charge with late="refund", which leaves it to go back'
        )


async def deliver(house: House, table: Table, life: ChatLife, captured: Captured, ticket: Ticket) -> bool:
    """Run the aside for what was bought, once it is stored that it has it; False if there is none."""
    try:
        money = paid_of(captured, ticket)
    except RecordError as error:
        # Another version of the bot knows what it is: an operator is told that nobody took it.
        log.error(  # noqa: TRY400  # the record's own words may hold what a user wrote
            "payment %s is for an item that can't be read: %s", captured.id, type(error).__name__
        )
        return False
    found = aside_for(table, captured.chat_id, money)
    if found is None:
        return False
    if house.stopping:
        await trio.sleep_forever()  # the next start delivers it
    taken = await ticket.take()
    if taken is None:
        return True
    route, value = found
    event = cast("Event", PaymentArrived(captured.chat_id, money))
    begun = life.begin_aside(Start(route, value), Delivery(0, event, 0))
    begun.money.late = ticket
    return True


@final
class Debts:
    """What one conversation has been paid for and has not settled.

    Attributes:
        late: the payment that an aside was started for.
    """

    def __init__(self) -> None:
        self._owed: list[Ticket] = []
        self.late: Ticket | None = None

    def owe(self, ticket: Ticket) -> None:
        """The conversation has taken this."""
        self._owed.append(ticket)

    async def conclude(self, conversation: Conversation, *, well: bool) -> None:
        """The conversation is over: settle what it had, or give it up to the aside for its item."""
        if not self._owed and self.late is None:
            return
        # Shielded: a program that stops here has ended the conversation, and the ledger should know.
        with trio.move_on_after(WRITE_DEADLINE, shield=True):
            try:
                for ticket in self._owed:
                    await (ticket.settle() if well else ticket.give_up())
                if self.late is not None:
                    await (self.late.settle() if well else self.late.failed())
            except (StoreError, trio.ClosedResourceError) as error:
                # Delivered and not settled: the next start hands it over again.
                log.error(  # noqa: TRY400  # a store's traceback says nothing more
                    "the end of %s in chat %s could not be stored with its payments: %s",
                    conversation.route.name,
                    conversation.life.chat_id,
                    type(error).__name__,
                )
