"""The codec of conversations' records.

Records can hold the values that `triobot.seams.values` encodes, and the errors of `triobot.errors`. Classes
of `triobot.wire` are recorded under names that stay the same when a module moves.
"""

from __future__ import annotations

from typing import Any, Final, cast, final, get_args, get_origin

from .. import errors
from ..engine import Codec
from ..engine.records import Node
from ..errors import TriobotError
from ..seams.journals import LARGEST_RECORD
from ..seams.values import encode_value, node_of_value, read_form, register, value_of_node
from ..wire import content, results
from ..wire.content import CONTENT_CLASSES
from ..wire.events import BESIDE, Event, Message, Sender, beside
from ..wire.results import Sent


@final
class ChatCodec(Codec):
    def dump(self, value: object) -> Node:
        return node_of_value(value)

    def load(self, node: Node) -> object:
        return value_of_node(node)

    def node_of(self, value: object) -> Node:
        """Return the node to record for a value; see `Codec.node_of`.

        Nearly every turn records a send's result or a short text that a wait took (as a `str` or as the whole
        message). Such values are stored in a short form. For a text, the short form saves 57,000 of a turn's
        983,000 instructions.
        """
        if type(value) is Sent:
            chat_id, id = value.chat_id, value.id
            if type(chat_id) is int and -_EXACT <= chat_id <= _EXACT and (id is None or id <= _EXACT):
                return {"sent": [chat_id, id]}
        taken: object = value
        if type(taken) is tuple and (short := _short(cast("tuple[object, ...]", taken))) is not None:
            return short
        return super().node_of(value)

    def is_frozen(self, value: object) -> bool:
        """Return whether a value is a send's result or a text that a wait took; see `Codec.is_frozen`."""
        if type(value) is tuple:
            taken = cast("tuple[object, ...]", value)
            return len(taken) == 4 and type(taken[0]) is Message and _tag(taken[0], taken[3]) is not None
        return type(value) is Sent


def _tag(event: Message[Any], as_what: object) -> str | None:
    """Return the short form's tag for a text that was taken as text or as the whole message; else None."""
    if type(as_what) is not tuple or type(event.content) is not str:
        return None
    what = cast("tuple[object, ...]", as_what)
    if len(what) != 1:
        return None
    if what[0] is event:
        return "heard"
    return "said" if type(what[0]) is str and what[0] == event.content else None


def _short(taken: tuple[object, ...]) -> Node:
    """Return the short form of a short text that a wait took; None for other values."""
    if len(taken) != 4:
        return None
    event, seq, at, as_what = taken
    if type(event) is not Message or type(seq) is not int or type(at) is not int:
        return None
    tag, chat, text, sender = _tag(event, as_what), event.chat_id, event.content, event.sender
    if tag is None or type(text) is not str or sender is None or (BESIDE and beside(event)):
        return None
    id, name, user = sender.id, sender.name, sender.username
    if not type(name) is type(user) is str or len(text) + len(name) + len(user) >= _SHORT:
        return None
    if not (type(chat) is int and type(id) is int and -_EXACT <= chat <= _EXACT >= id >= -_EXACT):
        return None
    return {tag: [chat, text, id, name, user, seq, at]}


def _load_said(parts: Any) -> tuple[Message[str], int, int, tuple[str]]:
    chat, text, sender, name, user, seq, at = parts
    return Message(chat, text, Sender(sender, name, user)), seq, at, (text,)


def _load_heard(parts: Any) -> tuple[Message[str], int, int, tuple[Message[str]]]:
    chat, text, sender, name, user, seq, at = parts
    event = Message(chat, text, Sender(sender, name, user))
    return event, seq, at, (event,)


def _load_sent(parts: Any) -> Sent:
    chat, id = parts
    return Sent(chat, id)


read_form("said", _load_said)
read_form("heard", _load_heard)
read_form("sent", _load_sent)

_EXACT: Final = 2**53
"""Larger numbers are recorded in another form; see `triobot.seams.values`."""
_SHORT: Final = 10_000
_ERRORS: Final = {
    name: cast("type[Exception]", cls)
    for name, cls in vars(errors).items()
    if isinstance(cls, type) and issubclass(cls, TriobotError)
}

_ROOM: Final = LARGEST_RECORD - 64 * 1024
"""Maximum number of characters of a value in a record; the rest is for the record's other fields."""

CODEC: Final = ChatCodec(_ERRORS, largest=_ROOM)


def recordable(value: object) -> str:
    """Return a value's encoded text; raise an error if the text is too long for a record.

    Raises:
        UnrecordableError: the value has a type that can't be recorded, or is too large.
    """
    text = encode_value(value)
    if len(text) > _ROOM:
        CODEC.node_of(value)  # raises
    return text


def register_wire_values() -> None:
    """Make events, content and results recordable."""
    parts = (*CONTENT_CLASSES[1:], content.Descriptor, content.LocalFile, content.Blob, Sender)
    answers = (Sent, results.InvoiceCreated, results.PaymentState)
    for cls in (*parts, *(get_origin(one) or one for one in get_args(Event)), *answers):
        register(cls, name=f"triobot.{cls.__name__}")


register_wire_values()
