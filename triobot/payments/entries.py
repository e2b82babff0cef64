"""Entries in the store: each move is decided inside the transaction that stores it, and announced once
it is durable.

The module waits only for the store, so a simulation can use the module unchanged.

A move's write reads the entry and decides the move inside the transaction, so no other move can happen
between reading and writing. Therefore a move may be part of a commit that can't be retried, because the
commit also stores the records of several conversations. The store calls the functions of these writes in its
own thread. The functions get everything as values, including the time, and never wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, final

from ..base.frozen import guarded
from ..errors import UnreadableRecordError
from ..seams.money import AcknowledgeAlarms, Decided, MovePayment, PaymentRow, PutPayment, RaiseAlarm
from ..seams.patience import await_store
from ..seams.writes import StaleRowError, Write
from ..store import ReadPayments
from ..wire.ids import ChatId, RefId
from .entry import Entry, State, Taker
from .facts import Fact, Plain
from .ledger import Impossible, Moved, move
from .records import entry_of, numbered, row_of, writes_of


class Commit(Protocol):
    """`triobot.store.Store.commit`."""

    def __call__(self, *writes: Write) -> Awaitable[None]: ...


_PAGE: Final = 64

Listen: TypeAlias = Callable[[Moved], None]


@final
@guarded
class Planned:
    """Moves of one entry that are decided but not stored yet.

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
    """Decide the moves of an entry for these facts; the caller stores the moves."""
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
            StaleRowError: another owner's entry has the id, or another entry has the invoice id.
        """
        added, write = opening(self, entry, self._now(), facts)
        await self._commit(*also, write)
        return added

    async def move(
        self,
        id_: RefId,
        *facts: Fact,
        also: Sequence[Write] = (),
        may_fail: bool = False,
        taker: Taker | None = None,
    ) -> Planned | None:
        """Apply facts to an entry, and store the moves with `also` in one transaction; see `moving`.

        Returns:
            The moves; None if nothing but `also` was stored.

        Raises:
            StaleRowError: another entry has the invoice id that a fact contains.
        """
        stored: list[Planned] = []
        now = self._now()
        write = moving(self, id_, *facts, now=now, taker=taker, may_fail=may_fail, stored=stored)
        await self._commit(*also, write)
        return next(iter(stored), None)

    def pages(
        self, states: Sequence[State], *, chat_id: ChatId | None = None, before: int | None = None
    ) -> Pages:
        """Return an iterator over the entries in these states; the iterator reads a page at a time."""
        find = partial(self._rows.find, states=states, chat_id=chat_id, before=before, limit=_PAGE)
        return Pages(lambda after: await_store(partial(find, after=after)))

    def announce(self, planned: Planned) -> None:
        """Count durable moves and pass each move to `listen`; needed after a commit by other code."""
        for outcome in planned.outcomes:
            self.counts[outcome.fact if isinstance(outcome, Moved) else "impossible"] += 1
            if isinstance(outcome, Moved):
                self._listen(outcome)


@final
class Pages:
    """Iterator over entries, a page at a time.

    Between two pages, the iterator keeps no transaction or cursor open in the store.

    Args:
        find: reads the page that follows a given entry.
    """

    def __init__(self, find: Callable[[RefId | None], Awaitable[Sequence[PaymentRow]]]) -> None:
        self._find = find
        self._after: RefId | None = None

    def __aiter__(self) -> Pages:
        return self

    async def __anext__(self) -> list[Entry]:
        page = await self._find(self._after)
        if not page:
            raise StopAsyncIteration
        self._after = page[-1].id
        return [entry_of(row) for row in page]


def moving(
    entries: Entries,
    id_: RefId,
    *facts: Fact,
    now: int,
    taker: Taker | None = None,
    may_fail: bool = False,
    revision: int | None = None,
    stored: list[Planned] | None = None,
) -> MovePayment:
    """Return a write that applies facts to an entry.

    A fact that the table refuses doesn't change the entry. The refusal is counted and raises an alarm; the
    other writes of the commit are stored anyway. After a commit with an unknown outcome, the write may be
    committed again: facts stored by the first commit aren't applied twice.

    Args:
        taker: the write does nothing if the entry has another taker.
        may_fail: if the table refuses the facts, the write does nothing and raises no alarm, because the
            entry may have changed since the caller read it.
        revision: the write does nothing if the entry has another revision.
        stored: list to which the write adds the moves that it stores.
    """
    planned: list[Planned] = [] if stored is None else stored

    def move(row: PaymentRow | None) -> Sequence[Decided]:
        before, planned[:] = planned[:], []
        if row is None or revision not in (None, row.revision):
            return ()
        try:
            entry = entry_of(row)
        except UnreadableRecordError:
            # Another version of the bot wrote the row. Raise an alarm for the operator, and don't block the
            # other writes of the commit.
            text = f"payment {id_} can't be read by this version: {', '.join(map(_word, facts))}"
            return (RaiseAlarm("payment_unverified", id_, text, now),)
        if before and entry == before[0].entry:
            planned[:] = before
            return ()  # an earlier commit, with an unknown outcome, has already stored these moves
        if taker not in (None, entry.taker):
            return ()
        decided = plan(entry, facts, now)
        if may_fail and not decided.moved:
            return ()
        planned[:] = [decided]
        return decided.writes

    def committed() -> None:
        for one in planned:
            entries.announce(one)

    return MovePayment(id_, move, committed)


def opening(
    entries: Entries, entry: Entry, now: int, facts: Sequence[Fact] = (Plain("send_begun"),)
) -> tuple[Entry, MovePayment]:
    """Apply the first facts to a new entry; return the entry, and the write that adds it to the store.

    The commit is refused if another owner's entry has the number. The write has no effect if the entry exists
    already.
    """
    first = numbered(entry)
    planned = plan(first, facts, now)
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
    """Apply a fact to an entry; return the entry, and the write that stores the move.

    The commit fails if the stored entry has another revision.
    """
    planned = plan(entry, [fact], now)

    def move(row: PaymentRow | None) -> Sequence[Decided]:
        if row is None or row.revision != entry.revision or not planned.moved:
            raise StaleRowError(entry.id)
        return planned.writes

    return planned.entry, MovePayment(entry.id, move, lambda: entries.announce(planned))


def _word(fact: Fact) -> str:
    return fact.name if isinstance(fact, Plain) else type(fact).__name__
