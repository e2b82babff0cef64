"""The platform's identifiers: a type and a check for each kind (interface section 2.1).

A `ChatId` identifies an event's chat. A `Recipient` identifies an operation's chat: by chat id, by a member's
phone number, or by a group's name in either spelling. Callback, invoice and reference ids are opaque and are
sent back unchanged.
"""

from __future__ import annotations

import re
from typing import Final, NewType, TypeAlias

from ..errors import LocalProtocolError
from .rules import check_integer, check_text

ChatId = NewType("ChatId", int)
"""Id of a private chat or a group; unique within a service."""

PhoneNumber = NewType("PhoneNumber", str)
"""International phone number with a leading plus sign. Conversations use chat ids, because every chat has an
id."""

GroupName = NewType("GroupName", str)
"""The service's identifier, with ``@`` before it as clients send it, or after it as in the interface."""

Recipient: TypeAlias = ChatId | PhoneNumber | GroupName

SenderId = NewType("SenderId", int)
"""Id of a user, the same in every chat; differs from the private chat's id."""

MessageId = NewType("MessageId", int)
CallbackId = NewType("CallbackId", str)
InvoiceId = NewType("InvoiceId", str)
RefId = NewType("RefId", str)

_CHAT: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_PHONE: Final = re.compile(r"\+[0-9]{4,15}", re.ASCII)
_GROUP: Final = re.compile(r"@[A-Za-z0-9_.\-]{1,64}|[A-Za-z0-9_.\-]{1,64}@", re.ASCII)
_REF: Final = re.compile(r"[A-Za-z0-9+/=_\-]{1,128}", re.ASCII)
_OPAQUE: Final = re.compile(r"[\x21-\x7e]{1,512}", re.ASCII)


def as_chat_id(value: int | str) -> ChatId:
    """Check a chat id: an integer of at most 18 digits, or an integer in ASCII digits.

    Raises:
        LocalProtocolError: `value` has another format.
    """
    if type(value) is int and -(10**18) < value < 10**18:
        return ChatId(value)
    if isinstance(value, str) and _CHAT.fullmatch(value):
        return ChatId(int(value))
    raise LocalProtocolError("chat_id", "must be an integer of at most 18 ASCII digits")


def as_recipient(value: int | str) -> Recipient:
    """Check an operation's recipient: a chat id, ``+98912...``, ``@group`` or ``group@``.

    Raises:
        LocalProtocolError: `value` has none of these forms.
    """
    if type(value) is int and -(10**18) < value < 10**18:
        return ChatId(value)
    if isinstance(value, str):
        if _PHONE.fullmatch(value):
            return PhoneNumber(value)
        if _GROUP.fullmatch(value):
            return GroupName(value)
    try:
        return as_chat_id(value)
    except LocalProtocolError:
        rule = "must be an integer, a phone number with a plus sign, or a group's name with @"
        raise LocalProtocolError("chat_id", rule) from None


def as_sender_id(value: int | str) -> SenderId:
    """Check a user's id, in the format of a chat id."""
    try:
        return SenderId(as_chat_id(value))
    except LocalProtocolError as error:
        raise LocalProtocolError("from.id", error.rule) from None


def as_message_id(value: int | str) -> MessageId:
    """Check a message's id: a non-negative integer, or an integer in ASCII digits."""
    if type(value) is int and 0 <= value < 10**18:
        return MessageId(value)
    number = int(value) if isinstance(value, str) and _CHAT.fullmatch(value) else value
    check_integer("message_id", number, least=0, most=10**18 - 1)
    return MessageId(int(number))


def as_optional_message_id(value: int | str | None) -> MessageId | None:
    return None if value is None else as_message_id(value)


def as_callback_id(value: str) -> CallbackId:
    """Check a callback id: opaque printable ASCII."""
    return CallbackId(_opaque("callback_id", value))


def as_invoice_id(value: str) -> InvoiceId:
    """Check an invoice's id: opaque printable ASCII."""
    return InvoiceId(_opaque("invoice_id", value))


def as_ref_id(value: str) -> RefId:
    """Check the id of a payment button: base64 letters and digits (interface section 2.4)."""
    check_text("ref_id", value)
    if not _REF.fullmatch(value):
        raise LocalProtocolError("ref_id", "must be 1 to 128 letters and digits of base64")
    return RefId(value)


def _opaque(field: str, value: str) -> str:
    check_text(field, value)
    if not _OPAQUE.fullmatch(value):
        raise LocalProtocolError(field, "must be 1 to 512 printable ASCII characters")
    return value
