"""Entries in the store, moved by compare-and-set; nothing is announced before it is durable.

Waits for nothing but the store it is given, so that a simulation can run it as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, final

import attrs

from ..errors import StaleRowError
from ..money import AcknowledgeAlarms, PaymentRows, PutPayment, RaiseAlarm
from ..seams import Write
from ..wire.ids import RefId
from .entry import Entry, Taker
from .facts import Fact
from .ledger import Impossible, Moved, move
from .records import entry_of, numbered, row_of, writes_of


class Commit(Protocol):
    """`triobot.seams.Store.commit`."""

    def __call__(self, *writes: Write) -> Awaitable[None]: ...


Listen: TypeAlias = Callable[[Moved], None]


@final
@attrs.frozen
class Planned:
    """Moves of one entry that are decided and not stored yet.

    Attributes:
        entry: as it is behind them.
        writes: what stores them, and their alarms.
    """

    entry: Entry
    outcomes: tuple[Moved | Impossible, ...]
    writes: tuple[PutPayment | RaiseAlarm | AcknowledgeAlarms, ...]

    @property
    def moved(self) -> bool:
        """Tell whether the table allowed all of them."""
        return all(isinstance(outcome, Moved) for outcome in self.outcomes)


def plan(entry: Entry, facts: Sequence[Fact], now: int) -> Planned:
    """Decide what these facts make of an entry, without storing it: the caller commits that."""
    outcomes: list[Moved | Impossible] = []
    for fact in facts:
        outcome = move(entry, fact, now)
        outcomes.append(outcome)
        entry = outcome.entry
    writes = [write for outcome in outcomes for write in writes_of(outcome, now)]
    return Planned(entry, tuple(outcomes), tuple(writes))


@final
class Books:
    """All entries of a store.

    Args:
        rows: where they are read.
        commit: stores them, all of a call or none.
        now: the time of day in milliseconds.
        listen: told of each move once it is durable; must not raise.
        counts: what happened, by word; several books may share one.
    """

    def __init__(
        self,
        rows: PaymentRows,
        commit: Commit,
        now: Callable[[], int],
        listen: Listen,
        counts: Counter[str] | None = None,
    ) -> None:
        self._rows = rows
        self._commit = commit
        self._now = now
        self._listen = listen
        self.counts: Counter[str] = Counter() if counts is None else counts

    async def read(self, id_: RefId) -> Entry | None:
        """Read one entry as it is now; None if there is none."""
        row = await self._rows.get(id_)
        return None if row is None else entry_of(row)

    async def add(self, entry: Entry, *facts: Fact, also: Sequence[Write] = ()) -> Entry:
        """Write an entry first, with what happens to it at once, and with `also`, in one transaction.

        Raises:
            StaleRowError: its id is taken.
        """
        now = self._now()
        first = numbered(entry)
        planned = plan(first, facts, now)
        await self._commit(*also, PutPayment(row_of(first), "made", now), *planned.writes)
        self.announce(planned)
        return planned.entry

    async def move(
        self,
        id_: RefId,
        *facts: Fact,
        also: Sequence[Write] = (),
        may_fail: bool = False,
        taker: Taker | None = None,
    ) -> Planned | None:
        """Let these facts happen to an entry, with `also` in the same transaction; None if there is none.

        What the table refuses changes nothing but is counted and alarmed, and `also` is stored all the same.

        Args:
            may_fail: the entry may have moved on meanwhile: then nothing is stored, and nothing alarmed.

            taker: only while it is this one's; else None is returned, and nothing stored.

        Raises:
            StaleRowError: an invoice's id that the facts bring belongs to another entry.
        """
        stale = -1
        while True:
            entry = await self.read(id_)
            if entry is None or taker not in (None, entry.taker):
                return None
            if entry.revision == stale:
                raise StaleRowError(id_)  # not this row's revision: another one has the invoice's id
            planned = plan(entry, facts, self._now())
            if may_fail and not planned.moved:
                return planned
            try:
                await self._commit(*also, *planned.writes)
            except StaleRowError:
                self.counts["moved_meanwhile"] += 1
                stale = entry.revision
                continue
            self.announce(planned)
            return planned

    async def move_all(self, moves: Sequence[tuple[Entry, Sequence[Fact]]]) -> list[Entry]:
        """Let facts happen to many entries, read a moment ago, in one transaction.

        Returns: those that have moved on meanwhile: nothing has happened to them here.
        """
        now = self._now()
        planned = [(entry, plan(entry, facts, now)) for entry, facts in moves if facts]
        if not planned:
            return []
        try:
            await self._commit(*(write for _, one in planned for write in one.writes))
        except StaleRowError:
            return await self._one_by_one(planned)
        for _, one in planned:
            self.announce(one)
        return []

    async def _one_by_one(self, planned: Sequence[tuple[Entry, Planned]]) -> list[Entry]:
        stale: list[Entry] = []
        for entry, one in planned:
            try:
                await self._commit(*one.writes)
            except StaleRowError:
                self.counts["moved_meanwhile"] += 1
                stale.append(entry)
            else:
                self.announce(one)
        return stale

    def announce(self, planned: Planned) -> None:
        """Say what has become durable; after a commit that wasn't made here."""
        for outcome in planned.outcomes:
            self.counts[outcome.fact if isinstance(outcome, Moved) else "impossible"] += 1
            if isinstance(outcome, Moved):
                self._listen(outcome)
