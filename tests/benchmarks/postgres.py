"""What a store in PostgreSQL costs beside a file: ``python -m tests.benchmarks.postgres [--rounds N]``.

With ``--minutes N`` 500 events come each second for so long, from the second minute on beside a transaction
that has read and written, and stays open.

The server is the tests' own, on this machine, with fsync. Both bots run at the same time and are asked in
turns; ratios are taken round by round. The server's CPU time is that of all its processes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import attrs
import psycopg

from tests.postgres import Server, run_server, why_not

from .figures import Figures, Spread, note, ratio
from .load import Load
from .processes import cpu_of, take_sides
from .systems import INBOUND, TRIOBOT, System, all_running

FILE = "a file"
SERVER = "PostgreSQL"


def beside(system: System, server: Server, schema: str) -> tuple[System, System]:
    """The same bot with both stores."""
    url = server.url(query=f"schema={schema}")
    on_server = tuple(url if argument == "sqlite" else argument for argument in system.arguments)
    return attrs.evolve(system, name=FILE), attrs.evolve(system, name=SERVER, arguments=on_server)


def measure(
    pair: Sequence[System], server: Server, *, connections: int, rounds: int, events: int, echo: bool
) -> dict[str, Figures]:
    """CPU time of an event, in microseconds: the bot's, and the server's."""
    cores = take_sides()
    table: dict[str, Figures] = {system.name: {} for system in pair}
    each = max(1, events // connections)
    with (
        closing(Load()) as load,
        tempfile.TemporaryDirectory() as stores,
        all_running(pair, load, peers=None, stores=Path(stores), cores=cores) as there,
    ):
        for number in range(rounds + 1):
            for system, process in there.items():
                bot, database = process.cpu, cpu_of_server(server)
                run = load.converse(
                    process.port,
                    system.event,
                    connections=connections,
                    each=each,
                    first=1 + number * 100_000,
                    echo=echo,
                )
                if number:  # the first one warms up
                    note(
                        table[system.name],
                        cpu=(process.cpu - bot) / run.done * 1e6,
                        server=(cpu_of_server(server) - database) / run.done * 1e6,
                    )
    return table


def cpu_of_server(server: Server) -> float:
    """CPU seconds of the server's processes, of those that have ended, too."""
    first = int((server.folder / "postmaster.pid").read_text().split()[0])
    ended = Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[13:15]
    return sum(map(cpu_of, _processes_of(first))) + sum(map(int, ended)) / os.sysconf("SC_CLK_TCK")


def _processes_of(first: int) -> Iterator[int]:
    yield first
    yield from map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())


def endure(server: Server, *, minutes: int, rate: int) -> None:
    """Have events come at a rate, and tell what each minute's cost; one that is refused raises."""
    _, system = beside(TRIOBOT, server, "endured")
    state = (
        "SELECT sum(pg_total_relation_size(relid)) / 1e6, sum(n_dead_tup),"
        " (SELECT count(*) FROM endured.inbox) FROM pg_stat_user_tables WHERE schemaname = 'endured'"
    )
    cores = take_sides()
    with (
        closing(Load()) as load,
        tempfile.TemporaryDirectory() as stores,
        all_running([system], load, peers=None, stores=Path(stores), cores=cores) as there,
        closing(psycopg.connect(server.url(user="postgres"))) as long,
    ):
        (process,) = there.values()
        for minute in range(minutes):
            bot, database = process.cpu, cpu_of_server(server)
            run = load.pour(process.port, system.event, rate=rate, seconds=60, first=minute * 1000)
            bot, database = (process.cpu - bot) / run.done, (cpu_of_server(server) - database) / run.done
            acks = statistics.quantiles(run.acks, n=100)
            ((size, dead, waiting),) = server.ask(state)
            print(
                f"minute {minute + 1:3}  {run.done:6} events  bot {bot * 1e6:4.0f} us  server"
                f" {database * 1e6:4.0f} us  200 after {acks[49] * 1e3:5.1f} ms, 99 %{acks[98] * 1e3:6.1f}, all"
                f" {max(run.acks) * 1e3:6.1f}  {size:5.0f} MB, {dead} dead rows, {waiting} events wait",
                flush=True,
            )
            if not minute:
                long.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                long.execute("CREATE TABLE written AS SELECT count(*) FROM endured.deliveries")


def tell(title: str, table: dict[str, Figures]) -> None:
    """Print what was measured."""
    print(title)
    for name, figures in table.items():
        inside = ratio(figures["cpu"], table[FILE]["cpu"])
        cpu, server = (Spread.of(figures[figure]).median for figure in ("cpu", "server"))
        shown = f"{server:6.0f}" if name == SERVER else f"{'':6}"
        print(
            f"  {name:12} {cpu:6.0f} us  {inside.median:5.2f} ({inside.least:.2f}-{inside.most:.2f})"
            f"  the server {shown}",
            flush=True,
        )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=1024)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--minutes", type=int)
    given = parser.parse_args()
    if (why := why_not()) is not None:
        raise SystemExit(why)
    if given.minutes is not None:
        with run_server(autovacuum="on") as server:
            endure(server, minutes=given.minutes, rate=500)
        return
    with run_server() as server:
        for connections in given.connections:
            for words, system, echo in (
                ("an echo", TRIOBOT, True),
                ("an event that is stored", INBOUND[0], False),
            ):
                pair = beside(system, server, f"of_{connections}_{'echo' if echo else 'stored'}")
                table = measure(
                    pair, server, connections=connections, rounds=given.rounds, events=given.events, echo=echo
                )
                tell(f"{words}, {connections} connections, CPU of the bot", table)


if __name__ == "__main__":
    main()
