"""Tells how long operations have waited, and whether they wait for the platform alone. Pure."""

from __future__ import annotations

from collections.abc import Hashable

from ..seams.outbox import Urgency
from .delivery import Delivery, comes_again
from .lanes import Lanes


def oldest_wait(lanes: Lanes[Delivery], now: float) -> float:
    """Return for how many seconds the oldest awaited operation has waited; 0 while everything is held.

    A first attempt that is under way doesn't count, nor does what is behind a file being uploaded.
    """
    if lanes.held:
        return 0.0  # that has an alarm of its own
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
    """Return whether something is queued, nothing in flight, and all held or waiting to be repeated.

    Or the pace holds it back for more than a second, and all of it is done anew after the next start.
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
