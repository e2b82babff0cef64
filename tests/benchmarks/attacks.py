"""What good events feel of attacks on the way in: ``python -m tests.benchmarks.attacks [--only KIND ...]``.

An attacker in a process of its own holds connections, and opens another one for each that is closed on it;
`attacker` tells its kinds. Meanwhile twenty events a second come from good senders: every other one over a
connection of its own, the others over four that are kept open, as a platform's client would. Measured is the
time from when an event was due until its 200. What has none after ten seconds, or gets another answer, has
failed; a sender whose kept connection was closed before it wrote opens another one, and that is no failure.

The same bot runs on triobot's own listener and under hypercorn, each also behind nginx; and behind a strict
nginx, which knows the webhook's path and closes the connection of whoever asks for another one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from tests.loopback import Line, free_port, open_platform, text_event

from .attacker import KINDS
from .figures import Figures, note, percentile
from .load import SECRET, TOKEN
from .processes import take_sides

MANY: Final = {
    "silent": 10_000,
    "heads": 10_000,
    "bodies": 1_500,
    "strange": 1_500,
    "busy": 520,
    "unread": 520,
}
ATTACKS: Final = {
    "none": "none",
    **{
        kind: f"{MANY[kind]:,} {words}"
        for kind, words in {
            "silent": "silent connections",
            "heads": "connections with slow heads",
            "bodies": "connections with slow bodies",
            "strange": "connections with slow bodies, without the secret",
            "busy": "open connections with constant requests",
            "unread": "connections that read no answers",
        }.items()
    },
}
"""What the attacks are called."""

_ROOT: Final = Path(__file__).parents[2]
_BOT: Final = "tests/benchmarks/peers/triobot_attacked.py"
_RATE: Final = 20
_PATIENCE: Final = 10.0
_NGINX: Final = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_processes 1;
worker_rlimit_nofile 20000;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    {locations}
  }}
}}
"""
_LOCATIONS: Final = {
    "nginx": "location / {{ proxy_pass http://127.0.0.1:{behind}; }}",
    "strict nginx": "location = /{secret} {{ proxy_pass http://127.0.0.1:{behind}; }} "
    "location / {{ return 444; }}",
}


@attrs.define
class Senders:
    """Good senders, and what they met.

    Attributes:
        waits: seconds from when an event was due until its 200, each.
        failed: events without one.
    """

    port: int
    waits: list[float] = attrs.field(factory=list)
    failed: int = 0
    _sent: int = 0
    _kept: list[Line] = attrs.field(factory=list)

    async def send(self, seconds: float) -> None:
        """Send events for so long, and wait for what becomes of them."""
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(round(seconds * _RATE)):
                due = began + number / _RATE
                await trio.sleep_until(due)
                nursery.start_soon(self._send, due, number % 2 == 1)
        for line in self._kept:
            await line.stream.aclose()
        self._kept.clear()

    async def _send(self, due: float, kept: bool) -> None:
        with trio.move_on_after(_PATIENCE):
            try:
                if await self._post(kept) == 200:
                    self.waits.append(trio.current_time() - due)
                    return
            except (OSError, trio.BrokenResourceError):
                pass
        self.failed += 1

    async def _post(self, kept: bool) -> int:
        line = await self._line(kept)
        self._sent += 1
        body = text_event(self._sent, "hello")
        await line.stream.send_all(
            b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n%s"
            b"Content-Length: %d\r\n\r\n%s"
            % (SECRET.encode(), b"" if kept else b"Connection: close\r\n", len(body), body)
        )
        head, _ = await line.message()
        if kept and b"connection: close" not in head.lower() and len(self._kept) < 4:
            self._kept.append(line)
        else:
            await line.stream.aclose()
        return int(head.split(b" ")[1]) if head else 0

    async def _line(self, kept: bool) -> Line:
        while kept and self._kept:
            line = self._kept.pop(0)
            if not _was_closed(line.stream):
                return line
            await line.stream.aclose()
        return Line(await trio.open_tcp_stream("127.0.0.1", self.port))


def _was_closed(stream: trio.SocketStream) -> bool:
    poll = select.poll()
    poll.register(stream.socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))


