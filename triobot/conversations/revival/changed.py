"""Comparison of a journal with code that may have changed since the journal was recorded.

Each record has a site: the author's line from which the operation came. A revival with the same build
compares nothing. The first revival with another build compares each record's site with the line that performs
the operation now. A conversation that fits goes on, and belongs to the current build from then on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

import attrs
from trio.lowlevel import current_task

from ...base.frozen import guarded
from ...engine import Nursery, Record, Run
from ...engine.core import Nature
from ...engine.core import Operation as OpenOperation
from ...engine.records import START, TURNS, Id, time_of
from ...exact.sites import (
    AUTHORS,
    BORDER,
    SKIPPED,
    KnownSite,
    SiteLink,
    Sites,
    file_of,
    loaded_modules,
    read_file,
    read_source,
    shape_of,
)
from ...exact.sources import Source
from ...exact.verdicts import Build, Comparison, Judge, Told
from ...seams.journals import ConversationRow, Deployed, KeepCode, StoredCode
from ...seams.values import reading
from ...wire.events import Event
from ...wire.operations import Operation
from ..routes.declarations import Table
from ..routes.routing import Wait
from ..running.branches import prints_of
from ..running.hooks import BORDERS
from ..running.lines import frames_of, is_authors, is_between

if TYPE_CHECKING:
    from ...exact.alignment import Accepted
    from ...store import Store
    from .stored import Stored

_PLACE: Final = 7
"""Index of the sites in a record."""
_CHILD: Final = Nursery._child.__code__  # pyright: ignore[reportPrivateUsage]
_BORDERS: Final = frozenset({Run.run_within.__code__, _CHILD, *BORDERS})

SourceOf: TypeAlias = Callable[[str], str | None]


def _kind_of(code: CodeType) -> int:
    if code in _BORDERS:
        return BORDER
    return SKIPPED if is_between(code.co_filename) else AUTHORS


@cache
def _size_of(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except OSError:
        return 0


@final
class Code:
    """The author's code that runs with one store.

    Args:
        table: the routes.

    Attributes:
        sites: sites of operations, found as the operations run.
        formerly: current names of functions by their former names.
    """

    def __init__(self, table: Table) -> None:
        self.sites = Sites(_kind_of)
        loaded = [(name, file) for name, file in loaded_modules() if not is_between(file)]
        own = [(name, file) for name, file in loaded if is_authors(file)]
        self.sites.read(own)
        # A library's source is not compared: the size of the file identifies the version.
        self._libraries = {name: _size_of(file) for name, file in {*loaded} - {*own}}
        self._sourceless = self._shapes_without_source(table)
        # Modules of the store's last build that are not imported yet.
        self._expected: dict[str, tuple[str, str]] = {}
        self.formerly = {
            former: f"{route.handler.__module__}.{route.handler.__qualname__}"
            for route in table.routes
            for former in route.formerly
            if hasattr(route.handler, "__qualname__")
        }
        self._build = -1, 0
        self._since = 0
        self._kept: set[str] = set()
        self._texts: dict[str, str | None] = {}
        self._known: StoredCode | None = None
        self._comparison: Comparison | None = None

    @property
    def build(self) -> int:
        """Number of the build; changes with the bot's code and its libraries."""
        if (known := len(self.sites.present)) != self._build[0]:
            here = {(name, digest) for digest, (name, _) in self._here.items()}
            told = sorted(one for one in here if one[0] not in self._libraries)
            shown = repr((told, sorted(self._libraries.items()), self._sourceless)).encode("utf-8", "replace")
            self._build = known, int.from_bytes(blake2b(shown, digest_size=5).digest(), "big")
        return self._build[1]

    @property
    def _here(self) -> Mapping[str, tuple[str, str]]:
        return {**self._expected, **self.sites.present}

    def _shapes_without_source(self, table: Table) -> Sequence[str]:
        """Return shapes of functions without source: of the routes, and of their modules' other functions."""
        functions = [one for one in table.functions if isinstance(one, FunctionType)]
        without = [one for one in functions if not self.sites.has_source(one.__code__)]
        beside = [one for function in without for one in function.__globals__.values()]
        shapes = {shape_of(one.__code__) for one in (*without, *beside) if isinstance(one, FunctionType)}
        return sorted(shapes)

    async def begin(self, store: Store, now: int) -> KeepCode | None:
        """Return the parts of the current code that the store doesn't have yet; None if there are none."""
        known = await store.code()
        self._kept = set(known.sources)
        last = known.deployed[-1] if known.deployed else None
        loaded = {name for name, _ in self.sites.present.values()}
        before = {known.sources.get(digest, "") for digest in (last.sources if last is not None else ())}
        for name in before - loaded:
            digest, text = read_file(file) if is_authors(file := file_of(name)) else ("", "")
            self._expected |= {digest: (name, text)} if text else {}
        self._build = -1, 0
        if last is not None and last.build == self.build:
            self._since = last.at
            return None
        # The clock may have been set back; the newest build must have the latest time.
        self._since = max(now, 0 if last is None else last.at + 1)
        return self.unkept()

    def unkept(self) -> KeepCode:
        """Return the sites and the sources that the store doesn't have yet."""
        sites, self.sites.unkept = self.sites.unkept, []
        here = self._here
        new = [(digest, *found) for digest, found in here.items() if digest not in self._kept]
        self._kept.update(here)
        deployed = Deployed(self._since, self.build, tuple(here)) if new or not sites else None
        rows = tuple((one.number, one.before, *one.link[:2], *one.link.place) for one in sites)
        return KeepCode(tuple(new), rows, deployed)

    def place(self, operations: Iterable[OpenOperation], stored: Stored) -> None:
        """Set the sites of operations that a replay began, from the row or from the waiting frames."""
        rests = read_rests(stored.row, stored.records)
        for op in operations:
            known = rests.get(op.id)
            if known is not None:
                note_shown(op, known)
            if op.sites or op.nature is Nature.WITHIN:
                continue
            if known is not None and known.kind in ("", op.kind):
                op.sites = known.sites[0] if len(known.sites) == 1 else list(known.sites)
            elif op.task is current_task():
                op.sites = self.sites.here(op.branch.root)
            else:
                frames = (frame for frame, _ in reversed(frames_of(op.task)))
                op.sites = self.sites.of_frames(frames, op.branch.root)

    async def compare(self, store: Store, row: ConversationRow, records: Sequence[Record]) -> Changed | None:
        """Return a comparison of a journal with the current code; None for the current build's journal."""
        read_rests(row, records)  # the current build's row must be checked, too, before the run
        if row.build == self.build:
            return None
        known = self._known
        if known is None or row.parked_because is not None:
            known = await store.code()
            if self._known is None or known.accepted != self._known.accepted:
                self._comparison = None
            self._known = known
        if self._comparison is None:
            self._comparison = self.comparison(known, self._texts.get)
        for digest in self._comparison.needed(_sites_in(records, row)):
            if digest not in self._texts:
                self._texts[digest] = await store.source(digest)
        return Changed(self._comparison, row, records)

    def comparison(self, known: StoredCode, text_of: SourceOf) -> Comparison:
        """Return the comparison of a store's old code with the current code.

        Args:
            text_of: returns a stored source by its digest.
        """
        self.sites.know(KnownSite(row[0], row[1], SiteLink(row[2], row[3], row[4:])) for row in known.sites)
        builds = [Build(one.at, one.at, frozenset(one.sources)) for one in known.deployed]
        accepted: list[Accepted] = [(one.function, one.was, one.now) for one in known.accepted]

        def source_of(digest: str) -> Source | None:
            text = text_of(digest)
            return None if text is None else read_source(known.sources[digest], text)

        return Comparison(self.sites, builds, source_of, self.formerly, accepted)


