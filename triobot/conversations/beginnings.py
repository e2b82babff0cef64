"""The ways in which a conversation comes to be: each is a value that has what only this way needs."""

from __future__ import annotations

from typing import Final, TypeAlias, final

import attrs

from ..base.frozen import frozen
from ..engine import Host, Record
from .revival.changed import Changed
from .revival.stored import Stored
from .routes.routing import Delivery, Start
from .running.branches import Onlooker
from .running.leash import Leash


@final
@frozen
class Fresh:
    """Begins with its event; the first record is made when the run begins."""


@final
@frozen
class InRow:
    """Begins with a first record that is durable in the row of its event."""

    first: Record = attrs.field(repr=False)


@final
@frozen
class Carried:
    """Goes on in another conversation's place, whose end has stored the first record.

    Attributes:
        run: counts the runs of the conversation.
        position: of the next record.
        written: of the unit that stores it, see `CommitQueue.wait_for`.
    """

    first: Record = attrs.field(repr=False)
    run: int
    position: int
    written: int


@final
@frozen
class Successor:
    """Tells a conversation's end what begins in its place.

    Attributes:
        first: the record with which it begins.
    """

    start: Start
    delivery: Delivery
    first: Record = attrs.field(repr=False)


@final
@frozen
class Revived:
    """Comes back from the store.

    Attributes:
        changed: compares the journal with the code; None if both are of one build.
    """

    stored: Stored
    changed: Changed | None = None


@final
@frozen
class Dry:
    """Runs a journal again for who looks on: it ends where the journal ends, and does nothing.

    Attributes:
        host: of its run.
        look: told what its code would do.
        leash: holds its tasks.
        changed: as that of `Revived`.
    """

    stored: Stored
    host: Host
    look: Onlooker
    leash: Leash
    changed: Changed | None = None


Begin: TypeAlias = Fresh | InRow | Carried | Revived | Dry
FRESH: Final = Fresh()
