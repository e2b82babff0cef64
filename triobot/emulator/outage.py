"""Times in which nobody answers: connections are refused, as while the platform is down."""

from __future__ import annotations

from typing import final

import trio


@final
class Outage:
    """Asks whoever listens to stop for a while."""

    def __init__(self) -> None:
        self._begin = trio.Event()
        self._seconds = 0.0

    def begin(self, seconds: float) -> None:
        """Refuse connections for this long, from now on; open ones are closed."""
        self._seconds = seconds
        self._begin.set()

    async def wait_begin(self) -> None:
        """Wait until connections are to be refused."""
        await self._begin.wait()

    def take(self) -> float:
        """How long; the outage is then under way, and another may be asked for."""
        self._begin = trio.Event()
        return self._seconds
