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
    """With its event: what it is started with is recorded when it runs."""


@final
@frozen
class InRow:
    """With a first record that is durable in the row of its event."""

    first: Record = attrs.field(repr=False)


@final
@frozen
class Carried:
    """In another one's place, whose end has stored the first record.

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
    """What goes on in a conversation's place.

    Attributes:
        first: the record with which it begins.
    """

    start: Start
    delivery: Delivery
    first: Record = attrs.field(repr=False)


@final
@frozen
class Revived:
    """From the store.

    Attributes:
        changed: compares the journal with the code; None if both are of one build.
    """

    stored: Stored
    changed: Changed | None = None


@final
@frozen
class Dry:
    """To be looked at: it ends where its journal ends, and does nothing.

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
