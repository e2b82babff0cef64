"""Passes: replays of a journal from the first record to the last, with a notch at each turn.

The result is a `Passed`: a head that describes the whole pass, and the notches. A pass has a limit in real
time. Code that exceeds the limit is interrupted, even in a loop without awaits, and the head names the line.
"""

from __future__ import annotations

import hashlib
import linecache
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast, final

import attrs

from ...base.frozen import guarded
from ...conversations.inspection.replay_state import ReplayState
from ...conversations.inspection.rerun import Rerun, open_rerun
from ...conversations.revival.changed import Changed
from ...conversations.revival.stored import Stored
from ...conversations.routes.declarations import Table
from ...conversations.running.abandon import Left, TimeLimit
from ...conversations.running.lines import working_line
from ...conversations.services import Services
from ...emulator.views import JsonObject
from ...engine.records import ENDED, ENDS
from ...errors import TriobotError
from ...exact.verdicts import Comparison, Parting
from ...wire.rules import JsonValue
from .notches import FORMAT, SECONDS, Notches, NotchState, Write, changes
from .parting import reworded
from .values import shown
from .views import ending_of, state_of

LIMIT: Final = 15.0
"""Limit of a pass, in real seconds."""
NEWEST: Final = 20_000
"""Maximum number of shown notches."""


@final
@guarded
class Passed:
    """Result of a pass.

    Attributes:
        head: description of the pass, see `docs/travel.schema.json`.
        turns: the turns, each without the state at the turn's end.
        states: the state at the end of each turn.
        texts: the sources, in the order of their numbers.
        standing: the point at which the replay ended.
        parting: the old and the new line at which code and journal differ, if the code was compared with the
            journal's build.
        reworded: descriptions of lines with changed words.
    """

    head: JsonObject
    turns: Sequence[JsonObject]
    states: Sequence[NotchState]
    texts: Sequence[str]
    standing: ReplayState
    parting: Parting | None = None
    reworded: Sequence[str] = ()

    def window(self, start: int, end: int) -> Iterator[JsonObject]:
        """Yield the notches from `start` to `end` (exclusive): the first complete, the others as changes.

        Args:
            start: number of the first notch.
            end: number after the last notch.
        """
        first, before = cast("int", self.head["first"]), None
        part = slice(max(start - first, 0), max(end - first, 0))
        for turn, state in zip(self.turns[part], self.states[part], strict=True):
            stands = {"whole": True, **state.view()} if before is None else changes(before, state)
            yield {**turn, **stands}
            before = state


async def run_pass(
    services: Services,
    table: Table,
    stored: Stored,
    *,
    seconds: float = LIMIT,
    variables: float = SECONDS,
    write: Write = shown,
    set_by: int | None = None,
    sources_from: int = 0,
    knows: bool = True,
    fills: bool = False,
    comparison: Comparison | None = None,
) -> Passed:
    """Replay a journal without effects, and record a notch at each turn.

    Args:
        services: services without effects.
        seconds: limit of the replay, in real seconds.
        variables: after this many seconds, a notch reads only the variables of branches that ran in the turn.
        write: returns the text of a variable.
        set_by: milliseconds by which the clock was set in total; None: the clock wasn't set after the last
            turn.
        sources_from, knows: as for `Notches`.
        fills: whether to add notches for turns that the replay doesn't reach.
        comparison: comparison with the build that recorded the journal, if the code is another build.
    """
    changed = None if comparison is None else Changed(comparison, stored.row, stored.records)
    if changed is not None:
        changed.prepare(stored.records)  # the time limit doesn't include this work
    around: Any = {"set_by": set_by, "changed": changed}
    capture = Notches(stored, seconds=variables, write=write, sources_from=sources_from, knows=knows)
    limit = TimeLimit(seconds)
    try:
        with cut_after(limit), capture.holding():
            async with open_rerun(services, table, stored, look=capture, limit=limit, **around) as rerun:
                passed = _passed(capture, stored, rerun, fills=fills)
                said = () if changed is None else changed.judge.reworded
                return attrs.evolve(passed, reworded=[reworded(*lines) for lines in said])
    except TriobotError as error:
        # On this error, the runtime would park the conversation without running it.
        capture.close(stands=True)
        if fills:
            capture.fill()
        what = getattr(error, "what", str(error))
        divergence: JsonObject = {"notch": 0, "operation": "0", "what": what, "line": None}
        head: JsonObject = {**_head(capture, stored), "state": "diverged", "divergence": divergence}
        return _cut(Passed(head, capture.notches, capture.states, (), ReplayState()))


