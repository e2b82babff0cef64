"""The time of day, as the protocol `triobot.seams.WallClock` wants it."""

from __future__ import annotations

import time
from typing import final


@final
class SystemClock:
    """This machine's clock."""

    def now(self) -> int:
        """Milliseconds since 1970 in UTC."""
        return time.time_ns() // 1_000_000
