"""Shards: a store in several schemas, each a whole store of its own chats, with one owner at a time.

Which shard has a chat follows from the chat's number, for as long as the store lives: so the number of shards
is fixed when the store is made. What is the whole bot's (its room, its jobs, its webhook's secret) is at home
in the shard that has the bot's own room.

Numbers of events, and so of conversations, are drawn in steps: no two shards give the same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

import attrs

from .errors import ConfigError
from .rooms import SHARED
from .wire.ids import ChatId

MOST_SHARDS: Final = 64
"""More than the cores of a machine, and as many as the numbers of events have room for."""
STEP: Final = MOST_SHARDS
"""From one number of a shard's events to the next."""
MADE: Final = "shards_made"
"""The setting of the home shard that says that all shards were made, and names the store that they are."""
MEMBER_OF: Final = "member_of"
"""The setting of each shard that names the store that it is a part of."""
_EXAMPLE: Final = "such as postgresql://bots@10.0.0.20/pizza?shards=4"
IN_ONE_FILE: Final = (
    "SQLite keeps a store in one file, for one process. If it was made in several, PATH.0 and so on, the"
    " triobot that made it makes one of them: triobot store copy 'sqlite:PATH?shards=N' sqlite:NEW"
)
"""What is said of a store in several files, which no release has made."""
# Odd, and without a pattern in its bits: 2**64 divided by the golden ratio (Knuth, volume 3, section 6.4).
_SPREAD: Final = 0x9E3779B97F4A7C15
_WORD: Final = 2**64 - 1


def shard_of(place: ChatId, shards: int) -> int:
    """Return which of so many shards has this chat, or another place. The same for ever."""
    return ((place * _SPREAD & _WORD) >> 32) * shards >> 32


def home_of(shards: int) -> int:
    """Return the shard of what is the whole bot's."""
    return shard_of(SHARED, shards)


def home_of_key(key: str, shards: int) -> int:
    """Return the shard that decides whether the broadcast with this key was started."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "big") % shards


def shard_of_number(number: int) -> int:
    """Return which shard has given this number to an event, or to the conversation that began with it.

    Numbers are kept where a store is copied to another number of shards: then another shard may have it.
    """
    return number % STEP


@final
@attrs.frozen
class Share:
    """One shard of a store.

    Attributes:
        number: which, from 0.
        of: how many the store has.
        step: from one number of its events to the next.
    """

    number: int
    of: int
    step: int = STEP

    def before_next(self, newest: int) -> int:
        """Return the number from which the first of this shard's that is larger is one step away."""
        return newest + 1 + (self.number - newest - 1) % self.step - self.step

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


WHOLE: Final = Share(0, 1, 1)
"""A store by itself."""


@final
@attrs.frozen
class ShardedAddress:
    """What a store's address says of shards.

    Attributes:
        whole: the address without them, such as ``postgresql://bots@10.0.0.20/pizza``.
        shards: how many there are; None: it is one store, in one file.
        shard: the one that is meant; None: all of them.
    """

    whole: str
    shards: int | None = None
    shard: int | None = None

    @property
    def share(self) -> Share | None:
        """Return the shard that is meant, if one is."""
        return None if self.shard is None or self.shards is None else Share(self.shard, self.shards)

    @property
    def file(self) -> Path | None:
        """Return the file; None if it is in none."""
        engine, _, place = self.whole.partition(":")
        return Path(place) if engine == "sqlite" and place else None

    @property
    def each(self) -> Sequence[str]:
        """Return the address of each store that is meant: of all shards, or this one."""
        if self.shards is None:
            return [self.whole]
        chosen = range(self.shards) if self.shard is None else [self.shard]
        mark = "&" if "?" in self.whole else "?"
        return [f"{self.whole}{mark}shards={self.shards}&shard={number}" for number in chosen]


def read_shards(store: str) -> ShardedAddress:
    """Read what a store's address says of shards.

    Raises:
        ConfigError: it says something that can't be.
    """
    on_server = store.startswith("postgresql:")
    whole, mark, query = store.partition("?") if on_server else store.rpartition("?")
    if not (mark and (on_server or (query.startswith("shard") and whole.startswith(("sqlite:", "memory:"))))):
        return ShardedAddress(store)
    if whole.startswith("sqlite:"):
        raise ConfigError(f"{IN_ONE_FILE}. Leave ?{query} out of the address of a new one")
    said, others = dict[str, str](), list[str]()
    for one in query.split("&"):
        name, _, value = one.partition("=")
        if name not in ("shards", "shard"):
            others.append(one)
            continue
        if name in said:
            raise ConfigError(f"a store's address says ?shards= once, {_EXAMPLE}")
        said[name] = value
    if not said:
        return ShardedAddress(store)
    if others:
        whole = f"{whole}?{'&'.join(others)}"
    if "shards" not in said:
        raise ConfigError(f"the store's address names a shard, and not of how many: say ?shards=, {_EXAMPLE}")
    shards = _whole("shards", said["shards"], 1, MOST_SHARDS)
    shard = _whole("shard", said["shard"], 0, shards - 1) if "shard" in said else None
    return ShardedAddress(whole, shards, shard)


def _whole(name: str, text: str, least: int, most: int) -> int:
    if text.isascii() and text.isdigit() and len(text) < 5 and least <= int(text) <= most:
        return int(text)
    raise ConfigError(
        f"{name}= in the store's address must be a whole number from {least} to {most}, {_EXAMPLE}"
    )
