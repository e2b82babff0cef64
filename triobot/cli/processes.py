"""``triobot run --processes N``: starts the processes that share a bot's store, and keeps them running.

This process opens the listening socket and runs no bot. The others inherit the socket and accept from it
side by side, so that a connection waits for whichever is free, and none is refused while one of them starts
again. Each has its shards, from its start to its end: there is nothing to move. One that ends by itself is
started again; meanwhile the others hold its events.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, final

import attrs
import trio

from ..clock import SystemClock
from ..endings import ending_signals
from ..errors import ConfigError
from ..http.binding import open_listeners
from ..nodes.node import prepare_shards
from ..nodes.parent import AT_ONCE, AT_REST, CLOSE, READY, STOP, lines_of
from ..settings import Settings
from ..shards import read_shards
from ..together import bind_of
from ..watchdog import telling_systemd

log: Final = logging.getLogger("triobot")
# How long one waits that has ended again and again without having run for a while.
_PAUSES: Final = (0.0, 0.2, 1.0, 5.0, 30.0)
_LONG_ENOUGH: Final = 60.0
# How long after the grace, and after a second signal, one that hasn't ended is killed.
_AFTER_GRACE: Final = 15.0
_AT_ONCE_SECONDS: Final = 5.0
# A signal to the whole group, as systemd's, may reach another process before this one.
_TOGETHER: Final = 0.2
_SYSTEMD: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


def check_processes(settings: Sequence[Settings], processes: int) -> None:
    """Refuse what so many processes can't share.

    Raises:
        ConfigError: says what.
    """
    for one in settings:
        address = read_shards(one.store)
        if address.shards is None:
            raise ConfigError(
                f"one process at a time has a store by itself: --processes {processes} needs one in shards,"
                f" such as --store sqlite:bot.db?shards={processes}"
            )
        if address.shard is not None:
            raise ConfigError("a bot runs on all shards of its store: leave &shard= out")
        if address.whole.startswith("postgresql:"):
            raise ConfigError("--processes is for a store in files; leave it out for one in PostgreSQL")
        if not address.whole.startswith("sqlite:"):
            raise ConfigError("only files are shared by processes: a store in memory ends with its own")
        if address.shards < processes:
            raise ConfigError(
                f"the store has {address.shards} shards, and {processes} processes were asked for: each has"
                f" one at least; say --processes {address.shards} or fewer"
            )
    if not hasattr(socket, "AF_UNIX"):
        raise ConfigError("this system has no Unix sockets, over which processes could share a bot")


def run_processes(settings: Sequence[Settings], processes: int, command: Sequence[str]) -> None:
    """Run a bot in so many processes until SIGINT, SIGTERM or SIGHUP; a second signal stops at once.

    Args:
        command: starts one of them; what is added says which.

    Raises:
        ConfigError: nothing was started; or one of them did not start, and its log says why.
        StoreError: a shard can't be used; nothing was started.
    """
    trio.run(_run, settings, processes, command)


async def _run(settings: Sequence[Settings], processes: int, command: Sequence[str]) -> None:
    first = settings[0]
    listeners = await open_listeners([bind_of(first)], backlog=first.limits.backlog)
    if len(listeners) > 1:
        raise ConfigError(
            f"{first.host} stands for {len(listeners)} addresses, and the processes share one: say which"
        )
    listening = listeners[0].socket
    for one in settings:
        await prepare_shards(one, SystemClock())
    patience = max(one.grace for one in settings) + _AFTER_GRACE
    crew = Crew(processes, command, listening.fileno(), patience)
    with trio.open_signal_receiver(*ending_signals()) as signals:
        async with telling_systemd() as systemd, trio.open_nursery() as nursery:

            async def watch() -> None:
                async for number in signals:
                    name = signal.Signals(number).name
                    if crew.stopping and name == "SIGHUP":
                        continue  # of a window that is closed both the shell and the system tell
                    if crew.stopping:
                        crew.stop_at_once()
                    else:
                        log.info("stopping on %s; once more stops at once", name)
                        systemd.tell_stopping()
                        crew.stop()

            nursery.start_soon(watch)
            await nursery.start(crew.run)
            if not crew.stopping:
                log.info("%d processes run", processes)
                systemd.tell("READY=1")
            await crew.over.wait()
            nursery.cancel_scope.cancel()
    listening.close()
    if crew.failed:
        raise ConfigError("a process did not start, so none runs; its own line above says why")


@final
class Crew:
    """The processes of a bot.

    Args:
        patience: seconds after which one that was told to end is killed, as one that stands still is.

    Attributes:
        stopping: they have been told to end.
        failed: one of them could not start, and so all were stopped.
        over: set once all have ended.
    """

    def __init__(self, processes: int, command: Sequence[str], listening: int, patience: float) -> None:
        self._processes = processes
        self._command = command
        self._listening = listening
        self._patience = patience
        self._members: dict[int, _Member] = {}
        self._all_ready = trio.Event()
        self._up = False
        self._stopped = trio.Event()
        self._at_once = trio.Event()
        self.stopping = self.failed = False
        self.over = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the processes running until they were told to stop; started once all accept events."""
        async with trio.open_nursery() as watching:
            watching.start_soon(self._kill_the_late)
            async with trio.open_nursery() as nursery:
                for number in range(self._processes):
                    nursery.start_soon(self._keep, number)
                await self._all_ready.wait()
                self._up = True
                task_status.started()
            watching.cancel_scope.cancel()
        self.over.set()

    async def _kill_the_late(self) -> None:
        await self._stopped.wait()
        with trio.move_on_after(self._patience):
            await self._at_once.wait()
            await trio.sleep(_AT_ONCE_SECONDS)
        for number, member in self._members.items():
            log.error("process %d has not ended and is killed; the next start goes on from the store", number)
            member.process.kill()

    def stop(self) -> None:
        """Bring all processes to rest."""
        self.stopping = True
        self._stopped.set()
        for member in self._members.values():
            member.say(STOP)
        self._look()

    def stop_at_once(self) -> None:
        """End all processes at once."""
        self._at_once.set()
        for member in self._members.values():
            member.say(AT_ONCE)

    async def _keep(self, number: int) -> None:
        fast = 0
        while not self.stopping:
            with trio.move_on_after(_PAUSES[min(fast, len(_PAUSES) - 1)]):
                await self._stopped.wait()
            if self.stopping:
                break
            began = trio.current_time()
            code, was_ready = await self._live(number)
            if self.stopping:
                break
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            if not (was_ready or self._up):
                log.error("process %d ended %s before it could begin", number, how)
                self.failed = True
                self.stop()
                break
            if code:
                log.error("process %d ended %s; it is started again", number, how)
            else:
                log.warning("process %d alone was told to end, and has; it is started again", number)
            fast = fast + 1 if trio.current_time() - began < _LONG_ENOUGH else 1
        self._all_ready.set()

    async def _live(self, number: int) -> tuple[int, bool]:
        """Run one process to its end; return its code, and whether it has accepted events."""
        ours, theirs = socket.socketpair()
        place = f"{number}/{self._processes}/{self._listening}/{theirs.fileno()}"
        environ = {name: value for name, value in os.environ.items() if name not in _SYSTEMD}
        with theirs:
            process = await trio.lowlevel.open_process(
                [*self._command, "--node", place],
                stdin=subprocess.DEVNULL,
                pass_fds=[self._listening, theirs.fileno()],
                env=environ,
                # A Ctrl-C at the terminal is this process's to pass on, in the order of a stop.
                start_new_session=True,
            )
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        member = self._members[number] = _Member(process, stream)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(member.keep_saying)
                nursery.start_soon(self._hear, member)
                if self.stopping:
                    member.say(STOP)
                code = await process.wait()
                nursery.cancel_scope.cancel()
        finally:
            del self._members[number]
            await trio.aclose_forcefully(member.stream)
            if process.returncode is None:
                process.kill()
            self._look()
        return code, member.is_ready

    async def _hear(self, member: _Member) -> None:
        async for line in lines_of(member.stream):
            if line == READY:
                member.is_ready = True
            elif line == AT_REST:
                member.is_at_rest = True
                with trio.move_on_after(_TOGETHER):
                    await self._stopped.wait()
                if not self.stopping:
                    member.say(CLOSE)  # the others go on, and hold what is for it until it is back
            self._look()

    def _look(self) -> None:
        """See whether all are ready, or all have come to rest."""
        members = self._members.values()
        if len(members) == self._processes and all(one.is_ready for one in members):
            self._all_ready.set()
        if self.stopping and all(one.is_at_rest for one in members):
            for one in members:
                one.say(CLOSE)


@final
@attrs.define(eq=False)
class _Member:
    """A process that runs, and the line to it."""

    process: trio.Process
    stream: trio.SocketStream
    is_ready: bool = False
    is_at_rest: bool = False
    _lines: bytearray = attrs.field(factory=bytearray)
    _some: trio.Event = attrs.field(factory=trio.Event)

    def say(self, line: bytes) -> None:
        """Say something soon; never waits."""
        self._lines += line
        self._some.set()

    async def keep_saying(self) -> None:
        """Say what is to be said, until cancelled or the process is gone."""
        while True:
            await self._some.wait()
            self._some = trio.Event()
            lines, self._lines = self._lines, bytearray()
            try:
                await self.stream.send_all(lines)
            except trio.BrokenResourceError:
                return


def command_of(arguments: Sequence[str]) -> Sequence[str]:
    """Return what starts one of the processes with these arguments of ``triobot``."""
    return [sys.executable, "-m", "triobot", *arguments]