def sites_of(record: Record) -> Sequence[int]:
    """Return the sites of a record, its own site last; empty for some records of older versions."""
    found: int | list[int] = record[_PLACE] if len(record) > _PLACE else 0
    return found if isinstance(found, list) else [found] if found else []


def _sites_in(records: Sequence[Record], row: ConversationRow) -> set[int]:
    found = {site for record in records if record[0] != START for site in sites_of(record)}
    return found.union(*(one.sites for one in read_rests(row, records).values()))


@final
@guarded
class Rested:
    """Operation at which a conversation waited when the conversation's row was stored.

    Attributes:
        kind: kind of the operation; empty if unknown.
        keys: digest of the button keys that a question showed; empty for a question without buttons.
    """

    id: Id
    kind: str
    sites: Sequence[int]
    keys: str = ""


def write_rests(position: int, operations: Sequence[OpenOperation], last: object) -> str | None:
    """Encode, for a conversation's row, the operations that it waits at; None if the journal implies them.

    The journal implies a single waiting operation with the last record's site, as in an `ask`, and a single
    running effect.

    Args:
        position: the next record's position. Readers ignore a row with another position: an older version
            wrote it.
        last: sites of the last record.
    """
    if len(operations) == 1:
        (op,) = operations
        if op.nature is Nature.EFFECT or (op.sites == last and type(op.id) is int and not _keys_of(op)):
            return None
    told = [
        f'[{op.id if type(op.id) is int else json.dumps(op.id)},"{op.kind}",{op.sites},"{_keys_of(op)}"]'
        for op in operations
        if op.sites
    ]
    return f"[{position},[{','.join(told)}]]" if told else None


