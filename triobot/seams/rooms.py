"""Rooms that are no chats, as numbers: what stores, leases and queues know of a place is its number.

Chats have the numbers that the platform gives, of 18 digits at most. Beyond these are the places that only
the bot knows: what it keeps of a person, its own room, and rooms by their names. So a place needs no table of
its own, and goes the way of a chat wherever none of its people is meant.
"""

from __future__ import annotations

import hashlib
from typing import Final

from ..wire.ids import ChatId, SenderId

MOST_CHATS: Final = 10**18
"""The numbers of chats are nearer to zero than this."""
_PERSONS: Final = -5 * 10**18
"""Around this are persons, each as far from it as the platform's own number is from zero."""
_ROOMS: Final = 8 * 10**18
"""So many numbers, above the bot's own, are for named rooms."""
LARGEST_PLACE: Final = 2**63 - 1
"""No place's number is farther from zero: it is what a store can hold."""

SHARED: Final = ChatId(MOST_CHATS)
"""The bot's own room."""


def person_place(sender_id: SenderId) -> ChatId:
    """Return where the bot keeps what it knows of a person over all chats."""
    return ChatId(_PERSONS + sender_id)


def room_place(name: str, key: str) -> ChatId:
    """Return the room of this kind with this key.

    Of a million rooms, two have the same number once in ten million bots: so it needs no list of them.

    Args:
        name: of the kind, for ever.
    """
    digest = hashlib.blake2b(f"{name}\n{key}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return ChatId(SHARED + 1 + int.from_bytes(digest, "big") % _ROOMS)


def is_chat(place: ChatId) -> bool:
    """Return whether this is a chat, with people in it."""
    return -MOST_CHATS < place < MOST_CHATS


def hears(place: ChatId) -> bool:
    """Return whether something can be told there: what is kept of a person only keeps."""
    return place > -MOST_CHATS


def told(place: ChatId, room: tuple[str, str] | None = None) -> str:
    """Return what a place is called in errors, logs and tables.

    Args:
        room: its name and key, where they are known.
    """
    if room is not None:
        # In a log a line is a line, whatever is in a key.
        return " ".join(["room", *(part if part.isprintable() else ascii(part) for part in room if part)])
    if is_chat(place):
        return f"chat {place}"
    if place == SHARED:
        return "the bot's own room"
    return f"room {place}" if place > 0 else f"person {place - _PERSONS}"
