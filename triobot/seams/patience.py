"""Waits for a store that is away: what a conversation, the ledger or a task of the bot's own asks of it.

Who asks from outside, as an operator or the webhook, hears at once that it is away.
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
    """Return what this reads from the store, or does there if it is there; while that is away, wait.

    Else a conversation would fail for what is over in a moment. Of what was done while it was away nothing is
    stored, so it may be done again. If the store is lost for good, the cut of all work on it comes first: no
    conversation fails here that goes on in another process.
    """
    while True:
        try:
            return await read()
        except StoreAwayError:
            await trio.sleep(_AGAIN_SECONDS)
        except (LeaseLostError, StoreCorruptError):
            await trio.sleep(_CUT_WITHIN)
            raise
