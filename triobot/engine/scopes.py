"""The innermost cancel scope of a task: Trio has no public way to find the scopes that an author made.

With `innermost`, the engine finds a scope that an author's code left open. `lower` removes the shields of an
author's scopes, so that a run can leave memory. A Trio version with other internals is refused at import.
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
"""Returns an object that stands for a task's innermost scope; these objects are compared by identity."""


def lower(status: Any) -> None:
    """Remove the shields from a scope outwards, up to the first cancelled scope.

    So the cancellation of the cancelled scope reaches the innermost scope.
    """
    while status is not None and not status._scope.cancel_called:
        status._scope.shield = False
        status = status._parent
