"""Other people's servers: the bot as an ASGI application, and mounted into a quart-trio site.

Both run the whole bot inside the life of the server that they are given to, and neither opens a port.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Never, Protocol, TypeAlias, cast, final

import trio
from quart_trio import QuartTrio

from .errors import StoreLockedError, TriobotError
from .runtime import Intake
from .settings import Settings
from .webhook.app import build_app, mount_endpoint
from .webhook.endpoint import Endpoint

log: Final = logging.getLogger("triobot")

# The shapes that ASGI itself gives: the messages are open dictionaries.
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Runnable(Protocol):
    """A bot, as far as an ASGI application runs it."""

    def settings(self) -> Settings:
        """Return the settings of a run that would start now."""
        ...

    def running(self, *, claims: bool = True) -> AbstractAsyncContextManager[Intake]:
        """Run without a listener, while the block runs."""
        ...


@final
class AsgiBot:
    """An ASGI application whose lifespan runs the bot; made by `Bot.asgi`.

    Requests before the start and after the stop are answered 503: they were not accepted.
    """

    def __init__(self, bot: Runnable) -> None:
        self._bot = bot
        self._endpoint: Endpoint | None = None
        self._app = build_app(lambda _: self._endpoint)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection: the lifespan, or a request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await cast("AsgiApp", self._app)(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        started, failure = False, ""
        await receive()
        if not _on_trio():
            await _end_other_loop()
        try:
            async with self._bot.running(claims=False) as intake:
                self._endpoint = Endpoint(
                    intake.inbox,
                    intake.secrets,
                    limits=intake.settings.limits,
                    readiness=intake.readiness,
                    begins=intake.voice.begin,
                )
                started = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except* Exception as errors:
            failure = _words(errors)
            if errors.subgroup(StoreLockedError):
                failure += "; give the server one worker only"
            log.debug("the bot failed", exc_info=errors)
        finally:
            self._endpoint = None
        if not failure:
            await send({"type": "lifespan.shutdown.complete"})
            return
        # The server gives up, some with a traceback of their own: so one line that says it. An exception
        # instead would leave hypercorn running for ever, without the bot.
        log.error("the bot %s: %s", "stopped" if started else "was not started", failure)
        when = "shutdown" if started else "startup"
        await send({"type": f"lifespan.{when}.failed", "message": failure})


def _on_trio() -> bool:
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


async def _end_other_loop() -> Never:
    """End a server that runs on asyncio, with one line: hypercorn prints a traceback of a failed start."""
    log.error("the bot was not started: a bot runs on Trio: give hypercorn --worker-class trio")
    loop = asyncio.get_running_loop()
    # From the loop, and not from this task, whose exception the server would print as well.
    loop.call_soon(sys.exit, 1)
    await loop.create_future()
    raise AssertionError("the loop has ended")


def _words(errors: BaseExceptionGroup[Any]) -> str:
    return "; ".join(
        _words(error) if isinstance(error, BaseExceptionGroup) else _word(error)  # pyright: ignore[reportUnknownArgumentType]
        for error in errors.exceptions
    )


def _word(error: BaseException) -> str:
    # A text that isn't ours may hold what is private.
    return str(error) if isinstance(error, TriobotError) else type(error).__name__


@final
class Mounted:
    """A bot under a prefix of a quart-trio application; made by `Bot.mount`."""

    def __init__(self, bot: Runnable, app: QuartTrio, prefix: str) -> None:
        self._bot = bot
        self._app = app
        self._prefix = prefix
        self._endpoint: Endpoint | None = None
        self._stop = trio.Event()
        self._stopped = trio.Event()

    def declare(self) -> None:
        """Register the routes, and the hooks that start and stop the bot."""
        mount_endpoint(self._app, self._prefix, lambda _: self._endpoint)
        behind = cast("AsgiApp", self._app.asgi_app)

        async def front(scope: Scope, receive: Receive, send: Send) -> None:
            # Else the site answers each request with 500 and a traceback, for as long as it runs.
            if scope["type"] == "lifespan" and not _on_trio():
                await _end_other_loop()
            await behind(scope, receive, send)

        self._app.asgi_app = front  # type: ignore[assignment]  # Quart's documented place for a middleware
        self._app.before_serving(self._start)
        self._app.after_serving(self._finish)

    async def _start(self) -> None:
        try:
            await self._app.nursery.start(self._live)
        except BaseExceptionGroup as group:
            # The application passes on the text of what it gets, and a group's says nothing.
            failed, rest = group.split(Exception)
            if failed is None or rest is not None:
                raise
            raise TriobotError(f"the mounted bot was not started: {_words(failed)}") from group

    async def _finish(self) -> None:
        # The application set a deadline on its nursery before it came here: the bot's own grace counts.
        self._stop.set()
        with trio.CancelScope(shield=True):
            await self._stopped.wait()

    async def _live(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._stop, self._stopped = trio.Event(), trio.Event()
        grace = self._bot.settings().grace
        # Shielded, so that the application's own deadline doesn't cut what is being sent; bounded by the
        # watcher, which is not shielded and passes the cancellation on with the bot's grace period.
        try:
            async with trio.open_nursery() as nursery:
                shield = trio.CancelScope(shield=True)
                nursery.start_soon(self._watch, shield, 2 * grace + 1)
                with shield:
                    async with self._bot.running(claims=False) as intake:
                        self._endpoint = Endpoint(
                            intake.inbox,
                            intake.secrets,
                            limits=intake.settings.limits,
                            readiness=intake.readiness,
                            begins=intake.voice.begin,
                        )
                        task_status.started()
                        await self._stop.wait()
                nursery.cancel_scope.cancel()
        except* Exception as errors:
            # What the application makes of it shows the groups, not what is in them.
            log.error("the mounted bot failed: %s", _words(errors))  # noqa: TRY400
            raise
        finally:
            self._endpoint = None
            self._stopped.set()

    async def _watch(self, shield: trio.CancelScope, grace: float) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self._stop.set()
            shield.deadline = trio.current_time() + grace
