"""Moves that are stored together with what a conversation records: decided in the transaction that does it.

Whoever stores such a move shares the commit with others, and goes on before it is durable; so it can't read
the entry again and repeat when that has moved meanwhile, as `Books.move` does. Here the entry is read in the
very transaction, where nothing comes in between, and moves from where it is then. What these give is called
in the store's thread: it has the time and everything else with it, and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, final

from ..errors import StaleRowError, UnreadableRecordError
from ..journals import KeepResult
from ..money import Decided, MovePayment, PaymentRow, PutPayment, RaiseAlarm
from ..wire.ids import RefId
from .books import Books, Planned, plan
from .entry import Entry, Taker
from .facts import Fact, Plain
from .records import entry_of, numbered, row_of

Keep: TypeAlias = Callable[[Entry | None], Sequence[KeepResult]]
"""What is to be recorded of a move: of the entry behind it, or None if it did not happen."""


def moving(
    books: Books,
    id_: RefId,
    *facts: Fact,
    now: int,
    taker: Taker | None = None,
    may_fail: bool = False,
    keep: Keep = lambda entry: (),
) -> MovePayment:
    """Let these facts happen to an entry; as `Books.move`.

    It may be stored once more, by whoever doesn't know whether it was: what has happened doesn't again.
    """
    return _Later(books, id_, facts, now, taker, may_fail, keep).write


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


@final
class _Later:
    """One move, and what the last transaction made of it."""

    def __init__(
        self,
        books: Books,
        id_: RefId,
        facts: Sequence[Fact],
        now: int,
        taker: Taker | None,
        may_fail: bool,
        keep: Keep,
    ) -> None:
        self._books = books
        self._id = id_
        self._facts = facts
        self._now = now
        self._taker = taker
        self._may_fail = may_fail
        self._keep = keep
        self._planned: Planned | None = None
        self.write = MovePayment(id_, self._move, self._committed)

    def _move(self, row: PaymentRow | None) -> Sequence[Decided]:
        try:
            entry = None if row is None else entry_of(row)
        except UnreadableRecordError:
            # Another version's: whoever comes with it must not be held up, and somebody has to look.
            text = f"payment {self._id} can't be read by this version: {', '.join(map(_word, self._facts))}"
            alarm = RaiseAlarm("payment_unverified", self._id, text, self._now)
            return alarm, *self._keep(None)
        if self._planned is not None and entry == self._planned.entry:
            return self._keep(entry)  # the commit of which nobody heard has taken effect
        self._planned = self._plan(entry)
        if self._planned is None:
            return self._keep(None)
        happened = self._planned.moved
        return *self._planned.writes, *self._keep(self._planned.entry if happened else None)

    def _plan(self, entry: Entry | None) -> Planned | None:
        if entry is None or self._taker not in (None, entry.taker):
            return None
        planned = plan(entry, self._facts, self._now)
        return None if self._may_fail and not planned.moved else planned

    def _committed(self) -> None:
        if self._planned is not None:
            self._books.announce(self._planned)


def _word(fact: Fact) -> str:
    return fact.name if isinstance(fact, Plain) else type(fact).__name__
