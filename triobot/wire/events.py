"""What the platform posts to us (interface sections 2.2 and 6, and the three types that it leaves out).

One frozen class a type; all have `chat_id` and `sender`. Payment callbacks are hints, never facts: anyone
who knows the webhook's address can post one.
"""

from __future__ import annotations

from typing import Any, Generic, TypeAlias, final

import attrs
from typing_extensions import TypeVar

from .content import Content
from .ids import CallbackId, ChatId, InvoiceId, MessageId, RefId, SenderId
from .results import Sent

C_co = TypeVar("C_co", bound=Content, covariant=True, default=Content)
V_co = TypeVar("V_co", covariant=True, default=str)


@final
@attrs.frozen
class Sender:
    """The person behind an event; the platform may leave it out.

    Attributes:
        id: the same in every chat, and different from the private chat's id.
        name: the display name; may be empty.
        username: may be empty.
    """

    id: SenderId
    name: str = attrs.field(default="", repr=False)
    username: str = attrs.field(default="", repr=False)


@final
@attrs.frozen
class Join:
    """A user joined the service, or a group it is in."""

    chat_id: ChatId
    sender: Sender | None = None


@final
@attrs.frozen
class Leave:
    """A user left."""

    chat_id: ChatId
    sender: Sender | None = None


@final
@attrs.frozen
class Message(Generic[C_co]):
    """Text, media, a contact or a location. A key of a reply keyboard arrives as text, too.

    There is no message id: the platform doesn't tell it for what users write.
    """

    chat_id: ChatId
    content: C_co = attrs.field(repr=False)
    sender: Sender | None = None


@final
@attrs.frozen
class Press(Generic[V_co]):
    """A click on an inline button that has ``cb_data``.

    Attributes:
        value: the button's data; `pressed(Take)` and `Buttons.pressed` decode it to what was put in.
        message_id: the message that the button hangs under.
        callback_id: goes back in `AnswerCallback`, once.
    """

    chat_id: ChatId
    value: V_co = attrs.field(repr=False)
    message_id: MessageId
    callback_id: CallbackId
    sender: Sender | None = None

    @property
    def on(self) -> Sent:
        """The message that the button hangs under, for `edit` and `delete`."""
        return Sent(self.chat_id, self.message_id)


@final
@attrs.frozen
class Submission:
    """A filled form.

    Attributes:
        values: pairs of field name and text, in the order in which they came; names may repeat.
        message_id: the message that the form hangs under.
        callback_id: present on some app versions.
    """

    chat_id: ChatId
    values: tuple[tuple[str, str], ...] = attrs.field(repr=False)
    message_id: MessageId
    callback_id: CallbackId | None = None
    sender: Sender | None = None

    @property
    def on(self) -> Sent:
        """The message that the form hangs under."""
        return Sent(self.chat_id, self.message_id)

    def get(self, name: str) -> str | None:
        """The last value of this name, or None."""
        return next((value for key, value in reversed(self.values) if key == name), None)


@final
@attrs.frozen
class InvoiceCallback:
    """A hint that an invoice was paid, **or** that paying it failed: the bytes are the same."""

    chat_id: ChatId
    invoice_id: InvoiceId
    sender: Sender | None = None


@final
@attrs.frozen
class PayCallback:
    """A hint that an in-app payment succeeded or failed (interface section 6).

    Attributes:
        message_id: the message whose button was pressed, if told.
        status: the platform's word, such as ``error``; the word for success is not documented.
        code: 1000 to 1006, if told.
        charge_url: with code 1000, where the user can top up. Never sent on without a check.
    """

    chat_id: ChatId
    ref_id: RefId
    message_id: MessageId | None = None
    status: str = ""
    code: int | None = None
    charge_url: str | None = attrs.field(default=None, repr=False)
    sender: Sender | None = None


@final
@attrs.frozen
class UnknownEvent:
    """An event of a type that this version doesn't know, or whose ``data`` it can't read.

    Attributes:
        type: as it came.
        data: as it came, as text.
        reason: why it could not be read as its type, or empty for an unknown type.
    """

    chat_id: ChatId
    type: str
    data: str = attrs.field(default="", repr=False)
    reason: str = ""
    sender: Sender | None = None


Event: TypeAlias = (
    Join | Leave | Message[Any] | Press[Any] | Submission | InvoiceCallback | PayCallback | UnknownEvent
)
