"""Charges: ask for money, wait for the callback, believe only verify and inquiry.

A callback is a hint, positive or negative: whoever knows the webhook's address can post one. `verify`
captures; an `error` is never believed without an inquiry; an answer that is lost or unreadable decides
nothing. The amount that the platform names must be the one that was asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast, final

import attrs
import trio

from ..errors import (
    AmountMismatchError,
    LocalProtocolError,
    NotDeliveredError,
    PaymentDeclinedError,
    RefusedError,
    RemoteProtocolError,
    StoreError,
    TransportError,
)
from ..seams import Alarm, Intent, OnUnknown, Settle, Urgency
from ..wire.events import Event, InvoiceCallback, PayCallback, Press, Sender
from ..wire.ids import InvoiceId, RefId, as_ref_id
from ..wire.markup import InlineKeyboard, LinkButton, PayButton
from ..wire.operations import (
    CreateInvoice,
    InquireInvoice,
    InquirePayment,
    Operation,
    SendMessage,
    VerifyInvoice,
    VerifyPayment,
)
from ..wire.results import PaymentState
from . import taking
from .asking import answered, buttons_removed, new_token, open_wait, policy
from .buttons import Buttons, question_data
from .conversation import Conversation, Services
from .filters import Setting
from .holding import hold
from .scopes import FailScope
from .waits import OtherwisePolicy, Wait

T_co = TypeVar("T_co", covariant=True)
Currency: TypeAlias = Literal["IRR", "coin"]

BUTTON_LIFE: Final = 24 * 3600
"""Seconds that a charge waits; then `trio.TooSlowError`."""

# What verify and inquiry may still answer after a network failure; a callback may be lost, too.
_RETRIES: Final = (2, 10, 60, 300)
_WRITE_DEADLINE: Final = 5.0
_DECLINED: Final = (1001, 1002, 1003)
_NOT_ENOUGH: Final = 1000
_TRY_AGAIN: Final = 1004
# Only what every reader of addresses takes for the same host: no user, no other port, no backslash.
_LINK: Final = re.compile(
    r"https://([a-z0-9-]+(?:\.[a-z0-9-]+)*)(?::443)?(?:[/?#][!-\[\]-~]{0,2000})?", re.ASCII | re.IGNORECASE
)


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
    """

    amount: int
    currency: Currency
    item: T_co
    key: str
    payer: Sender | None = None


@final
@attrs.frozen
class _Deal:
    """How one payment is verified and asked after; `reference` names it to an operator."""

    reference: str
    amount: int
    verify: Operation[PaymentState]
    inquire: Operation[PaymentState]


def new_ref_id(conversation: Conversation) -> RefId:
    """16 random digits, the first 1 to 8: valid as base64 text, as letters and digits, and below 2**53.

    Drawn from the conversation's own secret: after a restart the same charge has the same number.
    """
    drawn = int.from_bytes(conversation.journal.token(16), "big")
    return as_ref_id(str(10**15 + drawn % (8 * 10**15)))


async def charge(
    conversation: Conversation,
    amount: int,
    text: str,
    item: object,
    currency: Currency,
    options: Buttons[Any] | None,
    otherwise: OtherwisePolicy | None,
) -> Paid[Any] | object:
    """Send a payment button and wait until it is paid, or another button is pressed."""
    chat_id = conversation.life.chat_id
    texts = conversation.texts
    ref_id = new_ref_id(conversation)
    button = PayButton(texts.pay, amount, ref_id, currency, text)
    token = new_token(conversation)
    keys = {question_data(token, key): key for key in (options.keys.values() if options else ())}
    more = options.keyboard(token).rows if options else ()
    operation = SendMessage(chat_id, text, inline_keyboard=InlineKeyboard(((button,), *more)))

    def look(event: Event, setting: Setting) -> object | None:
        if isinstance(event, PayCallback) and event.ref_id == ref_id:
            return event
        return (keys[event.value],) if isinstance(event, Press) and event.value in keys else None

    deal = _Deal(ref_id, amount, VerifyPayment(chat_id, ref_id), InquirePayment(chat_id, ref_id))
    said = policy(conversation, otherwise, texts.want_payment)
    with open_wait(conversation, look, said, question=True, token=token) as wait:
        async with _intended(conversation, ref_id, operation.path, amount, currency):
            sent = await conversation.perform(operation, urgency=Urgency.MONEY)
            with buttons_removed(conversation, sent, text):
                result = await _settle(conversation, wait, deal)
    if isinstance(result, _Money):
        return Paid(amount, currency, item, f"payment-{ref_id}", result.payer)
    return result[0]


