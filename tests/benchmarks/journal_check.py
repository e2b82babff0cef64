"""How long `triobot journal check` takes over many parked conversations, half of which other code would park.

    python -m tests.benchmarks.journal_check [PARKED] [FOLDER] [ARGUMENTS...]

One conversation is written by a running bot, and copied; what follows is handed to the command.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio

from .bots import asking
from .box import open_box

ANSWERS = 4


async def _one(path: Path) -> None:
    async with open_box(asking, path) as box:
        for _ in range(ANSWERS):
            await box.say(1, "an answer of some words")
        await box.rest()


def fill(path: Path, parked: int) -> None:
    """Write so many conversations that wait."""
    trio.run(_one, path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    (row,) = [dict(found) for found in connection.execute("SELECT * FROM conversations")]
    journal = [dict(found) for found in connection.execute("SELECT * FROM journal ORDER BY n")]
    first, gone = row["id"], "gone.route"
    for number in range(1, parked):
        route = gone if number % 2 else row["route"]
        copied = {**row, "id": first + number, "chat_id": 1 + number, "route": route}
        connection.execute(_insert("conversations", copied), copied)
        for record in journal:
            copied = {**record, "conversation": first + number}
            connection.execute(_insert("journal", copied), copied)
    connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'inbox'", (first + parked,))
    connection.execute("COMMIT")
    connection.close()


def _insert(table: str, row: dict[str, object]) -> str:
    names = ", ".join(row)
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join(f':{name}' for name in row)})"


def check(path: Path, *arguments: str) -> float:
    """Seconds that the command takes; prints how it ends."""
    command = [sys.executable, "-m", "triobot", "journal", "check", "tests.benchmarks.bots:asking"]
    settings = {"TRIOBOT_TOKEN": "123456:benchmark-token", "TRIOBOT_BASE_URL": "http://127.0.0.1:9"}
    begun = time.perf_counter()
    ended = subprocess.run(
        [*command, "--store", f"sqlite:{path}", *arguments],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    took = time.perf_counter() - begun
    lines = ended.stdout.splitlines()
    print(f"{len(lines)} lines, the last: {lines[-1] if lines else ''}")
    return took


def main() -> None:
    """Read the arguments and measure."""
    parked = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        path = Path(folder) / "parked.db"
        begun = time.perf_counter()
        fill(path, parked)
        print(f"{parked:,} conversations written in {time.perf_counter() - begun:.0f} s", flush=True)
        took = check(path, *sys.argv[3:])
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"checked in {took:.1f} s, with {used.ru_utime + used.ru_stime:.1f} s of CPU in all processes")


if __name__ == "__main__":
    main()
