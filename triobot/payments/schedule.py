"""When a payment is looked at: after a callback at once and ever more rarely, else now and then; pure.

The hour in which money must be verified begins no earlier than the last moment at which the payment was
certainly not paid. So the sweep's distance and the hour together say how long an answer may fail to come
before a lost callback costs a sale. For three hours since the button was shown, since the last callback, and
since nobody waits any more, that is 20 minutes at least. Behind that the distances grow as the time does: a
button that nobody pays must not cost a question every while for ever. Whoever pays it then is found by the
callback, by another press, or by the question that is asked when the conversation goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import attrs

from .entry import Entry, State
from .facts import AFTERLIFE, WINDOW, unpaid_until

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

PAUSES: Final = (2 * SECOND, 10 * SECOND, MINUTE, 5 * MINUTE)
"""Between examinations after a callback."""

UNCLEAR: Final = 5 * MINUTE
"""Between examinations while nothing certain is known, when the pauses are used up."""

SWEEP: Final = 18 * MINUTE
LONGEST: Final = 40 * MINUTE
"""Between examinations of what can be paid: at first, and in the `FRESH` time at most."""
FRESH: Final = 3 * HOUR
"""For so long each lost callback is found within its hour."""

NEAR: Final = 30 * SECOND
"""Between examinations while nothing certain is known, when the alarm would come before the next one."""

BLIND: Final = 20 * MINUTE
ANSWER: Final = BLIND - SWEEP
"""For the platform to answer, before somebody is told that it doesn't."""
BLIND_STILL: Final = 30 * MINUTE
"""After so long it is said again: who has acknowledged it has to hear of what was paid since, in its hour."""

HINT_AGE: Final = 30 * MINUTE

BUTTON_LIFE: Final = DAY
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
    """Return the pause after so many tries."""
    return pauses[tries] if tries < len(pauses) else then


def next_check(entry: Entry, now: int) -> int:
    """Say when to ask about it again, after an answer that decided nothing."""
    hinted = entry.hinted_at is not None and entry.tries < len(PAUSES)
    if not (hinted or not entry.clean):
        return now + distance(entry, now)
    at = now + pause(PAUSES, entry.tries, rarely(entry, now, UNCLEAR))
    alarm = None if "unchecked_20min" in entry.warned else _blind(entry)
    # One lost answer, or a death in a verify, is no silence: it is asked again before an operator is told.
    return now + NEAR if alarm is not None and now < alarm[0] <= at else at


def distance(entry: Entry, clean_at: int) -> int:
    """Return how long after a moment at which it wasn't paid it is asked about again."""
    age = clean_at - _fresh_at(entry, clean_at)
    return age if age > FRESH else max(SWEEP, min(age, LONGEST))