async def invoice(
    conversation: Conversation,
    amount: int,
    text: str,
    item: object,
    expires: int | None,
    otherwise: OtherwisePolicy | None,
) -> Paid[Any]:
    """Send an invoice and wait until it is paid on the wallet page."""
    chat_id = conversation.life.chat_id
    operation = CreateInvoice(chat_id, amount, text, expire_time=expires)
    known: list[InvoiceId] = []

    def look(event: Event, setting: Setting) -> object | None:
        # The callback may overtake the answer that tells the invoice's id.
        mine = isinstance(event, InvoiceCallback) and (not known or event.invoice_id == known[0])
        return event if mine else None

    said = policy(conversation, otherwise, conversation.texts.want_payment)
    with open_wait(conversation, look, said, question=True) as wait:
        async with _intended(conversation, new_ref_id(conversation), operation.path, amount, "IRR"):
            created = await conversation.perform(operation, urgency=Urgency.MONEY, on_unknown=OnUnknown.RAISE)
            known.append(created.id)
            taking.look_again(conversation, wait)
            verify, inquire = VerifyInvoice(chat_id, created.id), InquireInvoice(chat_id, created.id)
            deal = _Deal(created.id, amount, verify, inquire)
            result = await _settle(conversation, wait, deal)
    assert isinstance(result, _Money), "an invoice has no other buttons"
    return Paid(amount, "IRR", item, f"invoice-{created.id}", result.payer)


@asynccontextmanager
async def _intended(
    conversation: Conversation, ref_id: RefId, kind: str, amount: int, currency: Currency
) -> AsyncGenerator[None]:
    """Write down that money is about to be asked for, before it is; and that it is settled, when it is.

    What ends in any other way (an interrupt, a timeout, a stop) may still be paid, and stays written down.
    """
    services = conversation.services
    detail = json.dumps({"ref_id": ref_id, "amount": amount, "currency": currency})
    recipient = str(conversation.life.chat_id)
    if not conversation.replaying:
        await services.store.commit(Intent(ref_id, recipient, kind, services.clock.now(), detail))
    try:
        yield
    except (LocalProtocolError, RefusedError, NotDeliveredError, PaymentDeclinedError):
        await _settle_intent(services, ref_id)
        raise
    await _settle_intent(services, ref_id)


async def _settle_intent(services: Services, ref_id: RefId) -> None:
    # Shielded: the money is captured, and a cancellation here would lose it.
    with trio.move_on_after(_WRITE_DEADLINE, shield=True):
        try:
            await services.store.commit(Settle((ref_id,)))
        except (StoreError, trio.ClosedResourceError) as error:
            text = f"the store can't be written ({type(error).__name__}): look at the disk"
            services.raise_alarm(Alarm("store_unwritable", "settle", text))


@final
@attrs.frozen
class _Money:
    """It is verified."""

    payer: Sender | None


async def _settle(conversation: Conversation, wait: Wait, deal: _Deal) -> _Money | tuple[object]:
    """Wait until it is verified, or until another button was pressed."""
    texts = conversation.texts
    with FailScope(conversation, BUTTON_LIFE):
        while True:
            value = await answered(conversation, wait)
            if isinstance(value, tuple):
                return cast("tuple[object]", value)
            hint = cast("PayCallback | InvoiceCallback", value)
            # Open again at once: the next tap may come while this one is being looked at.
            taking.reopen_wait(conversation, wait)
            captured = await hold(
                conversation,
                partial(_is_captured, conversation, deal),
                partial(_alarm_unclaimed, conversation, deal),
            )
            if captured:
                taking.disregard(conversation, wait)
                return _Money(hint.sender)
            code = hint.code if isinstance(hint, PayCallback) else None
            if code in _DECLINED and captured is not None:
                raise PaymentDeclinedError(code)
            if code == _NOT_ENOUGH:
                await _offer_top_up(conversation, cast("PayCallback", hint).charge_url)
            elif code == _TRY_AGAIN:
                await conversation.perform(SendMessage(conversation.life.chat_id, texts.pay_again))


