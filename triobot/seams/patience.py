"""Reads that wait while the store can't be reached: for conversations, the ledger and the bot's own tasks.

Requests from outside, of an operator or the webhook, don't wait: they get StoreAwayError at once.
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
    """Call `read` until the store can be reached, and return the result.

    Without the wait, a short outage would make a conversation fail. Repeating is safe: nothing that `read`
    did during the outage is stored.

    If the process has lost the store for good, the error is raised only after a second. By then, all work on
    the store has been cancelled, so a conversation that goes on in another process doesn't fail here.
    """
    while True:
        try:
            return await read()
        except StoreAwayError:
            await trio.sleep(_AGAIN_SECONDS)
        except (LeaseLostError, StoreCorruptError):
            await trio.sleep(_CUT_WITHIN)
            raise
