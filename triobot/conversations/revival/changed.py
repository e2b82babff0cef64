"""Comparison of a journal with code that has changed since the journal was recorded.

The first revival with another build compares each record's site with the line that performs the operation
now. A conversation whose journal fits the current code goes on, and belongs to the current build from then
on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from ...engine import Record
from ...engine.core import Operation as OpenOperation
from ...engine.records import START, Id, time_of
from ...exact.sites import Sites
from ...exact.sources import Source, read_source
from ...exact.verdicts import NO_OPTION, Comparison, Judge, Side
from ...seams.journals import ConversationRow, StoredCode
from ...wire.events import Event
from ...wire.operations import Operation
from ..running.branches import prints_of
from .stored import note_shown, read_rests, sites_of


def comparison_with(sites: Sites, formerly: Mapping[str, str], known: StoredCode) -> Comparison:
    """Return the comparison of a store's old code with the current code.

    Args:
        sites: sites of the current code.
        formerly: current names of functions by their former names.
    """
    sites.know(known.sites)
    builds = {one.at: frozenset(one.sources) for one in known.deployed}
    accepted = [(one.function, one.was, one.now) for one in known.accepted]

    def source_of(digest: str) -> Source | None:
        return read_source(*known.sources[digest]) if digest in known.sources else None

    return Comparison(sites, builds, source_of, formerly, accepted)


@final
class Changed:
    """Comparison of one conversation's journal with changed code.

    Attributes:
        judge: compares operations, and collects the differences.
        rests: the operations at which the conversation waited, by id.
        again: whether a waiting question's message shows other buttons than the current code would.
        took: the event that the newest wait has taken.
    """

    def __init__(self, comparison: Comparison, row: ConversationRow, records: Sequence[Record]) -> None:
        self.judge = Judge(comparison)
        self.sites = comparison.sites
        self.rests = read_rests(row, records)
        self.again = False
        self.took: Event | None = None
        self._row = row
        self._sent: dict[Id, Operation[object]] = {}

    def prepare(self, records: Sequence[Record]) -> None:
        """Match the records' sources with the current sources; takes seconds after a large change."""
        for record in records:
            if record[0] != START and (sites := sites_of(record)):
                self.judge.prepare(sites[-1], time_of(record))

    def sends(self, id: Id, operation: Operation[object]) -> None:
        """Remember an operation's request until the operation's record is compared."""
        self._sent[id] = operation

    def parting(self, record: Record, op: OpenOperation) -> str | None:
        """Compare a record with the current code's operation `op`; return the difference, or None."""
        recorded = Side(record[2], record[3], record[4], sites_of(record))
        sent = self._sent.pop(op.id, None)
        print_of = None if sent is None or not hasattr(sent, "content") else prints_of(sent)
        found = self.judge.compare(time_of(record), recorded, compared(op), print_of)
        return None if found is None else str(found)

    def part_at_option(self, option: object) -> str:
        """Report that the current code no longer offers the chosen `option`; return the report's text."""
        return str(self.judge.part(NO_OPTION.format(repr(option))))

    def standing(self, operations: Sequence[OpenOperation]) -> str | None:
        """Compare the stored waiting operations (`rests`) with the current code's `operations`.

        Return a description of the first difference, or None.
        """
        now = {op.id: op for op in operations}
        for id, rested in self.rests.items():
            recorded = Side(id, rested.kind, "", rested.sites)
            if (op := now.get(id)) is None and self._row.unfinished and rested.kind == "within":
                continue  # the last stored outcome has ended this operation, which has no record of its own
            at, op = self._row.updated_at, op or next(iter(operations), None)
            found = self.judge.compare_standing(at, recorded, None if op is None else compared(op))
            if found is not None:
                return str(found)
            self.again = (op is not None and note_shown(op, rested)) or self.again
        return None


def compared(op: OpenOperation) -> Side:
    """Convert an operation of the current code to the form that the judge compares."""
    sites = op.sites
    return Side(op.id, op.kind, op.print, sites if isinstance(sites, list) else [sites] if sites else [])
