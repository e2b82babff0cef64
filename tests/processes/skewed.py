"""The bot that takes orders, on a machine whose clock is set by as many milliseconds as a file says.

``CLOCK_SET_BY`` names that.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.processes.bots import orders

__all__ = ["orders"]

_set_by = Path(os.environ["CLOCK_SET_BY"])
_real = time.time_ns


def _told() -> int:
    return _real() + int(_set_by.read_text()) * 1_000_000


time.time_ns = _told
