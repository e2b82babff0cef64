"""The ways in which a conversation begins. Each way has a class, with the data that only this way needs."""

from __future__ import annotations

from typing import Final, TypeAlias, final

import attrs

from ..base.frozen import frozen
from ..engine import Host, Record
from .revival.changed import Changed
from .revival.stored import Stored
from .routes.routing import Delivery, Start
from .running.abandon import TimeLimit
from .running.branches import Onlooker


@final
@frozen
class Fresh:
    """A new conversation; its first record is made when the run begins."""


@final
@frozen
class InRow:
    """A new conversation whose first record is already stored, in the row of the conversation's event."""

    first: Record = attrs.field(repr=False)


@final
@frozen
class Carried:
    """The successor of a conversation that called `continue_as`. The call has written the first record.

    Attributes:
        run: number of the run within the conversation.
        position: position of the next record.
        written: unit that stores the first record; see `CommitQueue.wait_for`.
    """

    first: Record = attrs.field(repr=False)
    run: int
    position: int
    written: int


@final
@frozen
class Successor:
    """The data of a conversation that starts when the conversation before it has called `continue_as`.

    Attributes:
        first: the first record.
    """

    start: Start
    delivery: Delivery
    first: Record = attrs.field(repr=False)


@final
@frozen
class Revived:
    """A conversation that is revived from the store.

    Attributes:
        changed: comparison of the journal with the current code; None if the same build made the journal.
    """

    stored: Stored
    changed: Changed | None = None


@final
@frozen
class Dry:
    """A dry run of a journal: the code runs to the journal's end, and changes nothing.

    Attributes:
        host: the run's host.
        look: observer of the operations that the code begins.
        limit: object that runs the tasks, and can abandon the tasks.
        changed: as in `Revived`.
    """

    stored: Stored
    host: Host
    look: Onlooker
    limit: TimeLimit
    changed: Changed | None = None


Begin: TypeAlias = Fresh | InRow | Carried | Revived | Dry
FRESH: Final = Fresh()
