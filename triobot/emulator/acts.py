"""People's acts in the app. Pure, like `World`.

A person pays with a button in the chat, or pays an invoice in the wallet page (interface sections 4.1, 4.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

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
    Consequence,
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

Events: TypeAlias = tuple[Event, ...]
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
HOME = Location("35.6892", "51.3890", "home")

NOT_ENOUGH: Final = 1000
DUPLICATE: Final = 1003
CODES: Final = range(1000, 1007)


@final
class Acting:
    """The acts of one person in one chat, at one time. The default chat is the person's private chat.

    Each act changes the world, and returns events; the caller posts these events in the same order. An act
    that the app doesn't offer raises `ImpossibleActError` and changes nothing.
    """

    def __init__(self, world: World, user: User, now: int, chat: ChatId | None = None) -> None:
        world.catch_up(now)
        self._world = world
        self.user = user
        self._now = now
        self._chat = world.chat(user.chat_id if chat is None else chat)

    @property
    def chat(self) -> PlatformChat:
        """The chat in which the person acts.

        Raises:
            ImpossibleActError: the person is not a member.
        """
        return self._as_member(self._chat)

    def _as_member(self, chat: PlatformChat) -> PlatformChat:
        if self.user.id not in chat.members:
            raise ImpossibleActError("not a member of this chat: join it first")
        return chat

    @property
    def _sender(self) -> Sender | None:
        return self.user.sender() if self._world.switches.senders else None

    def _record(self, *consequences: Consequence) -> None:
        self._world.record(self._now, *consequences)

    def join(self) -> Events:
        """Join the service, or a group."""
        chat, user = self._chat, self.user
        if chat.name is None and chat.id != user.chat_id:
            raise ImpossibleActError("this is somebody else's private chat")
        if user.id in chat.members:
            raise ImpossibleActError("a member already")
        chat.members.add(user.id)
        self._record(MembersChanged(chat.id, user.id, joined=True))
        return (Join(chat.id, self._sender),)

    def leave(self) -> Events:
        """Leave the service, or a group."""
        self.chat.members.discard(self.user.id)
        self._record(MembersChanged(self._chat.id, self.user.id, joined=False))
        return (Leave(self._chat.id, self._sender),)

    def say(
        self, content: Content, *, more: Mapping[str, Any] = NOTHING, shown: Content | None = None
    ) -> Events:
        """Write text, or send media, a contact or a location.

        Args:
            more: optional fields of the message.
            shown: content to show in the chat, if it differs from the sent content.
        """
        chat = self.chat
        event: Message[Content] = Message(chat.id, content, self._sender, **more)
        number, seen = self._world.next_message_id(), content if shown is None else shown
        entry = ChatMessage(number, self.user.id, seen, self._now, **beside(event))
        chat.put(entry)
        self._record(Shown(chat.id, entry))
        return (event,)

    def tap(self, key: Key, *, place: Location = HOME) -> Events:
        """Tap a key of the reply keyboard: the chat shows the key's label, and the bot gets the key's value.

        Args:
            place: the location that a key for sharing a location sends.
        """
        chat, user = self.chat, self.user
        keyboard = chat.reply_keyboard
        if keyboard is None or not any(key in row for row in keyboard.rows):
            raise ImpossibleActError("this key is not on the keyboard")
        if keyboard.once:
            chat.reply_keyboard = None
        if key.value == SHARE_CONTACT:
            return self.say(Contact(user.phone, user.name))
        if key.value == SHARE_LOCATION:
            return self.say(place)
        return self.say(key.value, shown=key.label)

    def press(self, message_id: MessageId, button: InlineButton) -> Events:
        """Click an inline button with data. The press then waits for the bot's answer."""
        chat = self._under(message_id, button)
        if not isinstance(button, CallbackButton):
            raise ImpossibleActError("this button is paid or opens a page: it can't be pressed")
        callback_id = CallbackId(self._world.letters())
        chat.press(Pressed(callback_id, self.user.id, message_id, self._now))
        self._record(Clicked(chat.id, self.user.id, message_id, callback_id, button.text))
        return (Press(chat.id, button.data, message_id, callback_id, self._sender),)

    def _under(self, message_id: MessageId, button: InlineButton) -> PlatformChat:
        entry = self.chat.entries.get(message_id)
        if entry is None or button not in tuple(entry.buttons()):
            raise ImpossibleActError("this button is not there any more")
        return self._chat

    def submit(self, values: Mapping[str, str], *, message_id: MessageId | None = None) -> Events:
        """Fill in and send a form, by default the newest form.

        A text field without a value keeps the text that the bot has filled in, or stays empty. The value of a
        ticked box is ``true``; the value of an unticked box is empty.
        """
        chat, user_id = self.chat, self.user.id
        fitting = (one for one in chat.in_sight() if message_id in (None, one.id) and one.form is not None)
        if (entry := next(fitting, None)) is None:
            raise NotShownError("there is no form to fill in")
        assert entry.form is not None
        pairs = filled(entry.form, values)
        others = tuple(one for one in entry.filled if one[0] != user_id)
        entry = attrs.evolve(entry, submitted=entry.submitted + 1, filled=(*others, (user_id, pairs)))
        chat.put(entry)
        self._record(Edited(chat.id, entry, anew=False))
        callback_id: CallbackId | None = None
        if self._world.switches.form_callback_ids:
            callback_id = CallbackId(self._world.letters())
            chat.press(Pressed(callback_id, user_id, entry.id, self._now))
        self._record(Submitted(chat.id, user_id, entry.id, callback_id, pairs))
        return (Submission(chat.id, pairs, entry.id, callback_id, self._sender),)

    # --- money

    def top_up(self, *, irr: int = 0, coin: int = 0) -> Events:
        """Put money into the person's wallet. The bot gets no event."""
        if min(irr, coin) < 0:
            raise ImpossibleActError("a wallet is topped up, never emptied")
        amounts: Mapping[Currency, int] = {"IRR": irr, "coin": coin}
        for currency, amount in amounts.items():
            if amount:
                self.user.wallet[currency] += amount
                self._record(MoneyMoved(self.user.chat_id, self.user.id, "topped_up", currency, amount))
        return ()

    def pay(
        self,
        message_id: MessageId,
        button: PayButton,
        *,
        code: int | None = None,
        taken: bool = False,
        amount: int | None = None,
    ) -> Events:
        """Click a payment button, and confirm the payment.

        Without `code`, the payment fails with 1003 for a ``ref_id`` of another chat. If `Switches.pay_twice`
        is False, the payment also fails with 1003 for a ``ref_id`` that was paid before. The payment fails
        with 1000 if the wallet has too little money. In all other cases, the payment succeeds.

        Args:
            code: code with which the payment fails, 1000 to 1006, regardless of the wallet.
            taken: whether the money leaves the wallet even though the payment fails with `code`, as if the
                platform reported a success as a failure.
            amount: pay this amount instead of the button's amount.
        """
        world, chat = self._world, self._under(message_id, button)
        _check_code(code)
        bill = world.bills.payment(button.ref_id)
        assert bill is not None
        price = button.amount if amount is None else amount
        if code is None:
            if bill.chat_id != chat.id or (bill.takings and not world.switches.pay_twice):
                code = DUPLICATE
            elif self.user.wallet[button.currency] < price:
                code = NOT_ENOUGH
            else:
                taken = True
        self._settle(bill, price if taken else None, button.currency, code)
        status = world.switches.paid_status if code is None else "error"
        top_up = f"{world.uploads.base_url}/charge/{self.user.id}" if code == NOT_ENOUGH else None
        return (PayCallback(chat.id, button.ref_id, message_id, status, code, top_up, self._sender),)

    def pay_invoice(
        self,
        invoice_id: InvoiceId,
        *,
        code: int | None = None,
        taken: bool = False,
        amount: int | None = None,
    ) -> Events:
        """Pay an invoice in the wallet page.

        Success and failure post the same callback (interface section 6).
        """
        bill = self._world.bills.invoice(invoice_id)
        if bill is None:
            raise ImpossibleActError("there is no invoice of this id")
        self._as_member(self._world.chat(bill.chat_id))
        _check_code(code)
        if bill.is_expired(self._now):
            raise ImpossibleActError("this invoice has expired")
        price = bill.amount if amount is None else amount
        if code is None:
            if bill.takings and not self._world.switches.pay_twice:
                raise ImpossibleActError("this invoice was paid before")
            taken = taken or self.user.wallet[bill.currency] >= price
            code = None if taken else NOT_ENOUGH
        self._settle(bill, price if taken else None, bill.currency, code)
        return (InvoiceCallback(bill.chat_id, invoice_id, self._sender),)

    def _settle(self, bill: Bill, taken: int | None, currency: Currency, code: int | None) -> None:
        """Move the money `taken`, if any, to the bill. Record a failure if there is a `code`."""
        user = self.user
        if taken is not None:
            if user.wallet[currency] < taken:
                raise ImpossibleActError("the wallet doesn't hold that much")
            user.wallet[currency] -= taken
            self._world.bills.take(bill, user.id, taken, currency, self._now)
            self._record(MoneyMoved(bill.chat_id, user.id, "paid", currency, taken, bill.id))
        if code is not None:
            self._record(PaymentFailed(bill.chat_id, user.id, bill.id, code))

    def newest_invoice(self) -> InvoiceId:
        """Return the newest invoice that this person can pay.

        Raises:
            NotShownError: there is no such invoice.
        """
        found = [
            InvoiceId(bill.id)
            for bill in self._world.bills
            if bill.kind == "invoice"
            and bill.state(self._now) == "open"
            and self.user.id in self._world.chat(bill.chat_id).members
        ]
        if not found:
            raise NotShownError("there is nothing to pay")
        return found[-1]

    def newest_pay_button(self, message_id: MessageId | None = None) -> tuple[MessageId, PayButton]:
        """Return the newest visible payment button, or the payment button of one message.

        Raises:
            NotShownError: there is no such button.
        """
        for entry in self.chat.in_sight():
            for button in entry.buttons():
                if isinstance(button, PayButton) and message_id in (None, entry.id):
                    return entry.id, button
        raise NotShownError("there is nothing to pay")


def filled(form: Form, values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the (name, value) pairs that the app sends for `values`, sorted by name as in the real app.

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


def _check_code(code: int | None) -> None:
    if code is not None and code not in CODES:
        raise ImpossibleActError("a payment fails with a code from 1000 to 1006")
