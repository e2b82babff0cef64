"""Converts the world to one text and back, for a platform whose bot has a persistent store.

The text contains the data that the bot's store may refer to. These are people with their wallets, chats with
their members and messages, the lines between messages, presses that wait for an answer, bills, files, and
unsettled events. The text omits the log, requests, planned faults and switches. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import attrs

from ..errors import TriobotError
from ..seams.values import decode_value, encode_value
from ..wire.events import Event
from .bills import Bill, Taking
from .chats import Change, PlatformChat, Pressed
from .world import User, World

VERSION: Final = 3
# After a kill, this many message numbers and invoice numbers are skipped: the bot's store may contain numbers
# that were used after the last save.
_GAP: Final = 1_000


class UnreadableWorldError(TriobotError):
    """The saved world is damaged, or was saved by another version."""


def dump_world(world: World, pending: Sequence[Event], *, closed: bool) -> str:
    """Return the world as a text.

    Args:
        pending: unsettled events.
        closed: whether the world no longer changes after this save.
    """
    return encode_value(
        {
            "version": VERSION,
            "closed": closed,
            "messages": world.last_message,
            "changes": world.seq,
            "invoices": world.invoices,
            "people": [attrs.astuple(user) for user in world.people],
            "chats": [_chat_row(chat) for chat in world.chats()],
            "bills": [attrs.astuple(bill) for bill in world.bills],
            "files": world.uploads.known,
            "pending": list(pending),
        }
    )


def _chat_row(chat: PlatformChat) -> tuple[object, ...]:
    waiting = [attrs.astuple(pressed) for pressed in chat.pressed.values() if pressed.reply is None]
    lines = [attrs.astuple(line, recurse=False) for line in chat.lines]
    return chat.id, chat.name, chat.members, list(chat.entries.values()), waiting, chat.reply_keyboard, lines


def load_world(world: World, text: str) -> Sequence[Event]:
    """Load a saved world into the empty `world`; return the unsettled events.

    Raises:
        UnreadableWorldError: the text can't be read; the world may then be partly loaded.
    """
    try:
        return _load(world, cast("dict[str, Any]", decode_value(text)))
    except (TriobotError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableWorldError("it is damaged, or of another version") from error


def _load(world: World, kept: dict[str, Any]) -> Sequence[Event]:
    if kept["version"] != VERSION:
        raise UnreadableWorldError("it is of another version")
    gap = 0 if kept["closed"] else _GAP
    world.number_from(kept["messages"] + gap, kept["invoices"] + gap, kept["changes"])
    for row in kept["people"]:
        world.people.add(User(*row))
    for id, name, members, entries, waiting, keyboard, lines in kept["chats"]:
        chat = PlatformChat(id, name, members, {entry.id: entry for entry in entries})
        for row in waiting:
            chat.press(Pressed(*row))
        chat.reply_keyboard = keyboard
        chat.lines.extend(Change(*line) for line in lines)
        world.restore(chat)
    for kind, id, chat_id, amount, currency, description, expires_at, takings in kept["bills"]:
        paid = [Taking(*taking) for taking in takings]
        world.bills.restore(Bill(kind, id, chat_id, amount, currency, description, expires_at, paid))
    world.uploads.known.update(kept["files"])
    return cast("list[Event]", kept["pending"])
