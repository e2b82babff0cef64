"""How a conversation comes to its end."""

from __future__ import annotations

from enum import Enum


class Ending(Enum):
    """How a conversation ended."""

    NORMAL = "normal"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LEFT = "left"
    STOPPED = "stopped"
    CONTINUED = "continued"