async def _is_captured(conversation: Conversation, deal: _Deal) -> bool | None:
    """Verify, and inquire after anything but a yes; both again while they don't agree.

    Returns: None if nobody knows.
    """
    try:
        for pause in (*_RETRIES, None):
            verified = await _state(conversation, deal.verify)
            if verified is not None and verified.verified:
                return _is_right(conversation, deal, verified)
            inquired = await _state(conversation, deal.inquire)
            if inquired is not None and (inquired.verified or verified is not None):
                return _is_right(conversation, deal, inquired)
            if pause is not None:
                await trio.sleep(pause)
    except trio.Cancelled:
        if not conversation.house.cut:
            _alarm_unverified(conversation, deal, "was being verified when its conversation ended")
        raise
    _alarm_unverified(conversation, deal, "could not be verified: the platform does not answer")
    return None


def _alarm_unverified(conversation: Conversation, deal: _Deal, what: str) -> None:
    text = f"{_named(conversation, deal)} {what}; what is not verified within an hour goes back to the user"
    conversation.services.raise_alarm(Alarm("payment_unverified", deal.reference, text))


def _alarm_unclaimed(conversation: Conversation, deal: _Deal, captured: bool | None) -> None:
    if captured:
        text = (
            f"{_named(conversation, deal)} was captured in the moment in which its conversation was ended; "
            "nothing was granted, and only you can give it back"
        )
        conversation.services.raise_alarm(Alarm("payment_unverified", deal.reference, text))


def _named(conversation: Conversation, deal: _Deal) -> str:
    return f"payment {deal.reference} of chat {conversation.life.chat_id}"


async def _state(conversation: Conversation, operation: Operation[PaymentState]) -> PaymentState | None:
    """What the platform says; None when nobody knows. No answer is a no."""
    try:
        return await conversation.services.outbox.perform(operation, urgency=Urgency.MONEY)
    except (RefusedError, TransportError, RemoteProtocolError):
        return None


def _is_right(conversation: Conversation, deal: _Deal, state: PaymentState) -> bool:
    if not state.verified:
        return False
    if state.amount == deal.amount:
        return True
    text = (
        f"{_named(conversation, deal)} asked for {deal.amount}, and the platform captured {state.amount}; "
        "nothing was granted, and only you can give it back"
    )
    conversation.services.raise_alarm(Alarm("amount_mismatch", deal.reference, text))
    raise AmountMismatchError(deal.amount, state.amount or 0)


async def _offer_top_up(conversation: Conversation, url: str | None) -> None:
    """Tell the user that the wallet is too low, with a link only to where we know that it leads."""
    texts = conversation.texts
    keyboard = None
    if url is not None and is_trusted(url, conversation.services.charge_hosts):
        keyboard = InlineKeyboard(((LinkButton(texts.top_up_button, url),),))
    elif url is not None:
        conversation.house.count("foreign_charge_url")
    operation = SendMessage(conversation.life.chat_id, texts.top_up, inline_keyboard=keyboard)
    await conversation.perform(operation)


def is_trusted(url: str, hosts: Sequence[str]) -> bool:
    """Whether an address is https, on one of these hosts or below it. A callback can be forged."""
    link = _LINK.fullmatch(url)
    host = link[1].lower() if link else ""
    return bool(host) and any(host == known or host.endswith(f".{known}") for known in _names(hosts))


def _names(hosts: Sequence[str]) -> list[str]:
    return [host.lower() for host in hosts if host]
