"""A conversation's events and sent operations as JSON for the page. Pure.

Messages have the emulator's format (`emulator.views`), so that the page needs no other code to draw messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, cast

from ...base.authors import contained, kind_of
from ...conversations.calls.signals import Call, PaymentArrived, Signal
from ...conversations.charges.charging import PaymentNews, Seen
from ...conversations.codec import CODEC
from ...emulator.views import JsonObject, view_buttons, view_content, view_form, view_keyboard
from ...engine import Record
from ...engine.records import DONE, FAILED, FIRED, INTERRUPTED, Node
from ...errors import LocalProtocolError, UnreadableRecordError
from ...seams.money import Captured
from ...wire.content import Contact, Content, Location, Media
from ...wire.encode import encode_event_data, encode_operation, encode_sender
from ...wire.events import InvoiceCallback, Join, Leave, Message, PayCallback, Press, Sender, Submission
from ...wire.ids import ChatId
from ...wire.operations import AnswerCallback, CreateInvoice, EditMessage, Operation, SendMessage
from ...wire.rules import JsonValue
from .values import DOTS, shown

LETTERS: Final = 4_000
"""Maximum length of a text in a message bubble, in characters."""
_RAW: Final = 8_000
"""Maximum length of a raw event or request, in characters."""
_MONEY: Final = frozenset({"charge", "verify"})


def cut(text: str) -> str:
    """Return a text. If the text is longer than `LETTERS` characters, return its beginning, then dots."""
    return text if len(text) <= LETTERS else text[:LETTERS] + DOTS


# --- received


def view_event(event: object) -> JsonObject:
    """Return an event as JSON, with kind, sender and contents."""
    view: JsonObject = {"what": "event", "from": None, "name": "", "text": ""}
    sender = getattr(event, "sender", None)
    if isinstance(sender, Sender):
        view |= {"from": sender.id, "name": cut(sender.name)}
    match event:
        case Message():
            content: Content = event.content
            view |= {"what": "message", "text": _words(content), "content": _content(content)}
        case Press():
            pressed = cast("Any", event)
            view |= {"what": "press", "text": shown(pressed.value), "message_id": pressed.message_id}
        case Submission():
            fields: JsonObject = {cut(name): cut(value) for name, value in event.values[:100]}
            text = " \N{MIDDLE DOT} ".join(value for _, value in event.values[:100])
            view |= {"what": "form", "text": cut(text), "message_id": event.message_id, "fields": fields}
        case Join() | Leave():
            view |= {"what": type(event).__name__.lower()}
        case PayCallback() | InvoiceCallback() | PaymentNews():
            view |= {"what": "payment"}
        case PaymentArrived():
            view |= {"what": "payment", "text": _money(event.paid)}
            if isinstance(event.paid, Captured):
                view["money"] = _captured(event.paid)
        case Signal():
            view |= {"what": "signal", "text": shown(event.value)}
        case Call():
            view |= {"what": "call", "text": f"{event.name}{shown(event.args) if event.args else ''}"}
        case _:
            view |= {"text": type(event).__name__}
    with suppress(LocalProtocolError, AttributeError, AssertionError, TypeError):
        kind, data = encode_event_data(cast("Message[str]", event))
        if len(data) <= _RAW:
            view["event"] = {"type": kind, "data": data, "from": encode_sender(event.sender)}  # type: ignore[attr-defined]
    return view


def _words(content: Content) -> str:
    match content:
        case str():
            return cut(content)
        case Media():
            return cut(content.caption) or content.kind
        case Contact():
            return f"{content.name} {content.phone}".strip()
        case Location():
            return content.desc or f"{content.lat}, {content.long}"


def _content(content: Content) -> JsonValue:
    return view_content(cut(content) if isinstance(content, str) else content)


def _money(paid: object) -> str:
    return f"{paid.amount} {paid.currency}" if isinstance(paid, Captured) else shown(paid)


def _captured(paid: Captured) -> JsonObject:
    name = "" if paid.payer is None else cut(paid.payer.name)
    return {"what": "captured", "name": name, "amount": paid.amount, "currency": paid.currency}


def _moved(seen: object) -> JsonObject | None:
    """Return the payment or failure in the result of a charge's ledger query; None if there is neither."""
    notices, paid = cast("Seen", seen) if isinstance(seen, tuple) else ((), None)
    if paid is not None:
        return _captured(paid)
    codes = [notice.code for notice in notices if notice.code is not None]
    return {"what": "failed", "name": "", "code": codes[-1]} if codes else None


