"""Deliveries, the entries of a lane: an operation, the caller that waits for its result, and the state
of its attempts.

An edit that no code awaits, such as the removal of old buttons, has a lane of its own beside its chat's lane.
The chat's messages never wait for such an edit. Edits of the same message keep their order nevertheless: an
edit goes into the lane in which another edit of its message waits or is in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
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
class Delivery(Place):
    """An entry of a lane, with all its state.

    Attributes:
        chat: key of the chat that the operation concerns, whichever lane the delivery is in.
        own: whether the task that waits for the result can send the request itself.
        doubted: called when the operation is sent again although an earlier attempt may have arrived.
        recorded: event that the caller sets once the outcome is durable.
        task: the caller's task while it waits for a result or for its `turn`.
        turn: whether the caller's task must send the request now.
        error: error of a delivery that failed while its task wasn't waiting.
        wanted: whether the caller still wants the result.
        since: when the delivery was queued, in the loop's seconds. The time of file uploads earlier in the
            lane is added, so that uploads don't count as waiting.
        began: when the current attempt's request or upload began.
        after: event that must be set before the attempt. This event is set when the outcome of the lane's
            earlier operation is durable.
        attempts: number of attempts begun.
        doubtful: whether an earlier attempt of an unrepeatable operation may have taken effect.
        refusal: the last attempt's 401 or 403, until the breaker has decided about its cause.
        sending: whether an attempt is in progress.
        written: whether the request is in progress; uploads don't count.
        uploading: cancel scope of the upload, cancelled when no caller wants the file any more.
        cached: cache key of the descriptor in use, if the descriptor came from the cache.
        refreshed: whether a descriptor that the platform had forgotten was replaced; replaced once only.
        dropped: whether `drop` was called for the chat while the request was in flight, because the user left
            the chat.
        probe: whether this attempt tests if the token works again.
        begun: the request that a caller's task has begun.
    """

    chat: Hashable = attrs.field(repr=False)
    operation: Operation[object]
    on_unknown: OnUnknown = OnUnknown.RESEND
    own: bool = False
    doubted: Callable[[], None] | None = None
    recorded: trio.Event | None = None
    task: trio.lowlevel.Task | None = None
    turn: bool = False
    error: Exception | None = None
    wanted: bool = True
    since: float = 0.0
    began: float = 0.0
    after: trio.Event | None = None
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


def choose_lane(lanes: Lanes[Delivery], delivery: Delivery) -> None:
    """Set the lane of an edit: the lane in which an earlier edit of the same message waits, or else the
    lane for `urgency`.
    """
    edit = delivery.operation
    if not isinstance(edit, EditMessage):
        return
    apart, awaited = beside(delivery.chat), delivery.urgency is not Urgency.BESIDE
    other = apart if awaited else delivery.key
    follows = any(
        isinstance(earlier.operation, EditMessage) and earlier.operation.message_id == edit.message_id
        for earlier in lanes.standing(other).places
    )
    if follows == awaited:
        delivery.key = apart


@final
class Unrecorded:
    """The newest `recorded` event of each lane's operations.

    The lane's next operation waits in its position for that event. Without this wait, a crash between the two
    operations could repeat the earlier operation after the later one.

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
        if (recorded := delivery.recorded) is None:
            return
        earlier = self._last.get(delivery.key)
        # On a retry, the lane's last event may be the delivery's own event.
        if earlier is not None and earlier is not recorded and not earlier.is_set():
            delivery.after = earlier
        self._last[delivery.key] = recorded


def with_media(operation: Operation[object], media: Media) -> Operation[object]:
    assert isinstance(operation, SendMessage | EditMessage)
    return attrs.evolve(operation, content=cast("Content", media))


def comes_again(delivery: Delivery) -> bool:
    """Return whether a restart may drop the delivery.

    The result is True if the delivery's caller has a journal, which repeats the operation, or if the
    operation is repeatable, such as an edit.
    """
    return delivery.recorded is not None or repeatable(delivery.operation)


def to_upload(operation: Operation[object]) -> Media | None:
    content = operation.content if isinstance(operation, SendMessage | EditMessage) else None
    return content if isinstance(content, Media) and not isinstance(content.source, Descriptor) else None


def has_file(operation: Operation[object]) -> bool:
    if type(operation) is SendMessage and type(operation.content) is str:
        return False
    return isinstance(operation, Upload) or to_upload(operation) is not None


def left(delivery: Delivery) -> ForbiddenError:
    return ForbiddenError(delivery.operation.path, 403, "the user has left")
