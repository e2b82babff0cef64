"""What goes on in a running bot: how much, what is written of it, and whether it comes to its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import final

import trio

from ..seams import Consume, PutData, Write
from .inbox.consumption import Consumption, UnitWriter


@final
class Workload:
    """Counts who is at work, and runs what is done beside the conversations.

    Attributes:
        commits: writes units, as one, soon.
        stopping: no more events are given out: they stay in the inbox.
        cut: the program stops: conversations are cancelled, and none of them has ended.
        busy: how many branches are at work.
        less_busy: unparked whenever there are fewer.
        counts: how often each thing has happened so far, by its word.
        nursery: of all that runs; None before it does.
    """

    def __init__(self, commits: Consumption) -> None:
        self.commits = commits
        self.stopping = self.cut = False
        self.busy = 0
        self.less_busy = trio.lowlevel.ParkingLot()
        self.counts: Counter[str] = Counter()
        self.nursery: trio.Nursery | None = None

    def count(self, what: str) -> None:
        """Count what happened, by word."""
        self.counts[what] += 1

    def working(self, more: int) -> None:
        """Count this many more branches as at work, or fewer."""
        self.busy += more
        if more < 0 and self.less_busy:
            self.less_busy.unpark_all()

    @property
    def may_go_beside(self) -> bool:
        """Return whether something can be done beside the conversations: not once they are being cut."""
        return self.nursery is not None and not self.cut

    def beside(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run this in a task that is no conversation's, if that is possible still; it must not raise."""
        if self.nursery is None or self.cut:
            return

        async def run() -> None:
            try:
                await work()
            finally:
                self.working(-1)

        self.nursery.start_soon(run, name=work)
        self.working(1)

    def consumed(self, seqs: Sequence[int], data: Sequence[PutData] = ()) -> None:
        """Consume these inbox rows, which have been dealt with, and write what was kept meanwhile."""
        self.commits.add([*([Consume(tuple(seqs))] if seqs else []), *data])

    def write(self, writes: Sequence[Write], writer: UnitWriter | None = None) -> int:
        """Make this durable, as one, soon; return what `wait_written` takes.

        Args:
            writer: told if the store refuses it; nothing that it writes behind that is stored.
        """
        return self.commits.add(writes, writer)

    def when_written(self, tell: Callable[[], None]) -> None:
        """Call this once what has been written by the end of the present step is durable."""
        self.commits.when_written(tell)

    async def wait_written(self, until: int | None = None) -> None:
        """Wait until everything that was to be written is durable, or as much as `write` said."""
        await self.commits.wait_for(self.commits.added if until is None else until)
