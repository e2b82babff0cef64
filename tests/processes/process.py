"""A bot in a process of its own: start it, stop it, kill it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import trio

ROOT = Path(__file__).parent.parent.parent
SECRET = "process-test-secret-0123456789"


@attrs.define
class BotProcess:
    """A running bot.

    Attributes:
        listening: the socket that it serves; kept open here, so that a successor can take it over.
    """

    popen: subprocess.Popen[bytes]

    async def stop(self) -> int:
        """SIGTERM, and wait for a clean end."""
        self.popen.send_signal(signal.SIGTERM)
        return await self.wait()

    async def kill(self) -> None:
        """SIGKILL: nothing of it runs on."""
        self.popen.kill()
        await self.wait()

    async def wait(self) -> int:
        """Wait for its end."""
        with trio.fail_after(30):
            return await trio.to_thread.run_sync(self.popen.wait, abandon_on_cancel=True)

    @property
    def resident(self) -> int:
        """Bytes of memory that it holds now."""
        status = Path(f"/proc/{self.popen.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024


def listen() -> socket.socket:
    """A listening socket on a free port of loopback."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    sock.listen(1024)
    return sock


async def start_bot(
    name: str, *, platform: str, store: Path, sock: socket.socket, environ: Mapping[str, str] = {}
) -> BotProcess:
    """Start a bot of `bots.py` on an inherited socket, and wait until it is ready."""
    command = [sys.executable, "-m", "triobot.cli", "run", f"{Path(__file__).parent / 'bots.py'}:{name}"]
    popen = subprocess.Popen(
        [*command, "--fd", str(sock.fileno())],
        cwd=ROOT,
        pass_fds=[sock.fileno()],
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith("TRIOBOT_")},
            "TRIOBOT_TOKEN": "token-of-the-process-tests",
            "TRIOBOT_BASE_URL": platform,
            "TRIOBOT_STORE": f"sqlite:{store}",
            "TRIOBOT_WEBHOOK_SECRET": SECRET,
            **environ,
        },
    )
    try:
        await _until_ready(popen, sock.getsockname()[1])
    except BaseException:
        popen.kill()
        popen.wait()
        raise
    return BotProcess(popen)


async def _until_ready(popen: subprocess.Popen[bytes], port: int) -> None:
    # The socket takes connections before the bot does: the first answer is what tells.
    with trio.fail_after(30):
        while popen.poll() is None:
            with trio.move_on_after(1):
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    await stream.send_all(
                        b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
                    )
                    if b" 200 " in await stream.receive_some(64):
                        return
            await trio.sleep(0.05)
    raise RuntimeError(f"the bot did not start: exit code {popen.poll()}")


@asynccontextmanager
async def running_bot(
    name: str, *, platform: str, store: Path, environ: Mapping[str, str] = {}
) -> AsyncGenerator[tuple[BotProcess, int]]:
    """A bot for one test, with its port; killed at the end if it still runs."""
    with listen() as sock:
        process = await start_bot(name, platform=platform, store=store, sock=sock, environ=environ)
        try:
            yield process, sock.getsockname()[1]
        finally:
            process.popen.kill()
            await trio.to_thread.run_sync(partial(process.popen.wait, timeout=10))
