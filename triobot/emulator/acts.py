"""People's acts in the app. Each act changes the world and returns the events to post, in order.

An act that the app doesn't offer raises `ImpossibleActError` and changes nothing. Pure, like `World`.

Payments are at the end: by a button in the chat, or by an invoice in the wallet page (interface sections 4.1,
4.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from ..wire.content import Contact, Content, Location
from ..wire.events import (
    Event,
    InvoiceCallback,
    Join,
    Leave,
    Message,
    PayCallback,
    Press,
    Sender,
    Submission,
    beside,
)
from ..wire.forms import Checkbox, Form, Radio, Select, Submit, TextArea, TextField
from ..wire.ids import CallbackId, ChatId, InvoiceId, MessageId
from ..wire.markup import (
    SHARE_CONTACT,
    SHARE_LOCATION,
    CallbackButton,
    Currency,
    InlineButton,
    Key,
    PayButton,
)
from .bills import Bill
from .chats import (
    ChatMessage,
    Clicked,
    Edited,
    MembersChanged,
    MoneyMoved,
    PaymentFailed,
    PlatformChat,
    Pressed,
    Shown,
    Submitted,
)
from .world import ImpossibleActError, NotShownError, User, World

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
HOME = Location("35.6892", "51.3890", "home")

NOT_ENOUGH: Final = 1000
DUPLICATE: Final = 1003
CODES: Final = range(1000, 1007)


def sender_of(world: World, user: User) -> Sender | None:
    """Return the sender for the events of a person's act; None while the platform names no senders."""
    return user.sender() if world.switches.senders else None


def chat_of(world: World, user: User, chat_id: ChatId | None) -> PlatformChat:
    """Return the chat of an act, by default the person's private chat.

    Raises:
        ImpossibleActError: the person is not a member.
    """
    chat = world.chat(chat_id if chat_id is not None else user.chat_id)
    if user.id not in chat.members:
        raise ImpossibleActError("not a member of this chat: join it first")
    return chat


def join(world: World, user: User, now: int, *, chat: ChatId | None = None) -> tuple[Event, ...]:
    """Join the service, or a group."""
    world.catch_up(now)
    in_chat = world.chat(chat if chat is not None else user.chat_id)
    if in_chat.name is None and in_chat.id != user.chat_id:
        raise ImpossibleActError("this is somebody else's private chat")
    if user.id in in_chat.members:
        raise ImpossibleActError("a member already")
    in_chat.members.add(user.id)
    world.record(now, MembersChanged(in_chat.id, user.id, joined=True))
    return (Join(in_chat.id, sender_of(world, user)),)


def leave(world: World, user: User, now: int, *, chat: ChatId | None = None) -> tuple[Event, ...]:
    """Leave the service, or a group."""
    world.catch_up(now)
    in_chat = chat_of(world, user, chat)
    in_chat.members.discard(user.id)
    world.record(now, MembersChanged(in_chat.id, user.id, joined=False))
    return (Leave(in_chat.id, sender_of(world, user)),)


def say(
    world: World,
    user: User,
    content: Content,
    now: int,
    *,
    chat: ChatId | None = None,
    more: Mapping[str, Any] = NOTHING,
    shown: Content | None = None,
) -> tuple[Event, ...]:
    """Write text, or send media, a contact or a location.

    Args:
        more: optional fields of the message.
        shown: content to show in the chat, if it differs from the sent content.
    """
    world.catch_up(now)
    in_chat = chat_of(world, user, chat)
    event: Message[Content] = Message(in_chat.id, content, sender_of(world, user), **more)
    entry = ChatMessage(
        world.next_message_id(), user.id, content if shown is None else shown, now, **beside(event)
    )
    in_chat.put(entry)
    world.record(now, Shown(in_chat.id, entry))
    return (event,)


