"""Times of a payment's examinations: quickly after a callback, then at growing intervals. Pure.

A payment must be verified within an hour. The hour begins no earlier than the last moment at which the
payment was certainly unpaid. If a callback is lost, only the sweep finds the payment. The sweep's interval is
therefore shorter than an hour. For three hours, the interval leaves at least 20 minutes of the hour for the
platform's answer. These three hours start again when the button is shown, when a callback arrives, and when
the conversation stops waiting. Afterwards the intervals grow with the elapsed time, because an unpaid button
must not cost requests forever. A payment made after the three hours is found by its callback, by another
press, or by the examination at the conversation's end.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import attrs

from .entry import Entry, State
from .facts import WINDOW, over_at, unpaid_until

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

PAUSES: Final = (2 * SECOND, 10 * SECOND, MINUTE, 5 * MINUTE)
"""Pauses between examinations after a callback."""

UNCLEAR: Final = 5 * MINUTE
"""Pause between examinations while the outcome is unknown, once `PAUSES` are used up."""

SWEEP: Final = 18 * MINUTE
LONGEST: Final = 40 * MINUTE
"""Shortest pause (`SWEEP`) and longest pause (`LONGEST`) between examinations of an open payment within
`FRESH`.
"""
FRESH: Final = 3 * HOUR
"""Time in which the sweep finds a payment with a lost callback within the payment's hour."""

NEAR: Final = 30 * SECOND
"""Pause while the outcome is unknown, if an alarm would come before the next regular examination."""

BLIND: Final = 20 * MINUTE
ANSWER: Final = BLIND - SWEEP
"""Time for the platform's answer, before the alarm about missing answers."""
BLIND_STILL: Final = 30 * MINUTE
"""Time until the alarm is raised again, so that an acknowledgement doesn't hide later payments."""

HINT_AGE: Final = 30 * MINUTE

INVOICE_LIFE: Final = DAY
SECOND_PAYMENT: Final = 10 * MINUTE
UNSETTLED: Final = DAY
TRIES: Final = 5
REMOVE_PAUSES: Final = (2 * SECOND, 10 * SECOND, MINUTE, 5 * MINUTE, HOUR)
DELIVER_PAUSES: Final = (2 * SECOND, 30 * SECOND, 5 * MINUTE, HOUR)

Clock: TypeAlias = Literal["life_over", "hint_age_30min", "unchecked_20min", "unsettled_1day", "taker_gone"]

WATCHED: Final[tuple[State, ...]] = ("sending", "open", "unsure", "check", "closing")
ON_SCREEN: Final[tuple[State, ...]] = ("prepared", "sending", "open", "unsure", "check", "verifying")


def pause(pauses: tuple[int, ...], tries: int, then: int) -> int:
    """Return the pause after `tries` tries: an element of `pauses`, or `then` once `pauses` is used up."""
    return pauses[tries] if tries < len(pauses) else then


def next_check(entry: Entry, now: int) -> int:
    """Return the time of the next examination, after an examination that didn't change the payment's
    state.
    """
    hinted = entry.hinted_at is not None and entry.tries < len(PAUSES)
    if not (hinted or not entry.clean):
        return now + distance(entry, now)
    at = now + pause(PAUSES, entry.tries, rarely(entry, now, UNCLEAR))
    alarm = None if "unchecked_20min" in entry.warned else _blind(entry)
    # After one lost answer, or a crash during a verify, the platform may still answer: examine the payment
    # again before the alarm.
    return now + NEAR if alarm is not None and now < alarm[0] <= at else at


def distance(entry: Entry, clean_at: int) -> int:
    """Return the pause from `clean_at`, when the payment was certainly unpaid, to the next examination."""
    age = clean_at - _fresh_at(entry, clean_at)
    return age if age > FRESH else max(SWEEP, min(age, LONGEST))


