"""Ctrl-C and SIGTERM as a cancellation, rather than as an exception in whichever task happens to run.

An HTTP server that guards its connections against errors may well swallow a `KeyboardInterrupt`.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable

import trio


async def until_signal(work: Callable[[], Awaitable[None]]) -> bool:
    """Run `work` to its end, or until SIGINT or SIGTERM cancels it.

    Returns: whether a signal did.
    """
    interrupted = False
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal interrupted
                async for _ in signals:
                    interrupted = True
                    nursery.cancel_scope.cancel()
                    return

            nursery.start_soon(watch)
            await work()
            nursery.cancel_scope.cancel()
    return interrupted
