"""A bot in a process of its own: start it, stop it, kill it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
import pytest
import trio

from tests.loopback import PATIENCE
from tests.warm import popen

ROOT = Path(__file__).parent.parent.parent
BOTS = Path(__file__).parent / "bots.py"
SECRET = "process-test-secret-0123456789"
TOKEN = "token-of-the-process-tests"

Stack: TypeAlias = Literal["ours", "stock", "hosted"]
"""On whose HTTP a bot runs: triobot's own; hypercorn and httpx's; the same in hypercorn's own processes."""

on_both_stacks = pytest.mark.parametrize("stack", ["ours", "stock"])
on_both_stacks_when_long = pytest.mark.parametrize(
    "stack", ["ours", pytest.param("stock", marks=pytest.mark.long)]
)
on_all_stacks = pytest.mark.parametrize(
    "stack", ["ours", "stock", pytest.param("hosted", marks=pytest.mark.long)]
)


@attrs.define
class BotProcess:
    """A running bot.

    Attributes:
        log: where its output goes, if not to the test's own.
    """

    popen: subprocess.Popen[bytes]
    log: Path | None = None

    @property
    def output(self) -> str:
        """What it has written so far."""
        assert self.log is not None
        return self.log.read_text()

    async def stop(self) -> int:
        """SIGTERM, and wait for a clean end."""
        self.popen.send_signal(signal.SIGTERM)
        return await self.wait()

    async def kill(self) -> None:
        """SIGKILL: nothing of it runs on."""
        killed = self.kill_now()
        await self.wait()
        with trio.fail_after(PATIENCE):
            while any(map(lives, killed)):
                await trio.sleep(0.005)

    def kill_now(self) -> list[int]:
        """The same, without waiting for the ends of its children; gives their numbers."""
        if self.popen.poll() is not None:
            return []
        killed = family(self.popen.pid)
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return killed[1:]

    async def freeze(self) -> None:
        """SIGSTOP: it is there, and does nothing before `thaw`."""
        pids = family(self.popen.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        with trio.fail_after(PATIENCE):
            while any(state_of(pid) != "T" for pid in pids):
                await trio.sleep(0.005)

    def thaw(self) -> None:
        """SIGCONT: it goes on as if no time had passed."""
        for pid in family(self.popen.pid):
            os.kill(pid, signal.SIGCONT)

    async def wait(self) -> int:
        """Wait for its end."""
        with trio.fail_after(PATIENCE):
            return await trio.to_thread.run_sync(self.popen.wait, abandon_on_cancel=True)

    @property
    def resident(self) -> int:
        """Bytes of memory that it holds now."""
        status = Path(f"/proc/{self.popen.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024


class Heard:
    """What systemd hears at the socket whose path is in ``NOTIFY_SOCKET``."""

    def __init__(self, place: Path) -> None:
        self.all: list[bytes] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(place))

    def said(self) -> list[bytes]:
        """Everything up to now but signs of life."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.all.append(self._socket.recv(100))
        return [one for one in self.all if one != b"WATCHDOG=1"]

    def close(self) -> None:
        self._socket.close()


def family(pid: int) -> list[int]:
    """A process and its children, whichever of its threads has started them: hypercorn works in one.

    The process from which its children are forked is left out: it ends by itself.
    """
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return [pid, *sorted(child for child in children if name_of(child) != popen.NAME)]


def name_of(pid: int) -> str:
    """What the kernel calls a process; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def lives(pid: int) -> bool:
    """Whether it runs, or holds anything yet."""
    return state_of(pid) not in "ZX"


def state_of(pid: int) -> str:
    """The kernel's letter for what a process does; X if there is none."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X"
    return status.rpartition(")")[2].split()[0]


def listen() -> socket.socket:
    """A listening socket on a free port of loopback."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    sock.listen(1024)
    return sock


def environment(**more: str) -> dict[str, str]:
    """A child's variables: no settings but a token, a secret, and `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRIOBOT_", "LISTEN_"))}
    own = {"TRIOBOT_TOKEN": TOKEN, "TRIOBOT_WEBHOOK_SECRET": SECRET, "PYTHONPATH": str(ROOT)}
    return {**kept, **own, **more}


def command_for(name: str, sock: socket.socket, stack: Stack, module: Path = BOTS) -> list[str]:
    """What runs a bot of a module, whose transport the variable ``STACK`` chooses."""
    if stack == "hosted":
        hypercorn = [sys.executable, "-m", "hypercorn", "--worker-class", "trio"]
        return [*hypercorn, "--bind", f"fd://{sock.fileno()}", f"tests.processes.{module.stem}:{name}.asgi"]
    run = [sys.executable, "-m", "triobot", "run", f"{module}:{name}", "--fd", str(sock.fileno())]
    return run if stack == "ours" else [*run, "--server", "hypercorn"]


async def start_bot(
    name: str,
    *,
    module: Path = BOTS,
    stack: Stack = "ours",
    platform: str,
    store: Path | str,
    sock: socket.socket,
    environ: Mapping[str, str] = {},
    arguments: Sequence[str] = (),
    log: Path | None = None,
    ready: bytes = b" 200 ",
) -> BotProcess:
    """Start a bot of a module on an inherited socket, and wait until it is ready.

    `store` is a file, or an address.
    """
    address = store if isinstance(store, str) else f"sqlite:{store}"
    own = {"TRIOBOT_BASE_URL": platform, "TRIOBOT_STORE": address, "STACK": stack}
    return await start_process(
        [*command_for(name, sock, stack, module), *arguments],
        sock=sock,
        environ=environment(**own, **environ),
        log=log,
        ready=ready,
    )


async def start_node(
    name: str,
    *,
    port: int,
    platform: str,
    store: str,
    log: Path,
    ready: bytes,
    environ: Mapping[str, str] = {},
    module: Path = BOTS,
) -> BotProcess:
    """Start a bot that listens on a port by itself: when it is dead, connections there are refused."""
    own = {"TRIOBOT_BASE_URL": platform, "TRIOBOT_STORE": store, "STACK": "ours"}
    command = [sys.executable, "-m", "triobot", "run", f"{module}:{name}", "--port", str(port)]
    with log.open("ab") as output:
        popen = subprocess.Popen(
            command, cwd=ROOT, env=environment(**own, **environ), stdout=output, stderr=output
        )
    try:
        await _until_ready(popen, port, "/readyz", ready)
    except BaseException as error:
        popen.kill()
        popen.wait()
        error.add_note(log.read_text("utf-8")[-2_000:])
        raise
    return BotProcess(popen, log)


async def start_process(
    command: Sequence[str],
    *,
    sock: socket.socket,
    environ: Mapping[str, str],
    log: Path | None = None,
    path: str = "/readyz",
    ready: bytes = b" 200 ",
) -> BotProcess:
    """Start a program that serves an inherited socket, and wait until `path` is answered with `ready`."""
    with contextlib.ExitStack() as files:
        output = None if log is None else files.enter_context(log.open("wb"))
        popen = subprocess.Popen(
            command, cwd=ROOT, pass_fds=[sock.fileno()], env=environ, stdout=output, stderr=output
        )
    try:
        await _until_ready(popen, sock.getsockname()[1], path, ready)
    except BaseException:
        popen.kill()
        popen.wait()
        raise
    return BotProcess(popen, log)


async def get(port: int, path: str) -> bytes:
    """The head of the answer to one request; empty when there was none."""
    request = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % path.encode()
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request)
        return bytes(await stream.receive_some(4096))


async def _until_ready(popen: subprocess.Popen[bytes], port: int, path: str, ready: bytes) -> None:
    # The socket takes connections before the bot does: the first answer is what tells.
    with trio.fail_after(PATIENCE):
        while popen.poll() is None:
            with trio.move_on_after(1), contextlib.suppress(OSError, trio.BrokenResourceError):
                if ready in await get(port, path):
                    return
            await trio.sleep(0.05)
    raise RuntimeError(f"the bot did not start: exit code {popen.poll()}")


@asynccontextmanager
async def running_bot(
    name: str,
    *,
    stack: Stack = "ours",
    platform: str,
    store: Path,
    environ: Mapping[str, str] = {},
    arguments: Sequence[str] = (),
    log: Path | None = None,
) -> AsyncGenerator[tuple[BotProcess, int]]:
    """A bot for one test, with its port; killed at the end if it still runs."""
    with listen() as sock:
        process = await start_bot(
            name,
            stack=stack,
            platform=platform,
            store=store,
            sock=sock,
            environ=environ,
            arguments=arguments,
            log=log,
        )
        try:
            yield process, sock.getsockname()[1]
        finally:
            process.kill_now()
            await trio.to_thread.run_sync(partial(process.popen.wait, timeout=PATIENCE))