def rarely(entry: Entry, at: int, pause: int) -> int:
    """Return the pause, longer by and by for what is unclear for days: that is for the books alone."""
    return max(pause, (at - _fresh_at(entry, at)) // 24)


def _fresh_at(entry: Entry, now: int) -> int:
    """Return the last moment up to now at which somebody was about to pay it, or it ended."""
    known = (entry.made_at, entry.sent_at, entry.hinted_at, entry.ended_at)
    return max((at for at in known if at is not None and at <= now), default=now)


def verify_by(entry: Entry) -> int:
    """Return the moment before which a verify captures all that may have been paid."""
    return unpaid_until(entry) + WINDOW


def claimed_since(entry: Entry) -> int | None:
    """Return when it was said to be paid, if it is wanted and that is still to be found out."""
    open_ = entry.wanted and entry.claimed_at is not None and unpaid_until(entry) < entry.claimed_at
    return entry.claimed_at if open_ else None


def watched_until(entry: Entry) -> int | None:
    """Say when it can't be paid any more; None while it is waited for, or its button is still there."""
    over = _life(attrs.evolve(entry, state="closing"))
    return None if over is None else over[0]


def due(entry: Entry) -> tuple[int, Clock] | None:
    """Return the next fact that time alone brings, and its moment; None if there is none."""
    found = (_life(entry), _hint(entry), _blind(entry), _unsettled(entry), _late(entry))
    clocks = [clock for clock in found if clock]
    return min(clocks, default=None)


def urgency(entry: Entry) -> int | None:
    """Rank an entry among those that are due, the smaller the earlier; None leaves it to the sweep."""
    if entry.deliver_at is not None:
        return 0
    unclear = entry.state in WATCHED or entry.state == "verifying"
    return verify_by(entry) if unclear and entry.hinted_at is not None and not entry.clean else None


def due_at(entry: Entry) -> int | None:
    """Say when this entry has to be looked at again, for any reason; None for never."""
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


def without_future(entry: Entry, now: int) -> Entry:
    """Correct an entry after the clock was set back: what is due is due now, and nothing happened later.

    Better asked too early than too late: how wrong the clock was when a moment was noted isn't known.
    """
    return _with_moments(entry, (*_HAPPENED, *_DUE), lambda at: min(at, now))


def moved_on(entry: Entry, by: int, now: int) -> Entry:
    """Correct an entry after the clock was set forward while the program ran: all is as long ago as before.

    An hour lasts an hour. What is due by the new time is due, and so is the end of a button's life.
    """
    return _with_moments(entry, _HAPPENED, lambda at: min(at + by, now))


def _with_moments(entry: Entry, names: Sequence[str], change: Callable[[int], int]) -> Entry:
    changes: dict[str, Any] = {}
    for name in names:
        at: int | None = getattr(entry, name)
        changes[name] = None if at is None else change(at)
    return attrs.evolve(entry, **changes)


def _life(entry: Entry) -> tuple[int, Clock] | None:
    if entry.state not in ("closing", "check") or entry.ended_at is None:
        return None
    gone = entry.expires_at if entry.kind == "invoice" else entry.gone_at
    if gone is None:
        return None
    # Sent again after an answer was lost, there may be another button, which nobody can remove.
    twice = BUTTON_LIFE if entry.lost and entry.kind == "button" else 0
    return max(gone, entry.ended_at, entry.claimed_at or 0) + AFTERLIFE + twice, "life_over"


def _hint(entry: Entry) -> tuple[int, Clock] | None:
    claimed = entry.claimed_at
    if claimed is None or "hint_age_30min" in entry.warned or not _asked_about(entry):
        return None
    if unpaid_until(entry) >= claimed:
        return None
    # A callback that comes late has used up a part of its hour; a minute is for the verify itself.
    return max(claimed + MINUTE, min(claimed + HINT_AGE, verify_by(entry) - BLIND)), "hint_age_30min"


def _blind(entry: Entry) -> tuple[int, Clock] | None:
    if entry.sent_at is None or not _asked_about(entry):
        return None
    if "unchecked_20min" in entry.warned and entry.blind_at is not None:
        return entry.blind_at + rarely(entry, entry.blind_at, BLIND_STILL), "unchecked_20min"
    unpaid = unpaid_until(entry)
    asked = [unpaid + distance(entry, unpaid) + ANSWER]
    # Asked about before its time: the platform gets as long to answer as at first.
    asked += [at + BLIND for at in (entry.hinted_at, entry.ended_at) if at is not None and at > unpaid]
    # Whoever was away is told so in one word; then the platform gets the time to answer.
    return max(min(asked), (entry.watched_at or 0) + ANSWER), "unchecked_20min"


def _asked_about(entry: Entry) -> bool:
    watched = entry.state in WATCHED or entry.state == "verifying"
    return watched and entry.wanted and entry.verifiable


def _unsettled(entry: Entry) -> tuple[int, Clock] | None:
    if entry.state != "delivered" or entry.delivered_at is None or "unsettled_1day" in entry.warned:
        return None
    return entry.delivered_at + UNSETTLED, "unsettled_1day"


def _late(entry: Entry) -> tuple[int, Clock] | None:
    # A conversation says so itself; one that can't be revived never does.
    if entry.taker != "conversation" or entry.state not in ON_SCREEN:
        return None
    return entry.expires_at + MINUTE, "taker_gone"
