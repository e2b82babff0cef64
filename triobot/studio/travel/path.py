"""The path of each turn: the author's lines that ran in the turn, found by a traced replay.

A traced replay takes a few times as long as a pass. So a traced replay runs only when a path is requested,
and outside the bot's process. Steps aren't executed in a replay, so no path contains a step's lines.
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
from ...conversations.running.abandon import TimeLimit
from ...conversations.running.branches import Onlooker
from ...conversations.services import Services
from ...engine import Run
from ...engine.records import TURNS
from ...errors import TriobotError
from .passes import LIMIT, cut_after

MOST: Final = 500
"""Maximum number of lines in a path; later lines are dropped."""

Path: TypeAlias = Sequence[tuple[int, int]]
"""Lines, each as source number and line number, in the order in which the lines first ran in the turn."""


async def paths_of(
    services: Services,
    table: Table,
    stored: Stored,
    number_of: Callable[[str], int | None],
    seconds: float = LIMIT,
) -> Sequence[Path]:
    """Replay a journal without effects, and return the path of each turn, one for each notch of a pass.

    Args:
        services: services without effects.
        number_of: returns a file's number, or None if the paths don't contain the file's lines.
        seconds: limit of the replay in real time; turns after the limit have empty paths.
    """
    tracer = _LineTracer(number_of, 1 + sum(record[0] in TURNS for record in stored.records))
    limit = TimeLimit(seconds)
    with cut_after(limit), tracer.tracing(), suppress(TriobotError):  # after an error, later paths stay empty
        async with open_rerun(services, table, stored, look=tracer, limit=limit):
            tracer.stop()
    return tracer.paths


@final
class _LineTracer(Onlooker):
    """Traces lines of code, and assigns each line to the turn in which the line ran.

    Attributes:
        paths: the paths, in the order of the turns.
    """

    def __init__(self, number_of: Callable[[str], int | None], turns: int) -> None:
        self.paths: list[list[tuple[int, int]]] = [[] for _ in range(turns)]
        self._number_of = number_of
        self._sources: dict[CodeType, int | None] = {}
        self._ran: dict[tuple[int, int], None] = {}
        self._turn = -1

    @contextmanager
    def tracing(self) -> Generator[None]:
        """Trace this thread while the block runs."""
        before = sys.gettrace()
        sys.settrace(self._calls)
        try:
            yield
        finally:
            sys.settrace(before)
            self.stop()

    def stop(self) -> None:
        """Assign the lines that ran after the last turn to the next turn, and stop tracing."""
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
        # A resumed coroutine continues in the middle of a line; this line counts as run.
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

    # --- as an onlooker

    def looks(self, run: Run) -> None:
        """Assign the lines traced so far to the turn that has just ended."""
        if run.journal.given <= self._turn:
            return
        self._rests(run.journal.given)
        # In the next turn, the running code continues in its current lines. So these lines belong to both
        # turns.
        for frame, line in reversed([*traceback.walk_stack(None)]):
            source = self._sources.get(frame.f_code)
            if source is not None:
                self._note(source, line)
