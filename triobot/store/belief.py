"""What a process believes of its lease: until when nobody else may take what it has, by its own clock.

The database knows until when a lease lives, by the server's clock. The process goes by a clock of its own,
which goes on while the machine sleeps and which nobody sets. It counts from the moment *before* it asked,
however long the answer took. So it stops believing no later than the server does. Then nothing may begin; but
the lease is lost only once the database says so. Until then it can be had again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, final

from ..clock import steady_time

SECONDS: Final = 3.0
"""How long a lease lives that isn't renewed."""
RENEWED_EVERY: Final = 0.75
REPEATED_AFTER: Final = 0.2


@final
class LeaseBelief:
    """The belief in one lease; may be asked and told in any thread.

    Args:
        asked: what the clock was before the lease was asked for.
        clock: returns milliseconds.

    Attributes:
        pause: seconds after which to ask for it again.
        lost: others may have all that was had under it.
    """

    def __init__(self, asked: int, clock: Callable[[], int] = steady_time) -> None:
        self._clock = clock
        self._until = 0.0
        self._lock = threading.Lock()
        self._told: list[Callable[[], None]] = []
        self.pause = RENEWED_EVERY
        self.lost = False
        self.renewed(asked)

    def held(self) -> float:
        """Return for how many seconds more nobody else can have what is had under it; 0 if they may."""
        return max(0.0, (self._until - self._clock()) / 1000)

    def before(self) -> int:
        """Return what the clock is, before the lease is asked for."""
        return self._clock()

    def renewed(self, asked: int) -> None:
        """Hear that the lease was renewed, which was asked for at this moment."""
        self._until = asked + SECONDS * 1000
        self.pause = RENEWED_EVERY

    def unanswered(self) -> None:
        """Hear that it isn't known whether the lease was renewed."""
        self.pause = REPEATED_AFTER

    def lose(self) -> None:
        """Hear that the lease is gone, and tell those that listen."""
        self._until = 0
        with self._lock:
            self.lost = True
            told, self._told = self._told, []
        for lost in told:
            lost()

    def listen(self, lost: Callable[[], None]) -> None:
        """Have this called once, in whatever thread, when the lease is lost; at once if it is."""
        with self._lock:
            if not self.lost:
                self._told.append(lost)
                return
        lost()

    def forget(self, lost: Callable[[], None]) -> None:
        """Call this no more."""
        with self._lock:
            if lost in self._told:
                self._told.remove(lost)
