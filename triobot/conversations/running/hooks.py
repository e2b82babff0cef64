"""Around a route's function: the hooks of its routers, the outermost first.

A hook is the outer part of the route's coroutine and replays by the same law. Its operations are numbered
under its own name: what comes, goes or moves around others, and has none, parks nobody.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import CoroutineType
from typing import Final, Protocol, final

import trio

from ...base.frozen import guarded
from ...engine import Run
from ...errors import ConfigError, ForeignTaskError
from ..notices import Declined, Notify
from ..routes.declarations import Hook, Route

HERE: Final = __file__
"""The frames of this file are between those of the author's hooks and function."""


def begin(route: Route, room: object, args: Sequence[object]) -> Awaitable[None]:
    """Call a route's function.

    Raises:
        ConfigError: what it returns can't be awaited.
    """
    awaitable: object = route.handler(room, *args)
    if type(awaitable) is not CoroutineType and not inspect.isawaitable(awaitable):
        raise ConfigError(f"{route.name} can't be awaited; declare it with `async def`, without `yield`")
    return awaitable  # pyright: ignore[reportUnknownVariableType]


@final
@guarded
class Hooked:
    """A route's function within its hooks.

    Attributes:
        room: what all of them get; `args` are the function's own.
        check: refuses a task that may do nothing of the conversation's.
        ended: told how the function ended, and whether it was cancelled, whatever the hooks make of that.
        notice: told of a hook that declined without an operation.
    """

    run: Run
    route: Route
    room: object
    args: Sequence[object]
    check: Callable[[], object]
    ended: Callable[[BaseException | None, bool], None] | None
    notice: Notify | None = None

    async def call(self, depth: int = 0) -> None:
        """Run the hook at this depth around those that are deeper, and around the function."""
        if depth == len(self.route.hooks):
            with self.run.part(""):
                await self._handle()
            return
        hook, called = self.route.hooks[depth], False
        asked: list[Coroutine[object, object, None]] = []

        async def within() -> None:
            nonlocal called
            self.check()
            if trio.lowlevel.current_task() is not self.run.task:
                raise ForeignTaskError(f"{hook.told}: await call() in the hook itself, not in a child")
            if called:
                raise ConfigError(f"{hook.told}: call() twice; a hook runs what is within it once, or never")
            called = True
            await self.call(depth + 1)

        def call() -> Coroutine[object, object, None]:
            asked.append(within())
            return asked[-1]

        part = self.run.part(hook.name)
        with part:
            await hook.function(self.room, call)
            if asked and not called:
                asked[0].close()  # it was not awaited, as we say
                raise ConfigError(f"{hook.told}: call() is not awaited, so it does nothing: await it")
        if not asked and self.notice is not None and not part.numbered:
            self.notice(Declined(hook.line, hook.name, self.route.name))

    async def _handle(self) -> None:
        error: BaseException | None = None
        try:
            await begin(self.route, self.room, self.args)
        except BaseException as raised:
            error = raised
            raise
        finally:
            if self.ended is not None:
                self.ended(error, self.run.felt)


BORDERS: Final = frozenset({Hooked.call.__code__, Hooked._handle.__code__})  # pyright: ignore[reportPrivateUsage]
"""The code within which a hook, or a route's function, begins."""


class Runs(Protocol):
    """What a hook that counts asks of the room that it gets."""

    @property
    def route(self) -> str:
        """Return the name of the route that runs there."""
        ...

    @property
    def replaying(self) -> bool:
        """Return whether what runs now may have run before."""
        ...


def counting(begun: Counter[str]) -> Hook:
    """Return a hook that counts by route what begins; what is brought back has been counted.

    It is here because an author is shown no frames of this file.
    """

    async def count(room: Runs, call: Callable[[], Awaitable[None]]) -> None:
        begun[room.route] += not room.replaying
        await call()

    return Hook(count, "triobot.counting", "?")
