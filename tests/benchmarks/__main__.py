"""The whole comparison, and what docs/speed.md says of it:

    python -m tests.benchmarks                 measure everything, and write the tables and the plot
    python -m tests.benchmarks --only echo     measure a part of it again, and write everything
    python -m tests.benchmarks --only          write the tables and the plot from what was measured last
    python -m tests.benchmarks --small         only see that each part runs, without peers; writes nothing

Peers are installed into environments of their own under ``--peers``; what can't be installed is left out.
Each part runs in a process of its own. What was measured is kept in tests/benchmarks/results.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from . import (
    answers,
    attacks,
    echo,
    group_commit,
    memory,
    outbound,
    parked_conversations,
    report,
    revival,
    starting,
    virtual_month,
)
from .installing import default_folder
from .systems import ACKNOWLEDGING, ASKING, ECHO, FLOOR, INBOUND, STOCK, TRIOBOT

RESULTS: Final = Path(__file__).parent / "results.json"


@attrs.frozen
class Size:
    """How much is measured."""

    rounds: int
    peers: Path | None
    small: bool


def measure_echo(size: Size) -> object:
    return {
        str(connections): echo.compare(
            (TRIOBOT, FLOOR) if size.small else ECHO,
            connections=connections,
            rounds=size.rounds,
            events=events,
            peers=size.peers,
        )
        for connections, events in (((8, 64),) if size.small else ((1, 512), (64, 1024)))
    }


def measure_stock(size: Size) -> object:
    return {
        str(connections): echo.compare(
            STOCK[:2] if size.small else STOCK,
            connections=connections,
            rounds=size.rounds,
            events=events,
            peers=None,
        )
        for connections, events in (((8, 64),) if size.small else ((1, 512), (64, 1024)))
    }


def measure_inbound(size: Size) -> object:
    return {
        str(connections): echo.compare(
            INBOUND[:1] if size.small else INBOUND,
            connections=connections,
            rounds=size.rounds,
            events=events,
            peers=size.peers,
            echo=False,
        )
        # hypercorn closes a connection after its thousandth request.
        for connections, events in (((8, 64),) if size.small else ((1, 512), (64, 1024)))
    }


def measure_ask(size: Size) -> object:
    return {
        str(connections): echo.compare(
            ASKING[:1] if size.small else ASKING,
            connections=connections,
            rounds=size.rounds,
            events=events,
            peers=size.peers,
            strangers=2_560 if connections == 64 else 0,
        )
        for connections, events in (((8, 64),) if size.small else ((1, 512), (64, 1024)))
    }


def measure_ack(size: Size) -> object:
    systems, seconds = ((FLOOR,), 0.2) if size.small else (ACKNOWLEDGING, 2.0)
    return echo.acknowledge(systems, rounds=size.rounds, seconds=seconds, peers=size.peers)


def measure_outbound(size: Size) -> object:
    if size.small:
        few = outbound.compare(rounds=1, requests=50, peers=None, connections=(), idle=(4, 50))
        return {"connections": few[0], "idle": few[1]}
    many = outbound.compare(rounds=size.rounds, requests=2_000, peers=size.peers)
    return {"connections": many[0], "idle": many[1]}


def measure_commits(size: Size) -> object:
    with tempfile.TemporaryDirectory() as folder:
        return trio.run(group_commit.curve, 0.1 if size.small else 2.0, Path(folder))


async def measure_answers(size: Size) -> object:
    return await answers.measure(rounds=size.rounds, length=20 if size.small else 1_000)


async def measure_revival(size: Size) -> object:
    lengths = (10, 20) if size.small else revival.LENGTHS
    return await revival.measure(rounds=size.rounds, lengths=lengths)


async def measure_starting(size: Size) -> object:
    chats = 20 if size.small else 2_000
    return await starting.measure(rounds=min(size.rounds, 3), chats=chats, alone=0.2 if size.small else 2)


def measure_virtual(size: Size) -> object:
    return virtual_month.measure(rounds=size.rounds, crowds=(0, 1) if size.small else virtual_month.CROWDS)


async def measure_memory(size: Size) -> object:
    return await (memory.measure(chats=40, extra=10) if size.small else memory.measure())


def measure_parked(size: Size) -> object:
    with tempfile.TemporaryDirectory() as folder:
        many, seconds = (2_000, 0.05) if size.small else (1_000_000, 1.0)
        return trio.run(parked_conversations.measure, many, seconds, Path(folder))


async def measure_attacks(size: Size) -> object:
    if size.small:
        few = {"silent": 20}
        return await attacks.measure(rounds=1, seconds=1, kinds=list(few), many=few, on=["triobot"])
    return await attacks.measure(rounds=min(size.rounds, 3), seconds=15)


def _waiting(measure: Callable[[Size], Any]) -> Callable[[Size], object]:
    return lambda size: trio.run(measure, size)


PARTS: Final[dict[str, Callable[[Size], object]]] = {
    "echo": measure_echo,
    "ask": measure_ask,
    "inbound": measure_inbound,
    "stock": measure_stock,
    "ack": measure_ack,
    "attacks": _waiting(measure_attacks),
    "outbound": measure_outbound,
    "commits": measure_commits,
    "answers": _waiting(measure_answers),
    "revival": _waiting(measure_revival),
    "starting": _waiting(measure_starting),
    "virtual": measure_virtual,
    "memory": _waiting(measure_memory),
    "parked": measure_parked,
}


def measured(part: str, given: argparse.Namespace) -> object:
    """Measure a part in a process of its own: what one leaves in memory is nothing to the next.

    Small ones, whose figures nobody reads, share this process.

    Raises:
        subprocess.CalledProcessError: it does not run.
    """
    if given.small:
        cores = os.sched_getaffinity(0)
        figures = PARTS[part](Size(1, None, small=True))
        os.sched_setaffinity(0, cores)
        return figures
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "tests.benchmarks", "--part", part, "--told", str(told)]
        command += ["--rounds", str(given.rounds), "--peers", str(given.peers)]
        subprocess.run(command, check=True)
        return json.loads(told.read_text())


def machine() -> str:
    """What it was measured on, in a few words."""
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.split(":")[1].strip() for line in info.splitlines() if "model name" in line), "?")
    cores = len(os.sched_getaffinity(0))
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{cores} cores ({model}), Linux {platform.release().split('-')[0]}, {python}"


def main() -> None:
    """Read the arguments, measure, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", type=Path, default=default_folder())
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="*", choices=list(PARTS))
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--told", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part is not None:
        size = Size(given.rounds, given.peers, small=False)
        given.told.write_text(json.dumps(PARTS[given.part](size)))
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"parts": {}}
    for part in PARTS if given.only is None else given.only:
        began = datetime.datetime.now(datetime.UTC)
        figures = measured(part, given)
        seconds = (datetime.datetime.now(datetime.UTC) - began).total_seconds()
        print(f"{part}: measured in {seconds:.0f} s", flush=True)
        if not given.small:
            results["parts"][part] = figures
            results.setdefault("loads", {})[part] = os.getloadavg()[2]
            results["when"], results["machine"] = f"{began:%Y-%m-%d}", machine()
            # Each part as it comes: what takes minutes is not lost by what fails after it.
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if not given.small:
        report.write(results)


if __name__ == "__main__":
    main()
