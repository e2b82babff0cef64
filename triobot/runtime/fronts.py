"""A bot in the life of a quart-trio application, which somebody else's server runs.

The application is the bot's own (`Bot.asgi`) or a site (`Bot.mount`). The whole bot runs inside the life of
it, and opens no port.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from pathlib import Path
from typing import Any, Final, Never, TypeAlias, cast, final

import trio
from quart_trio import QuartTrio

from ..base.authors import leaves
from ..conversations.running.lines import failing_line
from ..errors import TriobotError
from ..seams.resources import about_opening
from ..webhook.app import build_app, mount_endpoint
from ..webhook.endpoint import Endpoint
from .settings import Settings
from .work import Intake

log: Final = logging.getLogger("triobot")

# The shapes that ASGI itself gives: the messages are open dictionaries.
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Runs: TypeAlias = Callable[[], AbstractAsyncContextManager[Intake]]
"""Runs a bot without a listener, while the block runs."""


def application_of(settings: Callable[[], Settings], runs: Runs) -> QuartTrio:
    """Return an application that is the bot's webhook, and runs the bot while it is served.

    Args:
        settings: returns the settings of a run that would start now.
        runs: runs the bot.
    """
    hosted = _Hosted(settings, runs)
    app = build_app(lambda _: hosted.endpoint)
    hosted.tie_to(app)
    return app


def mount(settings: Callable[[], Settings], runs: Runs, app: QuartTrio, prefix: str) -> None:
    """Put the bot's webhook under a prefix of an application, and run the bot while that is served.

    Args:
        settings, runs: as `application_of` takes them.

    Raises:
        ConfigError: as `mount_endpoint`.
    """
    hosted = _Hosted(settings, runs)
    mount_endpoint(app, prefix, lambda _: hosted.endpoint)
    hosted.tie_to(app)


@final
class _Hosted:
    """A bot that an application runs; `endpoint` is None before the start and after the stop."""

    def __init__(self, settings: Callable[[], Settings], runs: Runs) -> None:
        self.endpoint: Endpoint | None = None
        self._settings = settings
        self._runs = runs
        self._stop = trio.Event()
        self._stopped = trio.Event()
        self._failure = ""

    def tie_to(self, app: QuartTrio) -> None:
        """Start and stop the bot with the application; a server hears of a failure at either."""
        behind = cast("AsgiApp", app.asgi_app)

        async def front(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan":
                await _live(behind, scope, receive, send)
            else:
                await behind(scope, receive, send)

        app.asgi_app = front  # type: ignore[assignment]  # Quart's documented place for a middleware

        async def start() -> None:
            failed = False
            try:
                await app.nursery.start(self._run)
            except* Exception:
                failed = True
            if failed:
                # Not above, where Python 3.11.2 raises a group: the application passes on the text of what it
                # gets, and a group's says nothing.
                raise TriobotError(self._failure)

        app.before_serving(start)
        app.after_serving(self._finish)

    async def _finish(self) -> None:
        # The application set a deadline on its nursery before it came here: the bot's own grace counts.
        self._stop.set()
        with trio.CancelScope(shield=True):
            await self._stopped.wait()

    async def _run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._stop, self._stopped = trio.Event(), trio.Event()
        grace, started = self._settings().grace, False
        # Shielded, so that the application's own deadline doesn't cut what is being sent; bounded by the
        # watcher, which is not shielded and passes the cancellation on with the bot's grace period.
        try:
            async with trio.open_nursery() as nursery:
                shield = trio.CancelScope(shield=True)
                nursery.start_soon(self._watch, shield, 2 * grace + 1)
                with shield:
                    async with self._runs() as intake:
                        self.endpoint = Endpoint(
                            intake.inbox,
                            intake.secrets,
                            limits=intake.settings.limits,
                            readiness=intake.readiness,
                            begins=intake.voice.begin,
                        )
                        started = True
                        task_status.started()
                        await self._stop.wait()
                nursery.cancel_scope.cancel()
        except* Exception as errors:
            words = "; ".join(map(_word, leaves(errors)))
            self._failure = f"the bot {'stopped' if started else 'was not started'}: {words}"
            if "in another process" in self._failure:
                self._failure += "; give the server one worker only"
            # What application and server make of it shows the groups, or not what is in them.
            log.error(self._failure)  # noqa: TRY400
            log.debug("the bot failed", exc_info=errors)
            raise
        finally:
            self.endpoint = None
            self._stopped.set()

    async def _watch(self, shield: trio.CancelScope, grace: float) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self._stop.set()
            shield.deadline = trio.current_time() + grace


async def _live(app: AsgiApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Live an application's life. A server hears of a failure, and no failure of either ends with 0."""
    if not trio.lowlevel.in_trio_task():
        await _end_other_loop()
    failed, life, over = cast("dict[str, Any] | None", None), trio.CancelScope(), False

    async def tell(message: dict[str, Any]) -> None:
        nonlocal failed, over
        if not message["type"].endswith(".failed"):
            # Behind this, hypercorn cancels what is still left of the life.
            over = message["type"] == "lifespan.shutdown.complete"
            await send(message)
            return
        failed = message
        life.cancel()  # Quart would go on, and wait for more
        await trio.lowlevel.checkpoint()

    try:
        try:
            with life:
                await app(scope, receive, tell)
        except* Exception as errors:
            words = "; ".join(map(_word, leaves(errors)))
            failed = failed or {"type": "lifespan.shutdown.failed", "message": words}
        if failed is not None:
            # Not by the exception: hypercorn would run on without the bot. And not above: what the server
            # raises would bring the bot's error along, whose text may be private.
            await send(failed)
    except BaseException:
        if not over:
            _fail_hypercorn()
        raise


@cache
def _fail_hypercorn() -> None:
    """Let this worker end hypercorn by a signal: it ends with 0 when its only worker has failed."""
    parent, worker = multiprocessing.parent_process(), multiprocessing.current_process()
    config = getattr(worker, "_kwargs", {}).get("config")
    commanded = "hypercorn" in Path(sys.argv[0]).parts[-2:]
    if parent is None or parent.pid is None or not commanded or getattr(config, "workers", 0) != 1:
        return
    # When this process ends, so that what hypercorn has to say stands before it.
    atexit.register(os.kill, parent.pid, getattr(signal, "SIGUSR1", signal.SIGTERM))


async def _end_other_loop() -> Never:
    """End a server that runs on asyncio, with one line: hypercorn prints a traceback of a failed start."""
    log.error("the bot was not started: a bot runs on Trio: give hypercorn --worker-class trio")
    _fail_hypercorn()
    loop = asyncio.get_running_loop()
    # From the loop, and not from this task, whose exception the server would print as well.
    loop.call_soon(sys.exit, 1)
    await loop.create_future()
    raise AssertionError("the loop has ended")


def _word(error: BaseException) -> str:
    # A text that isn't ours may hold what is private.
    line = Path(failing_line(error.__traceback__)).name
    words = str(error) if isinstance(error, TriobotError) else f"{type(error).__name__} at {line}"
    return about_opening(error) + words
