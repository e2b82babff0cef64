"""Events beside a long transaction, 500 a second: ``python -m tests.benchmarks.long_transaction``.

The server is the tests' own, on this machine, with fsync, and with autovacuum as a server has it. From the
second minute on a transaction that has read and written stays open. An event that is refused ends the run.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from contextlib import closing
from pathlib import Path

import attrs
import psycopg

from tests.postgres import Server, run_server, why_not

from .load import Load
from .processes import family_cpu, take_sides
from .systems import TRIOBOT, all_running, first_of

RATE = 500
CHATS = 20_000
"""Two events a second in one chat are no bot's, and each walks all dead rows of its chat."""
STATE = (
    "SELECT sum(pg_total_relation_size(relid)) / 1e6, sum(n_dead_tup), (SELECT count(*) FROM endured.inbox)"
    " FROM pg_stat_user_tables WHERE schemaname = 'endured'"
)


def endure(server: Server, minutes: int) -> None:
    """Have events come at a rate, and tell what each minute's cost."""
    system = attrs.evolve(TRIOBOT, arguments=("new", server.url(query="schema=endured")))
    cores = take_sides()
    with (
        closing(Load()) as load,
        tempfile.TemporaryDirectory() as stores,
        all_running([system], load, peers=None, stores=Path(stores), cores=cores) as there,
        closing(psycopg.connect(server.url(user="postgres"))) as long,
    ):
        (process,) = there.values()
        for minute in range(minutes):
            bot, database = process.cpu, family_cpu(first_of(server))
            first = minute * RATE * 60
            run = load.pour(process.port, system.event, rate=RATE, seconds=60, first=first, chats=CHATS)
            bot = (process.cpu - bot) / run.done * 1e6
            database = (family_cpu(first_of(server)) - database) / run.done * 1e6
            acks = [seconds * 1e3 for seconds in statistics.quantiles(run.acks, n=100)]
            ((size, dead, waiting),) = server.ask(STATE)
            print(
                f"minute {minute + 1:3}  {run.done:6} events  bot {bot:4.0f} us  server {database:4.0f} us"
                f"  200 after {acks[49]:5.1f} ms, 99 %{acks[98]:6.1f}, all{max(run.acks) * 1e3:7.1f}"
                f"  {size:5.0f} MB, {dead} dead rows, {waiting} events wait",
                flush=True,
            )
            if not minute:
                long.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                long.execute("CREATE TABLE written AS SELECT count(*) FROM endured.deliveries")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.long_transaction")
    parser.add_argument("--minutes", type=int, default=60)
    given = parser.parse_args()
    if (why := why_not()) is not None:
        raise SystemExit(why)
    with run_server(autovacuum="on") as server:
        endure(server, given.minutes)


if __name__ == "__main__":
    main()
