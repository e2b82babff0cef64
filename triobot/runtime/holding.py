"""Begins nothing that others see while it isn't certain that this process has its store.

A lease may end while a process stands still, and another process may go on with its conversations. Commits
are refused then by their fence; the world outside knows none. So where a store can be lost by a process that
lives (`Store.held`), that is asked right before each request and each step. What was to begin waits until the
lease is had again, or the work is cut since the store is another's. The client asks once more when a request
has its connection (`PlatformClient`): it may have stood still in between. What has begun to leave can't be
called back.
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
    """Wait until the process has its store for certain; without a checkpoint if it has."""
    while not held():  # noqa: ASYNC110 - time ends a lease, and tells nobody
        await trio.sleep(_LOOK_EVERY)


@final
class HeldPlatform:
    """A platform of which a request begins only while the process has its store."""

    def __init__(self, platform: Platform, held: Held) -> None:
        self._platform = platform
        self._begin = platform.begin if isinstance(platform, BeginsRequests) else None
        self._held = held

    async def perform(self, operation: Operation[R]) -> R:
        """Perform one operation, once; see `triobot.seams.outbox.Platform`."""
        await wait_held(self._held)
        return await self._platform.perform(operation)

    def begin(self, operation: Operation[R], /, *, fresh: bool = False) -> Begun[R] | None:
        """Write a request out, if it may begin now; see `triobot.seams.outbox.BeginsRequests`."""
        return None if self._begin is None or not self._held() else self._begin(operation, fresh=fresh)


def held_steps(held: Held, instead: Instead | None) -> Instead:
    """Return what runs in place of each step's function: it, once the process has its store for certain."""

    async def run(call: StepCall) -> Any:
        await wait_held(held)
        begun = call.fn(*call.args) if instead is None else instead(call)
        return await begun if inspect.isawaitable(begun) else begun

    return run