def tap(
    world: World, user: User, key: Key, now: int, *, chat: ChatId | None = None, place: Location = HOME
) -> tuple[Event, ...]:
    """Tap a key of the reply keyboard: the chat shows the key's label, and the key's value is sent.

    Args:
        place: the location that a key for sharing a location sends.
    """
    world.catch_up(now)
    in_chat = chat_of(world, user, chat)
    keyboard = in_chat.reply_keyboard
    if keyboard is None or not any(key in row for row in keyboard.rows):
        raise ImpossibleActError("this key is not on the keyboard")
    if keyboard.once:
        in_chat.reply_keyboard = None
    if key.value == SHARE_CONTACT:
        return say(world, user, Contact(user.phone, user.name), now, chat=in_chat.id)
    if key.value == SHARE_LOCATION:
        return say(world, user, place, now, chat=in_chat.id)
    return say(world, user, key.value, now, chat=in_chat.id, shown=key.label)


def press(
    world: World,
    user: User,
    message_id: MessageId,
    button: InlineButton,
    now: int,
    *,
    chat: ChatId | None = None,
) -> tuple[Event, ...]:
    """Click an inline button with data. From then on the press waits for an answer."""
    world.catch_up(now)
    in_chat = chat_of(world, user, chat)
    under(in_chat, message_id, button)
    if not isinstance(button, CallbackButton):
        raise ImpossibleActError("this button is paid or opens a page: it can't be pressed")
    callback_id = CallbackId(world.letters())
    in_chat.press(Pressed(callback_id, user.id, message_id, now))
    world.record(now, Clicked(in_chat.id, user.id, message_id, callback_id, button.text))
    return (Press(in_chat.id, button.data, message_id, callback_id, sender_of(world, user)),)


def under(chat: PlatformChat, message_id: MessageId, button: InlineButton) -> ChatMessage:
    """Return the message that has this button.

    Raises:
        ImpossibleActError: the message or the button is gone.
    """
    entry = chat.entries.get(message_id)
    if entry is None or button not in tuple(entry.buttons()):
        raise ImpossibleActError("this button is not there any more")
    return entry


def submit(
    world: World,
    user: User,
    values: Mapping[str, str],
    now: int,
    *,
    message_id: MessageId | None = None,
    chat: ChatId | None = None,
) -> tuple[Event, ...]:
    """Fill in a form, by default the newest one, and send it.

    A text field without a value keeps the text that the bot has filled in, or stays empty. The value of a
    ticked box is ``true``; the value of an unticked box is empty.
    """
    world.catch_up(now)
    in_chat = chat_of(world, user, chat)
    entry = _with_form(in_chat, message_id)
    assert entry.form is not None
    pairs = filled(entry.form, values)
    others = tuple(one for one in entry.filled if one[0] != user.id)
    chat_entry = attrs.evolve(entry, submitted=entry.submitted + 1, filled=(*others, (user.id, pairs)))
    in_chat.put(chat_entry)
    world.record(now, Edited(in_chat.id, chat_entry, anew=False))
    callback_id: CallbackId | None = None
    if world.switches.form_callback_ids:
        callback_id = CallbackId(world.letters())
        in_chat.press(Pressed(callback_id, user.id, entry.id, now))
    world.record(now, Submitted(in_chat.id, user.id, entry.id, callback_id, pairs))
    return (Submission(in_chat.id, pairs, entry.id, callback_id, sender_of(world, user)),)


def _with_form(chat: PlatformChat, message_id: MessageId | None) -> ChatMessage:
    for entry in chat.in_sight():
        if entry.form is not None and message_id in (None, entry.id):
            return entry
    raise NotShownError("there is no form to fill in")


