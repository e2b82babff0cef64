"""The path of each turn: which of the author's lines ran in it, found by running a journal once more.

This run is traced, and takes a few times as long as a pass; so it is made when the paths are asked for, in a
process that is not the bot's. A recorded step does not run again: its lines are in no path.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias, final

from ...conversations.inspection.rerun import open_rerun
from ...conversations.revival.stored import Stored
from ...conversations.routes.declarations import Table
from ...conversations.running.branches import Onlooker
from ...conversations.running.leash import Leash
from ...conversations.services import Services
from ...engine import Run
from ...engine.records import TURNS
from ...errors import TriobotError
from .passes import LIMIT, cut_after

MOST: Final = 500
"""Lines of a turn that are told: the first ones."""

Path: TypeAlias = Sequence[tuple[int, int]]
"""Lines of one turn in the order in which they first ran: the source's number, and the line's."""


async def paths_of(
    services: Services,
    table: Table,
    stored: Stored,
    number_of: Callable[[str], int | None],
    seconds: float = LIMIT,
) -> Sequence[Path]:
    """Run a journal again, dry, and return the path of each turn: as many as a pass has notches.

    Args:
        services: dry ones.
        number_of: tells by which number a file is known; None for one whose lines are not told.
        seconds: that it may take; the turns behind have no lines then.
    """
    tracer = _LineTracer(number_of, 1 + sum(record[0] in TURNS for record in stored.records))
    leash = Leash(seconds)
    with cut_after(leash), tracer.tracing(), suppress(TriobotError):  # one that can't be run has no lines
        async with open_rerun(services, table, stored, look=tracer, leash=leash):
            tracer.stop()
    return tracer.paths


@final
class _LineTracer(Onlooker):
    """Notes the lines that run, and puts them down to the turn in which they do.

    Attributes:
        paths: of the turns, from the first.
    """

    def __init__(self, number_of: Callable[[str], int | None], turns: int) -> None:
        self.paths: list[list[tuple[int, int]]] = [[] for _ in range(turns)]
        self._number_of = number_of
        self._sources: dict[CodeType, int | None] = {}
        self._ran: dict[tuple[int, int], None] = {}
        self._turn = -1

    @contextmanager
    def tracing(self) -> Generator[None]:
        """Trace what runs in this thread while the block does."""
        before = sys.gettrace()
        sys.settrace(self._calls)
        try:
            yield
        finally:
            sys.settrace(before)
            self.stop()

    def stop(self) -> None:
        """Put down what ran since the last look to the next turn, and note nothing more."""
        self._rests(self._turn + 1)
        self._turn = len(self.paths)

    def _rests(self, turn: int) -> None:
        if self._turn < turn < len(self.paths):
            self._turn = turn
            self.paths[turn].extend(self._ran)
        self._ran = {}

    def _calls(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code not in self._sources:
            self._sources[code] = self._number_of(code.co_filename)
        source = self._sources[code]
        if source is None:
            return None
        # A coroutine that goes on does so in the middle of a line.
        if frame.f_lineno != code.co_firstlineno:
            self._note(source, frame.f_lineno)
        return self._goes_on

    def _goes_on(self, frame: FrameType, event: str, _: Any) -> Any:
        source = self._sources[frame.f_code]
        if event == "line" and source is not None:
            self._note(source, frame.f_lineno)
        return self._goes_on

    def _note(self, source: int, line: int) -> None:
        if len(self._ran) < MOST:
            self._ran[source, line] = None

    # --- looking on

    def looks(self, run: Run) -> None:
        """Put down what ran to the turn that has come to rest."""
        if run.cursor <= self._turn:
            return
        self._rests(run.cursor)
        # What is given its next result without a pause goes on in the line in which it is.
        for frame, line in reversed([*traceback.walk_stack(None)]):
            source = self._sources.get(frame.f_code)
            if source is not None:
                self._note(source, line)
