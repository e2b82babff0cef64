"""Verified money in the hands of the author's code, until that has settled it.

A payment that was handed over is the bot's debt. It is settled by the normal end of the conversation or
aside that has it, by `Paid.settle`, or by a step that takes it. Any other end hands it to the aside for its
item, with the same key, and so does a normal one after a step that took it and failed. The end of the
program is no end: what has the money goes on with it after the next start.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast, final

import attrs
import trio

from ...errors import (
    ConfigError,
    ConversationEndedError,
    ForeignTaskError,
    PaymentHandedOverError,
    RecordError,
    StaleRowError,
    StoreError,
)
from ...money import Captured, MovePayment, PaymentEnd, PaymentNotice, Payments
from ...seams import Store, Write
from ...values import decode_value, expect, register
from ...wire.events import Event, InvoiceCallback, PayCallback, Sender
from ...wire.ids import ChatId, RefId
from ...wire.markup import Currency as WireCurrency
from ..doors.signals import PaymentArrived
from ..routes.declarations import Route, Table
from ..routes.filters import Filter, Setting

if TYPE_CHECKING:
    from ..conversation import Conversation
    from ..doors.elsewhere import Elsewhere
    from ..services import Services
    from ..workload import Workload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Currency: TypeAlias = WireCurrency

log: Final = logging.getLogger("triobot.conversations")

for _cls in (Captured, PaymentNotice):
    register(_cls, name=f"triobot.{_cls.__name__}")


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
        uncertain: it was captured before a backup was restored, and an operator has handed it out: the goods
            may have been given before.
    """

    amount: int
    currency: Currency
    item: T_co
    key: str
    payer: Sender | None = None
    redelivered: bool = False
    uncertain: bool = False
    _settle: Callable[[], Awaitable[None]] | None = attrs.field(
        init=False, default=None, repr=False, eq=False
    )

    async def settle(self) -> None:
        """Say that the goods are given: whatever happens from here on, the payment is done with.

        Safe to repeat. Without it, the normal end of the conversation or aside settles it. It is durable
        before anything that the conversation does next is seen; in a step, and after it, at once.

        Raises:
            StoreFullError: in a step, or after the conversation: it could not be stored; nothing has changed.
        """
        if self._settle is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._settle()


def paid_of(captured: Captured, settle: Callable[[], Awaitable[None]] | None = None) -> Paid[Any]:
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
    object.__setattr__(money, "_settle", settle)
    return money


def paid(kind: type[T]) -> Filter[Paid[T]]:
    """Take money for items of this class whose conversation has ended; for `@bot.aside`.

    The aside gets each such payment until it has come to its normal end with it, each time with the same
    key. A payment that its conversation still waits for doesn't come here.

    Example:
        >>> @bot.aside(paid(Order))
        ... async def late(chat: Chat[Paid[Order]]) -> None:
        ...     await chat.step(kitchen.submit, chat.event.item, chat.event.key, paid=chat.event)

    Raises:
        ConfigError: this is no class.
    """
    if not isinstance(cast("object", kind), type):
        raise ConfigError(f"paid() takes the class of what is bought, such as paid(Order), not {kind!r}")
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


def is_the_ledgers(services: Services, seq: int, event: Event | None) -> bool:
    """Whether this row is for the ledger, which consumes it, and not for the chat."""
    if services.payments is None or not isinstance(event, PayCallback | InvoiceCallback):
        return False
    services.payments.hint(seq, event)
    return True


async def deliver(elsewhere: Elsewhere, work: Workload, captured: Captured, claim: MovePayment) -> bool:
    """Have the aside run for what was bought; False if there is none.

    That it has it is stored with what starts it, in one transaction; see `triobot.money.Deliver`.

    The aside is started through the inbox, as by code: so it begins once for each delivery, whatever happens
    in between, and is revived like every conversation.
    """
    try:
        money = paid_of(captured)
    except RecordError as error:
        # Another version of the bot knows what it is: an operator is told that nobody took it.
        log.error(  # noqa: TRY400  # the record's own words may hold what a user wrote
            "payment %s is for an item that can't be read: %s", captured.id, type(error).__name__
        )
        return False
    found = aside_for(elsewhere.table, captured.chat_id, money)
    if found is None:
        return False
    if work.stopping:
        await trio.sleep_forever()  # the next start delivers it
    await work.wait_written()
    try:
        await elsewhere.hand_money(found[0].name, captured, claim)
    except StaleRowError:
        log.info("payment %s has moved while it was about to be delivered", captured.id)
    return True


async def is_parked(store: Store, chat_id: ChatId, owner: str) -> bool:
    """Whether the conversation that opened this owner's payment can't go on."""
    chat, _, rest = owner.partition("/")
    seq = rest.partition("/")[0]
    return chat == str(chat_id) and any(
        str(row.id) == seq and row.parked_because is not None for row in await store.conversations(chat_id)
    )


async def goes_on(store: Store, table: Table, chat_id: ChatId, owner: str) -> bool:
    """Whether the conversation that opened this owner's payment comes back to it after a start."""
    chat, _, rest = owner.partition("/")
    seq = rest.partition("/")[0]
    for row in await store.conversations(chat_id):
        if str(row.id) == seq and chat == str(chat_id):
            route = table.named(row.route)
            return route is None or route.durable
    return False


