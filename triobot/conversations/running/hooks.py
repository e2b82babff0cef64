"""Run a route's function inside of the hooks of its routers, the outermost first.

A hook is the outer code of the route's coroutine, and replays by the same rules. A hook's operations are
numbered under the hook's own name. So adding, removing or moving a hook without operations parks no
conversation.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import CoroutineType
from typing import Any, Final, final

import trio

from ...base.frozen import guarded
from ...engine import Run
from ...errors import ConfigError, ForeignTaskError
from ..routes.declarations import Hook, Route

HERE: Final = __file__
"""This file's name. Frames of this file are between the frames of the author's hooks and function."""


def begin(route: Route, room: object, args: Sequence[object]) -> Awaitable[None]:
    """Call a route's function, and return its awaitable.

    Raises:
        ConfigError: the function returned no awaitable.
    """
    awaitable: object = route.handler(room, *args)
    if type(awaitable) is not CoroutineType and not inspect.isawaitable(awaitable):
        raise ConfigError(f"{route.name} can't be awaited; declare it with `async def`, without `yield`")
    return awaitable  # pyright: ignore[reportUnknownVariableType]


@final
@guarded
class Hooked:
    """A route's function inside of its hooks.

    Attributes:
        room: first argument of the hooks and the function.
        args: further arguments of the function.
        check: raises an error in tasks that don't belong to the conversation.
        ended: called with the function's error, and with whether the function was cancelled, before the hooks
            handle the error or cancellation.
    """

    run: Run
    route: Route
    room: object
    args: Sequence[object]
    check: Callable[[], object]
    ended: Callable[[BaseException | None, bool], None] | None

    async def call(self, depth: int = 0) -> None:
        """Run the hook at this depth, and inside it the deeper hooks and the function."""
        if depth == len(self.route.hooks):
            with self.run.part(""):
                await self._handle()
            return
        hook, called = self.route.hooks[depth], False
        asked: list[Coroutine[object, object, None]] = []

        async def within() -> None:
            nonlocal called
            self.check()
            if trio.lowlevel.current_task() is not self.run.main.task:
                raise ForeignTaskError(f"{hook.title}: await call() in the hook itself, not in a child")
            if called:
                raise ConfigError(f"{hook.title}: call() twice; a hook runs what is within it once, or never")
            called = True
            await self.call(depth + 1)

        def call() -> Coroutine[object, object, None]:
            asked.append(within())
            return asked[-1]

        with self.run.part(hook.name):
            await hook.function(self.room, call)
            if asked and not called:
                asked[0].close()  # an unawaited coroutine would make Python warn
                raise ConfigError(f"{hook.title}: call() is not awaited, so it does nothing: await it")

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
"""Code objects of the functions that call a hook or a route's function."""


def counting(begun: Counter[str]) -> Hook:
    """Return a hook that counts conversations by route when they start; revivals aren't counted.

    The hook is in this file, because reports on a conversation's code leave this file's frames out.
    """

    # `room` has the type Any, because the module of `Room` imports this module.
    async def count(room: Any, call: Callable[[], Awaitable[None]]) -> None:
        begun[room.route] += not room.replaying
        await call()

    return Hook(count, "triobot.counting", "?")
