"""Charges: ask for money, wait for the ledger's answer, and give goods only for verified money.

A charge has these stages, in this order:

* Store the payment (`Cashier.opened`).
* Send the button or invoice, and store the result (`Cashier.sent`, `.ended`).
* Wait for the ledger's notices.
* Once the payment is paid, wait until the aside has given the goods (`Entry.ending`).

Each stage is an operation of the journal. The transaction that records the operation's result also moves the
payment to its new state. The ledger handles the platform's callbacks, and the aside gets the money; a charge
gets neither.

A user who pays in the last second must get the goods. So a timeout around the charge is delayed for a few
seconds while the payment is verified. An interrupt, a leave and the program's stop are not delayed. Callbacks
can be forged, so links for topping up a wallet may only lead to known hosts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, final

import attrs
import trio

from ...base.frozen import guarded
from ...engine import Run
from ...engine.records import Id
from ...errors import (
    AmountMismatchError,
    DeliveryUnknownError,
    ForbiddenError,
    LocalProtocolError,
    NotDeliveredError,
    PaymentDeclinedError,
    PaymentExpiredError,
    PaymentHandedOverError,
    RefusedError,
)
from ...seams.money import Captured, Charge, MovePayment, PaymentEnd, PaymentGoods, PaymentNotice
from ...seams.outbox import OnUnknown, Urgency
from ...seams.values import encode_value, register
from ...wire.events import Event, Press
from ...wire.ids import ChatId, RefId
from ...wire.markup import InlineKeyboard, LinkButton, PayButton
from ...wire.operations import CreateInvoice, SendMessage
from ...wire.results import Sent
from ...wire.rules import check_integer
from ..blocks import Scope
from ..operations import Operations
from ..questions.asking import answered, look_again, new_token, open_wait, policy, reopen_wait
from ..questions.buttons import Buttons, keyboard_of, keys_of
from ..routes.filters import Setting
from ..routes.routing import Delivery, OtherwisePolicy, Taken, Wait
from ..running.branches import OperationKind
from .paid import Currency, payments_of, refuse_without_aside, tell_ledger

if TYPE_CHECKING:
    from ...payments.ticket import OpenTicket

# An address that all parsers assign to the same host: no user, no other port, no backslash.
_LINK: Final = re.compile(
    r"https://([a-z0-9-]+(?:\.[a-z0-9-]+)*)(?::443)?(?:[/?#][!-\[\]-~]{0,2000})?", re.ASCII | re.IGNORECASE
)

HELD: Final = 5.0
"""Maximum delay of a timeout while money is verified, in seconds. After the payment, a timeout that is due
within these seconds is dropped, because the goods are being given."""
_NOT_ENOUGH: Final = 1000
BUTTON_LIFE: Final = 24 * 3600
"""Default time limit of a charge, and longest time limit of a payment button, in seconds."""


async def offer_top_up(operations: Operations, url: str | None) -> None:
    """Tell the user that the wallet's balance is too low; add the link `url` if it leads to a known host."""
    texts = operations.conversation.texts
    keyboard = None
    if url is not None and is_trusted(url, operations.services.charge_hosts):
        keyboard = InlineKeyboard(((LinkButton(texts.top_up_button, url),),))
    elif url is not None:
        operations.shared.work.count("foreign_charge_url")
    operation = SendMessage(operations.chat_id, texts.top_up, inline_keyboard=keyboard)
    await operations.perform(operation)


def is_trusted(url: str, hosts: Sequence[str]) -> bool:
    """Return whether `url` is https, and its host is one of `hosts` or a subdomain of one. The url may be
    forged.
    """
    link = _LINK.fullmatch(url)
    host = link[1].lower() if link else ""
    names = [name.lower() for name in hosts if name]
    return bool(host) and any(host == name or host.endswith(f".{name}") for name in names)


def _lift(run: Run, until: int) -> None:
    """Remove the deadlines up to `until` from the enclosing blocks."""
    for block in run.blocks:
        if block.due is not None and block.due <= until:
            block.lift()


@final
@guarded
class PaymentNews:
    """Event that wakes a charge's wait when the payment has news; never routed, and without an inbox row."""

    chat_id: ChatId
    sender: None = None


register(PaymentNews, name="triobot.PaymentNews")


Seen: TypeAlias = tuple[list[PaymentNotice], Captured | None]
"""The ledger's new notices, and the captured money: None unless the right amount is captured, or if an
operator has the money."""


