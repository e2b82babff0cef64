"""The time of day jumped: whoever waits for a time is told, and the store learns of it.

Those in memory move their deadlines at once, the others when they are revived: a journal knows by how much
the clock had jumped by then (`triobot.engine.records.times_of`). So those must come back in time. After a
jump forward they are due too early by the clock, come back, and say anew when to wake them. After one back
they would be due too late: the store lets them all wake earlier. What the jumps come to in all is stored
before anything that reckons with it, for it is written by the same writer, in order.
"""

from __future__ import annotations

from typing import final

from ...clock import JUMPED
from ...journals import WakeEarlier
from ...seams import PutSetting, Write
from ...wire.ids import ChatId
from ..inbox.consumption import Consumption
from ..services import Services
from ..timers import Timers
from .waking import Waking


@final
class Jumps:
    """Tells of jumps."""

    def __init__(self, services: Services, consumption: Consumption, timers: Timers, waking: Waking) -> None:
        self._services = services
        self._consumption = consumption
        self._timers = timers
        self._waking = waking

    def begin(self) -> None:
        """Take up a jump from before conversations run, of which the store doesn't know."""
        self.took(self._services.clock.jumped() - self._services.clock.before)

    def end(self) -> None:
        """Write down how late it is: the next run knows by that if the clock is set back meanwhile."""
        self._consumption.add([self._written()])

    def took(self, by: int) -> None:
        """Note that the time of day has jumped; the clock is read anywhere, and so nothing runs yet."""
        writes: list[Write] = [self._written()]
        lease = self._services.store.lease(ChatId(0))
        if by < 0 and lease is not None:
            writes.append(WakeEarlier(lease, -by))
        self._consumption.add(writes)
        self._timers.wake_all()
        self._waking.look_again()

    def _written(self) -> PutSetting:
        clock = self._services.clock
        return PutSetting(JUMPED, f"{clock.jumped()} {clock.now()}")
