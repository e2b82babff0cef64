"""Verified money in the hands of the author's code: of the aside for its item, and of no other.

Whether a conversation waits for it or not, the aside gives the goods, in a journal of its own: so nothing
that becomes of the conversation gives them twice, or not at all. The aside's normal end settles the payment;
any other hands it to the aside once more, with the same key. The end of the program is no end: the aside goes
on after the next start.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast, final

import trio

from ...base.alarm_kinds import ABOUT, Alarm
from ...base.authors import contained, kind_of
from ...base.frozen import guarded
from ...engine.core import continue_in
from ...errors import ConfigError, PaymentHandedOverError, StoreError, UnrecordableError
from ...seams.money import Captured, MovePayment, PaymentEnd, PaymentGoods, PaymentNotice
from ...seams.patience import await_store
from ...seams.values import decode_value, encode_value, expect, register
from ...seams.writes import StaleRowError, Write
from ...wire.events import Event, InvoiceCallback, PayCallback, Sender
from ...wire.ids import ChatId
from ...wire.markup import Currency as WireCurrency
from ..doors.calls import PaymentArrived
from ..notices import Gift, Keyless
from ..routes.declarations import Route, Table
from ..routes.filters import Filter, Same, Setting
from ..running.lines import calling_line, is_authors, running_frames

if TYPE_CHECKING:
    from ...payments.cashier import Cashier
    from ...store import Store
    from ..doors.elsewhere import Elsewhere
    from ..services import Services
    from ..shared import Shared
    from ..workload import Workload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Currency: TypeAlias = WireCurrency

log: Final = logging.getLogger("triobot.conversations")

MISPLACED: Final = ABOUT["goods_misplaced"]
NOTED: Final = Gift("", frozenset())
"""Something was done; what it was can't be told from what others do, or nobody asks."""

for _cls in (Captured, PaymentNotice):
    register(_cls, name=f"triobot.{_cls.__name__}")


@final
@guarded
class Paid(Generic[T_co]):
    """Verified money.

    Attributes:
        amount: what was captured, which is what was asked for.
        currency: of the amount.
        item: what was bought, as it was given to `charge`.
        key: the same for this payment for ever: the idempotency key of whatever it grants.
        payer: who paid, if the platform told.
        redelivered: the aside for it began before, and failed or was ended.
        uncertain: it was captured before a backup was restored, and an operator has handed it out: the goods
            may have been given before.
        reference: what the platform calls the payment, for a receipt and for questions to it: a button's
            ``ref_id``, an invoice's id. Empty if the money was handed over by a version that didn't tell.
    """

    amount: int
    currency: Currency
    item: T_co
    key: str
    payer: Sender | None = None
    redelivered: bool = False
    uncertain: bool = False
    reference: str = ""


def paid_of(captured: Captured) -> Paid[Any]:
    """Money as the author's code gets it.

    Raises:
        RecordError: this program doesn't know what was bought.
    """
    return Paid(
        captured.amount,
        captured.currency,
        decode_value(captured.item),
        captured.key,
        captured.payer,
        captured.redelivered,
        captured.uncertain,
        captured.reference,
    )


def paid(kind: type[T]) -> Filter[Paid[T]]:
    """Take money for items of this class; for `@bot.aside`, which is the one place that gives the goods.

    The aside gets each payment as soon as it is verified, whether a conversation waits for it or not. It gets
    it until it has come to its normal end with it, each time with the same key.

    Examples:
        >>> @bot.aside(paid(Order))
        ... async def deliver(chat: Chat[Paid[Order]]) -> None:
        ...     await chat.step(kitchen.submit, chat.event.item, chat.event.key)

    Raises:
        ConfigError: this is no class.
    """
    if not isinstance(cast("object", kind), type):
        raise ConfigError(f"paid() takes the class of what is bought, such as paid(Order), not {kind!r}")
    expect(kind, "paid()")

    def see(event: Event, setting: Setting) -> Paid[T] | None:
        found = cast("object", event)
        if not isinstance(found, PaymentArrived):
            return None
        money = cast("Paid[object]", found.paid)
        return cast("Paid[T]", money) if isinstance(money.item, kind) else None

    return Filter(see, f"paid({kind.__name__})", True, Same("paid", frozenset({kind})))


def aside_for(table: Table, chat_id: ChatId, money: Paid[object]) -> tuple[Route, object] | None:
    """The aside that takes money for this item, and as what; None if there is none."""
    event = cast("Event", PaymentArrived(chat_id, money))
    for route in table.asides:
        value = route.filter.look(event, Setting())
        if value is not None:
            return route, value
    return None


def refuse_without_aside(table: Table, chat_id: ChatId, item: object) -> None:
    """Refuse to ask for money for which nobody would give the goods.

    Raises:
        ConfigError: there is no aside for such an item.
    """
    if aside_for(table, chat_id, Paid(0, "IRR", item, "")) is None:
        kind = type(item).__name__
        raise ConfigError(
            f"{calling_line()}: no aside gives what is bought here: declare @bot.aside(paid({kind})), which "
            "begins when the money is there; charge() and invoice() return when it has ended. It takes all "
            "of its class: what hangs on an amount or a sender is asked in the aside, not in its filter"
        )


