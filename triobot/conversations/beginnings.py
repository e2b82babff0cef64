"""The ways in which a conversation begins, and the facts that are fixed at its beginning.

Each way has a class, with the data that only this way needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, final

import attrs
import trio

from ..base.frozen import frozen
from ..engine import Host, Record, RunOwner
from ..seams.rooms import place_name
from ..wire.events import Event
from ..wire.ids import ChatId, SenderId
from .calls.signals import Halt, room_of
from .revival.stored import Stored
from .routes.declarations import Route
from .routes.routing import Delivery, Start
from .running.abandon import TimeLimit
from .running.branches import Onlooker

if TYPE_CHECKING:
    from .revival.changed import Changed


@final
@frozen(eq=False)
class Facts:
    """The facts of one run of a conversation, which never change.

    Attributes:
        seq: inbox row of the event that started the conversation.
        at: arrival time of that event, in wall milliseconds.
        owner: the sender that the conversation belongs to; None if it belongs to the whole chat.
        key: the key with which code started the route; for a room, the room's key; None if there is no key.
        args: the arguments with which code started the route.
        interrupted: name of the route that this conversation has interrupted, or None.
        beside: whether the conversation runs as an aside, beside the live conversation.
        run_number: 1, and one more after each `continue_as`.
        id: text made of the chat, the row of the starting event and, from the second run on, the run's
            number; the same after a restart.
    """

    chat_id: ChatId
    seq: int
    route: Route
    event: Event
    at: int
    owner: SenderId | None
    key: str | None
    args: tuple[object, ...]
    interrupted: str | None
    beside: bool
    run_number: int
    id: str

    def ended_by(self, halt: Halt) -> bool:
        """Return whether `halt`, the stop of a route, ends this run."""
        return halt.ends(self.route.name, self.key)

    @property
    def place_name(self) -> str:
        """Name of the conversation's chat or room in errors and logs."""
        return place_name(self.chat_id, room_of(self.event))


@final
@frozen
class InRow:
    """A new conversation. The row of the starting event has the first record already."""

    first: Record = attrs.field(repr=False)


@final
@attrs.define(eq=False, repr=False)
class Successor:
    """The conversation that replaces a conversation that has called `continue_as`.

    Attributes:
        first: the first record, stored by the unit that ends the former conversation.
        run: number of the run within the conversation.
        position: position in the journal of the record after `first`; set when `first` is added to a unit.
    """

    start: Start
    delivery: Delivery
    first: Record
    run: int
    position: int = attrs.field(default=0, init=False)


@final
@frozen
class DueStart:
    """A start that waits for another conversation's end."""

    start: Start
    delivery: Delivery


@final
@attrs.define(eq=False, repr=False)
class Replay:
    """The replay of a journal, to revive a conversation from the store or for a dry run.

    Attributes:
        stored: the conversation's row and journal; after the replay, only the row.
        changed: comparison of the journal with the current code; None if the same build made the journal, or
            the replay is over.
        settled: set once the journal is replayed or the conversation has ended.
        when_over: functions to call once the journal is replayed.
    """

    stored: Stored
    changed: Changed | None = None
    settled: trio.Event = attrs.field(factory=trio.Event, init=False)
    when_over: Sequence[Callable[[], None]] = attrs.field(default=(), init=False)


@final
@frozen
class Dry:
    """A dry run of a journal: the code runs to the journal's end, and changes nothing.

    Attributes:
        host: the run's host.
        owner: the run's owner.
        look: observer of the operations that the code begins.
        limit: time limit of the run's tasks; when it is over, the tasks are abandoned.
    """

    replay: Replay
    host: Host
    owner: RunOwner
    look: Onlooker
    limit: TimeLimit


Begin: TypeAlias = InRow | Successor | Replay | Dry | None
"""None: a new conversation, whose first record is made when the run begins."""