def _passed(capture: Notches, stored: Stored, rerun: Rerun, *, fills: bool) -> Passed:
    ended = rerun.standing()
    stands = ended.ending is None or rerun.divergence is not None
    capture.close(stands=stands, failures=rerun.failures)
    divergence, hangs = _parts(capture, rerun)
    if fills:
        capture.fill()
    says = capture.marks({one.operation for one in rerun.changed})
    head = {**_head(capture, stored), "reworded": len(says), "says": says}
    state = "hangs" if hangs else "diverged" if divergence else "crashed" if rerun.failures else head["state"]
    if state == "waits" and ended.ending is not None:
        state = ending_of(stored.records)
    failures = [] if stands else capture.view_failures(rerun.failures)
    texts = ["".join(linecache.getlines(file)) for file in capture.sources]
    head |= {"state": state, "divergence": divergence, "hangs": hangs, "failures": failures}
    parting = None if rerun.divergence is None else rerun.divergence.parting
    view: JsonObject = {**head, **_sources(capture, texts)}
    return _cut(Passed(view, capture.notches, capture.states, texts, ended, parting))


def _cut(passed: Passed) -> Passed:
    """Return the pass without the notches before the first shown notch."""
    first = cast("int", passed.head["first"])
    return attrs.evolve(passed, turns=passed.turns[first:], states=passed.states[first:])


def _parts(capture: Notches, rerun: Rerun) -> tuple[JsonObject | None, JsonObject | None]:
    """Return two points: where code and journal differ, and where the code hangs; each may be None."""
    found = rerun.divergence
    if found is None:
        return None, None
    line = capture.line_of(found.line)
    if rerun.hangs:
        return None, {"notch": max(len(capture.notches) - 1, 0), "words": found.what, "line": line}
    notch, parting = max(len(capture.notches) - 1, 0), found.parting
    what = found.what if parting is None else f"{parting.because}: {parting.was}"
    return {"notch": notch, "operation": found.operation, "what": what, "line": line}, None


def _head(capture: Notches, stored: Stored) -> JsonObject:
    row, records = stored.row, stored.records
    last = records[-1]
    failed = row.error is not None if row.ended_at is not None else last[0] == ENDED and last[2] is not None
    over = row.ended_at is not None or last[0] in ENDS
    return {
        "format": FORMAT,
        "chat_id": row.chat_id,
        "conversation": row.id,
        "route": row.route,
        "kind": row.kind,
        "sender_id": row.sender_id,
        "state": state_of(records, over=over, failed=failed, parked=row.parked_because is not None),
        "because": row.error if row.parked_because is None else f"{row.parked_because}: {row.error or ''}",
        "records": len(records),
        "notches": len(capture.notches),
        "first": max(0, len(capture.notches) - NEWEST),
        "started_at": row.started_at,
        "reworded": 0,
        "says": {},
        "code": "",
        "sources": [],
        "marks": [],
        "divergence": None,
        "hangs": None,
        "failures": [],
    }


def _sources(capture: Notches, texts: Sequence[str]) -> JsonObject:
    files = enumerate(zip(capture.sources, texts, strict=True), capture.sources_from)
    views: list[JsonValue] = [view_source(id, *source) for id, source in files]
    digest = hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=8)
    return {"sources": views, "code": digest.hexdigest()}


def view_source(id: int, file: str, text: str) -> JsonObject:
    """Return the description of a source for the page."""
    return {"id": id, "name": Path(file).name, "path": file, "lines": text.count("\n")}


@contextmanager
def cut_after(limit: TimeLimit) -> Generator[None]:
    """Interrupt the author's code at the end of `limit`, even in the middle of a line.

    The replay itself checks `limit` only when a task resumes, so a loop without awaits would never end.
    Outside the main thread, and on systems without timers, this function does nothing, and the caller must
    end the process.
    """

    def over(_: int, frame: FrameType | None) -> None:
        line = working_line(frame)
        if line is not None:
            limit.cut, limit.line = True, line
            raise Left

    try:
        before = signal.signal(signal.SIGALRM, over)
    except (AttributeError, ValueError):
        yield
        return
    try:
        signal.setitimer(signal.ITIMER_REAL, limit.seconds, 1.0)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
