"""Gives an operation its place in a lane, and keeps edits of one message in their order. Pure.

An edit right behind an edit of the same message takes over that one's place. An edit that no code awaits has
a lane beside its chat's; one that is awaited finds it there and puts it before itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

import trio

from ..seams.outbox import Urgency
from ..wire.operations import EditMessage
from .delivery import Delivery, beside
from .lanes import Lanes


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
