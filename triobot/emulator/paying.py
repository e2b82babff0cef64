"""How people pay: a button in place, an invoice in the wallet page (interface sections 4.1, 4.2 and 6)."""

from __future__ import annotations

from typing import Final

from ..wire.events import Event, InvoiceCallback, PayCallback
from ..wire.ids import ChatId, InvoiceId, MessageId
from ..wire.markup import Currency, PayButton
from .acts import chat_of, sender_of, under
from .bills import Bill
from .consequences import MoneyMoved
from .people import ImpossibleActError, User
from .world import World

NOT_ENOUGH: Final = 1000
DUPLICATE: Final = 1003
CODES: Final = range(1000, 1007)


def pay(
    world: World,
    user: User,
    message_id: MessageId,
    button: PayButton,
    now: int,
    *,
    chat: ChatId | None = None,
    code: int | None = None,
    taken: bool = False,
    amount: int | None = None,
) -> tuple[Event, ...]:
    """Click a payment button and confirm.

    Without a `code` the world decides: 1000 when the wallet holds too little, 1003 when the ``ref_id`` was
    paid before, else it is paid.

    Args:
        code: fail with this code, 1000 to 1006, whatever the wallet holds.
        taken: with a code: the money leaves the wallet all the same, as with a mislaid callback.
        amount: take another amount than the button says.
    """
    world.catch_up(now)
    in_chat = chat_of(world, user, chat)
    under(in_chat, message_id, button)
    _check_code(code)
    bill = world.bills.payment(button.ref_id)
    assert bill is not None
    price = button.amount if amount is None else amount
    if code is None:
        if bill.chat_id != in_chat.id or (bill.takings and not world.switches.pay_twice):
            code = DUPLICATE
        elif user.wallet[button.currency] < price:
            code = NOT_ENOUGH
        else:
            taken = True
    if taken:
        _take(world, user, bill, price, button.currency, now)
    return (
        PayCallback(
            in_chat.id,
            button.ref_id,
            message_id,
            world.switches.paid_status if code is None else "error",
            code,
            f"{world.base_url}/charge/{user.id}" if code == NOT_ENOUGH else None,
            sender_of(world, user),
        ),
    )


def pay_invoice(
    world: World,
    user: User,
    invoice_id: InvoiceId,
    now: int,
    *,
    code: int | None = None,
    taken: bool = False,
    amount: int | None = None,
) -> tuple[Event, ...]:
    """Pay an invoice in the wallet page. A failure posts the very same callback (interface section 6)."""
    world.catch_up(now)
    bill = world.bills.invoice(invoice_id)
    if bill is None:
        raise ImpossibleActError("there is no invoice of this id")
    chat_of(world, user, bill.chat_id)
    _check_code(code)
    if bill.is_expired(now):
        raise ImpossibleActError("this invoice has expired")
    price = bill.amount if amount is None else amount
    if code is None:
        if bill.takings and not world.switches.pay_twice:
            raise ImpossibleActError("this invoice was paid before")
        taken = taken or user.wallet[bill.currency] >= price
    if taken:
        _take(world, user, bill, price, bill.currency, now)
    return (InvoiceCallback(bill.chat_id, invoice_id, sender_of(world, user)),)


def newest_invoice(world: World, user: User, now: int) -> InvoiceId:
    """Return the newest invoice that this person can pay.

    Raises:
        ImpossibleActError: there is none.
    """
    found: InvoiceId | None = None
    for bill in world.bills:
        if (
            bill.kind == "invoice"
            and bill.state(now) == "open"
            and user.id in world.chat(bill.chat_id).members
        ):
            found = InvoiceId(bill.id)
    if found is None:
        raise ImpossibleActError("there is nothing to pay")
    return found


def newest_pay_button(
    world: World, user: User, *, chat: ChatId | None = None, message_id: MessageId | None = None
) -> tuple[MessageId, PayButton]:
    """Find the newest payment button in sight, or that of one message.

    Raises:
        ImpossibleActError: there is none.
    """
    for entry in chat_of(world, user, chat).in_sight():
        for button in entry.buttons():
            if isinstance(button, PayButton) and message_id in (None, entry.id):
                return entry.id, button
    raise ImpossibleActError("there is nothing to pay")


def _check_code(code: int | None) -> None:
    if code is not None and code not in CODES:
        raise ImpossibleActError("a payment fails with a code from 1000 to 1006")


def _take(world: World, user: User, bill: Bill, amount: int, currency: Currency, now: int) -> None:
    if user.wallet[currency] < amount:
        raise ImpossibleActError("the wallet doesn't hold that much")
    user.wallet[currency] -= amount
    world.bills.take(bill, user.id, amount, currency, now)
    world.record(now, MoneyMoved(bill.chat_id, user.id, "paid", currency, amount, bill.id))
