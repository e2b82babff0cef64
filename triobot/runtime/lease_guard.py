"""Delays external effects while it isn't certain that this process has its store.

A lease may end while a process is suspended, and another process may continue the conversations. The store
then refuses the first process's commits by their fence, but the outside world has no fence. So for stores
that a live process can lose (`Store.held`), the lease is checked right before each request and each step. A
request or step waits until the lease is certain again. If another process has the store, the request or step
is cancelled with all other work. The client (`PlatformClient`) checks the lease once more when a request has
its connection, since the process may have been suspended between the two checks. A request that is being
written can't be recalled.
"""

from __future__ import annotations

import inspect
from typing import Any, Final, TypeVar, final

import trio

from ..conversations.services import Instead, StepCall
from ..seams.outbox import BeginsRequests, Begun, Platform
from ..seams.writes import Held
from ..wire.operations import Operation

R = TypeVar("R")
_LOOK_EVERY: Final = 0.05


async def wait_held(held: Held) -> None:
    """Wait until this process certainly has its store. If the process already has the store, return without a
    checkpoint.
    """
    while not held():  # noqa: ASYNC110 - a lease ends by time alone, without an event
        await trio.sleep(_LOOK_EVERY)


@final
class HeldPlatform:
    """A platform that begins requests only while this process has its store."""

    def __init__(self, platform: Platform, held: Held) -> None:
        self._platform = platform
        self._begin = platform.begin if isinstance(platform, BeginsRequests) else None
        self._held = held

    async def perform(self, operation: Operation[R]) -> R:
        """Wait for the store, then perform an operation once; see `triobot.seams.outbox.Platform`."""
        await wait_held(self._held)
        return await self._platform.perform(operation)

    def begin(self, operation: Operation[R], /, *, fresh: bool = False) -> Begun[R] | None:
        """Start a request if this process has the store now, else return None; see
        `triobot.seams.outbox.BeginsRequests`.
        """
        return None if self._begin is None or not self._held() else self._begin(operation, fresh=fresh)


def held_steps(held: Held, instead: Instead | None) -> Instead:
    """Return a wrapper for step functions. The wrapper waits until this process has its store, and then calls
    the step's function, or `instead`.
    """

    async def run(call: StepCall) -> Any:
        await wait_held(held)
        begun = call.fn(*call.args) if instead is None else instead(call)
        return await begun if inspect.isawaitable(begun) else begun

    return run
