"""What waits in a place of a lane: an operation, the calls that wait for it, and how its attempts went.

An edit that no code awaits, such as one that takes old buttons away, has a lane of its own beside its chat's:
what the chat is told never waits for it. Only edits of one message keep their order, however they are queued.

An edit that is queued right behind an edit of the same message takes over that one's place: the user would
see only the last text anyhow. Both callers then get the last edit's result. That needs the two to be
neighbours in the lane, the first not to have started, and the second to bring content, because an edit
without content keeps the earlier one's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, cast, final
from weakref import ref

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
    """Return the key of a chat. ``@team`` and ``team@`` are one group.

    A phone number and the id of its owner's chat are two keys, since the platform doesn't say that they
    are one chat: there is no order between what is sent to the one and to the other.
    """
    if isinstance(recipient, str) and "@" in recipient:
        return GroupName("@" + recipient.strip("@"))
    return recipient


def lane_of(recipient: Recipient) -> Hashable:
    """Return the lane of what a chat's people see."""
    return ("chat", chat_of(recipient))


def beside(chat: Hashable) -> Hashable:
    """Return the lane of the edits of a chat that no code awaits."""
    return ("beside", chat)


def way_of(operation: Operation[object]) -> tuple[Hashable, Hashable]:
    """Return where an operation queues: its lane, and what stands for its chat, whichever lane it is.

    Operations with an equal lane go one after the other. Verify and inquiry have lanes of their own, one a
    payment: money must not wait behind a text that can't be delivered. So have actions and answers, which
    are worth nothing when late.
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
        own: the caller's task can carry it; False for one that no task waits for.
        doubted: called when it is sent again although it may have arrived.
        recorded: set once what came of it is durable.
        task: of the caller, while it is parked until there is a result, or until it is its `turn`.
        turn: it is its turn: the caller's task is to carry it now.
        error: what it has failed with while its caller was not parked.
        delivery: what it is a part of, once it is queued.
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
    """Everything about one place in a lane.

    Attributes:
        chat: stands for the chat that it tells something about, whichever lane it is in.
        calls: those that want it; the last one's operation is what is sent.
        since: when its place was taken, in the loop's seconds; later by what uploads before it took.
        began: when the request of the present attempt began, or its upload.
        after: it is waited for: the end of an attempt at an edit of the same message in the lane beside, or
            that what came of the operation before this one is durable.
        followers: the later edits that wait for the end of this one's attempt, which `landed` tells.
        attempts: how many were begun.
        doubtful: an attempt of what must not repeat may have taken effect, unseen.
        refusal: the 401 or 403 that the breaker hasn't judged yet.
        sending: an attempt is under way; what it sends is fixed.
        written: its request is under way, uploads excepted.
        uploading: cancelled when no call wants the file any more.
        cached: the descriptor in use came from the cache, under this key.
        refreshed: a forgotten descriptor was replaced once.
        dropped: the chat was left while this was in flight.
        probe: this attempt tests whether the token works again.
        begun: its request, which a caller's task began.
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
        """Return the call that decides what is sent."""
        return self.calls[-1]

    @property
    def wanted(self) -> bool:
        """Return whether any of its calls still wants it."""
        return any(call.wanted for call in self.calls)

    def join(self, call: Call) -> None:
        """Add a call, which decides what is sent from now on."""
        call.delivery = self
        self.calls.append(call)

    def follow(self, earlier: Delivery) -> None:
        """Stand for an earlier edit of the same message, which is not sent again."""
        own, former = self.call.operation, earlier.call.operation
        if isinstance(own, EditMessage) and isinstance(former, EditMessage) and own.content is None:
            # It changes the buttons only: what was to be shown above them is still to come.
            self.call.operation = attrs.evolve(own, content=former.content)
        for call in earlier.calls:
            call.delivery = self
        self.calls[:0] = earlier.calls
        earlier.calls = []

    def edits_with(self, other: Operation[object]) -> bool:
        """Return whether this one and the other are edits of one message."""
        own = self.call.operation
        return (
            isinstance(own, EditMessage)
            and isinstance(other, EditMessage)
            and own.message_id == other.message_id
        )

    def takes(self, later: Operation[object]) -> bool:
        """Return whether a later operation may take over this place."""
        return (
            isinstance(later, EditMessage)
            and later.content is not None
            and self.edits_with(later)
            and not self.attempts
        )


def take_place(
    lanes: Lanes[Delivery], delivery: Delivery, now: float, withdrawn: Callable[[Delivery], None]
) -> bool:
    """Put a new delivery at the end of its lane, or let it join the edit there.

    Args:
        withdrawn: called with each edit that was moved out of the lane beside.

    Returns:
        Whether something may start.
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
    """Leave an edit that failed to the later one of the same message that waits for its end, if any."""
    followers = [follower for follower in delivery.followers if follower.wanted]
    delivery.followers = ()
    if not followers:
        return False
    followers[-1].follow(delivery)
    lanes.finish(delivery, now)
    return True


def _let_wait(later: Delivery, earlier: Delivery) -> None:
    """Send an edit only when the attempt at an earlier one of the same message has ended."""
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
    """Let an edit find the same message's edits of the lane beside before it, in its own lane.

    Returns:
        The one that is in flight there, which has to be waited for.
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


# So many lanes are looked through for what has been recorded, at least.
_LEAST: Final = 64


@final
class Unrecorded:
    """The events that callers set once an outcome is durable, the last of each lane.

    The next operation of the lane waits for that in its place: a crash between the two would else leave the
    later one sent and the earlier one to be sent again behind it.

    A caller holds its event until it is set, and from there on nobody need. Events that are set or gone are
    left out once there are twice as many as there were without them.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, ref[trio.Event]] = {}
        self._most = _LEAST

    def __len__(self) -> int:
        return len(self._last)

    def heed(self, delivery: Delivery) -> None:
        """Hold a delivery back until the outcome of the one before it is durable, if both tell."""
        if (recorded := delivery.call.recorded) is None:
            return
        if (known := self._last.get(delivery.key)) is not None:
            earlier = known()
            # It may be its own: it is tried again.
            if earlier is not None and earlier is not recorded and not earlier.is_set():
                delivery.after = earlier
        self._last[delivery.key] = ref(recorded)
        if len(self._last) > self._most:
            known_now = [(lane, one, one()) for lane, one in self._last.items()]
            self._last = {
                lane: one for lane, one, event in known_now if event is not None and not event.is_set()
            }
            self._most = 2 * len(self._last) + _LEAST


def media_of(operation: Operation[object]) -> Media | None:
    """Return the media value of an operation, if it has one."""
    if isinstance(operation, SendMessage | EditMessage) and isinstance(operation.content, Media):
        return operation.content
    return None


def with_media(operation: Operation[object], media: Media) -> Operation[object]:
    """Return the operation with `media` in place of its content."""
    assert isinstance(operation, SendMessage | EditMessage)
    return attrs.evolve(operation, content=cast("Content", media))


def comes_again(delivery: Delivery) -> bool:
    """Return whether a journal has it, or it may be lost as well as repeated, such as an edit."""
    return all(call.recorded is not None or repeatable(call.operation) for call in delivery.calls)


def to_upload(operation: Operation[object]) -> Media | None:
    media = media_of(operation)
    return None if media is None or isinstance(media.source, Descriptor) else media


def has_file(operation: Operation[object]) -> bool:
    if type(operation) is SendMessage and type(operation.content) is str:
        return False
    return isinstance(operation, Upload) or to_upload(operation) is not None


def left(delivery: Delivery) -> ForbiddenError:
    return ForbiddenError(delivery.call.operation.path, 403, "the user has left")
