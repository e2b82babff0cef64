"""Where a conversation stands: what two runs over one journal must agree on, and where they don't.

Besides what the journal knows of (operations, open blocks) it is the lines of the author's code in which its
branches wait, and the values of the variables there that can be written down. Variables whose names begin
with an underscore are nobody's business.
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
from ..running.hooks import HERE
from ..running.leash import awaited, held
from ..running.lines import frames_of, is_authors, is_ours

_LARGEST: Final = 10_000
"""Members of a collection that is compared; what is larger would cost more than it tells."""

# Where an author's function is awaited.
_ENTRIES: Final = frozenset({Run.run_within.__code__, held.__code__, awaited.__code__})


@final
@guarded
class Spot:
    """Where one branch waits.

    Attributes:
        lines: of the author's code, outermost first: ``file:line``.
        variables: of those functions, as digests of what they hold.
    """

    lines: tuple[str, ...]
    variables: Mapping[str, str] = attrs.field(repr=False)

    @property
    def line(self) -> str:
        """Return the innermost line."""
        return self.lines[-1] if self.lines else "?"


@final
@guarded
class Standing:
    """Where a conversation stands.

    Attributes:
        operations: in which it is parked: id, kind, digest of the arguments.
        blocks: that are open: id, deadline, whether it is to end.
        spots: by branch.
        ending: the kind of its last record, once it has ended; its words say with what.
    """

    operations: tuple[tuple[str, str, str], ...] = ()
    blocks: tuple[tuple[str, int | None, bool], ...] = ()
    spots: Mapping[str, Spot] = attrs.field(factory=lambda: dict[str, Spot]())
    ending: str | None = None

    @property
    def line(self) -> str:
        """Return a line in which it waits: the coroutine's own, or a child's."""
        return next((spot.line for spot in self.spots.values() if spot.lines), "?")

    def words(self) -> str:
        """Say what it does, for people."""
        if self.ending is not None:
            return self.ending
        waits = [f"{kind} ({id}) at {self._line_of(id)}" for id, kind, _ in self.operations]
        return "it waits in " + ", ".join(waits) if waits else "it waits for nothing of the chat's"

    def _line_of(self, id: str) -> str:
        branch = id.rpartition(".")[0] + "." if "/" in id else ""
        return self.spots[branch].line if branch in self.spots else "?"


def standing_of(run: Run) -> Standing:
    """Return where a run stands that rests."""
    seen = run.describe()
    open_now = [branch.operation for branch in seen.branches if branch.operation is not None]
    return Standing(
        tuple(sorted((str(one.id), one.kind, one.print or _until(one.due)) for one in open_now)),
        tuple(sorted((str(block.id), block.due, block.ended) for block in seen.blocks)),
        {path: spot_of(task) for path, task in sorted(run.tasks.items())},
    )


def _until(due: int | None) -> str:
    """Return what tells a sleep from one of another length, as a fingerprint."""
    return "" if due is None else f" {due}"


def spot_of(task: trio.lowlevel.Task) -> Spot:
    """Return where a suspended task waits."""
    frames = authors_frames(frames_of(task))
    held: dict[str, str] = {}
    for depth, (frame, _) in enumerate(frames):
        held |= {f"{depth} {frame.f_code.co_name}.{name}": text for name, text in _variables(frame)}
    return Spot(tuple(f"{frame.f_code.co_filename}:{line}" for frame, line in frames), held)


def authors_frames(frames: Sequence[tuple[FrameType, int]]) -> list[tuple[FrameType, int]]:
    """Return the author's own frames, down to the first chat operation: a step's body doesn't count."""
    frames = [one for one in frames if one[0].f_code.co_filename != HERE]
    entry = next((n for n, (frame, _) in enumerate(frames) if not is_ours(frame.f_code.co_filename)), 0)
    if not entry or frames[entry - 1][0].f_code not in _ENTRIES:
        return []  # the code is over, and what it was paid for is being settled
    rest = frames[entry:]
    end = next((n for n, (frame, _) in enumerate(rest) if is_ours(frame.f_code.co_filename)), len(rest))
    return [(frame, line) for frame, line in rest[:end] if is_authors(frame.f_code.co_filename)]


def _variables(frame: FrameType) -> list[tuple[str, str]]:
    shared = frame.f_code.co_freevars  # they are the variables of another function
    found: list[tuple[str, str]] = []
    for name, value in frame.f_locals.items():
        if name.startswith("_") or name in shared or _is_large(value):
            continue
        try:
            found.append((name, _digest(encode_value(value))))
        except (TriobotError, RecursionError):
            continue  # it can't be written down: a handle, a function, the chat
    return found


def _is_large(value: object) -> bool:
    return isinstance(value, str | bytes | list | dict | set | tuple) and len(value) > _LARGEST  # pyright: ignore[reportUnknownArgumentType]


def _digest(text: str) -> str:
    """Return a long text's digest, so that no person's words leave a conversation; a short text as it is."""
    return text if len(text) < 8 else blake2b(text.encode(), digest_size=8).hexdigest()


def difference(recorded: Standing, now: Standing) -> str | None:
    """Say in what two runs of one journal differ first, in words without content; None if in nothing."""
    if recorded.ending == now.ending and _named(recorded) == _named(now):
        pairs = zip(recorded.operations, now.operations, strict=True)
        others = [one for one, other in pairs if differs(one[2], other[2])]
        if others:
            return f"a {others[0][1]} has other arguments than before"
    else:
        return f"before, {recorded.words()}; now, {now.words()}"
    if recorded.blocks != now.blocks:
        return f"before, {_blocks(recorded)}; now, {_blocks(now)}"
    for path, before in recorded.spots.items():
        spot = now.spots.get(path)
        if spot is None or spot.lines != before.lines:
            place = "nowhere" if spot is None else " in ".join(reversed(spot.lines))
            return f"before, it waited at {' in '.join(reversed(before.lines))}; now at {place}"
        if spot.variables != before.variables:
            names = _different(before.variables, spot.variables)
            return f"variables hold something else than before: {names}"
    return None


def _named(standing: Standing) -> list[tuple[str, str]]:
    return [(id, kind) for id, kind, _ in standing.operations]


def _blocks(standing: Standing) -> str:
    shown = [f"block {id} until {due}" for id, due, _ in standing.blocks]
    return "open is " + (", ".join(shown) or "no block")


def _different(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return ", ".join(name.rpartition(" ")[2] for name in names)
