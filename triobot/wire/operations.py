"""Requests to the platform (interface section 4): one frozen class per operation.

`Operation[R]` only declares the type of the result, so that type checkers infer `Sent` for ``await
platform.perform(SendMessage(...))``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Generic, Literal, final

import attrs
from typing_extensions import TypeVar

from ..base.frozen import guarded
from ..errors import LocalProtocolError
from .content import CONTENT_CLASSES, MEDIA, Blob, Content, Descriptor, LocalFile, Media, MediaKind
from .forms import Form
from .ids import (
    CallbackId,
    ChatId,
    InvoiceId,
    MessageId,
    Recipient,
    RefId,
    as_callback_id,
    as_chat_id,
    as_invoice_id,
    as_message_id,
    as_recipient,
    as_ref_id,
)
from .markup import InlineKeyboard, ReplyKeyboard
from .results import (
    InvoiceCreated,
    PaymentState,
    Sent,
    read_descriptor,
    read_invoice_created,
    read_nothing,
    read_payment_state,
    read_sent,
)
from .rules import (
    check_integer,
    check_is_a,
    check_text,
    check_word,
    is_a,
    is_amount,
    is_one_of,
    is_optional,
    is_text,
)
from .traits import OUTSIDE, Traits, on_wire

R_co = TypeVar("R_co", covariant=True)


class Operation(Generic[R_co]):
    """Base class of all operations; `R_co` is the type of the result.

    Attributes:
        path: path of the request below the base URL.
        traits: common properties of the class's operations.
    """

    __slots__ = ()
    path: ClassVar[str]
    traits: ClassVar[Traits]


def check_content(field: str, value: object) -> None:
    """Check that a value is a message's content; a text must not be empty."""
    if isinstance(value, str):
        check_text(field, value)
    elif not isinstance(value, CONTENT_CLASSES):
        raise LocalProtocolError(field, "must be text, a media value, a Contact or a Location")