def is_the_ledgers(services: Services, seq: int, event: Event | None) -> bool:
    """Whether this row is for the ledger, which consumes it, and not for the chat."""
    if services.payments is None or not isinstance(event, PayCallback | InvoiceCallback):
        return False
    services.payments.hint(seq, event)
    return True


async def deliver(elsewhere: Elsewhere, work: Workload, captured: Captured, claim: MovePayment) -> bool:
    """Have the aside run for what was bought; False if there is none.

    That it has it is stored with what starts it, in one transaction; see `triobot.seams.money.Deliver`.

    The aside is started through the inbox, as by code: so it begins once for each delivery, whatever happens
    in between, and is revived like every conversation.
    """
    try:
        money = paid_of(captured)
        found = aside_for(elsewhere.table, captured.chat_id, money)
    except BaseException as error:
        # Another version of the bot knows what it is, or a filter failed: an operator is told that nobody
        # took it.
        log.error(  # noqa: TRY400  # the record's own words may hold what a user wrote
            "payment %s is for an item that can't be read: %s", captured.id, kind_of(contained(error))
        )
        return False
    if found is None:
        return False
    if work.stopping:
        await trio.sleep_forever()  # the next start delivers it
    await work.commits.wait_for()
    try:
        await elsewhere.hand_money(found[0].name, captured, claim)
    except StaleRowError:
        log.info("payment %s has moved while it was about to be delivered", captured.id)
    return True


async def goes_on(store: Store, table: Table, chat_id: ChatId, owner: str) -> bool:
    """Whether the conversation that opened this owner's payment comes back to it after a start."""
    chat, _, rest = owner.partition("/")
    seq = rest.partition("/")[0]
    for row in await store.conversations(chat_id):
        if str(row.id) == seq and chat == str(chat_id):
            route = table.named(row.route)
            return route is None or route.durable
    return False


def abandon(shared: Shared, chat_id: ChatId, conversation_id: str, key: str | None) -> None:
    """A conversation has been ended without its code: it waits for no money, and gives nothing for any."""
    # What is still there at the next start has not given anything up.
    _tell(shared, conversation_id, lambda ledger: ledger.give_up(chat_id, conversation_id, key=key))


def tell_parked(shared: Shared, chat_id: ChatId, key: str | None) -> None:
    """A conversation can't go on: if it is the aside for a payment, an operator hears of the money."""
    if key is not None:
        _tell(shared, key, lambda ledger: ledger.parked(chat_id, key))


def _tell(shared: Shared, what: str, say: Callable[[Cashier], Awaitable[None]]) -> None:
    """Tell the ledger, beside the conversations, once all that led to it is stored."""
    work, payments = shared.work, shared.services.payments
    if payments is None:
        return

    async def tell() -> None:
        await work.commits.wait_for()
        try:
            await say(payments)
        except (StoreError, trio.ClosedResourceError) as error:
            # The ledger comes back to it, at the next start or when its time is out.
            log.error(  # noqa: TRY400  # a store's traceback says nothing more
                "payment %s: its end could not be stored: %s", what, type(error).__name__
            )

    work.beside(tell)


