"""Broadcasts in a copy: one has a part in each shard under one key, and all parts together are one.

A receiver goes to the shard of its chat. Of those that have an outcome only a count is left, which the part
at the key's own shard gets. Positions say who may have been told: in each part those up to `meant`. So where
several parts become one, these come before all others.

A capture that was cut off is not copied: each start of a bot drops it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import attrs

from ...errors import ConfigError
from ...shards import home_of_key, shard_of
from ...wire.ids import ChatId
from ..sql import Sql

Row: TypeAlias = tuple[Any, ...]

_PAGE: Final = 2_000
_COUNTS: Final = ("total", "sent", "gone", "failed", "unknown")
_UNDER_WAY: Final = ("sending", "stopping")
_STATES: Final = (*_UNDER_WAY, "stopped", "done")
"""While one part is in the first of these, all are; then in the second, and so on."""
_COLUMNS: Final = ("n", "key", "at", "state", "meant", "last", *_COUNTS)
_BEGUN: Final = "state <> 'capturing'"
_ONE: Final = f"SELECT {', '.join(_COLUMNS)} FROM broadcasts WHERE key = ? AND {_BEGUN}"
_HIGHEST: Final = "SELECT coalesce(max(position), 0) FROM receivers WHERE n = ?"


def refuse_half_started(sources: Sequence[Sql]) -> None:
    """Refuse a broadcast of which some parts go on, and whose start has not come to its end.

    Raises:
        ConfigError: names it; one store can't hold that.
    """
    statement = "SELECT key FROM broadcasts WHERE state IN ('sending', 'stopping') ORDER BY key"
    for sql in sources:
        for (key,) in sql.execute(statement).fetchall():
            if sources[home_of_key(key, len(sources))].execute(_ONE, (key,)).fetchone() is None:
                raise ConfigError(
                    f"the broadcast {key!r} goes on in some shards, and its start was cut off before it had"
                    " begun in all: start the bot, have it started again with this key or stop it (`triobot"
                    " broadcast stop`), and copy then"
                )


@final
@attrs.frozen
class PartOf:
    """What becomes of one part's receivers.

    Attributes:
        n: the broadcast's number in the copy.
        meant: the last position that was tried, in this part.
        tried, untried: by how much the positions move, up to `meant` and behind it.
    """

    n: int
    meant: int
    tried: int
    untried: int

    def moved(self, position: int) -> int:
        """Return a receiver's position in the copy."""
        return position + (self.tried if position <= self.meant else self.untried)


