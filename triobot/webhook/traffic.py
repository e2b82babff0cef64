"""Counts of what never became an event."""

from __future__ import annotations

from typing import final

import attrs


@final
@attrs.frozen(kw_only=True)
class TrafficStatistics:
    """Requests that were refused before the inbox saw them, and answers that were lost.

    Attributes:
        unknown_path: no secret, or a wrong one; a rise means that secrets are being guessed.
        wrong_method: the right secret, but no POST.
        too_long: a body beyond the limit; each may be a lost event.
        bad_framing: two different lengths, or anything else that breaks HTTP's rules.
        too_slow: a body that was not complete in time; each may be a lost event.
        truncated: a sender that left in the middle of a body.
        overloaded: too many bytes in hand; each may be a lost event.
        unanswered: events that are stored, but whose 200 was not fully written.
    """

    unknown_path: int
    wrong_method: int
    too_long: int
    bad_framing: int
    too_slow: int
    truncated: int
    overloaded: int
    unanswered: int


@final
class TrafficCounters:
    """The counters since the start; `Endpoint` increments them."""

    def __init__(self) -> None:
        self.unknown_path = 0
        self.wrong_method = 0
        self.too_long = 0
        self.bad_framing = 0
        self.too_slow = 0
        self.truncated = 0
        self.overloaded = 0
        self.unanswered = 0

    def statistics(self) -> TrafficStatistics:
        """Return the counts since the start."""
        return TrafficStatistics(
            unknown_path=self.unknown_path,
            wrong_method=self.wrong_method,
            too_long=self.too_long,
            bad_framing=self.bad_framing,
            too_slow=self.too_slow,
            truncated=self.truncated,
            overloaded=self.overloaded,
            unanswered=self.unanswered,
        )
