"""What shards cost and bring: ``python -m tests.benchmarks.shards``.

One process with one file, one with four shards, and two with four shards, one after the other in each round,
all on this machine beside the load. CPU an event counts what only the bot's processes use; the rate is what
is left to them beside the load itself, which needs a core of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from tests.loopback import Users, open_platform
from tests.processes.process import SECRET, BotProcess, family, listen, start_bot

CONNECTIONS: Final = 64
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Setup:
    """A way to run the bot."""

    name: str
    query: str
    arguments: Sequence[str] = ()
    processes: int = 0


SETUPS: Final = (
    Setup("1 process, 1 file", ""),
    Setup("1 process, 2 shards", "?shards=2"),
    Setup("1 process, 4 shards", "?shards=4"),
    Setup("2 processes, 2 shards", "?shards=2", ("--processes", "2"), 2),
    Setup("2 processes, 4 shards", "?shards=4", ("--processes", "2"), 2),
)


def cpu_of(process: BotProcess) -> float:
    """Seconds of CPU that the bot has used, in all its processes."""
    seconds = 0.0
    for pid in family(process.popen.pid):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / _TICKS
    return seconds


async def measure(setup: Setup, events: int) -> tuple[float, float]:
    """Return microseconds of CPU an event, and events a second: each is a text that is said back."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_platform() as platform:
            with listen() as sock:
                process = await start_bot(
                    "single",
                    platform=platform.url,
                    store=f"sqlite:{folder}/bot.db{setup.query}",
                    sock=sock,
                    arguments=setup.arguments,
                    log=Path(folder) / "log",
                )
                try:
                    while setup.processes and "processes run" not in process.output:
                        await trio.sleep(0.05)
                    users = Users(sock.getsockname()[1], f"/{SECRET}")
                    await load(users, events // 4, start=1)
                    await platform.wait_until(lambda: platform.total >= events // 4)
                    before, began, told = cpu_of(process), time.perf_counter(), platform.total
                    await load(users, events, start=100_000)
                    await platform.wait_until(lambda: platform.total >= told + events)
                    took = time.perf_counter() - began
                    cpu = cpu_of(process) - before
                    await process.stop()
                finally:
                    process.kill_now()
                    process.popen.wait()
    return cpu / events * 1e6, events / took


async def load(users: Users, events: int, *, start: int, connections: int = CONNECTIONS) -> None:
    """Post so many texts of as many chats, over connections that stay open."""
    left = iter(range(start, start + events))

    async def post() -> None:
        async with users.connect() as line:
            for chat in left:
                assert await users.say(line, chat, "hello") == 200

    async with trio.open_nursery() as nursery:
        for _ in range(connections):
            nursery.start_soon(post)


def main() -> None:
    """Measure in rounds, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {setup.name: [] for setup in SETUPS}
    for _ in range(arguments.rounds):
        for setup in SETUPS:
            found[setup.name].append(trio.run(measure, setup, arguments.events))
    print(f"{'':24}{'CPU an event':>14}{'events/s':>12}", file=sys.stdout)
    for name, results in found.items():
        cpu, rate = (statistics.median(values) for values in zip(*results, strict=True))
        print(f"{name:24}{cpu:>11.0f} us{rate:>12.0f}", file=sys.stdout)


if __name__ == "__main__":
    main()