@final
class Giving:
    """What the aside for a payment gives.

    Its normal end settles the payment, in the transaction in which it ends; any other has it given again.

    Attributes:
        paid: the payment.
        ending: what the end of the conversation makes of it.
        alone: it failed for the first time, and no charge waits that could tell the user.
        owes: the payment is open until this has ended; behind `continue_as` it is settled.
    """

    def __init__(self, shared: Shared, route: Route, chat_id: ChatId, paid: Captured, *, owes: bool) -> None:
        self._shared = shared
        self._services = shared.services
        self._route = route
        self._chat_id = chat_id
        self.paid = paid
        self.owes = owes
        self.ending: PaymentGoods | None = None
        self.alone = False
        self._given = self._goes_on = False
        self._keyed = False
        self._line = ""
        self._gave: dict[str, Gift] = {}

    def step(self, args: tuple[object, ...]) -> Callable[[], Awaitable[None]]:
        """Note that a step is begun with these arguments, and return what has to come before it."""
        if self._services.notice is not None:
            self._line = self._line or calling_line()
            self._keyed = self._keyed or any(_names(arg, self.paid.key) for arg in args)
        return self._check

    def check_repeatable(self, args: tuple[object, ...]) -> None:
        """Refuse to try a step again by which the other side could give the goods twice.

        Raises:
            ConfigError: no argument holds the payment's key.
        """
        if not any(_names(arg, self.paid.key) for arg in args):
            raise ConfigError(
                "step(retry=) in an aside for a payment needs the payment's key as an argument, by which the"
                " other side knows a second try: chat.step(fn, ..., chat.event.key, retry=...)"
            )

    def gives(self, what: str, args: Sequence[object]) -> None:
        """Note what may be the goods."""
        if not what or self._services.notice is None:
            self._gave[what] = NOTED
        elif what not in self._gave:
            self._gave[what] = _gift(self._route, self._chat_id, args, self.paid.key) or NOTED

    async def _check(self) -> None:
        """Ask the ledger whether this may still be given here; in the body of a step, which records it.

        While the store is away the answer isn't known, and the step hasn't failed.

        Raises:
            PaymentHandedOverError: an operator, or another aside, has it by now.
        """
        paid, payments = self.paid, payments_of(self._services)
        if not await await_store(partial(payments.may_give, paid.id, uncertain=paid.uncertain)):
            raise PaymentHandedOverError

    @property
    def becomes(self) -> PaymentGoods | None:
        """Tell what an end of the conversation that failed makes of the payment; None if it is settled."""
        return (self.ending or "handed_over") if self.owes else None

    def handled(self, error: BaseException | None, felt: bool) -> None:
        """Note how the code that gives has ended: that settles the payment, and no hook's end does.

        Args:
            felt: it was cancelled, and has felt it.
        """
        # Who came to the end all the same, under a shield or with the answer at hand, gave all there was.
        self._given = error is None and not felt
        # It was handed over, or failed, or was cancelled.
        self._goes_on = error is not None and continue_in(error) is not None

    def conclude(
        self, error: BaseException | None, *, goes_on: bool, awaited: bool, replaying: bool
    ) -> Sequence[Write]:
        """Settle the payment with the end of the conversation, or have it given again.

        Args:
            goes_on: the conversation has a successor.
            awaited: a charge waits for the end.

        Returns: what is to become durable with that end.
        """
        paid, services = self.paid, self._services
        goes_on = self._goes_on and goes_on
        well = self._given or (goes_on and error is not None and continue_in(error) is not None)
        self.ending = "given" if well else "handed_over"
        self.alone = not (well or paid.redelivered or awaited)
        if services.notice is not None and well and self._line and not self._keyed:
            services.notice(Keyless(self._line))
        if services.notice is not None and well:
            services.given[paid.id] = {what: gift for what, gift in self._gave.items() if gift is not NOTED}
        if replaying:
            return ()
        if well and not (self._gave or paid.redelivered):
            self._tell_that_nothing_was_given()
        end: PaymentEnd = "settled" if well else "failed"
        return [payments_of(services).ended(paid.id, end)]

    def _tell_that_nothing_was_given(self) -> None:
        """Raise an alarm, one for each route in the life of a program."""
        route, shared = self._route, self._shared
        if route.name in shared.gave_nothing:
            return
        shared.gave_nothing.add(route.name)
        text = (
            f"{route.line}: the aside {route.name} did no step, changed nothing that is kept, and sent no "
            f"signal and no file. {MISPLACED.risk} {MISPLACED.act}"
        )
        self._services.raise_alarm(Alarm("goods_misplaced", route.name, text))


def _gift(route: Route, chat_id: ChatId, args: Sequence[object], key: str) -> Gift | None:
    """Describe what is done now; None in a hook, which does the same around every route."""
    own = getattr(route.handler, "__code__", None)
    if route.hooks and all(frame.f_code is not own for frame, _ in running_frames()):
        return None
    plain = {encode_value(chat_id)}
    values = frozenset(_text(arg) for arg in args if not (key and _names(arg, key)))
    return Gift(calling_line(), values - plain)


def _text(value: object) -> str:
    try:
        return encode_value(value)
    except UnrecordableError:
        return f"a {type(value).__qualname__}"


def tell_of_second_gift(
    services: Services,
    route: Route,
    chat_id: ChatId,
    given: Mapping[str, Gift],
    what: str,
    args: Sequence[object],
) -> None:
    """Raise an alarm if an aside has done this for a payment, with one of the same values or without any."""
    first = given.get(what)
    again = None if first is None else _gift(route, chat_id, args, "")
    if first is None or again is None or (first.args and again.args and not first.args & again.args):
        return
    text = (
        f"{again.line}: behind charge() there is {what}, as in the aside for the payment ({first.line}). "
        f"{MISPLACED.risk} {MISPLACED.act}"
    )
    services.raise_alarm(Alarm("goods_misplaced", again.line, text))


def named_step(fn: Any, args: tuple[object, ...]) -> tuple[str, tuple[object, ...]]:
    """Return how a step is named, empty for one that isn't the author's own, and with what it is done."""
    while isinstance(fn, partial):
        fn, args = fn.func, (*fn.args, *fn.keywords.values(), *args)
    code = getattr(fn, "__code__", None)
    own = isinstance(code, CodeType) and is_authors(code.co_filename)
    return f"a step {getattr(fn, '__qualname__', '')}" if own else "", args


def _names(arg: object, key: str) -> bool:
    """Return whether what a step gets holds a payment's key."""
    if isinstance(arg, Paid):
        return True
    try:
        return key in encode_value(arg)
    except UnrecordableError:
        return False


def payments_of(services: Services) -> Cashier:
    """The ledger.

    Raises:
        ConfigError: there is none.
    """
    payments = services.payments
    if payments is None:
        raise ConfigError("this bot runs without a ledger, and can't deal with money")
    return payments
