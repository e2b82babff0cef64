"""The world as JSON, for the control API and the page. Pure."""

from __future__ import annotations

import re
from typing import Final, cast

import attrs

from ..wire.content import Contact, Content, Descriptor, Location, Media
from ..wire.forms import Checkbox, Form, FormField, Inbuilt, Radio, Select, Submit, TextArea, TextField
from ..wire.markup import CallbackButton, InlineButton, InlineKeyboard, LinkButton, PayButton, ReplyKeyboard
from ..wire.rules import JsonValue, compact_json
from .bills import Bill
from .chats import Change, ChatMessage, Pairs, PlatformChat, PressReply
from .world import User, World

JsonObject = dict[str, JsonValue]

SHOWN: Final = 50
# Fields of a message that `view_entry` converts separately, or that are shown elsewhere.
_APART: Final = ("content", "reply_keyboard", "inline_keyboard", "form", "filled")
_LONG: Final = re.compile(r"(?<![\d.])-?\d{16,}(?![\d.eE])")
_TEXT_OR_LONG: Final = re.compile(rf'"(?:[^"\\]|\\.)*"|{_LONG.pattern}')


def json_for_pages(value: JsonValue) -> str:
    """Return a value as JSON text. Integers of 16 digits or more, such as ids of rooms, become strings.

    JavaScript would round such integers.
    """
    text = compact_json(value)
    if _LONG.search(text) is None:
        return text
    return _TEXT_OR_LONG.sub(lambda found: found[0] if found[0][0] == '"' else f'"{found[0]}"', text)


def view_user(user: User) -> JsonObject:
    return attrs.asdict(user)


def view_content(content: Content) -> JsonObject:
    """Return a message's content as JSON, in the format of the content's type."""
    match content:
        case str():
            return {"type": "text", "text": content}
        case Contact() | Location():
            return {"type": type(content).__name__.lower(), **attrs.asdict(content)}
        case Media(source=source, caption=caption):
            fields = dict(source.fields) if isinstance(source, Descriptor) else {}
            return {"type": content.kind, "caption": caption, "descriptor": fields}


def view_button(button: InlineButton) -> JsonObject:
    kinds = {CallbackButton: "callback", LinkButton: "link", PayButton: "pay"}
    return {"kind": kinds[type(button)], **attrs.asdict(button)}


def view_buttons(keyboard: InlineKeyboard | None) -> JsonValue:
    """Return the buttons under a message as JSON, row by row."""
    rows = keyboard.rows if keyboard is not None else ()
    return [[view_button(button) for button in row] for row in rows]


def view_keyboard(keyboard: ReplyKeyboard | None) -> JsonValue:
    """Return the keys of a reply keyboard as JSON, row by row; None without a keyboard."""
    if keyboard is None:
        return None
    return [[attrs.asdict(key) for key in row] for row in keyboard.rows]


def _view_field(field: FormField) -> JsonObject:
    match field:
        case TextField() | TextArea():
            kind = "text" if isinstance(field, TextField) else "textarea"
            return {"type": kind, "name": field.name, "label": field.label, "value": field.value}
        case Radio() | Select():
            kind = "radio" if isinstance(field, Radio) else "select"
            options: list[JsonValue] = [{"value": value, "label": label} for value, label in field.options]
            return {"type": kind, "name": field.name, "label": field.label, "options": options}
        case Checkbox():
            return {"type": "checkbox", "name": field.name, "label": field.label}
        case Inbuilt():
            return {"type": "inbuilt", "name": field.name, "label": field.label, "value": field.reader}
        case Submit():
            return {"type": "submit", "label": field.label}


def view_form(form: Form | None) -> JsonValue:
    """Return the fields of a form as JSON; None without a form."""
    return None if form is None else [_view_field(field) for field in form.fields]


def view_entry(entry: ChatMessage) -> JsonObject:
    """Return a message as JSON, without the content of a deleted message."""
    view: JsonObject = {"from_bot": entry.author is None}
    if entry.deleted:
        return view | {name: getattr(entry, name) for name in ("id", "author", "at", "deleted")}
    view |= attrs.asdict(entry, recurse=False, filter=lambda field, _: field.name not in _APART)
    view["content"] = view_content(entry.content)
    view["buttons"] = view_buttons(entry.inline_keyboard)
    view["form"] = view_form(entry.form)
    view["filled"] = {str(user_id): dict[str, JsonValue](pairs) for user_id, pairs in entry.filled}
    return view


def view_change(change: Change) -> JsonObject:
    """Return an entry of the world's log as JSON, with number, time and kind."""
    view: JsonObject = {"seq": change.seq, "at": change.at, "kind": change.what.kind}
    if change.after is not None:
        view["after"] = change.after
    for name, value in attrs.asdict(change.what, recurse=False).items():
        match value:
            case ChatMessage():
                view["message"] = view_entry(value)
            case PressReply():
                view |= attrs.asdict(value)
            case tuple():
                view["fields"] = dict(cast("Pairs", value))
            case _:
                view["user" if name == "user_id" else name] = value
    return view


def view_bill(bill: Bill, now: int) -> JsonObject:
    """Return a payment button or an invoice as JSON, with its state."""
    return {**attrs.asdict(bill), "state": bill.state(now)}


def view_chat(world: World, chat: PlatformChat, now: int, *, after: int, newest: int = SHOWN) -> JsonObject:
    """Return a chat as JSON, with at most `newest` messages, and changes with numbers above `after`."""
    changes = [view_change(change) for change in world.changes(after) if change.what.chat_id == chat.id]
    waiting = [pressed.callback_id for pressed in chat.pressed.values() if pressed.reply is None]
    return {
        "seq": world.seq,
        "now": now,
        "chat_id": chat.id,
        "name": chat.name,
        "members": list[JsonValue](sorted(chat.members)),
        "typing": chat.is_typing(now),
        "reply_keyboard": view_keyboard(chat.reply_keyboard),
        "unanswered": list(waiting),
        "invoices": [
            view_bill(bill, now) for bill in world.bills if bill.kind == "invoice" and bill.chat_id == chat.id
        ],
        "messages": [view_entry(entry) for entry in list(chat.entries.values())[-newest:]] if newest else [],
        "changes": list[JsonValue](changes),
    }