@final
class BroadcastParts:
    """The broadcasts of all sources."""

    def __init__(self, sources: Sequence[Sql], shards: int) -> None:
        self._sources = sources
        self._shards = shards
        self._last: tuple[tuple[int, int], PartOf | None] | None = None

    def count(self) -> int:
        """Return how many broadcasts there are."""
        statement = f"SELECT n FROM broadcasts WHERE {_BEGUN} AND n > ? ORDER BY n LIMIT {_PAGE}"
        found = 0
        for source in range(len(self._sources)):
            for (n,) in self._paged(source, statement, ()):
                found += self._parts(source, n)[:1] != [] and self._is_first(source, n)
        return found

    def count_receivers(self) -> int:
        """Return how many receivers have rows."""
        statement = f"SELECT count(*) FROM receivers WHERE n IN (SELECT n FROM broadcasts WHERE {_BEGUN})"
        return sum(int(sql.execute(statement).fetchone()[0]) for sql in self._sources)

    def divided(self, source: int, n: int) -> Sequence[Row]:
        """Return the rows of a broadcast, one for each shard of the copy; none if a source before has it."""
        parts = self._parts(source, n)
        if not parts or not self._is_first(source, n):
            return ()
        rows = [dict(zip(_COLUMNS, row, strict=True)) for _, row in parts]
        key = str(rows[0]["key"])
        states = {row["state"] for row in rows}
        state = next(one for one in _STATES if one in states)
        texts = (self._content(at, row[0]) for at, row in parts)
        content = next((text for text in texts if text), "")
        where = self._where(parts)
        last = max((one.moved(self._last_of(*part)) for part, one in zip(parts, where, strict=True)))
        meant = sum(int(row["meant"]) for row in rows)
        head = (where[0].n, key, min(row["at"] for row in rows), state, content, meant, max(last, meant))
        sums = {name: sum(int(row[name]) for row in rows) for name in _COUNTS}
        return [(*head, *counts) for counts in self._shared_out(parts, key, sums)]

    def _shared_out(
        self, parts: Sequence[tuple[int, Row]], key: str, sums: Mapping[str, int]
    ) -> Iterator[Row]:
        total, gone = Counter[int](), Counter[int]()
        for source, row in parts:
            statement = (
                "SELECT position, chat_id, gone FROM receivers WHERE position > ? AND n = ?"
                f" ORDER BY position LIMIT {_PAGE}"
            )
            for _, chat_id, has_gone in self._paged(source, statement, (row[0],)):
                shard = shard_of(ChatId(chat_id), self._shards)
                total[shard] += 1
                gone[shard] += has_gone
        home = home_of_key(key, self._shards)
        left = {"total": sums["total"] - total.total() + total[home], "gone": sums["gone"] - gone.total()}
        left["gone"] += gone[home]
        for shard in range(self._shards):
            if shard == home:
                yield tuple({**sums, **left}[name] for name in _COUNTS)
            else:
                yield (total[shard], 0, gone[shard], 0, 0)

    def found(self, source: int, n: int) -> PartOf | None:
        """Return what becomes of a part's receivers; None for a capture that was cut off."""
        if self._last is None or self._last[0] != (source, n):
            parts = self._parts(source, n)
            where = dict(zip([(at, row[0]) for at, row in parts], self._where(parts), strict=True))
            self._last = (source, n), where.get((source, n))
        return self._last[1]

    def _where(self, parts: Sequence[tuple[int, Row]]) -> Sequence[PartOf]:
        if not parts:
            return ()
        n = min(row[0] * len(self._sources) + source for source, row in parts)
        all_meant = sum(int(row[4]) for _, row in parts)
        found, tried, untried = list[PartOf](), 0, all_meant
        for part in parts:
            meant = int(part[1][4])
            found.append(PartOf(n, meant, tried, untried - meant))
            tried += meant
            untried += max(self._last_of(*part) - meant, 0)
        return found

    def _last_of(self, source: int, row: Row) -> int:
        """Return the last position that a part has given."""
        highest = self._sources[source].execute(_HIGHEST, (row[0],)).fetchone()
        return max(int(row[5]), int(highest[0]))

    def _parts(self, source: int, n: int) -> list[tuple[int, Row]]:
        """Return the parts of the broadcast that has this number in a source; none, if that has not begun."""
        own = self._sources[source].execute(f"SELECT key FROM broadcasts WHERE n = ? AND {_BEGUN}", (n,))
        if (key := own.fetchone()) is None:
            return []
        found = [(at, sql.execute(_ONE, key).fetchone()) for at, sql in enumerate(self._sources)]
        return [(at, row) for at, row in found if row is not None]

    def _is_first(self, source: int, n: int) -> bool:
        """Return whether no source before this one has a part of the broadcast."""
        return self._parts(source, n)[0][0] == source

    def _content(self, source: int, n: int) -> str:
        found = self._sources[source].execute("SELECT content FROM broadcasts WHERE n = ?", (n,)).fetchone()
        return str(found[0])

    def _paged(self, source: int, statement: str, values: tuple[object, ...]) -> Iterator[Row]:
        """Yield rows, page after page; the first column of each is where the next page begins."""
        after = -1
        while rows := self._sources[source].execute(statement, (after, *values)).fetchall():
            yield from rows
            after = rows[-1][0]
