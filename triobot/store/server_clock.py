"""The clock of a bot with a store on a server: the server's time of day, the same for all computers.

When work moves to another computer, that computer gets the deadlines in the store. If each computer used its
own clock, a computer with a wrong clock would store wrong times for the next computer. So a process reads the
server's time of day every few seconds, and uses a steady clock in between.

The computer's own clock is compared with the server's, because the bot's code and the check of certificates
may read the computer's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from ..base.clock import Steady, WallClock, steady_time

MOST: Final = 2_000
"""Largest tolerated difference between a computer's clock and the server's, in milliseconds."""
RIGHT_AGAIN: Final = 1_000
"""Difference in milliseconds below which a wrong clock counts as right again. The number is less than `MOST`,
so that a clock that differs by about `MOST` is reported only once."""


@final
class ServerClock:
    """The time of day of the database's server; implements `triobot.base.clock.WallClock`.

    Args:
        own: this computer's clock.

    Attributes:
        differs: milliseconds by which this computer's clock certainly differs from the server's clock, or 0
            while the difference is tolerated. Negative if this computer's clock is behind.
    """

    def __init__(self, own: WallClock) -> None:
        self._own = own
        self._steady: Callable[[], int] = own.steady if isinstance(own, Steady) else steady_time
        self._between: int | None = None
        self.differs = 0

    def now(self) -> int:
        """Return milliseconds since 1970 in UTC."""
        assert self._between is not None, "the server has been asked before"
        return self.steady() + self._between

    def steady(self) -> int:
        """Return milliseconds of a clock that is never set; only differences matter."""
        return self._steady()

    def heard(self, asked: int, server: int, heard: int) -> None:
        """Process the server's time of day, which the server read between the steady times `asked` and
        `heard`.

        The known offset between the clocks changes only if this time rules it out, because a slow answer
        allows many offsets.
        """
        least, most = server - heard, server - asked
        known = least + (most - least) // 2 if self._between is None else self._between
        self._between = min(max(known, least), most)
        self._compare(self._own.now() - self.steady(), least, most)

    def _compare(self, own: int, least: int, most: int) -> None:
        surely = own - most if own > most else min(own - least, 0)
        farthest = max(abs(own - least), abs(own - most))
        right = abs(surely) <= RIGHT_AGAIN and farthest <= MOST
        if abs(surely) > MOST or (self.differs and not right):
            self.differs = surely or self.differs
        else:
            self.differs = 0


def how_far(off: int) -> str:
    """Return the difference of a clock in words; `off` is in milliseconds."""
    return f"{abs(off) / 1000:.1f} s {'ahead of' if off > 0 else 'behind'}"
