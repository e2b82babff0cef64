"""Logs the line that blocks the event loop, and sends signs of life to systemd.

Code that computes for seconds without an ``await``, or makes blocking calls, blocks every chat at once, and
``/healthz``, too. Code in the loop can't report such a block. So a thread logs the blocking line while the
line blocks the loop. All bots of a process share the thread. The thread doesn't end the process. A supervisor
restarts the process when a probe gets no answer, or when systemd gets no signs of life.

Only `Bot.run` and the command line notify systemd, since both run the whole process. A bot that is embedded
in a program can't detect when that program is ready or stops.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Final, final

import attrs
import trio

from ..base.signals import HEARD
from ..conversations.inspection.portrait import whose
from ..conversations.running.lines import frames_of, is_authors, is_ours, waiting_line, working_line

log: Final = logging.getLogger("triobot.watchdog")

# Users notice a pause of one second. A garbage collection is shorter than a second, even with many chats.
STILL_AFTER: Final = 1.0
DELAY: Final = 10.0
"""Seconds between two log lines about a slow stop."""
_DEBUGGERS: Final = ("bdb", "pydevd", "_pydevd")
_ASKED: Final = 4
"""Number of checks of a busy loop within `still_after` seconds. Also the number of signs of life within the
time in which systemd expects one sign.
"""


@asynccontextmanager
async def watched_loop(*, still_after: float = STILL_AFTER) -> AsyncGenerator[None]:
    """Watch the loop during the ``async with`` block; simultaneous ``async with`` blocks share one watching
    thread.

    Args:
        still_after: seconds without a response of the loop after which the blocking line is logged. The line
            is logged again whenever the time without a response has doubled; during a stop, at least every
            ten seconds. If the loop is watched already, `still_after` is ignored.
    """
    watch = _watching.get()
    if watch is None:
        watch = _SharedWatch()
        _watching.set(watch)
        loop = trio.lowlevel.current_trio_token(), threading.get_ident()
        threading.Thread(
            target=_keep_asking, args=(*loop, still_after, watch.over), name="triobot watchdog", daemon=True
        ).start()
    watch.users += 1
    try:
        yield
    finally:
        watch.users -= 1
        if not watch.users:
            _watching.set(None)
            watch.over.set()


@contextmanager
def telling_delays() -> Generator[Callable[[float], None]]:
    """If a stop takes longer than the grace period, log the line of the author's code that delays the stop.
    Log the line again every ten seconds.

    Yields: function to call at the start of the stop, with the grace period in seconds.
    """
    block, loop, over = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token(), threading.Event()
    thread = threading.get_ident()

    def say(began: float, what: str) -> None:
        log.warning("the stop has lasted for %.0f s, and %s", time.monotonic() - began, what)

    def tell(began: float, reported: threading.Event) -> None:
        if reported.is_set():
            return
        reported.set()
        held_up = ", ".join(dict.fromkeys(_waited_for(block, block)))
        say(began, f"waits for {held_up}" if held_up else "is not held up by the bot's own code")

    def keep_telling(grace: float) -> None:
        began, pause = time.monotonic(), grace + STILL_AFTER
        with suppress(trio.RunFinishedError):
            while not over.wait(pause):
                reported, pause = threading.Event(), DELAY
                loop.run_sync_soon(partial(tell, began, reported))
                if reported.wait(STILL_AFTER) or over.is_set():
                    continue
                # Code that computes without awaiting blocks the loop, which then can't run `tell`.
                if held_up := _at_work(sys._current_frames().get(thread)):  # pyright: ignore[reportPrivateUsage]
                    reported.set()
                    say(began, f"waits for {held_up}, which neither returns nor awaits")

    def begin(grace: float) -> None:
        # Use a thread, not a task: a stop by cancellation would cancel the task, and such a stop can be
        # delayed, too.
        threading.Thread(target=keep_telling, args=(grace,), name="triobot stop", daemon=True).start()

    try:
        yield begin
    finally:
        over.set()


def _waited_for(task: trio.lowlevel.Task, block: trio.lowlevel.Task) -> Sequence[str]:
    """Return name and line of the innermost tasks below `task` that are in an author's code."""
    inner = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    found = [line for child in inner for line in _waited_for(child, block)]
    frames = frames_of(task)
    if task is block:  # the code that runs the bot is an author's code, too
        ours = [place for place, (frame, _) in enumerate(frames) if is_ours(frame.f_code.co_filename)]
        frames = frames[ours[0] :] if ours else []
    elif found:
        return found
    authors = [frame.f_code for frame, _ in frames if is_authors(frame.f_code.co_filename)]
    if authors:
        owner = whose(task)
        name = authors[0].co_name if owner is None else f"route {owner[0].facts.route.name}"
        found.append(f"{name} at {waiting_line(frames)}")
    return found


