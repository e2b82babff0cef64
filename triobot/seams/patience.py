"""Reads that wait while the store is away: for conversations, the ledger and the bot's own tasks.

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
    """Call `read` until the store is there, and return the result.

    Otherwise a conversation would fail because of a short outage. Repeating is safe: nothing that `read` did
    during the outage is stored.

    If the store is lost permanently, the error is raised only after a second. All work on the store is
    cancelled first, so no conversation fails here that goes on in another process.
    """
    while True:
        try:
            return await read()
        except StoreAwayError:
            await trio.sleep(_AGAIN_SECONDS)
        except (LeaseLostError, StoreCorruptError):
            await trio.sleep(_CUT_WITHIN)
            raise
