"""How fast to start requests overall, when nobody has told us the platform's limits. Pure.

The rate is unlimited until the platform pushes back (429, 5xx, no answer); then it is half of what it was,
and grows back by a twentieth of that a second while all goes well, until twice the old rate has been carried
and the limit is forgotten. One lane alone never slows the rest: its own retries wait, and that is enough.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import final

import attrs


@final
@attrs.frozen
class PaceRules:
    """The constants of the overall pace.

    Attributes:
        least: starts a second that are always allowed.
        window: seconds over which outcomes are weighed.
        share: which part of the outcomes must be push-backs before the pace changes.
        together: seconds within which two lanes must have been pushed back.
    """

    least: float = 1.0
    window: float = 1.0
    share: float = 0.05
    together: float = 5.0


@final
class Pace:
    """Additive increase, multiplicative decrease, over all lanes."""

    def __init__(self, rules: PaceRules | None = None) -> None:
        self._rules = rules or PaceRules()
        self._rate: float | None = None
        self._carried = 0.0
        self._next_start = 0.0
        self._no_cut_before = float("-inf")
        self._window_began = float("-inf")
        self._starts = self._well = self._pushed = 0
        self._starts_before = 0
        self._last_pushed: tuple[Hashable, float] | None = None
        self._several_until = float("-inf")

    @property
    def rate(self) -> float | None:
        """Starts a second, or None for no limit."""
        return self._rate

    def ready_at(self, now: float) -> float:
        """When the next request may start; `now` or earlier for at once."""
        self._roll(now)
        return self._next_start if self._rate is not None else now

    def started(self, now: float) -> None:
        """A request starts."""
        self._roll(now)
        self._starts += 1
        if self._rate is not None:
            self._next_start = max(self._next_start, now) + 1 / self._rate

    def went_well(self, now: float) -> None:
        """The platform answered as it should."""
        self._roll(now)
        self._well += 1

    def pushed_back(self, who: Hashable, now: float) -> None:
        """The platform asked for patience, failed, or didn't answer."""
        self._roll(now)
        self._pushed += 1
        if self._last_pushed is not None:
            other, at = self._last_pushed
            if other != who and now - at <= self._rules.together:
                self._several_until = now + self._rules.together
        self._last_pushed = (who, now)
        widespread = self._pushed >= self._rules.share * (self._pushed + self._well)
        if now < self._several_until and widespread and now >= self._no_cut_before:
            self._cut(now)

    def _cut(self, now: float) -> None:
        carried = self._rate
        if carried is None:
            # A burst that is younger than a window counts as if it had filled one.
            carried = max(self._starts, self._starts_before) / self._rules.window
            self._carried = carried
        self._rate = max(self._rules.least, carried / 2)
        self._next_start = max(self._next_start, now + 1 / self._rate)
        # What is in flight was started at the old rate: its failures say nothing of the new one.
        self._no_cut_before = now + 2 * self._rules.window

    def _roll(self, now: float) -> None:
        if now - self._window_began < self._rules.window:
            return
        if self._rate is not None and self._well and not self._pushed:
            self._rate += max(self._rules.least, self._carried / 20)
            if self._rate >= 2 * self._carried:
                self._rate = None
        recent = now - self._window_began < 2 * self._rules.window
        self._starts_before = self._starts if recent else 0
        self._starts = self._well = self._pushed = 0
        self._window_began = now
