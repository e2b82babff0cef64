"""Pass verified money to the author's code, but only to the aside for the item that was bought.

The aside gives the goods in a journal of its own, whether a conversation waits for the payment or not. So the
end of a waiting conversation neither loses the goods nor gives them twice. The aside's normal end settles the
payment. After any other end the payment goes to a new run of the aside, with the same key. A program's stop
does not end the aside: the run continues after the next start.
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
from ...errors import ConfigError, PaymentHandedOverError, StoreError
from ...seams.money import Captured, MovePayment, PaymentEnd, PaymentGoods, PaymentNotice
from ...seams.patience import await_store
from ...seams.values import decode_value, encode_value, encoded, expect, register
from ...seams.writes import StaleRowError, Write
from ...wire.events import Event, InvoiceCallback, PayCallback, Sender
from ...wire.ids import ChatId
from ...wire.markup import Currency as WireCurrency
from ..calls.signals import PaymentArrived
from ..notices import Gift, Keyless
from ..routes.declarations import Route, Table
from ..routes.filters import Filter, Setting, kinds_of
from ..running.lines import calling_line, is_authors, running_frames

if TYPE_CHECKING:
    from ...payments.cashier import Cashier
    from ...store import Store
    from ..beginnings import Facts
    from ..calls.chat_calls import ChatCalls
    from ..services import Services
    from ..shared import Shared
    from ..workload import Workload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Currency: TypeAlias = WireCurrency

log: Final = logging.getLogger("triobot.conversations")

MISPLACED: Final = ABOUT["goods_misplaced"]
NOTED: Final = Gift("", frozenset())
"""Empty details of an action that gives goods: the action has no name, a hook did the action, or notices are
off."""

for _cls in (Captured, PaymentNotice):
    register(_cls, name=f"triobot.{_cls.__name__}")


@final
@guarded
class Paid(Generic[T_co]):
    """Verified money.

    Attributes:
        amount: captured amount, which equals the amount asked for.
        currency: currency of the amount.
        item: the item bought, as passed to `charge`.
        key: idempotency key for everything that the payment grants; never changes.
        payer: the user who paid, if the platform named one.
        redelivered: whether an earlier run of the aside began with this payment, and failed or was ended.
        uncertain: whether the goods may have been given before: the money was captured before a backup was
            restored, and an operator has released the payment.
        reference: the platform's name of the payment, for receipts and for inquiries at the platform: a
            button's ``ref_id``, or an invoice's id. Empty if an older version, which didn't store this name,
            delivered the payment.
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
    """Convert captured money to the `Paid` that the author's code gets.

    Raises:
        RecordError: this program cannot decode the item.
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
    """Return a filter for payments for items of class `kind`; give goods only in an aside with this filter.

    The aside gets each payment as soon as the payment is verified, whether a conversation waits for it or
    not. An aside that doesn't come to its normal end gets the payment again, with the same key.

    Examples:
        >>> @bot.aside(paid(Order))
        ... async def deliver(chat: Chat[Paid[Order]]) -> None:
        ...     await chat.step(kitchen.submit, chat.event.item, chat.event.key)

    Raises:
        ConfigError: `kind` is not a class.
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

    return Filter(see, f"paid({kind.__name__})", True, kinds_of("paid", kind))


def aside_for(table: Table, chat_id: ChatId, money: Paid[object]) -> tuple[Route, object] | None:
    """Return the aside for the money's item, and the value of the aside's filter; None if no aside fits."""
    event = cast("Event", PaymentArrived(chat_id, money))
    for route in table.asides:
        value = route.filter.look(event, Setting())
        if value is not None:
            return route, value
    return None


def refuse_without_aside(table: Table, chat_id: ChatId, item: object) -> None:
    """Check that an aside gives the goods for `item`.

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
    """Pass `event` to the ledger and return True, if `event` is a payment's callback; else return False."""
    if services.payments is None or not isinstance(event, PayCallback | InvoiceCallback):
        return False
    services.payments.hint(seq, event)
    return True


