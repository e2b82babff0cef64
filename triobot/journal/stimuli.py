"""What may come next, and which of several things comes first. Pure.

The smallest stamp goes first: when an event was accepted, when a deadline or a sleep was due, when a result
arrived. So events and deadlines that passed while the program was down come in the order in which they would
have come. Equal stamps: events, results, expiries (the outermost scope first, as in Trio), sleeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, final

import attrs
import trio

from ..seams import Write
from .branches import Branch, Nature, Parked
from .records import OperationId, Outcome

HELD: Final = 5000
"""Milliseconds that a deadline waits for an operation that `holds` it."""
AGAIN: Final = 60_000
"""Milliseconds that a deadline of the time before a revival waits for the effects that are done again."""


@final
@attrs.frozen(eq=False)
class OpenScope:
    """A block that a deadline or an event may end.

    Attributes:
        due: its deadline in wall milliseconds.
        steady: it was asked for as a length of time, and so moves with a clock that jumps.
        branch: whose block it is.
        fired: told the event and the value that ended the block.
    """

    id: OperationId
    scope: trio.CancelScope
    due: int | None
    branch: Branch
    fired: Callable[[int | None, str | None], None]
    steady: bool = False

    @property
    def depth(self) -> int:
        """How many scopes of ours there are from the outermost one to this."""
        return self.branch.around.index(self.scope) + 1

    @property
    def cut(self) -> bool:
        """Whether it is on its way out: no event ends it any more."""
        return self.branch.cuts(self.scope)


@final
@attrs.frozen(eq=False)
class Completion:
    """An operation's outcome is known.

    Attributes:
        withdraw: called if the operation is cancelled before the outcome's turn comes.
        time: of its turn, if that is known already.
    """

    parked: Parked
    outcome: Outcome
    stamp: int
    event: int | None = None
    moves: tuple[Write, ...] = ()
    withdraw: Callable[[], None] | None = None
    time: int | None = None


@final
@attrs.frozen(eq=False)
class Expiry:
    """A scope's deadline passed, or with `event`, an event ends it.

    Attributes:
        withdraw: called if the block is on its way out before the event's turn comes.
    """

    scope: OpenScope
    stamp: int
    event: int | None = None
    value: str | None = None
    withdraw: Callable[[], None] | None = None

    @property
    def late(self) -> bool:
        """Whether an event comes to a block that is on its way out."""
        return self.event is not None and self.scope.cut


@final
@attrs.frozen(eq=False)
class Interruption:
    """The conversation is to end."""

    stamp: int
    event: int | None
    moves: tuple[Write, ...]
    why: str


@final
@attrs.frozen(eq=False)
class Written:
    """Somebody else wrote into what the chat keeps."""

    stamp: int
    key: str
    value: str | None


@final
@attrs.frozen(eq=False)
class Awake:
    """A sleep is over."""

    parked: Parked
    stamp: int


Stimulus: TypeAlias = Completion | Expiry | Interruption | Written | Awake


def best(stimuli: Iterable[Stimulus]) -> Stimulus | None:
    """The one that goes first; of equal ones the first that was offered."""
    return min(stimuli, key=_precedence, default=None)


def _precedence(stimulus: Stimulus) -> tuple[int, int, int]:
    match stimulus:
        case Written():
            return 0, 0, 0  # it has happened, and whatever comes next is to see it
        case Interruption():
            return stimulus.stamp, 0, 0
        case Completion(parked=parked):
            return stimulus.stamp, int(parked.nature is Nature.EFFECT), 0
        case Expiry(event=int()):
            return stimulus.stamp, 0, 0  # of two events the first one, whichever block is around the other's
        case Expiry(scope=scope):
            return stimulus.stamp, 2, scope.depth
        case Awake():
            return stimulus.stamp, 3, 0


def due(
    scopes: Iterable[OpenScope],
    parked: Iterable[Parked],
    now: int,
    revived: int | None,
    all_came: Callable[[int], bool],
) -> list[Stimulus]:
    """The expiries and the ends of sleeps that have come.

    Args:
        revived: when the journal was exhausted. What was due before that is held for a while if an effect is
            under way: a question that is asked again after a crash must not be cancelled before it is seen.
        all_came: neither may overtake an event that was accepted before it, and is on its way.
    """
    operations, blocks = list(parked), list(scopes)
    if not blocks and not [operation for operation in operations if operation.due is not None]:
        return []  # as in most conversations at most times
    again = revived is not None and now < revived + AGAIN
    held = again and any(operation.nature is Nature.EFFECT for operation in operations)
    found: list[Stimulus] = [
        Expiry(scope, scope.due)
        for scope in blocks
        if scope.due is not None
        and scope.due <= now
        and not scope.scope.cancel_called
        and not (held and revived is not None and scope.due <= revived)
        and not any(_holds(operation, scope, now) for operation in operations)
        and all_came(scope.due)
    ]
    found += [
        Awake(operation, operation.due)
        for operation in operations
        if operation.due is not None
        and operation.due <= now
        and operation.felt is None
        and all_came(operation.due)
    ]
    return found


def _holds(operation: Parked, scope: OpenScope, now: int) -> bool:
    """Whoever pays in the last second must get what was bought."""
    inside = operation.holds and scope.scope in operation.branch.around
    return inside and scope.due is not None and now < scope.due + HELD


def next_due(
    scopes: Iterable[OpenScope], parked: Iterable[Parked], now: int, revived: int | None = None
) -> int | None:
    """When to look again; `revived` as for `due`."""
    times = [operation.due for operation in parked if operation.due is not None]
    for scope in scopes:
        if scope.due is not None and not scope.scope.cancel_called:
            times.append(scope.due if scope.due > now else scope.due + HELD)
            if revived is not None and scope.due <= revived:
                times.append(revived + AGAIN)
    return min([time for time in times if time > now]) if times and max(times) > now else None
