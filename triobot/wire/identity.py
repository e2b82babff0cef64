"""Decides by content whether two deliveries are the same event, since events have no id (gap 28)."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Final

from .encode import encode_event_data
from .events import Event, InvoiceCallback, Message, PayCallback, Press, Sender, Submission, UnknownEvent
from .rules import compact_json

_quoted: Final = json.encoder.encode_basestring
_PAYMENT_TYPES: Final = frozenset({"paycallback", "invoicecallback"})


def event_key(event: Event, content_type: str, body: bytes) -> tuple[str | None, bool]:
    """Return a key that repeated deliveries of an event share, and whether only these share it.

    Args:
        event: as it was read from `body`.
        content_type, body: used only where the event could not be read: its bytes are compared then.

    Returns:
        For a press, and a form that came with a callback id: a key of it, and True: a second delivery is
        never new. For payment callbacks: None and False: the first may tell of a failure and the second of
        the payment, in the same bytes. For anything else: a digest of chat, type, data and sender, the same
        in both body formats, and False: users do say the same thing twice.
    """
    match event:
        case Message(chat_id, str(text), Sender(id, name, username)):
            # As below, and the same text of it, for nearly all that comes.
            told = (
                f'[{chat_id},"text",{_quoted(text)},{{"id":{id},"name":{_quoted(name)},'
                f'"user":{_quoted(username)}}}]'
            )
            return f"event:{chat_id}:{sha256(told.encode()).hexdigest()}", False
        case Press():
            return f"press:{event.chat_id}:{event.callback_id}", True
        case Submission() if event.callback_id is not None:
            return f"submission:{event.chat_id}:{event.callback_id}", True
        case PayCallback() | InvoiceCallback():
            return None, False
        case UnknownEvent() if event.type.lower() in _PAYMENT_TYPES:
            return None, False
        case UnknownEvent() if event.reason:
            digest = sha256(content_type.encode("utf-8", "replace") + b"\n" + body)
            return f"bytes:{event.chat_id}:{digest.hexdigest()}", False
        case _:
            kind, data = encode_event_data(event)
            # The JSON of a list of these four, in less than the time that a list's takes.
            told = f"[{event.chat_id},{compact_json(kind)},{compact_json(data)},{_sender_text(event.sender)}]"
            return f"event:{event.chat_id}:{sha256(told.encode()).hexdigest()}", False


def _sender_text(sender: Sender | None) -> str:
    if sender is None:
        return "null"
    return f'{{"id":{sender.id},"name":{compact_json(sender.name)},"user":{compact_json(sender.username)}}}'
