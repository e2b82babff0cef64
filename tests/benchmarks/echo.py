"""CPU per echo, against aiogram in the same run: ``python -m tests.benchmarks.echo [--rounds N]``.

One process is the platform and the load (this one); the system under test is another. Each connection posts
an event, waits for its 200, waits until the echo has arrived, and goes on: a closed loop. What is compared is
the CPU time of the system under test per echo, as its kernel counts it; rounds are interleaved, and the
ratio is taken round by round, because machines are noisy and ratios much less so. `load` is this process's
share of a core meanwhile: near 100 % it is what limits the echoes per second, though not the CPU time of one.

triobot runs with SQLite, `synchronous=FULL` and group commit; aiogram stores nothing. aiogram is installed
into an environment of its own under ``--peers`` when it isn't there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs

import attrs
import trio

from tests.loopback import Line, text_event

HERE = Path(__file__).parent
SECRET = "benchmark-secret-0123456789abcdef"
TOKEN = "123456:benchmark-token"

TRIOBOT = f"""
import sys
from triobot import Bot, Chat, Secret, Settings
port, platform, store = int(sys.argv[1]), sys.argv[2], sys.argv[3]
bot = Bot(settings=Settings(token=Secret("{TOKEN}"), base_url=platform, store=store, port=port,
                            webhook_secret=Secret("{SECRET}")))
@bot.conversation
async def echo(chat: Chat) -> None:
    await chat.send(chat.event.content)
bot.run()
"""

AIOGRAM = f"""
import sys
from aiohttp import web
from aiogram import Bot, Dispatcher
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.webhook.aiohttp_server import SimpleRequestHandler
port, platform = int(sys.argv[1]), sys.argv[2]
session = AiohttpSession(api=TelegramAPIServer.from_base(platform))
bot, dispatcher = Bot("{TOKEN}", session=session), Dispatcher()
@dispatcher.message()
async def echo(message):
    await bot.send_message(message.chat.id, message.text)
app = web.Application()
SimpleRequestHandler(dispatcher, bot, handle_in_background=True).register(app, path="/{SECRET}")
web.run_app(app, host="127.0.0.1", port=port, print=None)
"""


@attrs.frozen
class System:
    """A system under test: how to start it, and what an event looks like to it."""

    name: str
    command: Callable[[int, str, str], list[str]]
    event: Callable[[int, int], tuple[str, bytes]]


def gap_event(chat: int, number: int) -> tuple[str, bytes]:
    """A form body, as the platform sends it."""
    return "application/x-www-form-urlencoded", text_event(chat, f"hello {number}")


def telegram_event(chat: int, number: int) -> tuple[str, bytes]:
    """The same event as Telegram sends it."""
    person = {"id": chat, "is_bot": False, "first_name": "Somebody"}
    message = {
        "message_id": number,
        "date": 1,
        "chat": {"id": chat, "type": "private", "first_name": "Somebody"},
        "from": person,
        "text": f"hello {number}",
    }
    update = {"update_id": chat * 1_000_000 + number, "message": message}
    return "application/json", json.dumps(update).encode()


class Platform:
    """Takes every sendMessage, of either kind, and wakes whoever waits for that chat's echo."""

    def __init__(self) -> None:
        self.waiting: dict[int, trio.Event] = {}
        self.sent = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one connection for as long as it lives."""
        line = Line(stream)
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while True:
                head, body = await line.message()
                if not head:
                    return
                chat = chat_of(head, body)
                self.sent += 1
                result: dict[str, object] = {"id": self.sent}
                if b"/bot" in head.split(b"\r\n")[0]:
                    message = {"message_id": self.sent, "date": 1, "chat": {"id": chat, "type": "private"}}
                    result = {"ok": True, "result": message}
                await line.answer(b"200 OK", json.dumps(result).encode())
                if chat in self.waiting:
                    self.waiting.pop(chat).set()


def chat_of(head: bytes, body: bytes) -> int:
    """The chat of a form or multipart body."""
    if b"multipart/" in head.lower():
        return int(body.split(b'name="chat_id"')[1].split(b"\r\n\r\n")[1].split(b"\r\n")[0])
    return int(parse_qs(body)[b"chat_id"][0])


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process and its threads have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def running(system: System, port: int, platform: str, folder: str) -> AsyncGenerator[int]:
    """Start a system, wait until it answers, and stop it at the end."""
    command = system.command(port, platform, f"sqlite:{folder}/echo-{port}.db")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RuntimeError(f"{system.name} did not start") from None
                await trio.sleep(0.1)
            else:
                await stream.aclose()
                break
        yield process.pid
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await trio.to_thread.run_sync(partial(process.wait, timeout=15))
        process.kill()


async def converse(
    system: System, platform: Platform, port: int, chats: range, each: int, first: int
) -> None:
    """One connection: `each` events for each of its chats, one after the other."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    line = Line(stream)
    async with stream:
        for number in range(first, first + each):
            for chat in chats:
                echoed = platform.waiting[chat] = trio.Event()
                kind, body = system.event(chat, number)
                await stream.send_all(
                    b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
                    % (SECRET.encode(), kind.encode(), len(body), body)
                )
                head, _ = await line.message()
                if b" 200" not in head.split(b"\r\n")[0]:
                    raise RuntimeError(f"{system.name} answered {head[:40]!r}")
                await echoed.wait()