def moved_rests(position: int, stored: Stored) -> str | None:
    """Encode the stored waiting operations for a new position. No newer record has changed the operations."""
    told = [attrs.astuple(one) for one in read_rests(stored.row, stored.records).values()]
    return json.dumps((position, told)) if told else None


def _keys_of(op: OpenOperation) -> str:
    wait = op.takes
    return wait.shown if isinstance(wait, Wait) else ""


def digest_of_keys(keys: Iterable[str]) -> str:
    """Return a digest of button keys, independent of the order."""
    return blake2b("\n".join(sorted(keys)).encode("utf-8", "replace"), digest_size=6).hexdigest()


def note_shown(op: OpenOperation, rested: Rested) -> bool:
    """Store which buttons of a question are on the screen; return whether the question's own keys differ."""
    wait = op.takes
    if not (isinstance(wait, Wait) and wait.keys and rested.keys):
        return False
    wait.shown = rested.keys
    return wait.shown != wait.keys


@reading("what is stored of where it stands")
def read_rests(row: ConversationRow, records: Sequence[Record]) -> Mapping[Id, Rested]:
    """Return the operations at which a conversation waited, by id.

    Raises:
        UnreadableRecordError: the row's entry can't be decoded.
    """
    position, told = cast("tuple[int, list[tuple[Id, str, Any, str]]]", json.loads(row.rests or "[0,[]]"))
    if not told or position != row.position:
        last = next((one for one in reversed(records) if one[0] in TURNS), None)
        if row.unfinished or last is None or type(last[2]) is not int or len(sites := sites_of(last)) != 1:
            return {}
        return {last[2] + 1: Rested(last[2] + 1, "", sites)}
    return {
        id: Rested(id, kind, cast("list[int]", sites) if isinstance(sites, list) else [sites], keys)
        for id, kind, sites, keys in told
    }


@final
class Changed:
    """Comparison of one conversation's journal with changed code.

    Attributes:
        judge: the comparer, with its findings.
        rests: the operations at which the conversation waited.
        again: Whether a question on the screen has other buttons now.
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
        """Match the sources of the builds that made these records; takes seconds after a large change."""
        for record in records:
            if record[0] != START and (sites := sites_of(record)):
                self.judge.prepare(sites[-1], time_of(record))

    def sends(self, id: Id, operation: Operation[object]) -> None:
        """Remember the request of an operation, until its record is compared."""
        self._sent[id] = operation

    def parting(self, record: Record, op: OpenOperation) -> str | None:
        """Compare a record with the current operation at its place; return the difference, or None."""
        recorded = Told(record[2], record[3], record[4], sites_of(record))
        sent = self._sent.pop(op.id, None)
        print_of = None if sent is None or not hasattr(sent, "content") else prints_of(sent)
        found = self.judge.compare(time_of(record), recorded, told_of(op), print_of)
        return None if found is None else str(found)

    def standing(self, operations: Sequence[OpenOperation]) -> str | None:
        """Compare the stored waiting operations with the current operations; return a difference, or None."""
        now = {op.id: op for op in operations}
        for id, rested in self.rests.items():
            recorded = Told(id, rested.kind, "", rested.sites)
            if (op := now.get(id)) is None and self._row.unfinished and rested.kind == "within":
                continue  # the last stored outcome has ended this wait, and no record mentions it
            at, op = self._row.updated_at, op or next(iter(operations), None)
            found = self.judge.compare_standing(at, recorded, None if op is None else told_of(op))
            if found is not None:
                return str(found)
            self.again = (op is not None and note_shown(op, rested)) or self.again
        return None


def told_of(op: OpenOperation) -> Told:
    """Return an operation, as it begins now, in the form that is compared."""
    sites = op.sites
    return Told(op.id, op.kind, op.print, sites if isinstance(sites, list) else [sites] if sites else [])