def view_record(record: Record) -> JsonObject | None:
    """Return as JSON the event or outcome that began a turn; None for a send that succeeded."""
    tag = record[0]
    if tag == INTERRUPTED:
        return {"what": "interrupt", "text": str(record[4])}
    if tag == FIRED:
        came = _taken(record[4]) if record[3] is not None else None
        return {**(came or {"what": "timeout", "text": ""}), "block": str(record[2])}
    kind = str(record[3]).partition(" ")[0] if tag in (DONE, FAILED) else ""
    if tag == FAILED:
        return {"what": "error", "text": _error(record[5])}
    if tag != DONE:
        return {"what": "cut", "text": ""}
    if kind == "receive":
        return _taken(record[5])
    if kind == "sleep":
        return {"what": "timeout", "text": ""}
    if kind in ("send", "answer"):
        return None
    value, why = _value_of(record[5])
    view: JsonObject = {"what": "result", "text": why or shown(value)}
    if kind == "verify" and (moved := _moved(value)) is not None:
        view["money"] = moved
    return view


def _taken(node: Node) -> JsonObject:
    """Return an event that a wait or a block received."""
    taken, why = _value_of(node)
    if why:
        return {"what": "event", "from": None, "name": "", "text": why}
    view = view_event(taken[0])
    if len(taken) > 3 and taken[3] is None:
        view["taken"] = False
    return view


def _value_of(node: Node) -> tuple[Any, str]:
    """Return a recorded value, or None and the reason why it can't be read."""
    try:
        return CODEC.value_of(node), ""
    except Exception as error:  # the value's class is the author's, and may have changed
        return None, f"<{type(error).__name__}>"


def _error(node: Node) -> str:
    match node:
        case ["raised", str() as name, [*args], _]:
            # The record doesn't contain the step's error class, so `Exception` formats the message.
            words = str(Exception(*(_value_of(arg)[0] for arg in args)))
            return cut(": ".join([name.rpartition(".")[2], *([words] if words else [])]))
        case _:
            pass
    try:
        return error_words(CODEC.error_of(node))
    except UnreadableRecordError:
        return "an error that this program doesn't know"


def error_words(error: BaseException) -> str:
    """Return an error's class and message."""
    try:
        words = str(error)
    except BaseException as inner:  # the author's `__str__` failed
        words = f"<its str raised {kind_of(contained(inner))}>"
    return cut(f"{type(error).__name__}: {words}" if words else type(error).__name__)


def ending_of(records: Iterable[Record]) -> str:
    """Return the kind of an end without failure: ``ended``, or the reason in the journal."""
    return next((str(record[4]) for record in records if record[0] == INTERRUPTED), "ended")


def state_of(records: Iterable[Record], *, over: bool, failed: bool, parked: bool) -> str:
    """Return a conversation's state: ``waits``, ``parked``, ``crashed``, or the kind of the end."""
    if over:
        return "crashed" if failed else ending_of(records)
    return "parked" if parked else "waits"


def dot_of(record: Record, came: JsonObject | None) -> str:
    """Return the colour of a turn, which shows whether a person, money, time or the bot caused the turn."""
    what = None if came is None else came["what"]
    if what in ("message", "press", "form", "join", "leave"):
        return "person"
    kind = record[3].partition(" ")[0] if isinstance(record[3], str) else ""
    if what == "payment" or kind in _MONEY:
        return "money"
    return "time" if what == "timeout" else "bot"


# --- sent


def view_operation(operation: Operation[object], chat_id: ChatId) -> JsonObject:
    """Return an operation for the outbox as JSON."""
    view: JsonObject = {
        "kind": operation.traits.word or operation.path,
        "chat_id": cast("int | str", getattr(operation, "chat_id", 0)),
    }
    if (message_id := getattr(operation, "message_id", None)) is not None:
        view["message_id"] = message_id
    match operation:
        case SendMessage():
            view |= _shown(operation.content)
            if operation.inline_keyboard is not None:
                view["buttons"] = view_buttons(operation.inline_keyboard)
            if operation.form is not None:
                view["form"] = view_form(operation.form)
            if operation.reply_keyboard is not None:
                view["keyboard"] = view_keyboard(operation.reply_keyboard)
        case EditMessage():
            if operation.content is not None:
                view |= _shown(operation.content)
            view["buttons"] = view_buttons(operation.inline_keyboard)
        case AnswerCallback():
            view |= {"text": cut(operation.text), "alert": operation.show_alert}
        case CreateInvoice():
            view |= {"text": cut(operation.description), "amount": operation.amount}
        case _:
            pass
    if view["chat_id"] != chat_id:
        view["to"] = True
    with suppress(LocalProtocolError):  # media that isn't uploaded yet has no raw form
        fields = dict(encode_operation(operation).fields)
        if sum(map(len, fields.values())) <= _RAW:
            view["raw"] = {name: value for name, value in fields.items() if name != "chat_id"}
    return view


def _shown(content: Content) -> JsonObject:
    return {"text": _words(content), "content": _content(content)}
