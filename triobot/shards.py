"""Shards: a store in several files or schemas, each a whole store of its own chats, with one owner at a time.

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
_EXAMPLE: Final = "such as sqlite:bot.db?shards=4"
_EXAMPLE_ON_SERVER: Final = "such as postgresql://bots@10.0.0.20/pizza?shards=4"
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
class NodePlace:
    """Which of the processes that run a bot together this one is.

    Attributes:
        number: from 0.
        of: how many there are.
    """

    number: int
    of: int

    def node_of(self, shard: int) -> int:
        """Return the process that has a shard."""
        return shard % self.of

    def has(self, shard: int) -> bool:
        """Return whether this process has a shard."""
        return self.node_of(shard) == self.number


ALONE: Final = NodePlace(0, 1)
"""One process, which has all shards."""


@final
@attrs.frozen
class ShardedAddress:
    """What a store's address says of shards.

    Attributes:
        whole: the address without them, such as ``sqlite:bot.db``.
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
        """Return the file; None if it is in several, or in none."""
        engine, _, place = self.whole.partition(":")
        if engine != "sqlite" or not place or (self.shards is not None and self.shard is None):
            return None
        path = Path(place)
        return path if self.shard is None else path.with_name(f"{path.name}.{self.shard}")

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
    said, others = dict[str, str](), list[str]()
    example = _EXAMPLE_ON_SERVER if on_server else _EXAMPLE
    for one in query.split("&"):
        name, _, value = one.partition("=")
        if on_server and name not in ("shards", "shard"):
            others.append(one)
            continue
        if name not in ("shards", "shard") or name in said:
            besides = "" if on_server else ", and nothing besides"
            raise ConfigError(f"a store's address says ?shards= once{besides}, {example}")
        said[name] = value
    if not said:
        return ShardedAddress(store)
    if others:
        whole = f"{whole}?{'&'.join(others)}"
    if "shards" not in said:
        raise ConfigError(f"the store's address names a shard, and not of how many: say ?shards=, {example}")
    shards = _whole("shards", said["shards"], 1, MOST_SHARDS, example)
    shard = _whole("shard", said["shard"], 0, shards - 1, example) if "shard" in said else None
    return ShardedAddress(whole, shards, shard)


def _whole(name: str, text: str, least: int, most: int, example: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 5 and least <= int(text) <= most:
        return int(text)
    raise ConfigError(
        f"{name}= in the store's address must be a whole number from {least} to {most}, {example}"
    )
