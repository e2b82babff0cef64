"""Entries in the store, moved by compare-and-set; nothing is announced before it is durable.

Waits for nothing but the store it is given, so that a simulation can run it as it is.

A move may be stored together with what a conversation records: it is decided in the transaction that does it.
Whoever stores such a move shares the commit with others, and goes on before it is durable; so it can't read
the entry again and repeat when that has moved meanwhile, as `Books.move` does. Here the entry is read in the
very transaction, where nothing comes in between, and moves from where it is then. What these give is called
in the store's thread: it has the time and everything else with it, and waits for nothing.
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
        """Read one entry as it is now; None if there is none."""
        row = await await_store(partial(self._rows.get, id_))
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


def moving(
    books: Books,
    id_: RefId,
    *facts: Fact,
    now: int,
    taker: Taker | None = None,
    may_fail: bool = False,
) -> MovePayment:
    """Let these facts happen to an entry; as `Books.move`.

    It may be stored once more, by whoever doesn't know whether it was: what has happened doesn't again.
    """
    planned: Planned | None = None

    def move(row: PaymentRow | None) -> Sequence[Decided]:
        nonlocal planned
        try:
            entry = None if row is None else entry_of(row)
        except UnreadableRecordError:
            # Another version's: whoever comes with it must not be held up, and somebody has to look.
            text = f"payment {id_} can't be read by this version: {', '.join(map(_word, facts))}"
            return (RaiseAlarm("payment_unverified", id_, text, now),)
        if planned is not None and entry == planned.entry:
            return ()  # the commit of which nobody heard has taken effect
        planned = None
        if entry is not None and taker in (None, entry.taker):
            decided = plan(entry, facts, now)
            planned = None if may_fail and not decided.moved else decided
        return () if planned is None else planned.writes

    def committed() -> None:
        if planned is not None:
            books.announce(planned)

    return MovePayment(id_, move, committed)


def opening(books: Books, entry: Entry, now: int) -> tuple[Entry, MovePayment]:
    """Write an entry first, on its way to the platform; also gives it as it is then.

    The commit is refused if its number is somebody else's; nothing happens if it is there already.
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
            books.announce(planned)

    return planned.entry, MovePayment(entry.id, move, committed)


def claiming(books: Books, entry: Entry, fact: Fact, now: int) -> tuple[Entry, MovePayment]:
    """Let a fact happen to an entry as it is, or refuse the commit; also gives what it is then."""
    planned = plan(entry, [fact], now)

    def move(row: PaymentRow | None) -> Sequence[Decided]:
        if row is None or row.revision != entry.revision or not planned.moved:
            raise StaleRowError(entry.id)
        return planned.writes

    return planned.entry, MovePayment(entry.id, move, lambda: books.announce(planned))


def _word(fact: Fact) -> str:
    return fact.name if isinstance(fact, Plain) else type(fact).__name__
