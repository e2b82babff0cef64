"""What a stream of its store costs a bot: ``python -m tests.benchmarks.stream``.

An echo bot by itself and one whose store is streamed, one after the other in each round, all on this machine
beside the load. The streamer's own CPU is told beside the bot's: it is another process, and has another core.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import trio

from tests.loopback import Users, open_platform
from tests.processes.process import ROOT, SECRET, BotProcess, environment, family, listen, start_bot

_CONNECTIONS: Final = (1, 64)
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_of(process: BotProcess) -> float:
    """Seconds of CPU that the bot has used, in all its processes."""
    seconds = 0.0
    for pid in family(process.popen.pid):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / _TICKS
    return seconds


async def load(users: Users, events: int, *, start: int, connections: int) -> None:
    """Post so many texts of as many chats, over connections that stay open."""
    left = iter(range(start, start + events))

    async def post() -> None:
        async with users.connect() as line:
            for chat in left:
                assert await users.say(line, chat, "hello") == 200

    async with trio.open_nursery() as nursery:
        for _ in range(connections):
            nursery.start_soon(post)


async def measure(events: int, connections: int, *, streamed: bool) -> tuple[float, float, float]:
    """Return microseconds of CPU an event, the bot's and the streamer's, and events a second."""
    with tempfile.TemporaryDirectory() as made, ExitStack() as ends:
        store, replica = Path(made) / "disk" / "bot.db", Path(made) / "replica"
        store.parent.mkdir()
        replica.mkdir()
        async with open_platform() as platform:
            with listen() as sock:
                bot = await start_bot("single", platform=platform.url, store=store, sock=sock)
                ends.callback(bot.popen.wait)
                ends.callback(bot.kill_now)
                measured = [bot]
                if streamed:
                    streamer = _start_streamer(store, replica)
                    ends.callback(streamer.popen.wait)
                    ends.callback(streamer.popen.kill)
                    while not await trio.Path(replica / "stream.json").exists():
                        await trio.sleep(0.05)
                    measured.append(streamer)
                users = Users(sock.getsockname()[1], f"/{SECRET}")
                await load(users, events // 4, start=1, connections=connections)
                await platform.wait_until(lambda: platform.total >= events // 4)
                before, began, told = list(map(cpu_of, measured)), time.perf_counter(), platform.total
                await load(users, events, start=100_000, connections=connections)
                await platform.wait_until(lambda: platform.total >= told + events)
                took = time.perf_counter() - began
                used = [cpu_of(one) - was for one, was in zip(measured, before, strict=True)]
                await bot.stop()
    return used[0] / events * 1e6, sum(used[1:]) / events * 1e6, events / took


def _start_streamer(store: Path, replica: Path) -> BotProcess:
    command = [sys.executable, "-m", "triobot", "store", "stream", str(replica)]
    return BotProcess(
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(TRIOBOT_STORE=f"sqlite:{store}"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    )


def main() -> None:
    """Measure in rounds, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{'':36}{'the bot':>12}{'the streamer':>15}{'events/s':>12}", file=sys.stdout)
    for connections in _CONNECTIONS:
        found: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
        for _ in range(arguments.rounds):
            for streamed in found:
                work = partial(measure, arguments.events, connections, streamed=streamed)
                found[streamed].append(trio.run(work))
        for streamed, results in found.items():
            bot, streamer, rate = (statistics.median(values) for values in zip(*results, strict=True))
            name = f"{connections} connections, {'streamed' if streamed else 'by itself'}"
            print(f"{name:36}{bot:>9.0f} us{streamer:>12.0f} us{rate:>12.0f}", file=sys.stdout)


if __name__ == "__main__":
    main()
