"""The recorded part of a conversation: its journal with a cursor, and the rows beside it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

from ..errors import UnreadableRecordError
from .records import (
    Continued,
    Done,
    Ended,
    Fired,
    Intended,
    Interrupted,
    Noted,
    OperationId,
    Outcome,
    Patched,
    Record,
    Result,
    Resumed,
    Row,
    Start,
    Unended,
)

_CUTS: Final = (Fired, Interrupted)
_BESIDE: Final = (Patched, Noted, Unended, Resumed)


def _views(records: Sequence[Record]) -> dict[int, Mapping[str, str]]:
    """What turns began with that ran once more, by their places among the turns."""
    views: dict[int, Mapping[str, str]] = {}
    newest, torn = -2, -2  # the start is none
    for record in records:
        newest += not isinstance(record, _BESIDE)
        if isinstance(record, Unended):
            torn = newest
        elif isinstance(record, Resumed) and record.data is not None:
            views[torn] = record.data  # what cut the turn, or a jump of the clock, may be between the two
    return views


@final
class History:
    """What happened so far.

    Attributes:
        start: the first record.
        patches: what the code asked for, and got.
        unpatched: what this code asked for where none was recorded.
        notes: what it asked for in the middle of a turn.
        asked: those of them that this code has asked for, too.
        unended: the last turn may have ended nowhere: what it did beside its operations is not done.
        results: outcomes of effects that are known, while their turns may not have come.
        intended: effects that were about to leave.
    """

    def __init__(self, records: Sequence[Record], rows: Iterable[Row] = ()) -> None:
        if not records or not isinstance(first := records[0], Start):
            raise UnreadableRecordError("a journal begins with its start")
        rest = records[1:]
        self.start = first
        self.patches = {record.patch for record in rest if isinstance(record, Patched)}
        self.unpatched: set[str] = set()
        self.notes = {record.id: record for record in rest if isinstance(record, Noted)}
        self.asked: set[OperationId] = set()
        self._turns = [record for record in rest if not isinstance(record, _BESIDE)]
        self.unended = isinstance(records[-1], Unended)
        self._views = _views(records)
        self._cursor = 0
        cuts = [place for place, record in enumerate(self._turns) if isinstance(record, _CUTS)]
        self._last_cut = cuts[-1] if cuts else -1
        self._kinds = {record.id: record.kind for record in self._turns if isinstance(record, Done)}
        self._done = frozenset(self._kinds)
        self.results: dict[OperationId, Outcome] = {}
        self.result_times: dict[OperationId, int] = {}
        self.intended: dict[OperationId, Intended] = {}
        for row in rows:
            match row:
                case Result():
                    self.results[row.id] = row.outcome
                    self.result_times[row.id] = row.time
                case Intended():
                    self.intended[row.id] = row
                    self._kinds.setdefault(row.id, row.kind)

    @property
    def exhausted(self) -> bool:
        """Whether everything recorded has been given."""
        return self._cursor >= len(self._turns)

    @property
    def given(self) -> int:
        """How many turns have been given."""
        return self._cursor

    @property
    def next(self) -> Record | None:
        """The next turn's record."""
        return self._turns[self._cursor] if self._cursor < len(self._turns) else None

    @property
    def view(self) -> Mapping[str, str] | None:
        """What the chat kept when the next turn began, if that is said here."""
        return self._views.get(self._cursor)

    def resume(self, data: Mapping[str, str] | None) -> None:
        """The last turn, which is `unended`, begins with this."""
        if self.unended and data is not None:
            self._views[len(self._turns) - 1] = data

    def advance(self) -> None:
        """The next record has been given."""
        self._cursor += 1

    def went_the_old_way(self, patch: str) -> bool:
        """Whether what is recorded was done without this patch, which it had not been asked for."""
        if not self.exhausted:
            # For good: what went the old way once goes it everywhere, or the next replay would not fit.
            self.unpatched.add(patch)
        return patch in self.unpatched

    @property
    def cuts_soon(self) -> bool:
        """Whether a scope is cancelled in the next turn, or at the beginning of it."""
        return self._cursor <= self._last_cut and any(
            isinstance(record, _CUTS) for record in self._turns[self._cursor : self._cursor + 2]
        )

    @property
    def ended(self) -> bool:
        """Whether the last record says that it is over."""
        return bool(self._turns) and isinstance(self._turns[-1], Ended | Continued)

    def is_done(self, id: OperationId) -> bool:
        """Whether an operation's outcome is among the turns."""
        return id in self._done

    def kind_of(self, id: OperationId) -> str | None:
        """As what an operation is known."""
        return self._kinds.get(id)

    def unfinished(self) -> dict[OperationId, str]:
        """Effects that are known to have begun, and have no outcome in the journal: id to kind, if known."""
        begun = (*self.results, *self.intended)
        return {id: self._kinds.get(id, "") for id in begun if id not in self._done}
