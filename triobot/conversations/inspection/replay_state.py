"""The point that a conversation's run has reached, and the comparison of two such points.

A point consists of the open operations and blocks, the lines of the author's code in which the branches wait,
and the encodable values of the variables there. Variables with a leading underscore are not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import FrameType
from typing import Final, final

import attrs
import trio

from ...base.frozen import guarded
from ...engine import Run
from ...errors import TriobotError
from ...exact.verdicts import differs
from ...seams.values import encode_value
from ..running.abandon import awaited, held
from ..running.hooks import HERE
from ..running.lines import frames_of, is_authors, is_ours

_LARGEST: Final = 10_000
"""Number of items above which a collection or text isn't compared, to limit the cost."""

# Functions that await an author's function.
_ENTRIES: Final = frozenset({Run.run_within.__code__, held.__code__, awaited.__code__})


@final
@guarded
class Spot:
    """Position in the author's code at which one branch waits.

    Attributes:
        lines: lines of the author's code, outermost first: ``file:line``.
        variables: digests of the variables' values in the functions of `lines`, by name.
    """

    lines: tuple[str, ...]
    variables: Mapping[str, str] = attrs.field(repr=False)

    @property
    def line(self) -> str:
        """The innermost line."""
        return self.lines[-1] if self.lines else "?"


@final
@guarded
class ReplayState:
    """The point that a conversation's run has reached.

    Attributes:
        operations: the open operations: id, kind, digest of the arguments.
        blocks: the open blocks: id, deadline, whether the block is being cancelled.
        spots: positions at which the branches wait, by branch.
        ending: description of the ending, once the conversation has ended.
    """

    operations: tuple[tuple[str, str, str], ...] = ()
    blocks: tuple[tuple[str, int | None, bool], ...] = ()
    spots: Mapping[str, Spot] = attrs.field(factory=lambda: dict[str, Spot]())
    ending: str | None = None

    @property
    def line(self) -> str:
        """Line of the first branch that waits in the author's code; "?" if no branch does."""
        return next((spot.line for spot in self.spots.values() if spot.lines), "?")

    def words(self) -> str:
        """Return a description of the point, to be read by people."""
        if self.ending is not None:
            return self.ending
        waits = [f"{kind} ({id}) at {self._line_of(id)}" for id, kind, _ in self.operations]
        return "it waits in " + ", ".join(waits) if waits else "it waits for nothing of the chat's"

    def _line_of(self, id: str) -> str:
        branch = id.rpartition(".")[0] + "." if "/" in id else ""
        return self.spots[branch].line if branch in self.spots else "?"


def standing_of(run: Run) -> ReplayState:
    """Return the point of a waiting run."""
    return ReplayState(
        tuple(sorted((str(op.id), op.kind, op.print or _until(op.due)) for op in run.resting)),
        tuple(sorted((str(block.id), block.due, block.cancel_called) for block in run.blocks)),
        {path: spot_of(task) for path, task in sorted(run.tasks.items())},
    )


def _until(due: int | None) -> str:
    """Return a sleep's deadline as a fingerprint, so that sleeps of different lengths differ."""
    return "" if due is None else f" {due}"


def spot_of(task: trio.lowlevel.Task) -> Spot:
    """Return the position in the author's code at which a suspended task waits."""
    frames = authors_frames(frames_of(task))
    held: dict[str, str] = {}
    for depth, (frame, _) in enumerate(frames):
        held |= {f"{depth} {frame.f_code.co_name}.{name}": text for name, text in _variables(frame)}
    return Spot(tuple(f"{frame.f_code.co_filename}:{line}" for frame, line in frames), held)


def authors_frames(frames: Sequence[tuple[FrameType, int]]) -> list[tuple[FrameType, int]]:
    """Return the author's frames up to the first chat operation, without the frames of a step's body."""
    rest = called_frames(frames)
    end = next((n for n, (frame, _) in enumerate(rest) if is_ours(frame.f_code.co_filename)), len(rest))
    return [(frame, line) for frame, line in rest[:end] if is_authors(frame.f_code.co_filename)]


def called_frames(frames: Sequence[tuple[FrameType, int]]) -> Sequence[tuple[FrameType, int]]:
    """Return a task's frames, beginning with the author's function; empty if the function has ended."""
    frames = [one for one in frames if one[0].f_code.co_filename != HERE]
    entry = next((n for n, (frame, _) in enumerate(frames) if not is_ours(frame.f_code.co_filename)), 0)
    return frames[entry:] if entry and frames[entry - 1][0].f_code in _ENTRIES else ()


def _variables(frame: FrameType) -> list[tuple[str, str]]:
    shared = frame.f_code.co_freevars  # variables of an enclosing function
    found: list[tuple[str, str]] = []
    for name, value in frame.f_locals.items():
        if name.startswith("_") or name in shared or _is_large(value):
            continue
        try:
            found.append((name, _digest(encode_value(value))))
        except (TriobotError, RecursionError):
            continue  # the value cannot be encoded: a handle, a function, the chat
    return found


def _is_large(value: object) -> bool:
    return isinstance(value, str | bytes | list | dict | set | tuple) and len(value) > _LARGEST  # pyright: ignore[reportUnknownArgumentType]


def _digest(text: str) -> str:
    """Return a short text unchanged, and a digest of a longer text, to keep users' words out of reports."""
    return text if len(text) < 8 else blake2b(text.encode(), digest_size=8).hexdigest()


def difference(recorded: ReplayState, now: ReplayState) -> str | None:
    """Describe, without content, the first difference between two runs of one journal, or return None."""
    named = [[one[:2] for one in point.operations] for point in (recorded, now)]
    if recorded.ending != now.ending or named[0] != named[1]:
        return f"before, {recorded.words()}; now, {now.words()}"
    for (_, kind, was), (_, _, print) in zip(recorded.operations, now.operations, strict=True):
        if differs(was, print):
            return f"a {kind} has other arguments than before"
    if recorded.blocks != now.blocks:
        return f"before, {_blocks(recorded)}; now, {_blocks(now)}"
    for path, before in recorded.spots.items():
        spot = now.spots.get(path)
        if spot is None or spot.lines != before.lines:
            place = "nowhere" if spot is None else " in ".join(reversed(spot.lines))
            return f"before, it waited at {' in '.join(reversed(before.lines))}; now at {place}"
        if spot.variables != before.variables:
            names = dict.fromkeys((*before.variables, *spot.variables))
            others = (name for name in names if before.variables.get(name) != spot.variables.get(name))
            listed = ", ".join(name.rpartition(" ")[2] for name in others)
            return f"variables hold something else than before: {listed}"
    return None


def _blocks(standing: ReplayState) -> str:
    shown = [f"block {id} until {due}" for id, due, _ in standing.blocks]
    return "open is " + (", ".join(shown) or "no block")