@contextmanager
def _process(
    command: Sequence[str],
    *,
    cores: set[int] | None = None,
    environ: Mapping[str, str] = {},
    log: Path | None = None,
) -> Generator[int]:
    with contextlib.ExitStack() as files:
        output = subprocess.DEVNULL if log is None else files.enter_context(log.open("wb"))
        process = subprocess.Popen(
            command, cwd=_ROOT, env={**os.environ, **environ}, stdout=output, stderr=output
        )
        if cores is not None:
            os.sched_setaffinity(process.pid, cores)
        try:
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@asynccontextmanager
async def _system(
    server: str, folder: Path, platform: str, cores: set[int], log: Path | None = None
) -> AsyncGenerator[tuple[int, int]]:
    """A bot that answers, on a server and perhaps behind nginx: its process and the port for events."""
    port = free_port()
    commands = {
        "triobot": [sys.executable, "-m", "triobot", "run", f"{_BOT}:bot", "--port", str(port)],
        "hypercorn": [
            *(sys.executable, "-m", "hypercorn", "--worker-class", "trio", "--bind", f"127.0.0.1:{port}"),
            "tests.benchmarks.peers.triobot_attacked:bot.asgi",
        ],
    }
    own, _, proxy = server.partition(", behind ")
    environ = {
        "TRIOBOT_TOKEN": TOKEN,
        "TRIOBOT_WEBHOOK_SECRET": SECRET,
        "TRIOBOT_BASE_URL": platform,
        "TRIOBOT_STORE": f"sqlite:{folder}/bot.db",
        "TRIOBOT_CONNECTIONS": "12000",  # more than an attacker holds, as the page of limits tells
        "PYTHONPATH": str(_ROOT),
    }
    with contextlib.ExitStack() as stack:
        pid = stack.enter_context(_process(commands[own], cores=cores, environ=environ, log=log))
        front = port
        if proxy:
            front = free_port()
            config = folder / "nginx.conf"
            locations = _LOCATIONS[proxy].format(behind=port, secret=SECRET)
            config.write_text(_NGINX.format(folder=folder, port=front, locations=locations))
            program = shutil.which("nginx") or "/usr/sbin/nginx"
            stack.enter_context(_process([program, "-c", str(config), "-p", str(folder)]))
        await _until_ready(port)
        await _until_open(front)
        yield pid, front


async def _until_ready(port: int) -> None:
    request = b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with trio.fail_after(60):
        while True:
            with contextlib.suppress(OSError, trio.BrokenResourceError), trio.move_on_after(2):
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    await stream.send_all(request)
                    if b" 200 " in (await stream.receive_some(1000))[:20]:
                        return
            await trio.sleep(0.1)


async def _until_open(port: int) -> None:
    with trio.fail_after(60):
        while True:
            with contextlib.suppress(OSError):
                async with await trio.open_tcp_stream("127.0.0.1", port):
                    return
            await trio.sleep(0.1)


def servers() -> tuple[str, ...]:
    """What can be measured here."""
    own = ("triobot", "hypercorn")
    there = shutil.which("nginx") or Path("/usr/sbin/nginx").exists()
    behind = *(f"{name}, behind nginx" for name in own), "triobot, behind strict nginx"
    return (*own, *behind) if there else own


async def measure(
    *,
    rounds: int,
    seconds: float,
    kinds: Sequence[str] = KINDS,
    many: Mapping[str, int] = MANY,
    on: Sequence[str] | None = None,
    tell: bool = False,
) -> dict[str, dict[str, Figures]]:
    """Measure each attack on each server; figures by attack and by server."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    cores = take_sides()
    parts: dict[str, dict[str, Figures]] = {kind: {} for kind in ("none", *kinds)}
    for _ in range(rounds):
        for server in on or servers():
            for kind in parts:
                figures = parts[kind].setdefault(server, {})
                await _round(server, kind, many.get(kind, 0), seconds, cores, figures)
                if tell:
                    line = {name: round(values[-1], 2) for name, values in figures.items()}
                    print(f"{server:24} {kind:8} {line}", flush=True)
    return parts


async def _round(
    server: str, kind: str, many: int, seconds: float, cores: set[int], figures: Figures
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        async with open_platform() as platform, _system(server, folder, platform.url, cores) as (_, port):
            senders = Senders(port)
            attack = [sys.executable, "-m", "tests.benchmarks.attacker", kind, str(many), str(port), SECRET]
            context = contextlib.nullcontext() if kind == "none" else _process(attack)
            # Before, so that what is measured is not a start.
            await Senders(port).send(seconds / 10)
            with context:
                await trio.sleep(min(seconds, 10))
                await senders.send(seconds)
            note(
                figures,
                p50=percentile(senders.waits, 0.5) * 1e3 if senders.waits else _PATIENCE * 1e3,
                p99=percentile(senders.waits, 0.99) * 1e3 if senders.waits else _PATIENCE * 1e3,
                failed=senders.failed * 100 / (senders.failed + len(senders.waits)),
            )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--only", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--on", nargs="*", choices=servers(), default=servers())
    given = parser.parse_args()
    run = partial(
        measure, rounds=given.rounds, seconds=given.seconds, kinds=given.only, on=given.on, tell=True
    )
    trio.run(run)


if __name__ == "__main__":
    main()
