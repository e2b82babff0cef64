"""Events that the platform posts (interface sections 2.2 and 6, and three types that the interface omits).

One frozen class per type; each has `chat_id` and `sender`. Payment callbacks are hints, never facts: anyone
who knows the webhook's address can post a callback.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeAlias, final

import attrs
from typing_extensions import TypeVar

from ..base.frozen import guarded
from ..errors import LocalProtocolError
from .content import CONTENT_CLASSES, Content
from .ids import (
    CallbackId,
    ChatId,
    InvoiceId,
    MessageId,
    RefId,
    SenderId,
    as_callback_id,
    as_chat_id,
    as_invoice_id,
    as_message_id,
    as_optional_message_id,
    as_ref_id,
    as_sender_id,
)
from .results import Sent
from .rules import LARGEST_INTEGER, check_integer, check_text, check_tuple, is_a, is_optional, is_text

C_co = TypeVar("C_co", bound=Content, covariant=True, default=Content)
V_co = TypeVar("V_co", covariant=True, default=str)


@final
@guarded
class Sender:
    """The user who caused an event; the platform may omit the sender.

    Attributes:
        id: the user's id, the same in every chat; differs from the private chat's id.
        name: display name; may be empty.
        username: may be empty.
    """

    id: SenderId = attrs.field(converter=as_sender_id)
    name: str = attrs.field(default="", validator=is_text(empty=True), repr=False)
    username: str = attrs.field(default="", validator=is_text(empty=True), repr=False)


_is_sender: Final = is_optional(is_a(Sender))


def _as_optional_callback_id(value: str | None) -> CallbackId | None:
    return None if value is None else as_callback_id(value)


@final
@guarded
class Join:
    """A user joined the service, or a group that the service is in."""

    chat_id: ChatId = attrs.field(converter=as_chat_id)
    sender: Sender | None = attrs.field(default=None, validator=_is_sender)


@final
@guarded
class Leave:
    """A user left the service, or a group that the service is in."""

    chat_id: ChatId = attrs.field(converter=as_chat_id)
    sender: Sender | None = attrs.field(default=None, validator=_is_sender)


def _is_content(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, CONTENT_CLASSES):
        raise LocalProtocolError("content", "must be text, a media value, a Contact or a Location")
    if isinstance(value, str):
        check_text("content", value, empty=True)


@final
@guarded
class Message(Generic[C_co]):
    """A user's text, media, contact or location.

    If a user presses a key of a reply keyboard, the key's value also arrives as a text message.

    A message has no id, because the platform sends no ids of users' messages.
    """

    chat_id: ChatId = attrs.field(converter=as_chat_id)
    content: C_co = attrs.field(validator=_is_content, repr=False)
    sender: Sender | None = attrs.field(default=None, validator=_is_sender)


BESIDE: Final = tuple(field.name for field in attrs.fields(Message))[3:]
"""A message's optional fields besides chat, content and sender, by their names on the wire."""


def beside(event: object) -> dict[str, Any]:
    """Return the optional fields that the platform sent with a message; {} for other events."""
    return {name: value for name in BESIDE if (value := getattr(event, name, None)) is not None}


@final
@guarded
class Press(Generic[V_co]):
    """A click on an inline button that has ``cb_data``.

    Attributes:
        value: the button's data. `pressed(Take)` and `Buttons.pressed` decode the data to the original value.
        message_id: message with the button.
        callback_id: id for `AnswerCallback`; a press may be answered once.
    """

    chat_id: ChatId = attrs.field(converter=as_chat_id)
    value: V_co = attrs.field(repr=False)
    message_id: MessageId = attrs.field(converter=as_message_id)
    callback_id: CallbackId = attrs.field(converter=as_callback_id)
    sender: Sender | None = attrs.field(default=None, validator=_is_sender)

    @property
    def on(self) -> Sent:
        """The message with the button, for `edit` and `delete`."""
        return Sent(self.chat_id, self.message_id)


def _is_values(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    for item in check_tuple("values", value):
        pair = check_tuple("values", item)
        if len(pair) != 2:
            raise LocalProtocolError("values", "must hold pairs (name, text)")
        for text in pair:
            check_text("values", text, empty=True)


@final
@guarded
class Submission:
    """A filled form.

    Attributes:
        values: pairs of field name and text, in the received order; names may repeat.
        message_id: message with the form.
        callback_id: sent by some app versions; else None.
    """

    chat_id: ChatId = attrs.field(converter=as_chat_id)
    values: tuple[tuple[str, str], ...] = attrs.field(validator=_is_values, repr=False)
    message_id: MessageId = attrs.field(converter=as_message_id)
    callback_id: CallbackId | None = attrs.field(default=None, converter=_as_optional_callback_id)
    sender: Sender | None = attrs.field(default=None, validator=_is_sender)

    @property
    def on(self) -> Sent:
        """The message with the form, for `edit` and `delete`."""
        return Sent(self.chat_id, self.message_id)

    def get(self, name: str) -> str | None:
        """Return the last value with the name `name`, or None."""
        return next((value for key, value in reversed(self.values) if key == name), None)


@final
@guarded
class InvoiceCallback:
    """A hint that an invoice was paid, **or** that the payment failed: the same bytes report both."""

    chat_id: ChatId = attrs.field(converter=as_chat_id)
    invoice_id: InvoiceId = attrs.field(converter=as_invoice_id)
    sender: Sender | None = attrs.field(default=None, validator=_is_sender)


def _is_code(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None:
        check_integer("code", value, least=-LARGEST_INTEGER)


@final
@guarded
class PayCallback:
    """A hint that an in-app payment succeeded or failed (interface section 6).

    Attributes:
        message_id: message with the pressed button, or None.
        status: the platform's status word, such as ``error``; the word for success is not documented.
        code: 1000 to 1006, or None.
        charge_url: with code 1000, the address where the user can top up the wallet. triobot checks the
            address before sending it to a user.
    """

    chat_id: ChatId = attrs.field(converter=as_chat_id)
    ref_id: RefId = attrs.field(converter=as_ref_id)
    message_id: MessageId | None = attrs.field(default=None, converter=as_optional_message_id)
    status: str = attrs.field(default="", validator=is_text(empty=True))
    code: int | None = attrs.field(default=None, validator=_is_code)
    charge_url: str | None = attrs.field(default=None, validator=is_optional(is_text(empty=True)), repr=False)
    sender: Sender | None = attrs.field(default=None, validator=_is_sender)


@final
@guarded
class UnknownEvent:
    """An event that this version can't interpret: its type is unknown, or its ``data`` is unreadable.

    Attributes:
        type: received type.
        data: received data, as text.
        reason: why ``data`` is unreadable; empty for an unknown type.
    """

    chat_id: ChatId = attrs.field(converter=as_chat_id)
    type: str = attrs.field(validator=is_text())
    data: str = attrs.field(default="", validator=is_text(empty=True), repr=False)
    reason: str = attrs.field(default="", validator=is_text(empty=True))
    sender: Sender | None = attrs.field(default=None, validator=_is_sender)


Event: TypeAlias = (
    Join | Leave | Message[Any] | Press[Any] | Submission | InvoiceCallback | PayCallback | UnknownEvent
)
