"""The timer: wakes the outbox's timer task at the next deadline."""

from __future__ import annotations

from typing import final

import trio


@final
class Timer:
    """A wait of one task until a given time; `mind` can make the time earlier during the wait."""

    def __init__(self) -> None:
        self._scope = trio.CancelScope()

    async def wait_due(self, at: float) -> None:
        """Wait until `at`, or until `mind` or `stir` ends the wait earlier."""
        with trio.move_on_at(at) as self._scope:
            await trio.sleep_forever()

    def mind(self, at: float) -> None:
        """Make `wait_due` return no later than `at`."""
        if at < self._scope.deadline:
            self._scope.deadline = at

    def stir(self) -> None:
        """Make `wait_due` return now.

        `stir` never waits, so the abort function of a waiting task may call `stir`.
        """
        self._scope.cancel()
