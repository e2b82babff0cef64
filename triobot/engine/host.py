"""Base classes of a run's host and owner, the two objects that a run calls.

The host is the run's access to its journal, the clock and shared data. In a bot, the host writes to the
store; in a test, a list is enough. The run notifies its owner when the run rests, diverges or ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from ..errors import NondeterminismError
from .records import ABSENT, Absent, Id, Node, Record


class Host:
    """The journal of one run, its clock and its data. Subclasses must define `now`, `append` and `commit`.

    The engine requires only an order in which records become durable. No record is durable before the records
    appended earlier. A record becomes durable together with the events that the record takes, and with the
    record's write.

    An event and its consequences can become durable together. `Run.deliver` appends the records before it
    returns, so a host can put the event's row and these records into one transaction. If the transaction
    fails, the code has gone further than its journal. Then call `Run.evict` for every run with records in the
    transaction, and revive these runs.
    """

    __slots__ = ()

    def now(self) -> int:
        """Return the time in wall milliseconds.

        The time should be steady while the process lives. If the clock is set during that time, `jumped` must
        include the change from then on. Call `Run.shift` at that time, and then `Run.tick`.
        """
        raise NotImplementedError

    def append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        """Append a record to the journal; durable when `commit` returns, or earlier.

        Args:
            rows: events that this record takes; no other record may take the same events.
            write: a `Put` or the argument of `Run.also`, to be stored with the record.
        """
        raise NotImplementedError

    def commit(self) -> Awaitable[None]:
        """Wait until all appended records and all delivered events are durable.

        If `commit` raises an error, the run is evicted.
        """
        raise NotImplementedError

    def read(self, key: str) -> Node | Absent:
        """Return the current value of shared data, including the writes appended so far."""
        return ABSENT

    def jumped(self) -> int:
        """Return the total milliseconds by which the time of day has been set forward.

        The count may begin at any time, but must go on across restarts of the program.
        """
        return 0

    def repeated(self, id: Id, kind: str) -> None:
        """Handle the start of an effect that may have happened before: a crash lost the outcome."""


class RunOwner:
    """The object that one run notifies of its progress and its end.

    Attributes:
        here: returns the site of the operation that the current task begins: a number that identifies the
            chain of calls to the operation. The arguments are the site where the task was started, the number
            of innermost frames that are not the author's, and the coroutine at which the chain ends. If
            `here` is None, records have no sites.
        parting: compares a record with the `Operation` that takes the record now; returns a description of
            the difference, or None. Called for each operation's record in a revived run; if `parting` is
            None, nothing is compared.
        look: for a dry run: called before each turn of the journal, and at the journal's end. At these times
            all branches rest, and the current task is about to sleep in its operation.
    """

    __slots__ = ()
    here: Callable[[int, int, Any], int] | None = None
    parting: Callable[[Record, Any], str | None] | None = None
    look: Callable[[], None] | None = None

    def rests(self, wake: int | None) -> None:
        """Schedule a call of `Run.tick` at `wake`, because the run waits. A later `rests` replaces this time.

        An effect may be under way; see `Run.is_waiting`. While an effect is under way, `rests` isn't called
        again with the same `wake`. Don't call methods of the run from here.
        """

    def concluded(self, error: BaseException | None) -> None:
        """Handle the end of the run's code, in the last turn, before the end is recorded.

        Args:
            error: the error that the code raised; None if the code returned.
        """

    def reached(self, operations: Sequence[Any]) -> str | None:
        """Compare the open operations with the operations at the journal's end.

        Return a description of the difference, or None. Called once, when the journal is exhausted.
        Operations without sites must get their sites here.
        """
        return None

    def diverged(self, error: NondeterminismError, task: trio.lowlevel.Task | None) -> None:
        """Record a nondeterminism error before the task's cancellation runs any cleanup.

        Args:
            task: the task that is in the operation; None for the current task, or if no task is in the
                operation.
        """

    def swallowed(self, id: Id) -> None:
        """Handle code that was abandoned at operation `id`, because the code catches every cancellation.

        If the main branch's code was abandoned, `Run.run` doesn't return, because the task that called
        `Run.run` has ended.
        """
