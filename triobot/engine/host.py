"""The host: what a run needs of the world. A list in a test; a store and an outbox in a bot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from ..errors import NondeterminismError
from .records import ABSENT, Absent, Id, Node, Record


class Host:
    """One run's world. Subclass it: `now`, `append` and `commit` are needed.

    The order of durability is all that the engine asks of a store: no record is durable before those that
    were appended before it, and each is so together with the rows that it takes and the write that goes with
    it.

    An event and what it leads to can be durable at once: `Run.deliver` appends before it returns, so a host
    puts the event's row and what was appended into one transaction. If a transaction fails, what the code has
    seen is ahead of the journal: `Run.evict` every run that had something in it, and revive them.

    Attributes:
        here: returns the site of the operation that the current task begins: a number for the chain of calls
            that led there. Given the site at which that task was started, how many of the innermost frames
            are not an author's, and the coroutine at which to stop. None: records have no sites.
        compares: a run that begins over a journal compares each record with what takes it; see `parting`.
        look: for a dry run: called before each turn of the journal that is given, and where that ends. All
            branches rest then, and the current task is about to sleep in the operation in which it is.
    """

    __slots__ = ()
    here: Callable[[int, int, Any], int] | None = None
    compares: bool = False
    look: Callable[[], None] | None = None

    def now(self) -> int:
        """Return the time in wall milliseconds.

        It should be steady while the process lives; if it is set all the same, `jumped` says so from then on;
        call `Run.shift`, and `Run.tick` after it.
        """
        raise NotImplementedError

    def append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        """Keep a record after those appended before; durable when `commit` returns, or earlier.

        Args:
            rows: events that this record takes: no other record may take them.
            write: goes with it: a `Put`, or what `Run.also` was given.
        """
        raise NotImplementedError

    def commit(self) -> Awaitable[None]:
        """Wait until everything appended, and every event delivered, is durable.

        An error that this raises evicts the run.
        """
        raise NotImplementedError

    def rests(self, wake: int | None) -> None:
        """Note that the run waits: call `Run.tick` at `wake`, unless this is called again before.

        `Run.quiescent` tells whether an effect is under way meanwhile; if one is, and `wake` is as it was,
        this is not called. Call nothing of the run from within.
        """

    def concluded(self, error: BaseException | None) -> None:
        """Note in the run's last turn what its code has raised, if it has, before the end is recorded."""

    def read(self, key: str) -> Node | Absent:
        """Return the present value of shared data, with what this host has been told to write."""
        return ABSENT

    def jumped(self) -> int:
        """Return by how many milliseconds the time of day has been set forward in all.

        Since whenever that is counted, over all lives of the program.
        """
        return 0

    def repeated(self, id: Id, kind: str) -> None:
        """Note that an effect begins which may have happened already: a crash took the word of it."""

    def parting(self, record: Record, op: Any) -> str | None:
        """Return how a record parts from the `Operation` that takes it now; None if it is of that."""
        return None

    def reached(self, operations: Sequence[Any]) -> str | None:
        """Return how these part from those in which the run stood when its journal ended; None if not.

        Called once, where the journal ends: an operation that has no sites yet is to get them here.
        """
        return None

    def stuck(self, error: NondeterminismError, task: trio.lowlevel.Task | None) -> None:
        """Note that the code doesn't fit its journal, before anything unwinds.

        Args:
            task: the one that is in the operation; None: the current one, or none.
        """

    def swallowed(self, id: Id) -> None:
        """Note that the code catches every cancellation, and was left where it is.

        If that is the main branch's, `Run.run` doesn't return: the task that called it has ended.
        """