def filled(form: Form, values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs that the app sends for these values, sorted by name as in the real app's requests.

    Raises:
        ImpossibleActError: the form has no field for a value, an option isn't offered, or a box's value is
            neither ``true`` nor empty.
    """
    pairs: list[tuple[str, str]] = []
    names: set[str] = set()
    for field in form.fields:
        if isinstance(field, Submit):
            continue
        names.add(field.name)
        value = values.get(field.name)
        match field:
            case TextField(value=before) | TextArea(value=before):
                pairs.append((field.name, value if value is not None else before or ""))
            case Radio(options=options) | Select(options=options):
                if value is not None and value not in (key for key, _ in options):
                    offered = ", ".join(repr(key) for key, _ in options)
                    raise ImpossibleActError(
                        f"the field {field.name!r} doesn't offer this option, but {offered}"
                    )
                if value is not None:
                    pairs.append((field.name, value))
            case Checkbox():
                if value not in (None, "", "true"):
                    raise ImpossibleActError(
                        f"the field {field.name!r} is ticked with 'true', left with '', takes no {value!r}"
                    )
                if value:
                    pairs.append((field.name, "true"))
            case _:
                pairs.append((field.name, value or ""))
    if unknown := values.keys() - names:
        known = ", ".join(repr(name) for name in sorted(names))
        raise ImpossibleActError(f"the form has no field {sorted(unknown)[0]!r}; its fields: {known}")
    return tuple(sorted(pairs))


def top_up(world: World, user: User, now: int, *, irr: int = 0, coin: int = 0) -> tuple[Event, ...]:
    """Put money into the person's wallet. The bot gets no event."""
    world.catch_up(now)
    if min(irr, coin) < 0:
        raise ImpossibleActError("a wallet is topped up, never emptied")
    if irr:
        user.wallet["IRR"] += irr
        world.record(now, MoneyMoved(user.chat_id, user.id, "topped_up", "IRR", irr))
    if coin:
        user.wallet["coin"] += coin
        world.record(now, MoneyMoved(user.chat_id, user.id, "topped_up", "coin", coin))
    return ()


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

    Without `code` the world decides: 1000 if the wallet has too little money, 1003 if the ``ref_id`` was paid
    before, else the payment succeeds.

    Args:
        code: fail with this code, 1000 to 1006, regardless of the wallet.
        taken: whether the money leaves the wallet in spite of `code`, as if the platform reported a success
            as a failure.
        amount: take this amount instead of the button's.
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
    if code is not None:
        world.record(now, PaymentFailed(in_chat.id, user.id, bill.id, code))
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
    """Pay an invoice in the wallet page. Success and failure post the same callback (interface section 6)."""
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
    if code is not None or not taken:
        world.record(now, PaymentFailed(bill.chat_id, user.id, bill.id, code or NOT_ENOUGH))
    return (InvoiceCallback(bill.chat_id, invoice_id, sender_of(world, user)),)


def newest_invoice(world: World, user: User, now: int) -> InvoiceId:
    """Return the newest invoice that this person can pay.

    Raises:
        ImpossibleActError: there is no such invoice.
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
        raise NotShownError("there is nothing to pay")
    return found


def newest_pay_button(
    world: World, user: User, *, chat: ChatId | None = None, message_id: MessageId | None = None
) -> tuple[MessageId, PayButton]:
    """Return the newest visible payment button, or the payment button of one message.

    Raises:
        ImpossibleActError: there is no such button.
    """
    for entry in chat_of(world, user, chat).in_sight():
        for button in entry.buttons():
            if isinstance(button, PayButton) and message_id in (None, entry.id):
                return entry.id, button
    raise NotShownError("there is nothing to pay")


def _check_code(code: int | None) -> None:
    if code is not None and code not in CODES:
        raise ImpossibleActError("a payment fails with a code from 1000 to 1006")


def _take(world: World, user: User, bill: Bill, amount: int, currency: Currency, now: int) -> None:
    if user.wallet[currency] < amount:
        raise ImpossibleActError("the wallet doesn't hold that much")
    user.wallet[currency] -= amount
    world.bills.take(bill, user.id, amount, currency, now)
    world.record(now, MoneyMoved(bill.chat_id, user.id, "paid", currency, amount, bill.id))
