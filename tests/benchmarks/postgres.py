"""What a store in PostgreSQL costs beside a file: ``python -m tests.benchmarks.postgres [--rounds N]``.

The server is the tests' own, on this machine, with fsync. Both bots run at the same time and are asked in
turns; ratios are taken round by round. The server's CPU time is that of all its processes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import attrs

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
    """CPU seconds of the server's processes that are there."""
    return sum(map(cpu_of, _processes_of(server)))


def _processes_of(server: Server) -> Iterator[int]:
    first = int((server.folder / "postmaster.pid").read_text().split()[0])
    yield first
    yield from map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())


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
    given = parser.parse_args()
    if (why := why_not()) is not None:
        raise SystemExit(why)
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
