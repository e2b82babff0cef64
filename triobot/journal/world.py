"""What a conversation needs of the world around it: a store, a clock, and somebody who brings its events.

A test's world is a list and a counter; the bot's is the store, the inbox and the outbox.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, final

import attrs
import trio

from ..seams import Write
from .records import Intended, OperationId, Record, Result


@final
@attrs.frozen
class Entry:
    """What becomes durable together, or not at all: records, and what moves with them.

    Attributes:
        records: in order; empty when only something beside the journal is written.
        moves: other rows of the same transaction: the events taken, ledger moves.
        data: what the turns wrote into the chat's data; None deletes.
        unfinished: an effect is to be performed: revive the conversation even if nothing comes.
        wake: when its next deadline is, in wall milliseconds.
        standing: the last two have changed, although nothing is recorded.
    """

    records: tuple[Record, ...] = ()
    moves: tuple[Write, ...] = ()
    data: Mapping[str, str | None] = attrs.field(factory=lambda: dict[str, str | None](), repr=False)
    rows: tuple[Result | Intended, ...] = ()
    unfinished: bool = False
    wake: int | None = None
    standing: bool = False


@final
@attrs.frozen
class Waiting:
    """A wait that may take events now.

    Attributes:
        subject: what the wait's owner gave: what it takes, and how.
    """

    id: OperationId
    subject: object = attrs.field(repr=False)


class World(Protocol):
    """One conversation's world. Only `commit` waits."""

    def now(self) -> int:
        """Wall milliseconds."""
        ...

    def jumped(self) -> int:
        """By how much the time of day had jumped in all when it was read last, in milliseconds."""
        ...

    def moved(self, by: int, /) -> None:
        """Deadlines have been moved with a jump of the time of day: so are other times noted before it."""
        ...

    def append(self, entry: Entry, /) -> None:
        """Keep this, after what was appended before; durable when `commit` returns, or earlier.

        Whatever is durable is so in order: a later entry never without the earlier ones.
        """
        ...

    def before_writing(self, look: Callable[[], None], /) -> None:
        """Call this once, just before something is made durable the next time, which is to be soon."""
        ...

    async def commit(self) -> None:
        """Wait until everything that was appended is durable."""
        ...

    def live(self) -> None:
        """The journal has been replayed: from now on things happen."""
        ...

    def arm(self, waiting: Waiting, /) -> None:
        """This wait may be completed from now on, even before this returns."""
        ...

    def disarm(self, waiting: Waiting, /) -> None:
        """This wait takes nothing any more."""
        ...

    def wake_at(self, when: int | None, /) -> None:
        """Call `Incarnation.tick` once the wall clock shows this; None: never. The last call counts."""
        ...

    def all_came(self, before: int, /) -> bool:
        """Whether every event accepted before this has been brought.

        If it says no, it calls `Incarnation.tick` once it would say yes.
        """
        ...

    def comes_to(self, turn: int, /) -> None:
        """A turn begins that another process may have begun, when what came first came at `turn`."""
        ...

    def start_soon(self, work: Callable[[], Awaitable[None]], /) -> None:
        """Run this as a task that no cancellation of the conversation reaches; it ends by itself."""
        ...

    def repeated(self, kind: str, /) -> None:
        """An effect is performed that may have been performed before."""
        ...

    def reworded(self, id: OperationId, kind: str, /) -> None:
        """A recorded operation has other arguments now: a warning in production, an error in tests."""
        ...

    def stuck(self, id: OperationId, task: trio.lowlevel.Task | None, /) -> None:
        """The code can't be run over its journal; told where that is found, before anything unwinds.

        `task` is the one that is in the operation, if any is; else it is the current one.
        """
        ...

    def swallowed(self, id: OperationId, /) -> None:
        """The conversation's code won't let go: it catches every cancellation."""
        ...