def _at_work(frame: FrameType | None) -> str | None:
    """Return line and route of an author's code that computes in the loop's thread, or None."""
    line = None if is_at_breakpoint(frame) else working_line(frame)
    while frame is not None and frame.f_code.co_name != "unrolled_run":  # the frame of Trio's scheduler
        frame = frame.f_back
    owner = None if line is None or frame is None else whose(frame.f_locals["task"])
    return line if owner is None else f"route {owner[0].facts.route.name} at {line}"


@asynccontextmanager
async def telling_systemd(environ: Mapping[str, str] = os.environ) -> AsyncGenerator[Systemd]:
    """Send signs of life to systemd while the block runs. At the end, notify systemd that the process stops.

    Args:
        environ: environment with systemd's ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC`` (``Type=notify``,
            ``WatchdogSec=``).
    """
    systemd = Systemd(environ)
    async with trio.open_nursery() as nursery:
        if systemd.expects_signs is not None:
            nursery.start_soon(_keep_telling, systemd, systemd.expects_signs)
        try:
            yield systemd
        finally:
            systemd.tell_stopping()
            nursery.cancel_scope.cancel()


async def _keep_telling(systemd: Systemd, within: float) -> None:
    while True:
        systemd.tell("WATCHDOG=1")
        await trio.sleep(within / _ASKED)


@final
@attrs.define
class _SharedWatch:
    """The watch of a loop. `users`: number of ``async with`` blocks that use the watch. `over`: set after the
    last of these blocks.
    """

    users: int = 0
    over: threading.Event = attrs.field(factory=threading.Event)


_watching: Final = trio.lowlevel.RunVar["_SharedWatch | None"]("watching", default=None)


def _keep_asking(
    loop: trio.lowlevel.TrioToken, thread: int, still_after: float, over: threading.Event
) -> None:
    """In the watching thread, send callbacks to the loop. If a callback doesn't run in time, log the blocking
    line.

    A loop that waits for I/O gets no callback, and is checked less often. Each callback would wake the loop,
    and a server may run a hundred idle bots.
    """
    pause = still_after / _ASKED
    while not over.wait(pause):
        at_rest = _is_at_rest(sys._current_frames().get(thread))  # pyright: ignore[reportPrivateUsage]
        pause = still_after if at_rest else still_after / _ASKED
        if at_rest:
            continue
        alive, asked, last = threading.Event(), time.monotonic(), 0.0
        try:
            loop.run_sync_soon(alive.set)
        except trio.RunFinishedError:
            return
        while not alive.wait(still_after / _ASKED) and not over.is_set():
            frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
            if is_at_breakpoint(frame):
                asked = time.monotonic()
            still = time.monotonic() - asked
            if still >= max(still_after, min(2 * last, last + DELAY) if HEARD else 2 * last):
                last = still
                stop = "; the stop waits, too" if HEARD else ""
                log.error("every chat has waited for %.1f s: %s%s", still, _why(frame), stop)
        if last and not over.is_set():
            log.warning("the loop goes on after %.1f s", time.monotonic() - asked)


def _is_at_rest(frame: FrameType | None) -> bool:
    if frame is None or frame.f_code.co_name != "get_events":
        return False
    return str(frame.f_globals.get("__name__")).startswith("trio._core.")


def is_at_breakpoint(frame: FrameType | None) -> bool:
    """Whether a debugger has stopped this frame."""
    while frame is not None and not str(frame.f_globals.get("__name__")).startswith(_DEBUGGERS):
        frame = frame.f_back
    return frame is not None


def _why(frame: FrameType | None) -> str:
    """Describe what blocks the loop. `frame`: current frame of the loop's thread."""
    if (line := working_line(frame)) is not None:
        return f"the code at {line} neither returns nor awaits; run it by trio.to_thread.run_sync, in a step"
    where = "" if frame is None else f" (the program is at {frame.f_code.co_filename}:{frame.f_lineno})"
    return f"none of the bot's own code is at work{where}; the machine is too busy, or stood still"


@final
class Systemd:
    """Notifications to systemd; sent only if systemd started this process with ``Type=notify``.

    Attributes:
        expects_signs: seconds within which systemd expects a sign of life; None if systemd expects no signs
            of life.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        path = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        asked, whom = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID")
        expected = asked.isdecimal() and int(asked) > 0 and whom in (None, str(os.getpid()))
        self.expects_signs = int(asked) / 1_000_000 if expected else None
        self._stopping = False

    def tell(self, state: str) -> None:
        """Send a notification; a failure is ignored, since the bot can work without its supervisor."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.setblocking(False)
            try:
                notify.sendto(state.encode(), self._address)
            except OSError as error:
                log.debug("systemd was not told %s: %s", state, type(error).__name__)

    def tell_stopping(self) -> None:
        """Notify systemd, once, that the process is stopping."""
        if not self._stopping:
            self._stopping = True
            self.tell("STOPPING=1")
