"""What an echo costs here and elsewhere: ``python -m tests.benchmarks.echo [--rounds N]``.

Each connection posts an event, waits for its 200 and for the echo at the platform, and goes on: a closed
loop.
What is compared is the CPU time of the system's process for an echo, as the kernel counts it. Rounds are
interleaved, and ratios are taken round by round, because machines are noisy and ratios much less so. Each
begins with an event of each chat that isn't measured: while the others had their turn, systems have closed
idle connections to the platform, each after its own time, and opening them is no part of an echo. `load` is
the share of a core that the platform and the users took meanwhile: near 100 % it would be what limits the
echoes per second, though not the CPU time of one.

The first round is the cold one: each chat writes for the first time to a process that has just started.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from .figures import Figures, Spread, note, percentile, ratio
from .installing import default_folder
from .load import Load, Run
from .processes import Running, take_sides
from .systems import ASKING, ECHO, INBOUND, System, all_running

RATES = (50, 200)
"""Events a second of the open loop."""

Table = dict[str, Figures]


def compare(
    systems: Sequence[System],
    *,
    connections: int,
    rounds: int,
    events: int,
    peers: Path | None,
    echo: bool = True,
    strangers: int = 0,
) -> Table:
    """Run systems side by side, round by round.

    Args:
        strangers: so many chats write once at the end, 256 at a time: what one takes that waits.
    """
    cores, table = take_sides(), Table()
    each = max(1, events // (connections * 4))
    with (
        closing(Load()) as load,
        tempfile.TemporaryDirectory() as stores,
        all_running(systems, load, peers=peers, stores=Path(stores), cores=cores) as there,
    ):
        for system, process in there.items():
            figures = table[system.name] = {}
            note(figures, start_cpu=process.start_cpu, start_seconds=process.start_seconds)
            before = process.cpu
            run = load.converse(process.ports, system.event, connections=1, each=1, first=1, echo=echo)
            took = run.echoes if echo else run.acks
            note(figures, first_ms=took[0] * 1e3)
            before = process.cpu
            run = load.converse(
                process.ports, system.event, connections=connections, each=1, first=2, echo=echo
            )
            note(figures, cold_cpu=(process.cpu - before) / run.done * 1e6)
        for number in range(rounds + 1):
            for system, process in there.items():
                converse = partial(
                    load.converse, process.ports, system.event, connections=connections, echo=echo
                )
                first = 10 + number * 100_000
                converse(each=1, first=first)
                before, database = process.cpu, process.database_cpu
                run = converse(each=each, first=first + 1)
                if number:  # the first one warms up
                    _note(table[system.name], run, process, before, echo=echo)
                    if process.database is not None:
                        note(table[system.name], database=(process.database_cpu - database) / run.done * 1e6)
        for system, process in there.items():
            note(table[system.name], megabytes=process.megabytes)
            for number in range(strangers // 256):
                # Each says one thing, and waits for what comes next.
                load.converse(
                    process.ports,
                    system.event,
                    connections=64,
                    each=1,
                    first=1,
                    chats=100_000 + number * 256,
                )
            if strangers:
                grown = process.megabytes - table[system.name]["megabytes"][0]
                note(table[system.name], waiting=grown * 1e6 / strangers)
    return table


def acknowledge(
    systems: Sequence[System],
    *,
    rounds: int,
    seconds: float,
    peers: Path | None,
    rates: Sequence[int] = RATES,
) -> dict[str, Table]:
    """How long an event waits for its 200 at a rate, while echoes are made of those before it."""
    cores, load = take_sides(), Load()
    tables: dict[str, Table] = {str(rate): {} for rate in rates}
    with (
        tempfile.TemporaryDirectory() as stores,
        all_running(systems, load, peers=peers, stores=Path(stores), cores=cores) as there,
    ):
        first = 1
        for number in range(rounds + 1):
            for rate in rates:
                for system, process in there.items():
                    before = process.cpu
                    run = load.pour(process.port, system.event, rate=rate, seconds=seconds, first=first)
                    first += 100_000
                    if number:
                        figures = tables[str(rate)].setdefault(system.name, {})
                        _note(figures, run, process, before, echo=False)
    return tables


def _note(figures: Figures, run: Run, process: Running, before: float, *, echo: bool) -> None:
    took = run.echoes if echo else run.acks
    note(
        figures,
        cpu=(process.cpu - before) / run.done * 1e6,
        rate=run.done / run.seconds,
        p50=percentile(took, 0.5) * 1e3,
        p99=percentile(took, 0.99) * 1e3,
        ack50=percentile(run.acks, 0.5) * 1e3,
        ack99=percentile(run.acks, 0.99) * 1e3,
        load=run.load * 100,
    )


def tell(title: str, table: Table) -> None:
    """Print what was measured."""
    bases = [name for name in ("aiogram", "aiogram, its FSM in memory", "aiohttp alone") if name in table]
    heads = "".join(f"{'in ' + base:>30}" for base in bases)
    print(title)
    print(f"{'':26} {'CPU us':>7}{heads} {'per s':>7} {'p50 ms':>7} {'p99 ms':>7}  load")
    for name, figures in table.items():
        inside = [ratio(figures["cpu"], table[base]["cpu"]) for base in bases]
        told = "".join(f"{f'{one.median:.2f} {one.least:.2f}-{one.most:.2f}':>30}" for one in inside)
        cpu, rate, p50, p99, load = (
            Spread.of(figures[figure]).median for figure in ("cpu", "rate", "p50", "p99", "load")
        )
        print(f"{name:26} {cpu:7.0f}{told} {rate:7.0f} {p50:7.2f} {p99:7.2f} {load:4.0f}%", flush=True)


def main() -> None:
    """Read the arguments and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--echoes", type=int, default=1024)
    parser.add_argument("--peers", type=Path, default=default_folder())
    parser.add_argument("--inbound", action="store_true", help="only post events, to bots that say nothing")
    parser.add_argument("--ask", action="store_true", help="turns of a conversation that asks for ever")
    parser.add_argument("--rate", type=int, nargs="*", help="the time to the 200 at these events a second")
    given = parser.parse_args()
    if given.rate is not None:
        rates = given.rate or RATES
        tables = acknowledge(ECHO, rounds=given.rounds, seconds=3, peers=given.peers, rates=rates)
        for rate, table in tables.items():
            tell(f"time to the 200 at {rate} events a second", table)
        return
    for connections in given.connections:
        table = compare(
            INBOUND if given.inbound else ASKING if given.ask else ECHO,
            connections=connections,
            rounds=given.rounds,
            events=given.echoes,
            peers=given.peers,
            echo=not given.inbound,
        )
        tell(f"{connections} connections, {given.rounds} rounds of {given.echoes} events", table)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
