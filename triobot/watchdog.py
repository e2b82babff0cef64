"""Tells when the loop stands still, and where; and tells a supervisor that it doesn't.

Code that computes for seconds without an ``await``, or waits the blocking way, stops every chat at once, and
``/healthz`` with them. Nothing in the loop can say so. A thread can: it names the line, while it lasts. What
restarts the process is its supervisor, whose probe gets no answer, or systemd, which no longer hears from us.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import FrameType
from typing import Final, final

import trio

from .conversations.running.lines import working_line

log: Final = logging.getLogger("triobot.watchdog")

# A person notices a second; a garbage collection of many chats takes less.
STILL_AFTER: Final = 1.0
_BEATS: Final = 4


@asynccontextmanager
async def watched_loop(
    *, still_after: float = STILL_AFTER, environ: Mapping[str, str] = os.environ
) -> AsyncGenerator[Callable[[], None]]:
    """Watch the loop while the block runs; what is yielded is called once the bot is up, to tell systemd so.

    Args:
        still_after: seconds without a sign of life after which the log gets the line; again at each doubling.
        environ: ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC`` are systemd's (``Type=notify``, ``WatchdogSec=``).
    """
    supervisor = Supervisor(environ)
    watch = _LoopWatch(still_after)
    thread = threading.Thread(target=watch.look, name="triobot watchdog", daemon=True)
    thread.start()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keep_beating, watch, supervisor, still_after / _BEATS)
            try:
                yield partial(supervisor.tell, "READY=1")
            finally:
                supervisor.tell("STOPPING=1")
                nursery.cancel_scope.cancel()
    finally:
        watch.over.set()


async def _keep_beating(watch: _LoopWatch, supervisor: Supervisor, every: float) -> None:
    while True:
        watch.beat()
        supervisor.tell_alive()
        await trio.sleep(every)


@final
class _LoopWatch:
    def __init__(self, still_after: float) -> None:
        self.over = threading.Event()
        self._still_after = still_after
        self._thread = threading.get_ident()
        self._beat = time.monotonic()
        self._told = 0.0

    def beat(self) -> None:
        """Note that the loop is alive; call it often."""
        still = time.monotonic() - self._beat
        self._beat = time.monotonic()
        if self._told:
            self._told = 0.0
            log.warning("the loop goes on after %.1f s", still)

    def look(self) -> None:
        """Look at it from another thread, until it is over."""
        while not self.over.wait(self._still_after / _BEATS):
            still = time.monotonic() - self._beat
            if still >= max(self._still_after, 2 * self._told):
                self._told = still
                frame = sys._current_frames().get(self._thread)  # pyright: ignore[reportPrivateUsage]
                log.error("every chat has waited for %.1f s: %s", still, _why(frame))


def _why(frame: FrameType | None) -> str:
    """Say what keeps the loop, which is in this frame."""
    if (line := working_line(frame)) is not None:
        return (
            f"the code at {line} neither returns nor awaits;"
            " give such work to trio.to_thread.run_sync, in a step"
        )
    where = "" if frame is None else f" (the program is at {frame.f_code.co_filename}:{frame.f_lineno})"
    return f"none of the bot's own code is at work{where}; the machine is too busy, or stood still"


@final
class Supervisor:
    """systemd, if it started us with ``Type=notify``; else a stand-in that takes no notice."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        path = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        asked, whom = environ.get("WATCHDOG_USEC"), environ.get("WATCHDOG_PID")
        self._expects_signs = asked is not None and whom in (None, str(os.getpid()))

    def tell(self, state: str) -> None:
        """Say something; a supervisor that can't be reached is no reason to stop."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.setblocking(False)
            try:
                notify.sendto(state.encode(), self._address)
            except OSError as error:
                log.debug("systemd was not told %s: %s", state, type(error).__name__)

    def tell_alive(self) -> None:
        """Say that the loop moves, if that was asked for."""
        if self._expects_signs:
            self.tell("WATCHDOG=1")
