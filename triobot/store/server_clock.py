"""The time by which a bot works whose store is on a server: the server's, so that all machines have the same.

Work moves from one machine to another, and whatever waits in the store for a time moves along. If each
machine went by its own clock, a jump of one would be in the store when another one works. So a process hears
the server's time of day every few seconds, and goes by a steady clock in between.

What the machine's own clock says is compared with that. The bot's code may read it, and so may whatever
checks certificates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from ..base.clock import Steady, TimeOfDay, steady_time

MOST: Final = 2_000
"""Milliseconds by which a machine's clock may differ from the server's."""
RIGHT_AGAIN: Final = 1_000
"""Below this a clock that was wrong is right: one that differs by about `MOST` is told of once."""


@final
class ServerClock:
    """The time of day of the database's server; `triobot.base.clock.WallClock`.

    Args:
        own: this machine's.

    Attributes:
        differs: by how many milliseconds the machine's own clock is ahead of the server's, or behind if that
            is negative; 0: it is right, as far as is known.
    """

    def __init__(self, own: TimeOfDay) -> None:
        self._own = own
        self._steady: Callable[[], int] = own.steady if isinstance(own, Steady) else steady_time
        self._between: int | None = None
        self.differs = 0

    def now(self) -> int:
        """Return milliseconds since 1970 in UTC."""
        assert self._between is not None, "the server has been asked before"
        return self.steady() + self._between

    def steady(self) -> int:
        """Return milliseconds since some moment; nobody can set them."""
        return self._steady()

    def heard(self, asked: int, server: int, heard: int) -> None:
        """Take up what the server's time of day was, at some moment between two readings of `steady`.

        What is known by now is kept as far as it can be so: an answer may have been long on its way.
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
    """Return in words by how much a clock differs."""
    return f"{abs(off) / 1000:.1f} s {'ahead of' if off > 0 else 'behind'}"