@final
class RunningCharge:
    """One open charge. If the charge ends unpaid, the ledger gives up the payment.

    Attributes:
        id: the payment's number, once the payment is open.
    """

    def __init__(self, operations: Operations, wait: Wait, asked: Charge) -> None:
        self._operations = operations
        self._wait = wait
        self._asked = asked
        self._ticket: OpenTicket | None = None
        self._unsent = False  # whether this process has opened the payment and not begun to send
        self._paid = False
        self._heard = 0  # revision of the last notice that was handled
        self.id = RefId("")

    async def __aenter__(self) -> None:
        """Choose a payment number. The transaction that records the number also stores the payment."""
        operations = self._operations
        self._asked = attrs.evolve(self._asked, owner=f"{operations.facts.id}/{operations.check_task()}")
        inside = operations.ahead is None
        self.id = await operations.effect(OperationKind.CHARGE, self._number, inside=inside)
        if not operations.conversation.replaying:
            # If the turn is repeated after a crash, the previous process has opened the payment, and may have
            # begun to send.
            opened = payments_of(operations.services).opened(self.id, self._asked)
            self._unsent = operations.also("opened", [opened])
        if operations.dry is not None:
            operations.dry.look.charges(self.id, waits=True)
        self._wait.when_resting = self._listen

    async def _number(self, _: Id) -> RefId:
        limit = self._operations.services.max_amount
        if limit is not None and self._asked.amount > limit:
            raise LocalProtocolError("amount", f"must be at most {limit}, the bot's max_amount")
        await trio.lowlevel.checkpoint_if_cancelled()
        return payments_of(self._operations.services).number(self._asked)

    async def __aexit__(self, *error: object) -> None:
        operations, conversation = self._operations, self._operations.conversation
        self._wait.when_resting = None
        if self._ticket is not None:
            self._ticket.close()
        if self._wait.let_go(0) and not conversation.dead:
            operations.run.withdraw(0)
        if operations.dry is not None:
            operations.dry.look.charges(self.id, waits=False)
        # A stop of the program ends the process but not the conversation, so the payment isn't given up.
        if not (self._paid or conversation.replaying or conversation.dead):
            ledger = payments_of(operations.services)
            # After a send has begun, leave out "never_left": the button may be on a screen, and the user may
            # still pay.
            never_left = [ledger.ended(self.id, "never_left")] if self._unsent else []
            operations.also("given up", [*never_left, ledger.ended(self.id, "given_up")])

    # --- news of the payment

    def _hold(self) -> OpenTicket:
        """Return the payment's ticket. The first call opens the ticket, which then gets each new state."""
        if self._ticket is None:
            self._ticket = payments_of(self._operations.services).ticket(self.id, self._tell)
        return self._ticket

    def _listen(self) -> None:
        """Wake the charge if there is news; after a restart, read the payment from the ledger first."""
        ticket = self._hold()
        if ticket.entry is None:
            tell_ledger(self._operations.shared, self.id, ticket.read)
        else:
            self._tell()

    def _tell(self) -> None:
        """Wake the charge if the payment has news. Once the payment is paid, only the aside's end is news."""
        ticket = self._hold()
        if not self._wait.rests or ticket.entry is None:
            return  # `_listen` runs once the charge waits
        if not self._paid and ticket.has_news(self._heard):
            self.wake(None)
        elif self._paid and ticket.entry.ending is not None:
            self.wake(ticket.entry.ending)

    def wake(self, ending: PaymentGoods | None) -> None:
        """Wake the waiting charge with `ending`, unless an earlier event is waking the charge already."""
        if 0 not in self._wait.ready:
            event = cast("Event", PaymentNews(self._asked.chat_id))
            at = self._operations.services.clock.now()
            delivery = Delivery(0, event, at)
            self._wait.give(delivery, Taken(ending))
            self._operations.conversation.bring(delivery)

    # --- sending

    async def send(self, operation: SendMessage | CreateInvoice) -> None:
        """Send the button or invoice, and store the result.

        A send that has begun is completed even if the conversation ends, because the user could pay with an
        unrecorded button at any time.

        Raises: the outbox's errors.
        """
        body, dry = partial(self._send, operation), self._operations.dry
        if dry is not None:
            dry.look.sends(self._operations.check_task(), operation)
        try:
            await self._operations.effect(OperationKind.CHARGE, body)
        except ForbiddenError:
            self._operations.conversation.refused = True
            raise

    async def _send(self, operation: SendMessage | CreateInvoice, own: Id) -> Sent | None:
        entry = await self._hold().read()
        if not entry.to_send:  # an earlier try sent the request
            return None if entry.message_id is None else Sent(self._asked.chat_id, entry.message_id)
        if entry.lost and isinstance(operation, CreateInvoice):
            # A button's number prevents a second payment; a second invoice would have another number.
            raise DeliveryUnknownError(operation.path, "the program ended while it was in flight")
        await trio.lowlevel.checkpoint_if_cancelled()
        self._unsent = False
        return await self._operations.shared.work.see_through(partial(self._carry, operation, own))

    async def _carry(self, operation: SendMessage | CreateInvoice, own: Id) -> Sent | None:
        """Send the request and store the result; return the new message, if the request makes one."""
        ledger, outbox = payments_of(self._operations.services), self._operations.services.outbox
        message, invoice_id, twice = None, None, False

        def doubt() -> None:
            nonlocal twice
            twice = True

        try:
            match operation:
                case SendMessage():
                    message = await self._show(operation, doubt)
                case CreateInvoice():
                    on_unknown = OnUnknown.RAISE
                    created = await outbox.perform(operation, urgency=Urgency.MONEY, on_unknown=on_unknown)
                    invoice_id = created.id
        except Exception as error:
            self._keep(own, error, [ledger.ended(self.id, how) for how in _not_sent(error, twice=twice)])
            raise
        message_id = None if message is None else message.id
        self._keep(own, message, [ledger.sent(self.id, message_id, invoice_id, twice=twice)])
        return message

    async def _show(self, operation: SendMessage, doubt: Callable[[], None]) -> Sent:
        """Send the message with the button, in order with the chat's other messages."""
        recorded = trio.Event()
        try:
            return await self._operations.services.outbox.perform(
                operation,
                urgency=Urgency.MONEY,
                on_unknown=OnUnknown.RESEND,
                doubted=doubt,
                recorded=recorded,
            )
        finally:
            self._operations.shared.work.commits.when_written(recorded.set)

    def _keep(self, own: Id, value: Sent | Exception | None, moved: Sequence[MovePayment]) -> None:
        """Store the result of the operation `own`, together with the payment's changes of state."""
        writer = self._operations.conversation.writer
        if writer is None or writer.over:
            self._operations.shared.work.commits.add(moved)
        else:
            writer.write([*moved, writer.unit.result(own, "charge", value)])

    # --- waiting

    async def wait(self) -> Captured | tuple[object]:
        """Wait until the payment is paid, or another button is pressed.

        Raises: the errors of `Chat.charge`.
        """
        operations = self._operations
        while True:
            value = await answered(operations, self._wait)
            if isinstance(value, tuple):
                return cast("tuple[object]", value)
            # Open the wait again at once: the next press may come while `_look` waits for the ledger.
            reopen_wait(operations, self._wait)
            notices, captured = await self._hold_deadlines()
            for notice in notices:
                self._heard = notice.revision
                await self._deal_with(notice)
            if captured is not None:
                self._paid = True
                return captured

    async def _hold_deadlines(self) -> Seen:
        """Read the payment's news, as one operation.

        Cancellation: a timeout of the author's code is delayed by up to `HELD`. If the charge ends by then,
        the timeout is dropped, because the code after the payment belongs to the same block. If the charge
        goes on, the operation is cancelled, and may be repeated.
        """
        kind, run, inside = OperationKind.VERIFY, self._operations.run, self._operations.ahead is None
        seen = await self._operations.effect(kind, self._look, holds=int(HELD * 1000), inside=inside)
        if any(notice.outcome != "retry" for notice in seen[0]):
            if run.interrupted:
                await trio.lowlevel.checkpoint_if_cancelled()
            _lift(run, run.now())
        return seen

    async def goods(self, captured: Captured) -> None:
        """Wait until the aside for the payment has ended. Until then, events for the chat wait as well.

        Raises:
            PaymentHandedOverError: the aside failed, or an operator has the money.
        """
        operations = self._operations
        # The user paid in time: remove deadlines within `HELD`, so that no deadline expires during the aside.
        run = self._operations.run
        _lift(run, run.now() + int(HELD * 1000))
        self._wait.hear_no_more()
        look_again(operations, self._wait)
        seat = operations.conversation.seat
        seat.awaited = {**seat.awaited, captured.id: self.wake}
        try:
            ending = await answered(operations, self._wait)
        finally:
            seat.awaited = {id: wake for id, wake in seat.awaited.items() if id != captured.id}
        if ending != "given":
            raise PaymentHandedOverError
        given = operations.services.given.pop(captured.id, {})
        self._operations.behind = {**self._operations.behind, **given}

    async def _look(self, _: Id) -> Seen:
        """Return the payment's news. Wait if a callback is being verified."""
        ticket = self._hold()
        notice = await ticket.decided(self._heard)
        return [] if notice is None else [notice], ticket.captured

    async def _deal_with(self, notice: PaymentNotice) -> None:
        operations = self._operations
        match notice.outcome:
            case "declined":
                raise PaymentDeclinedError(notice.code)
            case "mismatch":
                raise AmountMismatchError(self._asked.amount, notice.captured or 0)
            case "handed_over":
                raise PaymentHandedOverError
            case "retry" if notice.code == _NOT_ENOUGH:
                await offer_top_up(operations, notice.charge_url)
            case "retry":
                words = operations.conversation.texts.pay_again
                await operations.perform(SendMessage(self._asked.chat_id, words))
            case _:
                pass


