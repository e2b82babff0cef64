"""The author's code that runs with a store: the code's build, and the sites of the code's operations.

Each record has a site: the author's line from which the operation came. A revival with the same build
compares nothing; `changed` compares the journals of other builds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Final, final

from trio.lowlevel import current_task

from ...engine import Nursery, Record, Run
from ...engine.core import WITHIN
from ...engine.core import Operation as OpenOperation
from ...exact.sites import (
    AUTHORS,
    BORDER,
    SKIPPED,
    Sites,
    file_of,
    loaded_modules,
    read_file,
    shape_of,
)
from ...seams.journals import FITS, ConversationRow, Deployed, KeepCode
from ..routes.declarations import Table
from ..running.hooks import BORDERS
from ..running.lines import frames_of, is_authors, is_between
from .stored import note_shown, read_rests

if TYPE_CHECKING:
    from ...exact.verdicts import Comparison
    from ...seams.journals import AcceptedChange, StoredCode
    from ...store import Store
    from .changed import Changed
    from .stored import Stored

_CHILD: Final = Nursery._child.__code__  # pyright: ignore[reportPrivateUsage]
_BORDERS: Final = frozenset({Run.run_within.__code__, _CHILD, *BORDERS})


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
        self._comparison: Comparison | None = None
        self._accepted: Sequence[AcceptedChange] = ()

    @property
    def build(self) -> int:
        """Number of the build; changes with the bot's code and its libraries."""
        if (known := len(self.sites.present)) != self._build[0]:
            here = {(name, digest) for digest, (name, _) in self._here.items()}
            own = sorted(one for one in here if one[0] not in self._libraries)
            shown = repr((own, sorted(self._libraries.items()), self._sourceless)).encode("utf-8", "replace")
            self._build = known, int.from_bytes(blake2b(shown, digest_size=5).digest(), "big")
        return self._build[1]

    @property
    def _here(self) -> Mapping[str, tuple[str, str]]:
        return {**self._expected, **self.sites.present}

    def _shapes_without_source(self, table: Table) -> Sequence[str]:
        """Return the shapes of route functions without source, and of all functions in the modules of these
        functions.
        """
        functions = [one for one in table.functions if isinstance(one, FunctionType)]
        without = [one for one in functions if not self.sites.has_source(one.__code__)]
        beside = [one for function in without for one in function.__globals__.values()]
        shapes = {shape_of(one.__code__) for one in (*without, *beside) if isinstance(one, FunctionType)}
        return sorted(shapes)

    async def begin(self, store: Store, now: int) -> KeepCode | None:
        """Return the current build's sources and sites that the store doesn't have yet.

        Return None if the store's last build is the current build.
        """
        known = await store.code.all()
        self._kept = set(known.sources)
        last = known.deployed[-1] if known.deployed else None
        loaded = {name for name, _ in self.sites.present.values()}
        ran = () if last is None else last.sources
        before = {name for digest, (name, _) in known.sources.items() if digest in ran}
        for name in before - loaded:
            digest, text = read_file(file) if is_authors(file := file_of(name)) else ("", "")
            self._expected |= {digest: (name, text)} if text else {}
        self._build = -1, 0
        if any(one.build != self.build for one in known.deployed):
            self._learn(known)  # loads modules now: a deploy may replace the files of a running process
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
        return KeepCode(tuple(new), tuple(sites), deployed)

    def place(self, operations: Iterable[OpenOperation], stored: Stored) -> None:
        """Set the sites of the replay's open operations, from the row or else from the tasks' frames."""
        rests = read_rests(stored.row, stored.records)
        for op in operations:
            known = rests.get(op.id)
            if known is not None:
                note_shown(op, known)
            if op.sites or op.nature is WITHIN:
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
        read_rests(row, records)  # raises for an unreadable row, also if no comparison follows
        if row.build in (self.build, FITS):
            return None
        comparison = self._comparison
        if comparison is None or row.parked_because is not None:
            comparison = self._learn(await store.code.all())
        from .changed import Changed

        return Changed(comparison, row, records)

    def _learn(self, known: StoredCode) -> Comparison:
        if self._comparison is None or known.accepted != self._accepted:
            from .changed import comparison_with  # imported here: with unchanged code, nothing is compared

            self._comparison = comparison_with(self.sites, self.formerly, known)
            self._accepted = known.accepted
        return self._comparison
