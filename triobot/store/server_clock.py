"""The clock of a bot with a store on a server: the server's time of day, the same for all machines.

When work moves to another machine, that machine gets the deadlines in the store. If each machine used its own
clock, a machine with a wrong clock would leave wrong times for the next machine. So a process reads the
server's time of day every few seconds, and uses a steady clock in between.

The machine's own clock is compared with the server's, because the bot's code and the check of certificates
may read the machine's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from ..base.clock import Steady, WallClock, steady_time

MOST: Final = 2_000
"""Largest tolerated difference between a machine's clock and the server's, in milliseconds."""
RIGHT_AGAIN: Final = 1_000
"""Difference in milliseconds below which a wrong clock counts as right again. The number is less than `MOST`,
so that a clock that differs by about `MOST` is reported only once."""


@final
class ServerClock:
    """The time of day of the database's server; implements `triobot.base.clock.WallClock`.

    Args:
        own: this machine's clock.

    Attributes:
        differs: number of milliseconds by which the machine's own clock is certainly ahead of the server's
            clock; negative if the own clock is behind; 0 for a right clock.
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
        """Add a reading of the server's clock, made between the steady times `asked` and `heard`.

        The known offset changes only if this reading rules the offset out: a slow answer gives wide bounds.
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
