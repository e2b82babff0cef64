"""An ASGI application's life around its requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import trio

from ..errors import ConfigError
from .asgi import AsgiApp, Message

_FAILED: Final = "the application could not {}{}"


@asynccontextmanager
async def open_lifespan(app: AsgiApp) -> AsyncGenerator[dict[str, Any]]:
    """Start an application, and stop it at the end of the block; yields its state.

    An application that knows nothing of lifespans is served without one.

    Raises:
        ConfigError: it said that it could not start, or could not stop.
    """
    state: dict[str, Any] = {}
    # Two messages: there are no others.
    to_app, app_receives = trio.open_memory_channel[Message](2)
    started, stopped = trio.Event(), trio.Event()
    failures: list[str] = []
    supported = True

    async def send(message: Message) -> None:
        await trio.lowlevel.checkpoint()
        match message["type"]:
            case "lifespan.startup.complete":
                started.set()
            case "lifespan.shutdown.complete":
                stopped.set()
            case "lifespan.startup.failed" | "lifespan.shutdown.failed":
                text = str(message.get("message", ""))
                failures.append(f": {text}" if text else "")
                started.set()
                stopped.set()
            case kind:
                raise RuntimeError(f"nothing is known of {kind!r}")

    async def live() -> None:
        nonlocal supported
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state}
        try:
            await app(scope, app_receives.receive, send)
        except Exception:
            # The specification: an application that raises before it has started knows no lifespans.
            if started.is_set():
                raise
            supported = False
        finally:
            started.set()
            stopped.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(live)
        await to_app.send({"type": "lifespan.startup"})
        await started.wait()
        if failures:
            raise ConfigError(_FAILED.format("start", failures[0]))
        yield state
        if supported and not stopped.is_set():
            await to_app.send({"type": "lifespan.shutdown"})
            await stopped.wait()
            if failures:
                raise ConfigError(_FAILED.format("stop", failures[0]))
        nursery.cancel_scope.cancel()
