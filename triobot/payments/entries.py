"""Entries in the store, moved by compare-and-set; a move is announced once durable.

The module waits only for its store, so a simulation can run the module unchanged.

A conversation's move must be stored together with the conversation's records. `Entries.move` can't do that:
it reads the entry, and retries if the entry has changed after the read. A conversation shares its commit
with other conversations, and continues before the commit is durable, so it can't retry. `moving`, `opening`
and `claiming` therefore return writes that read the entry and decide the move inside the transaction, where
no other move can come between. The store calls the functions of these writes in its own thread. The functions
get everything as values, including the time, and never wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeAlias, final

from ..base.frozen import guarded
from ..errors import UnreadableRecordError
from ..seams.money import AcknowledgeAlarms, Decided, MovePayment, PaymentRow, PutPayment, RaiseAlarm
from ..seams.patience import await_store
from ..seams.writes import StaleRowError, Write
from ..store import ReadPayments
from ..wire.ids import RefId
from .entry import Entry, Taker
from .facts import Fact, Plain
from .ledger import Impossible, Moved, move
from .records import entry_of, numbered, row_of, writes_of


class Commit(Protocol):
    """`triobot.store.Store.commit`."""

    def __call__(self, *writes: Write) -> Awaitable[None]: ...


Listen: TypeAlias = Callable[[Moved], None]


@final
@guarded
class Planned:
    """Moves of one entry, decided but not stored.

    Attributes:
        entry: the entry after the moves.
        outcomes: each fact's move, or refusal.
        writes: the writes that store the moves and their alarms.
    """

    entry: Entry
    outcomes: tuple[Moved | Impossible, ...]
    writes: tuple[PutPayment | RaiseAlarm | AcknowledgeAlarms, ...]

    @property
    def moved(self) -> bool:
        """Whether the table allowed all facts."""
        return all(isinstance(outcome, Moved) for outcome in self.outcomes)


def plan(entry: Entry, facts: Sequence[Fact], now: int) -> Planned:
    """Decide the moves of an entry for these facts; the caller stores them."""
    outcomes: list[Moved | Impossible] = []
    for fact in facts:
        outcome = move(entry, fact, now)
        outcomes.append(outcome)
        entry = outcome.entry
    writes = [write for outcome in outcomes for write in writes_of(outcome, now)]
    return Planned(entry, tuple(outcomes), tuple(writes))


@final
class Entries:
    """All entries of a store.

    Args:
        rows: reads the rows.
        commit: stores all writes of a call, or none.
        now: the time of day in milliseconds.
        listen: called with each move once it is durable; must not raise.
        counts: number of moves by fact; several `Entries` may share one counter.
    """

    def __init__(
        self,
        rows: ReadPayments,
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
        """Return an entry as stored now; None if the payment doesn't exist."""
        row = await await_store(partial(self._rows.get, id_))
        return None if row is None else entry_of(row)

    async def add(self, entry: Entry, *facts: Fact, also: Sequence[Write] = ()) -> Entry:
        """Store a new entry, its first facts, and `also`, in one transaction.

        Raises:
            StaleRowError: the id exists already.
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
        """Apply facts to an entry, and store the moves with `also` in one transaction.

        A fact that the table refuses changes nothing, is counted, and raises an alarm; `also` is stored
        anyway.

        Args:
            may_fail: if the table refuses the facts, store nothing and raise no alarm, because the entry may
                have changed since the caller read it.
            taker: store nothing, and return None, if the entry has another taker.

        Returns:
            The moves; None if the entry doesn't exist, or has another taker.

        Raises:
            StaleRowError: another entry has the invoice id that the facts bring.
        """
        stale = -1
        while True:
            entry = await self.read(id_)
            if entry is None or taker not in (None, entry.taker):
                return None
            if entry.revision == stale:
                raise StaleRowError(id_)  # the revision is current: another row has the invoice's id
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
        """Apply facts to many entries, read just before, in one transaction.

        Returns:
            The entries that have changed since they were read; these entries are not moved.
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
        """Count durable moves and call `listen`; call this after a commit outside of `Entries`."""
        for outcome in planned.outcomes:
            self.counts[outcome.fact if isinstance(outcome, Moved) else "impossible"] += 1
            if isinstance(outcome, Moved):
                self._listen(outcome)


def moving(
    entries: Entries, id_: RefId, *facts: Fact, now: int, taker: Taker | None = None, may_fail: bool = False
) -> MovePayment:
    """Return a write that applies facts to an entry, like `Entries.move`.

    If the outcome of a commit is unknown, the write may be committed again: facts stored by the first commit
    aren't applied twice.
    """
    planned: Planned | None = None

    def move(row: PaymentRow | None) -> Sequence[Decided]:
        nonlocal planned
        try:
            entry = None if row is None else entry_of(row)
        except UnreadableRecordError:
            # Another version of the bot wrote the row. Raise an alarm for the operator, and don't block the
            # rest of the commit.
            text = f"payment {id_} can't be read by this version: {', '.join(map(_word, facts))}"
            return (RaiseAlarm("payment_unverified", id_, text, now),)
        if planned is not None and entry == planned.entry:
            return ()  # an earlier commit, with an unknown outcome, has already stored these moves
        planned = None
        if entry is not None and taker in (None, entry.taker):
            decided = plan(entry, facts, now)
            planned = None if may_fail and not decided.moved else decided
        return () if planned is None else planned.writes

    def committed() -> None:
        if planned is not None:
            entries.announce(planned)

    return MovePayment(id_, move, committed)


def opening(entries: Entries, entry: Entry, now: int) -> tuple[Entry, MovePayment]:
    """Return a new entry after the fact "send_begun", and the write that adds the entry to the store.

    The commit is refused if another owner has the number. The write does nothing if the entry exists already.
    """
    first = numbered(entry)
    planned = plan(first, [Plain("send_begun")], now)
    new = True

    def move(row: PaymentRow | None) -> Sequence[Decided]:
        nonlocal new
        new = row is None
        if row is None:
            return PutPayment(row_of(first), "made", now), *planned.writes
        if entry_of(row).owner != entry.owner:
            raise StaleRowError(entry.id)
        return ()

    def committed() -> None:
        if new:
            entries.announce(planned)

    return planned.entry, MovePayment(entry.id, move, committed)


def claiming(entries: Entries, entry: Entry, fact: Fact, now: int) -> tuple[Entry, MovePayment]:
    """Return an entry after a fact, and the write of that move; the commit fails if the entry has changed."""
    planned = plan(entry, [fact], now)

    def move(row: PaymentRow | None) -> Sequence[Decided]:
        if row is None or row.revision != entry.revision or not planned.moved:
            raise StaleRowError(entry.id)
        return planned.writes

    return planned.entry, MovePayment(entry.id, move, lambda: entries.announce(planned))


def _word(fact: Fact) -> str:
    return fact.name if isinstance(fact, Plain) else type(fact).__name__
