"""The age of the oldest waiting operation, and whether the queue can be sent before the platform recovers.

Pure.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..seams.outbox import Urgency
from .delivery import Delivery, comes_again
from .lanes import Lanes


def oldest_wait(lanes: Lanes[Delivery], now: float) -> float:
    """Return the age in seconds of the oldest waiting operation for money or a reply; 0 while everything is
    held.

    An operation in its first attempt doesn't count. An operation that waits for a file upload of an earlier
    operation in its lane doesn't count either.
    """
    if lanes.held:
        return 0.0  # the breaker raises its own alarm for a hold
    oldest, uploading = now, None
    for delivery in lanes.places():
        first = delivery.sending and delivery.attempts == 1
        awaited = delivery.urgency in (Urgency.MONEY, Urgency.REPLY)
        if first and delivery.uploading is not None:
            uploading = delivery.key
        elif awaited and not first and delivery.key != uploading:
            oldest = min(oldest, delivery.since)
    return now - oldest


def is_stuck(lanes: Lanes[Delivery], now: float) -> bool:
    """Return whether `drain`, the wait for an empty queue, makes no progress until the platform recovers.

    Draining makes no progress while operations are queued, none is in flight, and one of these is true:

    - the breaker holds everything;
    - the first operation of every lane has failed at least once;
    - a restart may drop every operation (`comes_again`), and the queue waits: the platform asked for a pause,
      or the pace delays the queue by more than a second.
    """
    if lanes.in_flight or not lanes.queued:
        return False
    if lanes.held:
        return True
    rate = lanes.pace.rate
    slow = lanes.limited_until > now or (rate is not None and lanes.queued > rate)
    if slow and all(map(comes_again, lanes.places())):
        return True
    first: dict[Hashable, Delivery] = {}
    for delivery in lanes.places():
        first.setdefault(delivery.key, delivery)
    return all(delivery.attempts for delivery in first.values())
