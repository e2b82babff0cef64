"""Reads that wait while the store can't be reached, used by conversations, the ledger and the bot's own
tasks.

Requests of operators and of the webhook don't wait: such a request fails with StoreAwayError at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from ..errors import StoreAwayError, StoreCorruptError
from .writes import LeaseLostError

R = TypeVar("R")
_AGAIN_SECONDS: Final = 0.05
_CUT_WITHIN: Final = 1.0


async def await_store(read: Callable[[], Awaitable[R]]) -> R:
    """Call `read` again and again until the store can be reached, and return the result.

    Without the wait, a short outage would make a conversation fail. A repeated call is safe, because `read`
    stores nothing during the outage.

    If the process has lost the store for good, the error is raised only after a second. Within this second,
    the runtime cancels all work on the store. So the conversation is cancelled instead of failing, and
    continues in another process.
    """
    while True:
        try:
            return await read()
        except StoreAwayError:
            await trio.sleep(_AGAIN_SECONDS)
        except (LeaseLostError, StoreCorruptError):
            await trio.sleep(_CUT_WITHIN)
            raise
