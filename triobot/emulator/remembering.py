"""The world as one JSON object, and back: for a platform whose bot has a store that outlives the run.

Kept is what the bot knows of the platform as well: people with their wallets, chats with their members,
messages and presses that wait for an answer, what is to be paid and was, which files there are, and the
events that no bot has taken. Not kept is what looks on or goes wrong: the log, requests, faults, switches.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, cast

import attrs

from ..errors import LocalProtocolError, TriobotError
from ..wire.content import Descriptor, decode_content, encode_content
from ..wire.decode import decode_event
from ..wire.encode import FORM_TYPE, encode_event
from ..wire.events import Event
from ..wire.ids import CallbackId, ChatId, GroupName, MessageId, PhoneNumber, SenderId
from ..wire.markup import (
    Currency,
    decode_form_fields,
    decode_inline_keyboard,
    decode_reply_keyboard,
    encode_form_fields,
    encode_inline_keyboard,
    encode_reply_keyboard,
)
from ..wire.rules import JsonValue
from .bills import Bill, Taking
from .chats import ChatMessage, PlatformChat, Pressed
from .people import User
from .views import JsonObject
from .world import World

VERSION: Final = 1
# What was made after the last writing has numbers that are forgotten here, but the bot may know them.
_GAP: Final = 1_000


class UnreadableWorldError(TriobotError):
    """What was kept of a world is damaged, or another version's."""


def dump_world(world: World, pending: Sequence[Event], *, closed: bool) -> JsonObject:
    """Return everything that is to be kept.

    Args:
        pending: the events that no bot has taken.
        closed: nothing happens after this.
    """
    return {
        "version": VERSION,
        "closed": closed,
        "messages": world.last_message,
        "invoices": world.invoices,
        "people": [_dump_user(user) for user in world.people],
        "chats": [_dump_chat(chat) for chat in world.chats()],
        "bills": [_plain(bill) for bill in world.bills],
        "files": dict(world.uploads.known()),
        "pending": list(_dump_events(pending)),
    }


def load_world(world: World, kept: JsonValue) -> Sequence[Event]:
    """Put into an empty world what was kept of another one; returns the events that wait.

    Raises:
        UnreadableWorldError: it can't be read; the world may hold half of it.
    """
    try:
        return _load(world, cast("JsonObject", kept))
    except (TriobotError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableWorldError("it is damaged, or of another version") from error


def _load(world: World, kept: JsonObject) -> Sequence[Event]:
    if kept["version"] != VERSION:
        raise UnreadableWorldError("it is of another version")
    gap = 0 if kept["closed"] else _GAP
    world.number_from(_integer(kept, "messages") + gap, _integer(kept, "invoices") + gap)
    for user in _objects(kept, "people"):
        world.people.restore(_load_user(user))
    for chat in _objects(kept, "chats"):
        world.restore(_load_chat(chat))
    for bill in _objects(kept, "bills"):
        world.bills.restore(_load_bill(bill))
    for file_id, descriptor in cast("dict[str, str]", kept["files"]).items():
        world.uploads.restore(file_id, Descriptor(descriptor))
    return [decode_event(FORM_TYPE, body.encode()) for body in cast("list[str]", kept["pending"])]


# --- people and money


def _dump_user(user: User) -> JsonObject:
    return {**_plain(user), "wallet": dict[str, JsonValue](user.wallet.items())}


def _load_user(kept: JsonObject) -> User:
    wallet = cast("dict[Currency, int]", kept["wallet"])
    return User(
        SenderId(_integer(kept, "id")),
        str(kept["name"]),
        str(kept["username"]),
        PhoneNumber(str(kept["phone"])),
        ChatId(_integer(kept, "chat_id")),
        {"IRR": wallet["IRR"], "coin": wallet["coin"]},
    )


def _load_bill(kept: JsonObject) -> Bill:
    takings = [Taking(**cast("dict[str, int]", taking)) for taking in _objects(kept, "takings")]  # type: ignore[arg-type]
    return Bill(**{**kept, "takings": takings})  # type: ignore[arg-type]


# --- chats


def _dump_chat(chat: PlatformChat) -> JsonObject:
    keys = chat.reply_keyboard
    return {
        "id": chat.id,
        "name": chat.name,
        "members": list[JsonValue](sorted(chat.members)),
        "keys": encode_reply_keyboard(keys) if keys is not None else None,
        "pressed": [_plain(one) for one in chat.pressed.values() if one.reply is None],
        "messages": list(_dump_entries(chat)),
    }


def _load_chat(kept: JsonObject) -> PlatformChat:
    name = kept["name"]
    chat = PlatformChat(ChatId(_integer(kept, "id")), GroupName(str(name)) if name is not None else None)
    chat.members.update(SenderId(one) for one in cast("list[int]", kept["members"]))
    if kept["keys"] is not None:
        chat.reply_keyboard = decode_reply_keyboard(str(kept["keys"]))
    for message in _objects(kept, "messages"):
        chat.put(_load_entry(message))
    for press in _objects(kept, "pressed"):
        chat.press(
            Pressed(
                CallbackId(str(press["callback_id"])),
                SenderId(_integer(press, "by")),
                MessageId(_integer(press, "message_id")),
                _integer(press, "at"),
            )
        )
    return chat


def _dump_entries(chat: PlatformChat) -> Iterator[JsonObject]:
    for entry in chat.entries.values():
        try:
            kind, data = encode_content(entry.content)
        except LocalProtocolError:
            continue  # a text that no UTF-8 can carry
        keys, buttons, form = entry.reply_keyboard, entry.inline_keyboard, entry.form
        yield {
            "id": entry.id,
            "author": entry.author,
            "at": entry.at,
            "type": kind,
            "data": data,
            "keys": encode_reply_keyboard(keys) if keys is not None else None,
            "buttons": encode_inline_keyboard(buttons) if buttons is not None else None,
            "form": encode_form_fields(form) if form is not None else None,
            "edited_at": entry.edited_at,
            "deleted": entry.deleted,
            "submitted": entry.submitted,
            "filled": [
                [user_id, [list[JsonValue](pair) for pair in pairs]] for user_id, pairs in entry.filled
            ],
        }


def _load_entry(kept: JsonObject) -> ChatMessage:
    keys, buttons, form = kept["keys"], kept["buttons"], kept["form"]
    filled = cast("list[tuple[SenderId, list[list[str]]]]", kept["filled"])
    return ChatMessage(
        MessageId(_integer(kept, "id")),
        cast("SenderId | None", kept["author"]),
        decode_content(str(kept["type"]), str(kept["data"])),
        _integer(kept, "at"),
        decode_reply_keyboard(str(keys)) if keys is not None else None,
        decode_inline_keyboard(str(buttons)) if buttons is not None else None,
        decode_form_fields(str(form)) if form is not None else None,
        cast("int | None", kept["edited_at"]),
        bool(kept["deleted"]),
        _integer(kept, "submitted"),
        tuple((user_id, tuple((name, value) for name, value in pairs)) for user_id, pairs in filled),
    )


def _dump_events(pending: Sequence[Event]) -> Iterator[str]:
    for event in pending:
        try:
            yield encode_event(event).data.decode()
        except LocalProtocolError:
            continue


# --- JSON


def _plain(value: attrs.AttrsInstance) -> JsonObject:
    return cast("JsonObject", attrs.asdict(value))


def _integer(kept: JsonObject, name: str) -> int:
    value = kept[name]
    if type(value) is not int:
        raise UnreadableWorldError(f"{name!r} is no integer")
    return value


def _objects(kept: JsonObject, name: str) -> list[JsonObject]:
    return cast("list[JsonObject]", kept[name])