def rarely(entry: Entry, at: int, pause: int) -> int:
    """Return `pause`, or a 24th of the time since the last likely moment of a payment, if that is longer."""
    return max(pause, (at - _fresh_at(entry, at)) // 24)


def _fresh_at(entry: Entry, now: int) -> int:
    """Return the time of the latest past event after which the user is likely to pay; `now` without such an
    event.
    """
    known = (entry.made_at, entry.sent_at, entry.hinted_at, entry.ended_at)
    return max((at for at in known if at is not None and at <= now), default=now)


def verify_by(entry: Entry) -> int:
    """Return the moment until which a verify certainly still captures the user's money."""
    return unpaid_until(entry) + WINDOW


def claimed_since(entry: Entry) -> int | None:
    """Return when a callback claimed that the payment was paid.

    None if the payment is unwanted, or was found unpaid after the callback.
    """
    open_ = entry.wanted and entry.claimed_at is not None and unpaid_until(entry) < entry.claimed_at
    return entry.claimed_at if open_ else None


def due(entry: Entry) -> tuple[int, Clock] | None:
    """Return the next fact caused by time alone, with its time; None if no such fact is expected."""
    found = (_life(entry), _hint(entry), _blind(entry), _unsettled(entry), _late(entry))
    clocks = [clock for clock in found if clock]
    return min(clocks, default=None)


def urgency(entry: Entry) -> int | None:
    """Return an entry's rank among the due entries, the smallest first; None: only the sweep examines it."""
    if entry.deliver_at is not None:
        return 0
    unclear = entry.state in WATCHED or entry.state == "verifying"
    return verify_by(entry) if unclear and entry.hinted_at is not None and not entry.clean else None


def due_at(entry: Entry) -> int | None:
    """Return the earliest due time of an entry, for any duty or fact; None: never."""
    clock = due(entry)
    moments = (entry.check_at, entry.remove_at, entry.deliver_at, clock[0] if clock else None)
    return min((at for at in moments if at is not None), default=None)


_HAPPENED: Final = (
    "sent_at",
    "hinted_at",
    "claimed_at",
    "asked_at",
    "seen_at",
    "doubt_at",
    "clean_at",
    "verified_at",
    "delivered_at",
    "ended_at",
    "gone_at",
    "blind_at",
    "watched_at",
)
_DUE: Final = ("check_at", "remove_at", "deliver_at")


def clock_set(entry: Entry, by: int, now: int) -> Entry:
    """Correct an entry after the clock was set.

    If the clock went forward while the program ran, the stored times of past events move along, so elapsed
    times stay the same. Due times and `expires_at` aren't moved: they apply to the new time of day.

    If the clock went back, all past times and due times that now lie in the future are changed to `now`. The
    clock's error at the stored times is unknown, and an early examination is better than a late examination.
    """
    moved: dict[str, Any] = {}
    for name in _HAPPENED if by > 0 else (*_HAPPENED, *_DUE):
        at: int | None = getattr(entry, name)
        moved[name] = None if at is None else min(at + max(by, 0), now)
    return attrs.evolve(entry, **moved)


def _life(entry: Entry) -> tuple[int, Clock] | None:
    over = over_at(entry)
    return None if over is None or entry.state not in ("closing", "check") else (over, "life_over")


def _hint(entry: Entry) -> tuple[int, Clock] | None:
    claimed = entry.claimed_at
    if claimed is None or "hint_age_30min" in entry.warned or not _asked_about(entry):
        return None
    if unpaid_until(entry) >= claimed:
        return None
    # When a callback comes late, some minutes of the hour for the verify are over. A minute is reserved for
    # the verify itself.
    return max(claimed + MINUTE, min(claimed + HINT_AGE, verify_by(entry) - BLIND)), "hint_age_30min"


def _blind(entry: Entry) -> tuple[int, Clock] | None:
    if entry.sent_at is None or not _asked_about(entry):
        return None
    if "unchecked_20min" in entry.warned and entry.blind_at is not None:
        return entry.blind_at + rarely(entry, entry.blind_at, BLIND_STILL), "unchecked_20min"
    unpaid = unpaid_until(entry)
    asked = [unpaid + distance(entry, unpaid) + ANSWER]
    # A callback causes an early examination, and so does the conversation's end. The alarm is raised if the
    # platform hasn't answered `BLIND` milliseconds later.
    asked += [at + BLIND for at in (entry.hinted_at, entry.ended_at) if at is not None and at > unpaid]
    # After a start or a standstill, one common alarm covers the time without a watch. So this warning waits
    # until the platform has had time to answer.
    return max(min(asked), (entry.watched_at or 0) + ANSWER), "unchecked_20min"


def _asked_about(entry: Entry) -> bool:
    watched = entry.state in WATCHED or entry.state == "verifying"
    return watched and entry.wanted and entry.verifiable


def _unsettled(entry: Entry) -> tuple[int, Clock] | None:
    if entry.state != "delivered" or entry.delivered_at is None or "unsettled_1day" in entry.warned:
        return None
    return entry.delivered_at + UNSETTLED, "unsettled_1day"


def _late(entry: Entry) -> tuple[int, Clock] | None:
    # Usually the conversation gives up its payment. This fact is needed for a conversation that can't be
    # revived.
    if entry.taker != "conversation" or entry.state not in ON_SCREEN:
        return None
    return entry.expires_at + MINUTE, "taker_gone"