def moves(there: Conversation, of: Callable[[Payments], Sequence[Write]]) -> Sequence[Write]:
    """What is to become durable with what a conversation does now; nothing on replay, and once it is over."""
    if there.dry is not None or there.replaying or there.dead:
        return ()
    return of(payments_of(there))


def abandon(
    work: Workload, services: Services, chat_id: ChatId, conversation_id: str, key: str | None
) -> None:
    """A conversation has been ended without its code: what it asked for, or had, is for the asides."""
    payments = services.payments
    if payments is None:
        return

    async def give_up() -> None:
        # In this order: what is still there at the next start has not given anything up.
        await work.wait_written()
        with _written_if_possible(conversation_id):
            await payments.give_up(chat_id, conversation_id, key=key)

    work.beside(give_up)


def tell_parked(
    work: Workload, services: Services, chat_id: ChatId, conversation_id: str, key: str | None
) -> None:
    """A conversation can't go on: an operator hears of the money that it has, or that is for it."""
    payments = services.payments
    if payments is None:
        return

    async def tell() -> None:
        await work.wait_written()
        with _written_if_possible(conversation_id):
            await payments.parked(chat_id, conversation_id, key=key)

    work.beside(tell)


@final
class Debts:
    """What one conversation has been paid for and has not settled."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._owed: dict[RefId, tuple[str, bool]] = {}
        self._not_given: set[str] = set()
        self._given: set[RefId] = set()

    @property
    def given(self) -> bool:
        """Whether something was done for money that is not settled, and would be done for it again."""
        return not self._given.isdisjoint(self._owed)

    def gave(self) -> None:
        """Something was done that may be what was paid for."""
        self._given.update(self._owed)

    def owe(self, captured: Captured, *, late: bool = False) -> Paid[Any]:
        """The conversation has taken this; with `late`, as the aside for it.

        Raises:
            RecordError: this program doesn't know what was bought; the conversation is parked with it.
        """
        self._owed[captured.id] = (captured.key, late)
        with self._conversation.reading():
            return paid_of(captured, partial(self._settle, captured.id, late=late))

    async def check(self, money: Paid[object]) -> None:
        """Ask the ledger whether this may still be given here; in the body of an effect, which records it.

        Raises:
            PaymentHandedOverError: the aside, or an operator, has it by now.
        """
        ledger = payments_of(self._conversation)
        for id_, (key, late) in tuple(self._owed.items()):
            if key != money.key:
                continue
            if not await ledger.may_give(id_, late=late, uncertain=money.uncertain):
                raise PaymentHandedOverError

    @contextmanager
    def giving(self, money: Paid[object]) -> Generator[None]:
        """A block that gives what was paid for: if it fails, the normal end doesn't settle the payment."""
        self._not_given.add(money.key)
        yield
        self._not_given.discard(money.key)

    async def _settle(self, id_: RefId, *, late: bool) -> None:
        there = self._conversation
        try:
            there.run.upcoming()
        except (ConversationEndedError, ForeignTaskError):
            # In a step, or after the conversation: there is no record that it could go with.
            settled = payments_of(there).ended(id_, "settled", late=late)
            return await there.services.store.commit(settled)
        # No more than that: others would go on in the middle of this turn, which is not durable yet.
        await trio.lowlevel.checkpoint_if_cancelled()
        there.also("settled", moves(there, lambda ledger: [ledger.ended(id_, "settled", late=late)]))
        self._owed.pop(id_, None)
        return None

    def conclude(self, *, well: bool) -> None:
        """The conversation is over: in that transaction settle what it had, or give it up to the aside."""
        if self._owed and not self._conversation.dead:
            self._conversation.also("ends", self.ends(well=well))

    def ends(self, *, well: bool) -> Sequence[Write]:
        """What becomes of all that it has when it ends."""
        return moves(
            self._conversation,
            lambda ledger: [
                ledger.ended(id_, self._end_of(key, well=well, late=late), late=late)
                for id_, (key, late) in self._owed.items()
            ],
        )

    def _end_of(self, key: str, *, well: bool, late: bool) -> PaymentEnd:
        if well and key not in self._not_given:
            return "settled"
        return "failed" if late else "given_up"

    def clear(self) -> None:
        """What it had has been dealt with."""
        self._owed.clear()


def payments_of(conversation: Conversation) -> Payments:
    """The ledger.

    Raises:
        ConfigError: there is none.
    """
    payments = conversation.services.payments
    if payments is None:
        raise ConfigError("this bot runs without a ledger, and can't deal with money")
    return payments


@contextmanager
def _written_if_possible(what: str) -> Generator[None]:
    """Log what can't be stored: the ledger comes back to it, at the next start or when its time is out."""
    try:
        yield
    except (StoreError, trio.ClosedResourceError) as error:
        log.error(  # noqa: TRY400  # a store's traceback says nothing more
            "payment %s: its end could not be stored: %s", what, type(error).__name__
        )
