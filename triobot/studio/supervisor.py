"""Supervisor of the bot's process under ``triobot dev``: starts and kills the process, forwards its output.

One process runs at a time. After a process has ended by itself or was killed, a new process starts only when
a person requests a restart or saves a file. A loop of failing starts would bury the first error.
"""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, final

import trio

from ..base.lines import lines_of
from ..cli.consulting import gather
from ..cli.terminal import harmless
from ..emulator.exchange import Exchange
from ..errors import TriobotError
from ..operator.calling import ask
from ..operator.loopback import socket_path
from ..operator.routes import Question
from ..wire.rules import JsonValue
from .commands.dev_bot import GRACE, HANDS_ON, LONGEST_LINE, LONGEST_SAID

Phase: TypeAlias = Literal["starting", "running", "stopping", "killed", "failed", "stopped"]

_KEPT: Final = 1_000
# Number of output lines that are shown for a failed process. The last lines are most often a traceback's end.
_TELLING: Final = 40
# Maximum seconds to wait until the process has done the work that became due.
_STRIDE: Final = 5.0
# Seconds from a stop request until the process is killed: the process's own grace period and a little more.
_PATIENCE: Final = GRACE + 2.0
# Arguments that keep the terminal's Ctrl-C from the process, because the supervisor stops the process. On
# Windows, a flag has this effect; on other systems, a separate session.
_APART: Final[dict[str, Any]] = {
    "start_new_session": True,
    "creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
}
_BOT: Final = (sys.executable, "-m", "triobot.studio.commands.dev_bot")
log: Final = logging.getLogger("triobot")
EACH: Final = 1.0
_SOONEST: Final = 0.2
_ANSWERS_WITHIN: Final = 2.0
# Maximum number of chats in a report, newest first. The page shows a dozen chats.
_CHATS: Final = 40
_PAYMENTS: Final = 100
JsonObject = dict[str, JsonValue]
_NOTHING: Final[JsonObject] = {"runtime": {}, "inside": {"chats": [], "payments": []}}


