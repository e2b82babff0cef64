"""What a request to the platform costs, and whether idle connections make it dearer:

    python -m tests.benchmarks.outbound [--rounds N]

The clients post forms of a few fields and read small JSON answers, over as many connections as they are told;
the platform is this process. The second table is of four connections beside others that are open and idle.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import attrs

from .figures import Figures, Spread, baseline, note, ratio
from .installing import AIOHTTP, PEERS, default_folder, installed, program
from .load import TOKEN, Load
from .processes import take_sides

CONNECTIONS: Final = (1, 50, 1_000)
IDLE: Final = (4, 100, 1_000)
_AT_ONCE: Final = 4

Table = dict[str, Figures]


@attrs.frozen
class _Client:
    """A client in a process of its own; told by lines what to do, it tells by lines what that took."""

    load: Load
    process: subprocess.Popen[str]

    def post(self, connections: int, requests: int) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        answers, waiting = self.process.stdout, select.poll()
        waiting.register(answers, select.POLLIN)
        self.process.stdin.write(f"{connections} {requests}\n")
        self.process.stdin.flush()
        used, began = time.process_time(), time.perf_counter()
        self.load.until(lambda: bool(waiting.poll(0)))
        answer: dict[str, float] = json.loads(answers.readline())
        load = (time.process_time() - used) / (time.perf_counter() - began)
        return {**answer, "load": load * 100}


@contextmanager
def _clients(load: Load, peers: Path | None, cores: set[int]) -> Generator[dict[str, _Client]]:
    commands = {"triobot's client": [sys.executable, str(PEERS / "triobot_post.py"), load.url, TOKEN]}
    theirs = None if peers is None else installed(AIOHTTP, peers)
    if theirs is not None:
        commands["aiohttp's client"] = [*program(theirs, "aiohttp_post"), load.url, TOKEN]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with ExitStack() as stack:
        there: dict[str, _Client] = {}
        for name, command in commands.items():
            process = stack.enter_context(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=root,
                    env=environment,
                )
            )
            stack.callback(process.kill)
            os.sched_setaffinity(process.pid, cores)
            there[name] = _Client(load, process)
        yield there


def compare(
    *,
    rounds: int,
    requests: int,
    peers: Path | None,
    connections: Sequence[int] = CONNECTIONS,
    idle: Sequence[int] = IDLE,
) -> tuple[dict[str, Table], dict[str, Table]]:
    """By the number of connections, and by that of those which are open while four are used."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    cores, load = take_sides(), Load()
    by_connections: dict[str, Table] = {str(many): {} for many in connections}
    by_idle: dict[str, Table] = {str(many): {} for many in idle}
    if connections:
        with _clients(load, peers, cores) as there:
            for number in range(rounds + 1):
                for many in connections:
                    for name, client in there.items():
                        told = client.post(many, max(requests, many * 2))
                        if number:
                            note(by_connections[str(many)].setdefault(name, {}), **told)
    # Processes of their own again: they start with no connection, and `idle` grows.
    with _clients(load, peers, cores) as there:
        for client in there.values():
            client.post(1, 200)
        for many in idle:
            for client in there.values():
                client.post(many, many * 4)
            for _ in range(rounds):
                for name, client in there.items():
                    note(by_idle[str(many)].setdefault(name, {}), **client.post(_AT_ONCE, requests))
    return by_connections, by_idle


def tell(title: str, tables: dict[str, Table]) -> None:
    """Print what was measured."""
    for many, table in tables.items():
        base = baseline(table, ("aiohttp's client",))
        for name, figures in table.items():
            inside = ratio(figures["cpu"], table[base]["cpu"])
            cpu, rate, p50, p99 = (Spread.of(figures[n]).median for n in ("cpu", "rate", "p50", "p99"))
            print(
                f"{many:>5} {title}: {name:20} {cpu:6.0f} us CPU, {inside.median:.2f}"
                f" ({inside.least:.2f}-{inside.most:.2f}) in {base}, {rate:6.0f}/s,"
                f" p50 {p50:.2f} ms, p99 {p99:.2f} ms; load {Spread.of(figures['load']).median:.0f} %",
                flush=True,
            )


def main() -> None:
    """Read the arguments and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--peers", type=Path, default=default_folder())
    given = parser.parse_args()
    by_connections, by_idle = compare(rounds=given.rounds, requests=given.requests, peers=given.peers)
    tell("connections", by_connections)
    tell("open, 4 used", by_idle)


if __name__ == "__main__":
    main()
