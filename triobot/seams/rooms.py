"""Numbers for rooms that are not chats: stores, leases and queues identify a place only by its number.

The platform's chat numbers have at most 18 digits. triobot uses larger numbers for its own places: the data
of a person, the bot's own room, and named rooms. So these places need no separate tables: the code for chats
also handles these places, except code that depends on a chat's users.
"""

from __future__ import annotations

import hashlib
from typing import Final

from ..wire.ids import ChatId, SenderId

MOST_CHATS: Final = 10**18
"""The absolute value of a chat's number is smaller than this."""
_PERSONS: Final = -5 * 10**18
"""The number of a person's place is this number plus the platform's number of the person."""
_ROOMS: Final = 8 * 10**18
"""Count of the numbers for named rooms, which follow the number of the bot's own room."""
LARGEST_PLACE: Final = 2**63 - 1
"""The largest absolute value of a place's number, because a store keeps numbers in 64 bits."""

SHARED: Final = ChatId(MOST_CHATS)
"""The bot's own room."""


def person_place(sender_id: SenderId) -> ChatId:
    """Return the place of the data that the bot keeps for a person across all chats."""
    return ChatId(_PERSONS + sender_id)


def room_place(name: str, key: str) -> ChatId:
    """Return the number of a named room.

    The number is a hash of `name` and `key`, so that no table of rooms is needed.

    In a bot with a million rooms, the chance that two rooms share a number is one in ten million.

    Args:
        name: the kind of room; must never change.
    """
    digest = hashlib.blake2b(f"{name}\n{key}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return ChatId(SHARED + 1 + int.from_bytes(digest, "big") % _ROOMS)


def is_chat(place: ChatId) -> bool:
    """Return whether `place` is a chat of the platform; False for one of triobot's own places."""
    return -MOST_CHATS < place < MOST_CHATS


def place_name(place: ChatId, room: tuple[str, str] | None = None) -> str:
    """Return the name of a place for errors, logs and tables.

    Args:
        room: name and key of the room, if known.
    """
    if room is not None:
        # A key may contain a line break, and a log entry must stay one line.
        return " ".join(["room", *(part if part.isprintable() else ascii(part) for part in room if part)])
    if is_chat(place):
        return f"chat {place}"
    if place == SHARED:
        return "the bot's own room"
    return f"room {place}" if place > 0 else f"person {place - _PERSONS}"
