"""What one shard asks of another: a closed union, with what comes back.

Each may be asked twice, since its owner may die after it has done it and before it says so. What changes
something is therefore known again by a key, or is the same when it is done twice.
"""

from __future__ import annotations

from typing import Final, TypeAlias, final

import attrs

from ..alarm_kinds import AlarmKind
from ..conversations.doors.calls import Halt
from ..seams import Arrival, BroadcastStatus
from ..values import register
from ..wire.ids import ChatId


@final
@attrs.frozen
class Said:
    """A signal or a call, on its way to the inbox of its place.

    Attributes:
        once: by which its owner knows it again.
    """

    place: ChatId
    at: int
    content_type: str
    body: bytes = attrs.field(repr=False)
    once: str = attrs.field(repr=False)

    @property
    def arrival(self) -> Arrival:
        """Return it as the inbox takes it."""
        return Arrival(self.place, None, self.at, self.content_type, self.body, self.once, once=True)


@final
@attrs.frozen
class TellPlace:
    """Store a signal of this place. Nothing comes back."""

    said: Said


@final
@attrs.frozen
class StartRoute:
    """Store this call; whether it was new comes back.

    Attributes:
        run: nothing is stored if there is something that this would stop.
    """

    said: Said
    run: Halt | None


@final
@attrs.frozen
class StopRoute:
    """Have the runs of a route ended; whether there were any comes back."""

    halt: Halt


@final
@attrs.frozen
class ReadKeptOf:
    """Read what a place keeps; it comes back by key."""

    place: ChatId


@final
@attrs.frozen
class PutKept:
    """Keep a value for a place, or with None nothing. Nothing comes back.

    Attributes:
        once: done a second time with this key, it changes nothing.
    """

    place: ChatId
    key: str
    value: str | None = attrs.field(repr=False)
    once: str


@final
@attrs.frozen
class ReplaceKept:
    """Put `new` in the place of `old`; what is there by this comes back, or None if `old` isn't there.

    Attributes:
        once: a second one with this key changes nothing, and gets what the first one has put.
    """

    place: ChatId
    key: str
    old: str | None = attrs.field(repr=False)
    new: str = attrs.field(repr=False)
    once: str


@final
@attrs.frozen
class SettleKept:
    """Forget that something was done with this key; it won't be asked again. Nothing comes back."""

    place: ChatId
    once: str


@final
@attrs.frozen
class ReadKeyed:
    """Read a page of this shard's chats that keep a value under a key; chats and values come back."""

    key: str
    after: ChatId | None


@final
@attrs.frozen
class FindPayment:
    """Look for a payment by a button's number, or by an invoice's; whether it is here comes back."""

    number: str
    invoice: bool


@final
@attrs.frozen
class OpenPart:
    """Begin this shard's part of a broadcast, or wait until another start of it has ended.

    Whether its receivers are wanted comes back: not if it was started before.

    Attributes:
        session: names this start in what follows.
        content: what is said, as it is stored.
    """

    session: str
    key: str
    content: str = attrs.field(repr=False)


@final
@attrs.frozen
class AddToPart:
    """Add these receivers to a part that is open; whether it is open comes back."""

    session: str
    chats: tuple[ChatId, ...] = attrs.field(repr=False)


@final
@attrs.frozen
class EndPart:
    """Begin to tell a part's receivers, or with `given_up` forget them; whether that was done comes back."""

    session: str
    given_up: bool = False


@final
@attrs.frozen
class ReadBroadcast:
    """Read how far this shard's part of a broadcast is; its status comes back."""

    key: str


@final
@attrs.frozen
class StopBroadcast:
    """Tell nobody more of this shard; whether there was something to stop comes back."""

    key: str


@final
@attrs.frozen
class ReadGone:
    """Read a page of this shard's receivers who have left: positions and chats come back."""

    key: str
    after: int


@final
@attrs.frozen
class RaiseAtHome:
    """Raise an alarm about the whole bot, once whichever shards find it. Nothing comes back."""

    kind: AlarmKind
    key: str
    text: str


Frame: TypeAlias = (
    TellPlace
    | StartRoute
    | StopRoute
    | ReadKeptOf
    | PutKept
    | ReplaceKept
    | SettleKept
    | ReadKeyed
    | FindPayment
    | OpenPart
    | AddToPart
    | EndPart
    | ReadBroadcast
    | StopBroadcast
    | ReadGone
    | RaiseAtHome
)

FRAMES: Final = (
    *(TellPlace, StartRoute, StopRoute, ReadKeptOf, PutKept, ReplaceKept, SettleKept, ReadKeyed, FindPayment),
    *(OpenPart, AddToPart, EndPart, ReadBroadcast, StopBroadcast, ReadGone, RaiseAtHome),
)

for _cls in FRAMES:
    register(_cls, name=f"triobot.nodes.{_cls.__name__}")
register(Said, name="triobot.nodes.Said")
register(BroadcastStatus, name="triobot.BroadcastStatus")