@final
class BotSupervisor:
    """Controller of the bot's process, for the page.

    Args:
        target: ``MODULE:BOT``.
        listening: listening socket, which each process inherits in turn. New connections wait while no
            process runs. On systems where processes can't inherit sockets, `listening` is closed, and each
            process binds the same port.
        write: called with each line of the process's output.
        opening: semaphore with the value 1 that guards the store. A starting process holds the semaphore
            until the process takes events.
        ahead: initial lead of the process's clocks over real time, in milliseconds.
        marks: kills, restarts and failures of earlier processes; new ones are appended.

    Attributes:
        reported: the bot's last reported status, chats and payments, as keys of the page's stream.
    """

    def __init__(
        self,
        target: str,
        listening: socket.socket,
        write: Callable[[str], None],
        *,
        opening: trio.Semaphore,
        ahead: int,
        marks: deque[JsonObject],
    ) -> None:
        self._target = target
        self._listening = listening
        self._port: int = listening.getsockname()[1]
        if not HANDS_ON:
            listening.close()
        self._write = write
        self._tell: Callable[[], None] = lambda: None
        self._phase: Phase = "stopped"
        self._since = 0
        self._starts = 0
        self._process: trio.Process | None = None
        self.reported = _NOTHING
        self._ahead = ahead
        self._reached = 0
        self._killed = False
        self._again = True
        self._keeps = False
        self._changed = trio.Event()
        self._lines: deque[tuple[int, str]] = deque(maxlen=_KEPT)
        self._written = 0
        self._problem: deque[str] = deque(maxlen=_TELLING)
        self._marks = marks
        self._opening = opening

    # --- the page's view and commands

    def view(self) -> JsonObject:
        """Return the state of the process for the page."""
        return {
            "target": self._target,
            "phase": self._phase,
            "since": self._since,
            "starts": self._starts,
            "pid": self._process.pid if self._process is not None else None,
            "problem": "\n".join(self._problem) if self._phase == "failed" else "",
        }

    def report(self, reported: JsonObject) -> None:
        """Store the bot's report, and wake the pages if the report has changed."""
        if reported != self.reported:
            self.reported = reported
            self._tell()

    async def pass_time(self, milliseconds: int) -> None:
        """Put the process's clocks forward, and wait at most `_STRIDE` seconds until the due work is done.

        A process that starts later starts with the new time.
        """
        self._ahead = target = self._ahead + milliseconds
        await self._tell_time()
        with trio.move_on_after(_STRIDE):
            while self._phase == "running" and self._reached < target:
                await self._changed.wait()

    async def _tell_time(self) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            # These errors mean that the process is ending. The next process starts with the new time.
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await process.stdin.send_all(b"%d\n" % self._ahead)

    def lines(self, after: int) -> Sequence[tuple[int, str]]:
        """Return the output lines with numbers above `after`."""
        return [one for one in self._lines if one[0] > after]

    def marks(self, since: int) -> Sequence[JsonObject]:
        """Return the kills, restarts and failures from `since` on, in wall ms of the process's clock."""
        return [mark for mark in self._marks if cast("int", mark["t"]) >= since]

    def _mark(self, what: str, **more: JsonValue) -> None:
        self._marks.append({"t": time.time_ns() // 1_000_000 + self._ahead, "what": what, **more})

    def kill(self) -> None:
        """Kill the process, which stays down until `restart`."""
        self._again = False
        if self._process is not None:
            self._killed = True
            self._process.kill()

    def restart(self) -> None:
        """Start the process. A running process is stopped first."""
        self._again = True
        self._stop()
        self._wake()

    async def wait_down(self) -> None:
        """Stop the process, and wait for its end. No process is started until `restart`."""
        self._again = False
        self._stop()
        while self._process is not None:
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    def _stop(self) -> None:
        if self._phase in ("starting", "running"):
            self._enter("stopping")  # `_end_when_stopping` asks the process to stop

    async def wait_up(self) -> None:
        """Wait until the process takes events."""
        while self._phase != "running":
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    def keep_events(self, *, keep: bool) -> None:
        """Keep new events for the next process if `keep`; otherwise post new events as usual."""
        self._keeps = keep
        self._wake()

    async def wait_taking(self) -> None:
        """Wait until the process takes events and `keep_events` is off."""
        while self._keeps or self._phase != "running":
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    # --- running the process

    async def run(self, environ: Mapping[str, str], tell: Callable[[], None]) -> None:
        """Run one process after another until cancelled; then stop the current process gracefully.

        Args:
            environ: the complete environment of the process.
            tell: called after each change of the process's state.
        """
        self._tell = tell
        while True:
            while not self._again:
                await self._changed.wait()
            self._again = False
            await self._live(environ)

    async def _live(self, environ: Mapping[str, str]) -> None:
        # While no process runs, requests for journals open the store. Wait for such a request, since the
        # starting process would find the store in use.
        await self._opening.acquire()
        begun = self._ahead
        try:
            process = await self._opened(environ)
        except BaseException:
            self._opening.release()
            raise
        self._process = process
        self._killed = False
        self._starts += 1
        if self._starts > 1:
            self._mark("restart")
        self._problem.clear()
        self._enter("starting")
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read_output, process.stderr)
                nursery.start_soon(self._hear, process.stdout)
                if begun != self._ahead:  # clocks were put forward while the process started
                    await self._tell_time()
                await self._wait_end(process)
                # Read the output to its end, for half a second at most: grandchildren may keep the pipe open.
                nursery.cancel_scope.deadline = trio.current_time() + 0.5
        finally:
            if process.returncode is None:
                # Shielded, because the graceful stop takes a bounded time.
                with trio.CancelScope(shield=True):
                    self._enter("stopping")
                    await self._end(process)
            self._process = None
            self.reported = _NOTHING
            self._enter(self._ended(process.returncode))

    async def _opened(self, environ: Mapping[str, str]) -> trio.Process:
        """Start a process. Reports come through standard output; other output comes through error output."""
        listening = self._listening.fileno()
        return await trio.lowlevel.open_process(
            [*_BOT, self._target, str(listening) if HANDS_ON else f":{self._port}", str(self._ahead)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[listening] if HANDS_ON else [],
            env=environ,
            **_APART,
        )

    def _ended(self, code: int | None) -> Phase:
        if self._killed:
            self._mark("kill")
            self._say("was killed")
            return "killed"
        if self._phase == "stopping":
            return "stopped"
        self._say(f"ended with code {code}" if code is None or code >= 0 else f"ended by signal {-code}")
        return "failed" if code else "stopped"

    async def _wait_end(self, process: trio.Process) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_when_stopping, process)
            await process.wait()
            nursery.cancel_scope.cancel()

    async def _end_when_stopping(self, process: trio.Process) -> None:
        while self._phase != "stopping":
            await self._changed.wait()
        await self._end(process)

    async def _end(self, process: trio.Process) -> None:
        """Stop the process by SIGTERM, or on Windows by closing its standard input.

        After `_PATIENCE` seconds, kill the process.
        """
        if HANDS_ON:
            process.terminate()
        elif process.stdin is not None:
            await process.stdin.aclose()
        with trio.move_on_after(_PATIENCE):
            await process.wait()
        if process.returncode is None:
            self._say("did not come to rest, killed")
            process.kill()
            await process.wait()

    async def _read_output(self, output: trio.abc.ReceiveStream) -> None:
        async with aclosing(lines_of(output, LONGEST_LINE)) as lines:
            async for line in lines:
                self._say_line(line.removesuffix(b"\n"))

    async def _hear(self, said: trio.abc.ReceiveStream) -> None:
        async with said as stream, aclosing(lines_of(stream, LONGEST_SAID)) as lines:
            async for line in lines:
                if line == b"ready\n":
                    self._enter("running")
                elif line.startswith(b"{"):
                    self._mark(**json.loads(line))
                else:
                    self._reached = int(line)
                    self._wake()

    def _say_line(self, line: bytes) -> None:
        text = harmless(line.decode("utf-8", "replace").rstrip("\r").expandtabs(8))[:LONGEST_LINE]
        self._problem.append(text)
        self._keep(text)

    def say(self, what: str) -> None:
        """Add a line from the supervisor to the process's output."""
        self._keep(harmless(f"triobot: {what}"))

    def _say(self, what: str) -> None:
        self.say(f"the bot's process {what}")

    def _keep(self, line: str) -> None:
        self._write(line)
        self._written += 1
        self._lines.append((self._written, line))
        self._tell()

    def _enter(self, phase: Phase) -> None:
        if phase == "running" and self._phase != "starting":
            return
        if self._phase == "starting":
            self._opening.release()
        self._phase, self._since = phase, time.time_ns() // 1_000_000
        self._wake()
        self._tell()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


async def keep_asking(supervisor: BotSupervisor, store: str, exchange: Exchange) -> None:
    """Poll the process for its status, chats and payments until cancelled."""
    path = socket_path(store)
    if path is None:
        return
    while True:
        await supervisor.wait_up()
        seen = exchange.traffic.version
        try:
            with trio.move_on_after(_ANSWERS_WITHIN):
                await _ask_all(supervisor, path)
        except (TriobotError, OSError) as error:
            # The process may be ending. The next process answers the next poll.
            log.debug("the bot said nothing of itself: %s", type(error).__name__)
        await trio.sleep(_SOONEST)
        with trio.move_on_after(EACH - _SOONEST):
            heard = 0
            while exchange.traffic.version == seen:
                heard = await exchange.wait_news(heard)


async def _ask_all(supervisor: BotSupervisor, path: Path) -> None:
    [status] = await _lines(path, {"ask": "status"}) or [{}]
    status.pop("at", None)  # the answer's time would make every report differ
    chats = list[JsonValue](await _lines(path, {"ask": "chats.list", "limit": _CHATS}))
    [listed] = await _lines(path, {"ask": "payments.list", "limit": _PAYMENTS}) or [{}]
    inside: JsonObject = {"chats": chats, "payments": listed.get("payments", [])}
    supervisor.report({"runtime": status, "inside": inside})


async def _lines(path: Path, question: Question) -> list[JsonObject]:
    """Send a request to the bot; return the answer's lines, or none if no bot answers."""
    return cast("list[JsonObject]", await gather(partial(ask, path), question))