async def measure(
    system: System, platform: Platform, port: int, pid: int, connections: int, echoes: int, first: int
) -> tuple[float, float, float]:
    """CPU microseconds of the system per echo, echoes per second, and the load's own share of a core."""
    each = max(1, echoes // (connections * 4))
    before, own, began = cpu_of(pid), time.process_time(), time.monotonic()
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for index in range(connections):
                chats = range(1000 + index * 4, 1004 + index * 4)
                nursery.start_soon(converse, system, platform, port, chats, each, first)
    done = each * connections * 4
    wall = time.monotonic() - began
    return (cpu_of(pid) - before) / done * 1e6, done / wall, (time.process_time() - own) / wall


def peer_python(folder: Path) -> str:
    """The python of aiogram's own environment."""
    python = folder / "aiogram" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "aiogram", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "aiogram"], check=True)
    return str(python)


async def compare(rounds: int, connections: int, echoes: int, peers: Path) -> None:
    """Run both systems side by side, round by round, and print a table."""
    own, theirs = sys.executable, peer_python(peers)
    systems = [
        System("triobot", lambda p, u, s: [own, "-c", TRIOBOT, str(p), u, s], gap_event),
        System("aiogram", lambda p, u, s: [theirs, "-c", AIOGRAM, str(p), u, s], telegram_event),
    ]
    platform = Platform()
    async with trio.open_nursery() as nursery, contextlib.AsyncExitStack() as stack:
        listeners = await nursery.start(partial(trio.serve_tcp, platform.serve, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        pids = [
            await stack.enter_async_context(running(system, 18100 + index, url, folder))
            for index, system in enumerate(systems)
        ]
        cpu: dict[str, list[float]] = {system.name: [] for system in systems}
        rate: dict[str, list[float]] = {system.name: [] for system in systems}
        load: dict[str, list[float]] = {system.name: [] for system in systems}
        for number in range(rounds + 1):
            for index, system in enumerate(systems):
                first = 1 + number * 10_000
                figures = await measure(
                    system, platform, 18100 + index, pids[index], connections, echoes, first
                )
                if number:  # the first round warms up
                    cpu[system.name].append(figures[0])
                    rate[system.name].append(figures[1])
                    load[system.name].append(figures[2])
        print(f"{connections} connections, {rounds} rounds of {echoes} echoes")
        print(f"{'system':10} {'CPU us/echo':>12} {'echoes/s':>9} {'x aiogram CPU':>14} {'':13} {'load':>5}")
        for system in systems:
            ratios = [a / b for a, b in zip(cpu[system.name], cpu["aiogram"], strict=True)]
            print(
                f"{system.name:10} {statistics.median(cpu[system.name]):12.0f} "
                f"{statistics.median(rate[system.name]):9.0f} {statistics.median(ratios):14.2f} "
                f"{f'({min(ratios):.2f}-{max(ratios):.2f})':14}"
                f"{statistics.median(load[system.name]):6.0%}"
            )
        nursery.cancel_scope.cancel()


def main() -> None:
    """Read the arguments and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--echoes", type=int, default=1024)
    parser.add_argument("--peers", type=Path, default=Path(tempfile.gettempdir()) / "triobot-peers")
    given = parser.parse_args()
    for connections in given.connections:
        trio.run(compare, given.rounds, connections, given.echoes, given.peers)


if __name__ == "__main__":
    main()