async def deliver(chat_calls: ChatCalls, work: Workload, captured: Captured, claim: MovePayment) -> bool:
    """Start the aside for the item that was bought; return False if no aside takes the item.

    One transaction stores `claim` and the call that starts the aside; see `triobot.seams.money.Deliver`.

    The call goes through the inbox, like calls by code. So the aside starts once, even across crashes, and is
    revived like every conversation.
    """
    try:
        money = paid_of(captured)
        found = aside_for(chat_calls.table, captured.chat_id, money)
    except BaseException as error:
        # Another version of the bot made the item, or a filter failed: the ledger tells an operator that no
        # aside took the item.
        log.error(  # noqa: TRY400  # the record's own words may hold what a user wrote
            "payment %s is for an item that can't be read: %s", captured.id, kind_of(contained(error))
        )
        return False
    if found is None:
        return False
    if work.stopping:
        await trio.sleep_forever()  # the next start delivers the payment
    await work.commits.wait_for()
    try:
        await chat_calls.hand_money(found[0].name, captured, claim)
    except StaleRowError:
        log.info("payment %s has moved while it was about to be delivered", captured.id)
    return True


async def goes_on(store: Store, chat_id: ChatId, owner: str) -> bool:
    """Return whether the conversation that owns a payment continues after a restart.

    `owner`: the payment's owner, a text that begins with the chat's and the conversation's numbers.
    """
    chat, seq, *_ = (*owner.split("/"), "")
    return chat == str(chat_id) and any(str(row.id) == seq for row in await store.conversations(chat_id))


def abandon(shared: Shared, chat_id: ChatId, conversation_id: str, key: str | None) -> None:
    """Give up the payments of a conversation that was ended without running its code."""
    # The ledger is called after the end is stored: before that, a crash may restore the waiting
    # conversation.
    if (ledger := shared.services.payments) is not None:
        give_up = partial(ledger.give_up, chat_id, conversation_id, key=key)
        tell_ledger(shared, conversation_id, give_up)


def tell_parked(shared: Shared, chat_id: ChatId, key: str | None) -> None:
    """Report the money to an operator if the parked conversation is a payment's aside.

    Args:
        key: the conversation's key; for a payment's aside, the payment's key.
    """
    if key is not None and (ledger := shared.services.payments) is not None:
        tell_ledger(shared, key, partial(ledger.parked, chat_id, key))


def tell_ledger(shared: Shared, what: str, call: Callable[[], Awaitable[object]]) -> None:
    """Call the ledger in a task of its own, once all earlier writes are stored."""
    work = shared.work

    async def tell() -> None:
        await work.commits.wait_for()
        try:
            await call()
        except (StoreError, trio.ClosedResourceError) as error:
            # The ledger finds the payment again at the next start, or when the payment expires.
            log.error(  # noqa: TRY400  # a store's traceback says nothing more
                "payment %s: the ledger failed: %s", what, type(error).__name__
            )

    work.beside(tell)