def _is_content(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if type(value) is not str or not value or not value.isascii():  # fast path for a text, the usual content
        check_content("data", value)


def _are_below(instance: SendMessage, attribute: attrs.Attribute[Any], value: object) -> None:
    """Check keyboards and form in one call, since most messages have neither keyboards nor a form."""
    if instance.reply_keyboard is not None:
        check_is_a("reply_keyboard", instance.reply_keyboard, ReplyKeyboard)
    if instance.inline_keyboard is not None:
        check_is_a("inline_keyboard", instance.inline_keyboard, InlineKeyboard)
    if instance.form is not None:
        check_is_a("form", instance.form, Form)


@final
@guarded
class SendMessage(Operation[Sent]):
    """Send text, media, a contact or a location (interface section 4.3).

    A second request would send a second message, so the setting `OnUnknown` decides whether a send with an
    unknown outcome is repeated. Media must have a descriptor before this operation is encoded.
    """

    path: ClassVar[str] = "sendMessage"
    traits: ClassVar[Traits] = Traits(read_sent, "chat", word="send")

    chat_id: Recipient = attrs.field(converter=as_recipient, repr=False)
    content: Content = attrs.field(validator=_is_content, repr=False, metadata=on_wire("type", "data"))
    reply_keyboard: ReplyKeyboard | None = None
    inline_keyboard: InlineKeyboard | None = None
    form: Form | None = attrs.field(default=None, validator=_are_below)


def _is_new_content(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None:
        check_content("data", value)


@final
@guarded
class EditMessage(Operation[None]):
    """Replace a message's content, its inline keyboard, or both. Repeatable.

    The interface requires ``data``, but this class also allows an edit of the keyboard alone (gap 7).
    """

    path: ClassVar[str] = "editMessage"
    traits: ClassVar[Traits] = Traits(read_nothing, "chat", repeat="freely", word="edit")

    chat_id: Recipient = attrs.field(converter=as_recipient, repr=False)
    message_id: MessageId = attrs.field(converter=as_message_id)
    content: Content | None = attrs.field(
        default=None, validator=_is_new_content, repr=False, metadata=on_wire("data")
    )
    inline_keyboard: InlineKeyboard | None = attrs.field(
        default=None, validator=is_optional(is_a(InlineKeyboard))
    )

    def __attrs_post_init__(self) -> None:
        if self.content is None and self.inline_keyboard is None:
            raise LocalProtocolError("data", "an edit needs new content or an inline keyboard")


@final
@guarded
class DeleteMessage(Operation[None]):
    """Delete a message of the bot.

    The operation is repeatable: the platform answers 200 if the message was deleted before.
    """

    path: ClassVar[str] = "deleteMessage"
    traits: ClassVar[Traits] = Traits(read_nothing, "chat", repeat="freely", word="delete")

    chat_id: Recipient = attrs.field(converter=as_recipient, repr=False)
    message_id: MessageId = attrs.field(converter=as_message_id)


@final
@guarded
class SendAction(Operation[None]):
    """Show that the bot is typing. Repeatable."""

    path: ClassVar[str] = "sendAction"
    traits: ClassVar[Traits] = Traits(read_nothing, "action", repeat="freely", late=False)

    chat_id: Recipient = attrs.field(converter=as_recipient, repr=False)
    action: Literal["typing"] = attrs.field(default="typing", metadata=on_wire("type"))

    def __attrs_post_init__(self) -> None:
        check_word("action", self.action, "typing")


@final
@guarded
class AnswerCallback(Operation[None]):
    """Answer a press with a tooltip or an alert. Repeatable. A late answer is useless.

    The interface requires `text`; an empty text only ends the button's waiting state (gap 8).
    """

    path: ClassVar[str] = "answerCallback"
    traits: ClassVar[Traits] = Traits(
        read_nothing, "answer", "callback_id", "freely", late=False, word="answer"
    )

    chat_id: Recipient = attrs.field(converter=as_recipient, repr=False)
    callback_id: CallbackId = attrs.field(converter=as_callback_id)
    text: str = attrs.field(default="", validator=is_text(empty=True), repr=False)
    show_alert: bool = attrs.field(default=False, validator=is_a(bool))


@final
@guarded
class Upload(Operation[Descriptor]):
    """Upload a file's bytes; the returned descriptor may be sent often. Repeatable.

    An upload's keyboards have no documented effect (gap 38). The keyboards that a user sees are sent with the
    message.
    """

    path: ClassVar[str] = "upload"
    traits: ClassVar[Traits] = Traits(read_descriptor, repeat="freely")

    kind: MediaKind = attrs.field(
        validator=is_one_of("image", "video", "audio", "voice", "file"), metadata=on_wire(*MEDIA)
    )
    source: LocalFile | Blob = attrs.field(validator=is_a(LocalFile, Blob), metadata=on_wire())
    reply_keyboard: ReplyKeyboard | None = attrs.field(
        default=None, validator=is_optional(is_a(ReplyKeyboard))
    )
    inline_keyboard: InlineKeyboard | None = attrs.field(
        default=None, validator=is_optional(is_a(InlineKeyboard))
    )

    @classmethod
    def of(
        cls, media: Media, reply: ReplyKeyboard | None = None, inline: InlineKeyboard | None = None
    ) -> Upload:
        """Return the operation that uploads the file of `media`, with the keyboards `reply` and `inline`.

        Raises:
            LocalProtocolError: the media was uploaded already.
        """
        if isinstance(media.source, Descriptor):
            raise LocalProtocolError("source", "has been uploaded already")
        return cls(media.kind, media.source, reply, inline)


def _is_expiry(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None:
        check_integer("expire_time", value, least=300, most=604_800)


@final
@guarded
class CreateInvoice(Operation[InvoiceCreated]):
    """Request money from a user through the wallet page (interface section 4.1).

    **Never** repeated after an unknown outcome.

    Attributes:
        amount: in rials, or in `currency` if given (outside the interface).
        expire_time: seconds from 300 to 604,800 (outside the interface; gap 13).
    """

    path: ClassVar[str] = "invoice"
    traits: ClassVar[Traits] = Traits(read_invoice_created, "chat", repeat="never")

    chat_id: ChatId = attrs.field(converter=as_chat_id, repr=False)
    amount: int = attrs.field(validator=is_amount)
    description: str = attrs.field(validator=is_text(), repr=False)
    currency: Literal["IRR", "coin"] | None = attrs.field(
        default=None, validator=is_optional(is_one_of("IRR", "coin")), metadata=OUTSIDE
    )
    expire_time: int | None = attrs.field(default=None, validator=_is_expiry, metadata=OUTSIDE)


@final
@guarded
class VerifyInvoice(Operation[PaymentState]):
    """Capture a paid invoice. Money that is not captured within an hour returns to the user."""

    path: ClassVar[str] = "invoice/verify"
    traits: ClassVar[Traits] = Traits(read_payment_state, "invoice", "invoice_id", "never", money=True)

    chat_id: ChatId = attrs.field(converter=as_chat_id, repr=False)
    invoice_id: InvoiceId = attrs.field(converter=as_invoice_id, metadata=on_wire("ref_id"))


@final
@guarded
class InquireInvoice(Operation[PaymentState]):
    """Request an invoice's payment state; captures nothing."""

    path: ClassVar[str] = "invoice/inquiry"
    traits: ClassVar[Traits] = Traits(read_payment_state, "invoice", "invoice_id", "freely", money=True)

    chat_id: ChatId = attrs.field(converter=as_chat_id, repr=False)
    invoice_id: InvoiceId = attrs.field(converter=as_invoice_id, metadata=on_wire("ref_id"))


@final
@guarded
class VerifyPayment(Operation[PaymentState]):
    """Capture an in-app payment (interface section 4.2)."""

    path: ClassVar[str] = "payment/verify"
    traits: ClassVar[Traits] = Traits(read_payment_state, "payment", "ref_id", "never", money=True)

    chat_id: ChatId = attrs.field(converter=as_chat_id, repr=False)
    ref_id: RefId = attrs.field(converter=as_ref_id)


@final
@guarded
class InquirePayment(Operation[PaymentState]):
    """Request an in-app payment's state; captures nothing."""

    path: ClassVar[str] = "payment/inquiry"
    traits: ClassVar[Traits] = Traits(read_payment_state, "payment", "ref_id", "freely", money=True)

    chat_id: ChatId = attrs.field(converter=as_chat_id, repr=False)
    ref_id: RefId = attrs.field(converter=as_ref_id)


OPERATIONS: Final = (
    SendMessage,
    EditMessage,
    DeleteMessage,
    SendAction,
    AnswerCallback,
    Upload,
    CreateInvoice,
    VerifyInvoice,
    InquireInvoice,
    VerifyPayment,
    InquirePayment,
)
"""All operations of the interface."""


def repeatable(operation: Operation[object]) -> bool:
    """Return whether a second request of an operation has no further effect."""
    return operation.traits.repeat == "freely"
