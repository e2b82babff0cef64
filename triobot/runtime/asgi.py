"""Runs a bot in the lifespan of a quart-trio application, under an external ASGI server.

The application is the bot's own (`Bot.asgi`) or a site (`Bot.mount`). The whole bot runs inside the lifespan,
and opens no port.
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

# ASGI defines messages as open dictionaries.
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Runs: TypeAlias = Callable[[], AbstractAsyncContextManager[Intake]]
"""A function that returns a context manager, which runs a bot without a listener."""


def application_of(settings: Callable[[], Settings], runs: Runs) -> QuartTrio:
    """Return an application with the bot's webhook. While a server serves the application, the bot runs.

    Args:
        settings: function that returns the settings with which the bot would start now.
        runs: see `Runs`.
    """
    hosted = _Hosted(settings, runs)
    app = build_app(lambda _: hosted.endpoint)
    hosted.tie_to(app)
    return app


def mount(settings: Callable[[], Settings], runs: Runs, app: QuartTrio, prefix: str) -> None:
    """Mount the bot's webhook in an application, and run the bot while the application is served.

    Args:
        settings, runs: as for `application_of`.

    Raises:
        ConfigError: as `mount_endpoint`.
    """
    hosted = _Hosted(settings, runs)
    mount_endpoint(app, prefix, lambda _: hosted.endpoint)
    hosted.tie_to(app)


@final
class _Hosted:
    """A bot that an application runs. `endpoint` is None before the bot's start and after its stop."""

    def __init__(self, settings: Callable[[], Settings], runs: Runs) -> None:
        self.endpoint: Endpoint | None = None
        self._settings = settings
        self._runs = runs
        self._stop = trio.Event()
        self._stopped = trio.Event()
        self._failure = ""

    def tie_to(self, app: QuartTrio) -> None:
        """Start and stop the bot with the application. A failed start or stop is reported to the server."""
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
                # Raise the error after `except*`, since Python 3.11.2 would wrap the error in a group. The
                # application reports only an error's text, and a group's text has no details.
                raise TriobotError(self._failure)

        app.before_serving(start)
        app.after_serving(self._finish)

    async def _finish(self) -> None:
        # The application has set a deadline on its nursery by now, but the bot's own grace period applies.
        self._stop.set()
        with trio.CancelScope(shield=True):
            await self._stopped.wait()

    async def _run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._stop, self._stopped = trio.Event(), trio.Event()
        grace, started = self._settings().grace, False
        # The bot is shielded, so that the application's deadline doesn't interrupt sends. The watcher is not
        # shielded: a cancelled watcher sets the bot's own deadline on the shield.
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
            # Log the failure here: the application and the server either log the whole exception group, or
            # omit the errors inside the group.
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
    """Run an application's lifespan. Report a failure to the server: otherwise, hypercorn would go on, or
    exit with 0.
    """
    if not trio.lowlevel.in_trio_task():
        await _end_other_loop()
    failed, life, over = cast("dict[str, Any] | None", None), trio.CancelScope(), False

    async def tell(message: dict[str, Any]) -> None:
        nonlocal failed, over
        if not message["type"].endswith(".failed"):
            # After `lifespan.shutdown.complete`, hypercorn cancels the lifespan's task.
            over = message["type"] == "lifespan.shutdown.complete"
            await send(message)
            return
        failed = message
        life.cancel()  # otherwise Quart would wait for another message
        await trio.lowlevel.checkpoint()

    try:
        try:
            with life:
                await app(scope, receive, tell)
        except* Exception as errors:
            words = "; ".join(map(_word, leaves(errors)))
            failed = failed or {"type": "lifespan.shutdown.failed", "message": words}
        if failed is not None:
            # Report the failure by an ASGI message, not an exception: hypercorn would run on without the bot.
            # Send the message outside the `except` block. Inside, the bot's error would become the context of
            # an exception from the server, but the text of the bot's error may be private.
            await send(failed)
    except BaseException:
        if not over:
            _fail_hypercorn()
        raise


@cache
def _fail_hypercorn() -> None:
    """Make hypercorn exit with an error when this worker ends. Otherwise, hypercorn would exit with 0 after
    its only worker has failed.
    """
    parent, worker = multiprocessing.parent_process(), multiprocessing.current_process()
    config = getattr(worker, "_kwargs", {}).get("config")
    commanded = "hypercorn" in Path(sys.argv[0]).parts[-2:]
    if parent is None or parent.pid is None or not commanded or getattr(config, "workers", 0) != 1:
        return
    # Send the signal at the exit of this process, so that hypercorn's own messages come first.
    atexit.register(os.kill, parent.pid, getattr(signal, "SIGUSR1", signal.SIGTERM))


async def _end_other_loop() -> Never:
    """Stop a server that runs on asyncio, with one log line. After an exception, hypercorn would print a
    traceback.
    """
    log.error("the bot was not started: a bot runs on Trio: give hypercorn --worker-class trio")
    _fail_hypercorn()
    loop = asyncio.get_running_loop()
    # Call `sys.exit` in a callback: if this task raised SystemExit, the server would print a traceback.
    loop.call_soon(sys.exit, 1)
    await loop.create_future()
    raise AssertionError("the loop has ended")


def _word(error: BaseException) -> str:
    # Only a `TriobotError` is shown with its text: other texts may be private.
    line = Path(failing_line(error.__traceback__)).name
    words = str(error) if isinstance(error, TriobotError) else f"{type(error).__name__} at {line}"
    return about_opening(error) + words
