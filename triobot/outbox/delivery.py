"""Deliveries, the entries of a lane: an operation, the calls that wait for its result, and its attempts.

An edit that no code awaits, such as the removal of old buttons, has a lane of its own beside its chat's lane.
The chat's messages never wait for such an edit. Edits of the same message keep their order nevertheless.

An edit queued directly after an edit of the same message replaces the earlier edit: the user would see only
the last text anyway. Both callers then get the last edit's result. Three conditions must be met: the two
edits are neighbours in the lane, the first edit hasn't started, and the second edit has content. An edit
without content would keep the earlier edit's content.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, cast, final
from weakref import WeakValueDictionary

import attrs
import trio

from ..errors import ForbiddenError
from ..seams.outbox import Begun, OnUnknown, Urgency
from ..wire.content import Content, Descriptor, Media
from ..wire.ids import GroupName, Recipient
from ..wire.operations import EditMessage, Operation, SendMessage, Upload, repeatable
from .lanes import Lanes, Place
from .uploads import UploadKey


def chat_of(recipient: Recipient) -> Recipient:
    """Return the key of a chat. ``@team`` and ``team@`` are the same group.

    A phone number and the id of its owner's chat have different keys, since the platform doesn't reveal that
    both are the same chat. Operations with different keys have no order between them.
    """
    if isinstance(recipient, str) and "@" in recipient:
        return GroupName("@" + recipient.strip("@"))
    return recipient


def lane_of(recipient: Recipient) -> Hashable:
    """Return the key of the lane for a chat's messages."""
    return ("chat", chat_of(recipient))


def beside(chat: Hashable) -> Hashable:
    """Return the key of the lane for a chat's edits that no code awaits."""
    return ("beside", chat)


def way_of(operation: Operation[object]) -> tuple[Hashable, Hashable]:
    """Return the key of the operation's lane, and the key of the operation's chat.

    Operations of the same lane are sent one after the other. Each payment has a lane for its verify and
    inquiry: money must not wait for a message that can't be delivered. Actions and answers don't wait in the
    chat's lane either, because a late action or answer is useless.
    """
    traits = operation.traits
    if traits.lane is None:
        alone = object()
        return alone, alone
    addressed: Any = operation
    chat = chat_of(addressed.chat_id)
    return (traits.lane, getattr(operation, traits.number) if traits.number else chat), chat


@final
@attrs.define(eq=False)
class Call:
    """One caller's operation.

    Attributes:
        own: whether a task waits for the result and can send the request itself.
        doubted: called when the operation is sent again although it may have arrived.
        recorded: set by the caller once the outcome is durable.
        task: the caller's task while it waits for a result or for its `turn`.
        turn: whether the caller's task is to send the request now.
        error: error of a call that failed while its task wasn't waiting.
        wanted: whether the caller still wants the result.
        delivery: the delivery that the queued call belongs to.
    """

    operation: Operation[object]
    on_unknown: OnUnknown = OnUnknown.RESEND
    own: bool = False
    doubted: Callable[[], None] | None = None
    recorded: trio.Event | None = None
    task: trio.lowlevel.Task | None = None
    turn: bool = False
    error: Exception | None = None
    wanted: bool = True
    delivery: Delivery | None = None


@final
@attrs.define(eq=False)
class Delivery(Place):
    """An entry of a lane, with all its state.

    Attributes:
        chat: key of the chat that the operation concerns, whichever lane the delivery is in.
        calls: the calls that want the result; the last call's operation is sent.
        since: when the delivery was queued, in the loop's seconds. The time of file uploads before it in the
            lane is added, so that uploads don't count as waiting.
        began: when the current attempt's request or upload began.
        after: event that must be set before the attempt. The event means that the attempt at an earlier edit
            of the same message in the edits' own lane has ended, or that the outcome of the lane's earlier
            operation is durable.
        followers: later edits that wait for the end of this delivery's attempt.
        landed: set at the end of the attempt, for the followers.
        attempts: number of attempts begun.
        doubtful: whether an earlier attempt of an unrepeatable operation may have taken effect.
        refusal: the 401 or 403 that the breaker hasn't judged yet.
        sending: whether an attempt is in progress; the operation can't change then.
        written: whether the request is in progress; uploads don't count.
        uploading: cancel scope of the upload, cancelled when no call wants the file any more.
        cached: cache key of the descriptor in use, if the descriptor came from the cache.
        refreshed: whether a descriptor that the platform had forgotten was replaced; replaced once only.
        dropped: whether the user left the chat while the request was in flight.
        probe: whether this attempt tests if the token works again.
        begun: the request that a caller's task has begun.
    """

    chat: Hashable = attrs.field(repr=False)
    calls: list[Call]
    since: float = 0.0
    began: float = 0.0
    after: trio.Event | None = None
    followers: tuple[Delivery, ...] = ()
    landed: trio.Event | None = None
    attempts: int = 0
    doubtful: bool = False
    refusal: Exception | None = None
    sending: bool = False
    written: bool = False
    uploading: trio.CancelScope | None = None
    cached: UploadKey | None = None
    refreshed: bool = False
    dropped: bool = False
    probe: bool = False
    begun: Begun[object] | None = None

    @property
    def call(self) -> Call:
        """The call whose operation is sent."""
        return self.calls[-1]

    @property
    def wanted(self) -> bool:
        """Whether any call still wants the result."""
        return any(call.wanted for call in self.calls)

    def join(self, call: Call) -> None:
        """Add a call; its operation is sent from now on."""
        call.delivery = self
        self.calls.append(call)

    def follow(self, earlier: Delivery) -> None:
        """Take over the calls of an earlier edit of the same message; the earlier edit isn't sent again."""
        own, former = self.call.operation, earlier.call.operation
        if isinstance(own, EditMessage) and isinstance(former, EditMessage) and own.content is None:
            # This edit has buttons only, so the earlier edit's content is still to be sent.
            self.call.operation = attrs.evolve(own, content=former.content)
        for call in earlier.calls:
            call.delivery = self
        self.calls[:0] = earlier.calls
        earlier.calls = []

    def edits_with(self, other: Operation[object]) -> bool:
        """Return whether both operations edit the same message."""
        own = self.call.operation
        return (
            isinstance(own, EditMessage)
            and isinstance(other, EditMessage)
            and own.message_id == other.message_id
        )

    def takes(self, later: Operation[object]) -> bool:
        """Return whether a later operation may replace this delivery's operation."""
        return (
            isinstance(later, EditMessage)
            and later.content is not None
            and self.edits_with(later)
            and not self.attempts
        )


