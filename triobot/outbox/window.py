"""How many receivers of a broadcast may be on their way now. Pure.

The outbox has its own bounds and its own pace; this one bounds what a crash leaves unknown, and waits when
going on would only spend receivers:

- An unknown outcome costs a receiver, because nobody is told twice. So after one the others wait,
  and one goes at a time, after a pause that doubles, until one is answered.
- Receivers who have left are refused like a refused token, and the breaker waits for somebody who is reached.
  When everything on its way waits for that, one more a second is let through to find somebody.
"""

from __future__ import annotations

from typing import Final, final

import attrs

from ..jobs import Outcome

NEVER: Final = float("inf")


@final
@attrs.frozen
class WindowRules:
    """The constants of a window.

    Attributes:
        width: receivers on their way at a time: as many as the lanes send of this class in parallel. Whoever
            is meant beyond that would only wait there, and be in doubt after a crash without a request.
        extra: how many more when nothing comes back.
        quiet: seconds without news after which one more is let through.
        first_pause, longest_pause: seconds between two tries after an unknown outcome.
    """

    width: int = 16
    extra: int = 64
    quiet: float = 1.0
    first_pause: float = 1.0
    longest_pause: float = 60.0


@final
class Window:
    """The bound of one broadcast."""

    def __init__(self, rules: WindowRules | None = None) -> None:
        self._rules = rules or WindowRules()
        self._news_at = 0.0
        self._pause = 0.0
        self._go_at = 0.0
        self._trying = False
        self.flying = 0

    @property
    def most(self) -> int:
        """Return how many can be on their way at all."""
        return self._rules.width + self._rules.extra

    def room(self, now: float) -> int:
        """Return how many more may go now."""
        if self.flying >= self.most or now < self._go_at:
            return 0
        if self._pause:
            return 1
        if self.flying < self._rules.width:
            return self._rules.width - self.flying
        return int(now >= self._news_at + self._rules.quiet)

    def look_again(self, now: float) -> float:
        """Return when there may be room, if nothing else happens; `NEVER` if only news helps."""
        if self.flying >= self.most:
            return NEVER
        if self._pause:
            return max(now, self._go_at)
        return now if self.flying < self._rules.width else self._news_at + self._rules.quiet

    def went(self, many: int, now: float) -> None:
        """Count `many` more receivers as on their way."""
        self.flying += many
        self._news_at = now
        if self._pause:
            # The one that tells; should it never be answered, another goes after the longest pause.
            self._trying = True
            self._go_at = now + self._rules.longest_pause

    def came(self, outcome: Outcome, now: float) -> None:
        """Count one receiver less as on its way, and set the pause by its outcome."""
        self.flying -= 1
        self._news_at = now
        if outcome not in (Outcome.UNKNOWN, Outcome.AGAIN):
            self._pause = self._go_at = 0.0
            self._trying = False
        elif not self._pause:
            self._pause = self._rules.first_pause
            self._go_at = now + self._pause
        elif self._trying:
            # Others that left before the first bad news say nothing new.
            self._trying = False
            self._pause = min(self._rules.longest_pause, self._pause * 2)
            self._go_at = now + self._pause
