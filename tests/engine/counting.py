"""A durable coroutine that knows no chats: it counts lines of standard input in a SQLite file.

    python -m tests.engine.counting FILE

Each line that it reads is an event ``NUMBER TEXT``; it answers each three with their sum of lengths, and says
what it has done on standard output. A host is all it needs.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Sequence

import trio

from triobot.engine import Host, Record, Run, RunOwner, begun, decode_record, encode_record

from .plain import JSON


class FileHost(Host):
    """Keeps the journal, and the events that no record has taken, in one file."""

    def __init__(self, file: str) -> None:
        self.db = sqlite3.connect(file, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS journal (line TEXT)")
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS inbox (number INTEGER PRIMARY KEY, text TEXT, taken INTEGER)"
        )
        if not self.db.execute("SELECT 1 FROM journal").fetchone():
            first = begun("sums", time=self.now(), seed="secret", codec=JSON)
            self.db.execute("INSERT INTO journal VALUES (?)", (encode_record(first),))
        records = [decode_record(line) for (line,) in self.db.execute("SELECT line FROM journal")]
        self.run = Run(self, records, JSON, RunOwner())
        waiting = "SELECT number, text FROM inbox WHERE NOT taken ORDER BY number"
        for number, text in self.db.execute(waiting).fetchall():
            self.run.deliver(number, self.now(), text)

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        if not self.db.in_transaction:
            self.db.execute("BEGIN")
        self.db.execute("INSERT INTO journal VALUES (?)", (encode_record(record),))
        self.db.executemany("UPDATE inbox SET taken = 1 WHERE number = ?", [(row,) for row in rows])

    async def commit(self) -> None:
        await trio.lowlevel.checkpoint()
        self.flush()

    def flush(self) -> None:
        if self.db.in_transaction:
            self.db.execute("COMMIT")

    def came(self, number: int, text: str) -> None:
        """Take an event: it is durable together with what it leads to."""
        if not self.db.in_transaction:
            self.db.execute("BEGIN")
        new = self.db.execute("INSERT OR IGNORE INTO inbox VALUES (?, ?, 0)", (number, text))
        if new.rowcount:
            self.run.deliver(number, self.now(), text)
        self.flush()


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


async def tell(total: int, number: int) -> int:
    """An effect: others see it."""
    await trio.lowlevel.checkpoint()
    say(told=total, sum=number)
    return number


async def sums(run: Run) -> None:
    """The durable coroutine: its variables outlive the process."""
    number = 0
    while True:
        total = 0
        with run.scope(3600) as limit:
            for _ in range(3):
                total += len(await run.wait())
        number = await run.step(tell, total, number + 1)
        assert not limit.expired


async def main(file: str) -> None:
    host = FileHost(file)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.run.run, sums)
        while not host.run.is_waiting:
            await trio.lowlevel.checkpoint()
        say(ready=host.db.execute("SELECT count(*) FROM inbox").fetchone()[0])
        buffer = b""
        stream = trio.lowlevel.FdStream(0)
        while chunk := await stream.receive_some():
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                number, _, text = line.decode().partition(" ")
                host.came(int(number), text)
                say(accepted=int(number))
        while not host.run.is_waiting:
            await trio.lowlevel.checkpoint()
        host.run.evict()
    host.flush()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
