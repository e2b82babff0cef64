"""The innermost cancel scope of a task: Trio has no public way to scopes that an author made.

Without it no scope that was left open would be found, and what is behind an author's shield would have to
come to its end before a run could leave memory. So a Trio that has changed there is refused at import.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import trio

if not hasattr(trio.lowlevel.Task, "_cancel_status"):
    raise ImportError(
        f"trio {trio.__version__} is newer than this triobot knows: it has no Task._cancel_status, by which "
        "the engine ends what an author's shield holds. Install an older trio, or a newer triobot"
    )

innermost: Final[Callable[[trio.lowlevel.Task], Any]] = attrgetter("_cancel_status")
"""Returns what stands for the innermost scope of a task; two tasks or moments may be compared by it."""


def lower(status: Any) -> None:
    """Let a cancellation pass the shields from a scope outwards, up to one that was cancelled."""
    while status is not None and not status._scope.cancel_called:
        status._scope.shield = False
        status = status._parent