def _not_sent(error: Exception, *, twice: bool) -> Sequence[PaymentEnd]:
    """Return how a failed send ends the payment. `twice`: whether an earlier try may have arrived."""
    match error:
        case RefusedError() | LocalProtocolError():
            why: PaymentEnd = "refused"
        case NotDeliveredError():
            why = "never_left"
        case DeliveryUnknownError():
            return ["unknown"]
        case _:
            return ()  # the result is unknown: the next start asks the platform
    # The error describes only the last send, so the doubt about an earlier send is stored as well.
    return ["unknown", why] if twice else [why]


Late: TypeAlias = Literal["deliver", "refund"]


async def sell(
    operations: Operations,
    kind: Literal["button", "invoice"],
    amount: int,
    text: str,
    item: object,
    currency: Currency,
    options: Buttons[Any] | None,
    expires: int | None,
    late: Late,
    otherwise: OtherwisePolicy | None,
) -> object:
    """Send a payment button or an invoice, and wait until it is paid and the goods are given.

    Returns:
        None once the goods are given; or the key of another button that the user pressed.

    Raises: as `Chat.charge`; UnrecordableError: the item can't be recorded.
    """
    chat_id, words = operations.chat_id, operations.conversation.texts
    if kind == "button" and expires is not None:
        check_integer("expires", expires, least=1, most=BUTTON_LIFE)
    operations.enter(OperationKind.CHARGE)
    check_integer("amount", amount, least=1)
    if currency not in ("IRR", "coin"):
        raise LocalProtocolError("currency", 'is "IRR" or "coin"')
    if late not in ("deliver", "refund"):
        raise LocalProtocolError("late", 'is "deliver" or "refund"')
    record = encode_value(item)
    refuse_without_aside(operations.shared.table, chat_id, item)
    first: SendMessage | CreateInvoice | None = None
    token = ""
    if kind == "invoice":
        first = CreateInvoice(chat_id, amount, text, expire_time=expires)
    else:
        token = new_token(operations.run)
    taker: Literal["handler", "nobody"] = "handler" if late == "deliver" else "nobody"
    expires_at = operations.run.now() + int((BUTTON_LIFE if expires is None else expires) * 1000)
    asked = Charge(kind, chat_id, amount, currency, record, text, "", taker, expires_at)
    keys = keys_of(options, token) if options else {}
    more = keyboard_of(options, token).rows if options else ()

    def look(event: Event, setting: Setting) -> object | None:
        return (keys[event.value],) if isinstance(event, Press) and event.value in keys else None

    wait = Wait(look, policy(otherwise, words.want_payment), question=True, token=token)
    with open_wait(operations, wait):
        opened = RunningCharge(operations, wait, asked)
        async with opened:
            if first is None:
                pay = PayButton(words.pay, amount, opened.id, currency, text)
                first = SendMessage(chat_id, text, inline_keyboard=InlineKeyboard(((pay,), *more)))
            await opened.send(first)
            # The ledger uses the same `expires_at`, so a slow send can't make the charge outlast its button.
            answer: Captured | tuple[object] | None = None
            with Scope(operations, inf, at=expires_at):
                answer = await opened.wait()
            if answer is None:
                raise PaymentExpiredError
            if not isinstance(answer, Captured):
                return answer[0]
            await opened.goods(answer)
            return None