def take_place(
    lanes: Lanes[Delivery], delivery: Delivery, now: float, withdrawn: Callable[[Delivery], None]
) -> bool:
    """Add a new delivery to the end of its lane, or join its call to the edit at the end.

    Args:
        withdrawn: called with each edit that is moved from its own lane into the chat's lane.

    Returns:
        Whether an operation may be able to start now.
    """
    call, after = delivery.call, None
    if isinstance(call.operation, EditMessage):
        if delivery.urgency is not Urgency.BESIDE:
            after = _put_before(lanes, call.operation, delivery, now, withdrawn)
        elif not any(_edits(lanes, delivery.key, call.operation)):
            delivery.key = beside(delivery.chat)
    last = lanes.last(delivery.key)
    if last is not None and last.takes(call.operation):
        lanes.hasten(last, delivery.urgency, now)
        last.join(call)
        delivery, may_start = last, True
    else:
        delivery.since = now
        may_start = lanes.queue(delivery, now)
    if after is not None:
        _let_wait(delivery, after)
    return may_start


def is_followed(lanes: Lanes[Delivery], delivery: Delivery, now: float) -> bool:
    """Replace a failed edit by the last of the later edits of the same message that wait for its end.

    Returns:
        Whether the edit was replaced: a later edit waits, and a caller still wants its result.
    """
    followers = [follower for follower in delivery.followers if follower.wanted]
    delivery.followers = ()
    if not followers:
        return False
    followers[-1].follow(delivery)
    lanes.finish(delivery, now)
    return True


def _let_wait(later: Delivery, earlier: Delivery) -> None:
    if later.after is None:
        if earlier.landed is None:
            earlier.landed = trio.Event()
        earlier.followers = (*earlier.followers, later)
        later.after = earlier.landed


def _edits(lanes: Lanes[Delivery], lane: Hashable, edit: EditMessage) -> Iterator[Delivery]:
    return (delivery for delivery in lanes.standing(lane).places if delivery.edits_with(edit))


def _put_before(
    lanes: Lanes[Delivery],
    edit: EditMessage,
    later: Delivery,
    now: float,
    withdrawn: Callable[[Delivery], None],
) -> Delivery | None:
    """Move the message's waiting edits from their own lane into the chat's lane, before the new edit.

    Returns:
        The edit in flight in the edits' own lane; the new edit has to wait for that edit.
    """
    after: Delivery | None = None
    moved: list[Delivery] = []
    for earlier in list(_edits(lanes, beside(later.chat), edit)):
        if lanes.withdraw(earlier, now):
            withdrawn(earlier)
            earlier.key, earlier.urgency, earlier.attempts = later.key, later.urgency, 0
            lanes.queue(earlier, now)
            moved.append(earlier)
        else:
            after = earlier
    if after is not None:
        for earlier in moved:
            _let_wait(earlier, after)
    return after


@final
class Unrecorded:
    """For each lane, the last event that a caller sets once an outcome is durable.

    The lane's next operation waits in its position for that event. Without the wait, a crash between the two
    operations could cause the earlier operation to be sent again after the later operation.

    Events are referenced weakly: each caller keeps its event alive until the event is set.
    """

    def __init__(self) -> None:
        self._last = WeakValueDictionary[Hashable, trio.Event]()

    def __len__(self) -> int:
        return len(self._last)

    def heed(self, delivery: Delivery) -> None:
        """Make a delivery wait until the earlier outcome in its lane is durable, if both operations have an
        event.
        """
        if (recorded := delivery.call.recorded) is None:
            return
        earlier = self._last.get(delivery.key)
        # On a retry the lane's last event is the delivery's own.
        if earlier is not None and earlier is not recorded and not earlier.is_set():
            delivery.after = earlier
        self._last[delivery.key] = recorded


def with_media(operation: Operation[object], media: Media) -> Operation[object]:
    assert isinstance(operation, SendMessage | EditMessage)
    return attrs.evolve(operation, content=cast("Content", media))


def comes_again(delivery: Delivery) -> bool:
    """Return whether a restart may drop the delivery.

    A restart may drop the delivery if each call has a journal, which repeats the operation, or has a
    repeatable operation, such as an edit.
    """
    return all(call.recorded is not None or repeatable(call.operation) for call in delivery.calls)


def to_upload(operation: Operation[object]) -> Media | None:
    content = operation.content if isinstance(operation, SendMessage | EditMessage) else None
    return content if isinstance(content, Media) and not isinstance(content.source, Descriptor) else None


def has_file(operation: Operation[object]) -> bool:
    if type(operation) is SendMessage and type(operation.content) is str:
        return False
    return isinstance(operation, Upload) or to_upload(operation) is not None


def left(delivery: Delivery) -> ForbiddenError:
    return ForbiddenError(delivery.call.operation.path, 403, "the user has left")