@final
class Giving:
    """State of a payment's aside, which gives the payment's goods.

    The aside's normal end settles the payment, in the transaction that stores the end. Any other end makes
    the ledger deliver the payment again.

    Attributes:
        paid: the payment.
        ending: the payment's state after the conversation's end; None before the end.
        alone: whether this was the first aside to fail for the payment, and no waiting charge can inform the
            user.
        owes: whether this conversation's end settles or redelivers the payment; False in a run after
            `continue_as`, which has settled the payment.

    Args:
        awaiting: returns the conversation with a charge that waits for this aside's end, or None.
    """

    def __init__(self, shared: Shared, facts: Facts, paid: Captured, awaiting: Callable[[], object]) -> None:
        self._shared, self._services = shared, shared.services
        self._route, self._chat_id = facts.route, facts.chat_id
        self._awaiting = awaiting
        self.paid = paid
        self.owes = facts.run_number == 1
        self.ending: PaymentGoods | None = None
        self.alone = False
        self._given = self._goes_on = False
        self._keyed = False
        self._line = ""
        self._gave: dict[str, Gift] = {}

    def step(self, args: tuple[object, ...]) -> Callable[[], Awaitable[None]]:
        """Record a step's arguments for the missing-key notice; return the check to run before the step."""
        if self._services.notice is not None:
            self._line = self._line or calling_line()
            self._keyed = self._keyed or any(_names(arg, self.paid.key) for arg in args)
        return self._check

    def check_repeatable(self, args: tuple[object, ...]) -> None:
        """Check that a step with retries gets the payment's key, by which a service can drop duplicates.

        Raises:
            ConfigError: no argument contains the payment's key.
        """
        if not any(_names(arg, self.paid.key) for arg in args):
            raise ConfigError(
                "step(retry=) in an aside for a payment needs the payment's key as an argument, by which the"
                " other side knows a second try: chat.step(fn, ..., chat.event.key, retry=...)"
            )

    def gives(self, what: str, args: Sequence[object]) -> None:
        """Record an action that may give the goods."""
        if not what or self._services.notice is None:
            self._gave[what] = NOTED
        elif what not in self._gave:
            self._gave[what] = _gift(self._route, self._chat_id, args, self.paid.key) or NOTED

    async def _check(self) -> None:
        """Ask the ledger whether this aside may still give the goods.

        The step's body makes this check, so a replay doesn't ask the ledger again. While the store is
        unavailable the check waits, and the step doesn't fail.

        Raises:
            PaymentHandedOverError: an operator, or another aside, has the payment by now.
        """
        paid, payments = self.paid, payments_of(self._services)
        if not await await_store(partial(payments.may_give, paid.id, uncertain=paid.uncertain)):
            raise PaymentHandedOverError

    @property
    def becomes(self) -> PaymentGoods | None:
        """Next state of the payment if the conversation fails; None if the payment is settled."""
        return (self.ending or "handed_over") if self.owes else None

    def handled(self, error: BaseException | None, felt: bool) -> None:
        """Record how the code that gives the goods ended. Only a normal end of this code settles the payment,
        not the end of a hook.

        Args:
            felt: whether a cancellation was raised in the code.
        """
        # A cancelled function that ended normally, such as under a shield, has given everything.
        self._given = error is None and not felt
        # Without `_given`, the code failed, was cancelled, or called `continue_as`. Only
        # `continue_as` is checked here.
        self._goes_on = error is not None and continue_in(error) is not None

    def conclude(self, error: BaseException | None, *, goes_on: bool, replaying: bool) -> Sequence[Write]:
        """Return the write for the conversation's end. The write settles the payment or requests a new
        delivery.

        Args:
            goes_on: whether the conversation has a successor.
            replaying: whether the end is replayed; then nothing is written.
        """
        paid, services = self.paid, self._services
        goes_on = self._goes_on and goes_on
        well = self._given or (goes_on and error is not None and continue_in(error) is not None)
        self.ending = "given" if well else "handed_over"
        self.alone = not (well or paid.redelivered or self._awaiting())
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
        """Raise an alarm, once for each route while the program runs."""
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
    """Return the line and the values of the current action.

    Return None for an action of a hook: a hook does the same around each route.
    """
    own = getattr(route.handler, "__code__", None)
    if route.hooks and all(frame.f_code is not own for frame, _ in running_frames()):
        return None
    plain = {encode_value(chat_id)}
    values = frozenset(_text(arg) for arg in args if not (key and _names(arg, key)))
    return Gift(calling_line(), values - plain)


def _text(value: object) -> str:
    return encoded(value) or f"a {type(value).__qualname__}"


def tell_of_second_gift(
    services: Services,
    route: Route,
    chat_id: ChatId,
    given: Mapping[str, Gift],
    what: str,
    args: Sequence[object],
) -> None:
    """Raise an alarm if the code after `charge` repeats an action of the payment's aside.

    Two actions with the same name count as a repetition, unless both have values and no value in common.
    """
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
    """Return a step's name and its arguments; an empty name for a function that is not the author's."""
    while isinstance(fn, partial):
        fn, args = fn.func, (*fn.args, *fn.keywords.values(), *args)
    code = getattr(fn, "__code__", None)
    own = isinstance(code, CodeType) and is_authors(code.co_filename)
    return f"a step {getattr(fn, '__qualname__', '')}" if own else "", args


def _names(arg: object, key: str) -> bool:
    """Return whether `arg`, an argument of a step, contains the payment's key."""
    return isinstance(arg, Paid) or key in (encoded(arg) or "")


def payments_of(services: Services) -> Cashier:
    """Return the ledger.

    Raises:
        ConfigError: the bot has no ledger.
    """
    payments = services.payments
    if payments is None:
        raise ConfigError("this bot runs without a ledger, and can't deal with money")
    return payments
