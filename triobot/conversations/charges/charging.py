"""Charges: ask for money, wait until the ledger knows, and hand over nothing but verified money.

What a charge consists of, in this order: the payment is written down (`Payments.opened`); the button or
invoice is sent, and how that ended is stored (`Ticket.sent`, `Ticket.not_sent`); notices are waited for, and
the money is taken (`Ticket.take`). Each is an operation of the journal, and its move of the ledger becomes
durable in the transaction that records what came of it. Callbacks never come here: they are the ledger's.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final, Literal, TypeAlias, cast

import trio

from ...errors import PaymentDeclinedError, PaymentExpiredError
from ...money import Charge
from ...values import encode_value
from ...wire.events import Event, Press
from ...wire.ids import RefId
from ...wire.markup import InlineKeyboard, PayButton
from ...wire.operations import CreateInvoice, EditMessage, SendMessage
from ...wire.rules import check_integer
from ..blocks.scopes import FailScope
from ..conversation import Conversation, OperationKind
from ..questions.arguments import check_money_words
from ..questions.asking import new_token, open_wait, policy
from ..questions.buttons import Buttons, keyboard_of, keys_of, question_data
from ..routes.filters import Setting
from ..running.waits import OtherwisePolicy
from .paid import Currency, Paid, refuse_without_aside
from .till import Till

Late: TypeAlias = Literal["deliver", "refund"]

BUTTON_LIFE: Final = 24 * 3600
"""Seconds that a charge waits; then `PaymentExpiredError`."""

_DUPLICATE: Final = 1003


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
    asked = _asked(conversation, "button", amount, text, item, currency, late, BUTTON_LIFE)
    token = new_token(conversation)
    keys = {question_data(token, key): key for key in (keys_of(options).values() if options else ())}
    more = keyboard_of(options, token).rows if options else ()

    def look(event: Event, setting: Setting) -> object | None:
        return (keys[event.value],) if isinstance(event, Press) and event.value in keys else None

    def keyboard(number: RefId) -> InlineKeyboard:
        pay = PayButton(conversation.texts.pay, amount, number, currency, text)
        return InlineKeyboard(((pay,), *more))

    said = policy(otherwise, conversation.texts.want_payment)
    with open_wait(conversation, look, said, question=True, token=token) as wait:
        till = Till(conversation, wait, asked)
        async with till:
            await till.send(SendMessage(asked.chat_id, text, inline_keyboard=keyboard(till.id)))
            # The ledger reckons from the same moment: a send that took long must not outlive its button.
            with FailScope(conversation, inf, PaymentExpiredError, at=asked.expires_at):
                while True:
                    try:
                        return await till.wait()
                    except PaymentDeclinedError as error:
                        # Our number was taken, for all that we know: one more try with another.
                        if (
                            error.code != _DUPLICATE
                            or till.message is None
                            or till.message.id is None
                            or till.replaced
                        ):
                            raise
                    await till.replace(
                        till.message,
                        lambda message, number: EditMessage(
                            message.chat_id, message.message_id, text, keyboard(number)
                        ),
                    )


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
    asked = _asked(conversation, "invoice", amount, text, item, "IRR", late, life)
    operation = CreateInvoice(asked.chat_id, amount, text, expire_time=expires)
    said = policy(otherwise, conversation.texts.want_payment)
    with open_wait(conversation, lambda event, setting: None, said, question=True) as wait:
        till = Till(conversation, wait, asked)
        async with till:
            await till.send(operation)
            with FailScope(conversation, inf, PaymentExpiredError, at=asked.expires_at):
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
) -> Charge:
    """Return the charge to open, checked before anything is written or sent; the till adds its owner.

    Raises:
        LocalProtocolError: the amount is no whole number from 1 up.
        UnrecordableError: the item can't be recorded.
        ConfigError: nobody would take the money if it came late.
    """
    chat_id = conversation.life.chat_id
    conversation.enter(OperationKind.CHARGE)
    check_integer("amount", amount, least=1)
    check_money_words(currency, late)
    record = encode_value(item)
    if late == "deliver":
        refuse_without_aside(conversation.house.elsewhere.table, chat_id, item)
    return Charge(
        kind,
        chat_id,
        amount,
        currency,
        record,
        text,
        "",
        "handler" if late == "deliver" else "nobody",
        conversation.journal.now() + int(life * 1000),
    )


async def settle(money: Paid[object]) -> None:
    """Settle what a step gave: it is given, so a cancellation comes too late to change that."""
    with trio.CancelScope(shield=True):
        await money.settle()
