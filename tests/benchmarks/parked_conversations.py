"""What an event costs among 1,000 and among 1,000,000 parked conversations, and what those cost on the disk.

    python -m tests.benchmarks.parked_conversations [PARKED] [SECONDS] [FOLDER]

Both are measured in turns in one run, so that the ratio means something on a busy machine. Point FOLDER at
the disk that matters.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import trio

from triobot.seams.inbox import Arrival
from triobot.seams.journals import AppendRecords, ConversationId, PutStanding
from triobot.seams.writes import Accept, Write
from triobot.store import Stamp, Store, open_sqlite
from triobot.wire.ids import ChatId

from .figures import Figures

FEW: Final = 1_000
ROUNDS: Final = 5
STAMP: Final = Stamp("https://bench.test", "t")

# As a conversation of three questions leaves them.
START: Final = '["S",1800000000000,"pizza",[],"%s",1]'
SENT: Final = '["D",1800000000000,%d,"send sendMessage","8f1c22ab8f1c22ab",{"sent":[7,3]}]'
TAKEN: Final = (
    '["D",1800000000000,%d,"receive","",'
    '{"said":[7,"an answer of some words",107,"Somebody","somebody",123456,1800000000000]},123456]'
)
RECORDS: Final = [START % ("x" * 32), *((SENT, TAKEN)[n % 2] % n for n in range(6))]


class _Now:
    def now(self) -> int:
        return time.time_ns() // 1_000_000


def fill(path: Path, parked: int) -> float:
    """Write parked conversations straight into the store's file; returns their bytes apiece."""
    before = path.stat().st_size
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO senders (chat_id, first_sender) VALUES (?, 7)", ((n,) for n in _ids(parked))
    )
    connection.executemany(
        "INSERT INTO conversations"
        " (id, chat_id, route, kind, version, unfinished, wake_at, started_at, updated_at)"
        " VALUES (?, ?, 'pizza', 'conversation', '1', 0, ?, 1800000000000, 1800000000000)",
        ((n, n, 1_900_000_000_000 + n if n % 10 == 0 else None) for n in _ids(parked)),
    )
    connection.executemany(
        "INSERT INTO journal (conversation, n, size, records) VALUES (?, ?, 1, ?)",
        ((n, at, record) for n in _ids(parked) for at, record in enumerate(RECORDS)),
    )
    connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('inbox', ?)", (parked,))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    connection.close()
    return (path.stat().st_size - before) / parked


def _ids(parked: int) -> range:
    return range(1, parked + 1)


def take(id_: ConversationId, position: int, arrival: Arrival) -> list[Write]:
    return [
        Accept(arrival),
        AppendRecords(id_, position, (TAKEN % position,)),
        PutStanding(id_, arrival.at, unfinished=True),
    ]


async def one_event(store: Store, id_: int, positions: dict[int, int], chance: random.Random) -> None:
    """An event is accepted and taken in one commit, as when its conversation waits for it."""
    position = positions.get(id_, len(RECORDS))
    positions[id_] = position + 1
    arrival = Arrival(ChatId(id_), None, 0, "application/json", b"x" * 300, key=f"{id_}:{chance.random()}")
    await store.commit(*take(ConversationId(id_), position, arrival))


async def events(store: Store, parked: int, callers: int, seconds: float, positions: dict[int, int]) -> float:
    """Microseconds an event; the chats are any, so that no page is in the cache by habit."""
    done = 0
    chance = random.Random()
    begun = time.perf_counter()

    async def call(first: int) -> None:
        nonlocal done
        while not done or time.perf_counter() < begun + seconds:
            # Each caller has chats of its own: of one chat, events come one after the other.
            id_ = chance.randrange(parked // callers) * callers + first + 1
            await one_event(store, id_, positions, chance)
            done += 1

    async with trio.open_nursery() as nursery:
        for first in range(callers):
            nursery.start_soon(call, first)
    return (time.perf_counter() - begun) / done * 1e6


async def appends(store: Store, parked: int, callers: int, seconds: float) -> float:
    """Records a second, with nothing beside them."""
    done = 0

    async def call(id_: int) -> None:
        nonlocal done
        journal = await store.journal(ConversationId(id_))
        assert journal is not None
        for position in range(journal.row.position, 10**9):
            record = TAKEN % position
            await store.commit(AppendRecords(ConversationId(id_), position, (record,)))
            done += 1

    begun = time.perf_counter()
    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for n in range(callers):
                nursery.start_soon(call, parked - n)
    return done / (time.perf_counter() - begun)


async def reads(store: Store, parked: int) -> str:
    """Milliseconds of what is asked again and again, and at a revival."""
    calls: dict[str, Callable[[int], object]] = {
        "journal": lambda n: store.journal(ConversationId(n)),
        "conversations": lambda n: store.conversations(ChatId(n)),
        "next wake": lambda n: store.next_wake(),
        "due": lambda n: store.due(1_900_000_000_000, limit=100),
    }
    told: list[str] = []
    for name, call in calls.items():
        took: list[float] = []
        for _ in range(200):
            begun = time.perf_counter()
            await call(random.randrange(parked) + 1)  # type: ignore[misc]
            took.append(time.perf_counter() - begun)
        told.append(f"{name} {median(took) * 1000:.2f}")
    return ", ".join(told)


async def measure(many: int, seconds: float, folder: Path) -> dict[str, dict[str, Figures]]:
    """Print what was measured, and return the microseconds of an event: by callers, and by parked ones."""
    table: dict[str, dict[str, Figures]] = {}
    sizes = {FEW: folder / "few.db", many: folder / "many.db"}
    for parked, path in sizes.items():
        async with open_sqlite(path, stamp=STAMP, clock=_Now()):
            pass
        apiece = fill(path, parked)
        print(
            f"{parked:9,} parked: {apiece:6.0f} bytes each, {sum(map(len, RECORDS))} of them records",
            flush=True,
        )
    begun = time.perf_counter()
    async with open_sqlite(sizes[many], stamp=STAMP, clock=_Now()) as store_of_many:
        print(f"{many:9,} parked: opened in {(time.perf_counter() - begun) * 1000:.0f} ms")
        async with open_sqlite(sizes[FEW], stamp=STAMP, clock=_Now()) as store_of_few:
            stores: dict[int, Store] = {FEW: store_of_few, many: store_of_many}
            positions: dict[int, dict[int, int]] = {parked: {} for parked in stores}
            for callers in (1, 64):
                took: dict[int, list[float]] = {parked: [] for parked in stores}
                for _ in range(ROUNDS):
                    for parked, store in stores.items():
                        took[parked].append(await events(store, parked, callers, seconds, positions[parked]))
                table[str(callers)] = {f"{parked:,}": {"event": took[parked]} for parked in stores}
                few, lots = (median(took[parked]) for parked in stores)
                print(
                    f"{callers:3} callers: an event costs {few:6.0f} us among {FEW:,},"
                    f" {lots:6.0f} us among {many:,}: ratio {lots / few:.2f}",
                    flush=True,
                )
            for parked, store in stores.items():
                print(f"{parked:9,} parked: {await appends(store, parked, 256, seconds):7.0f} appends/s")
                print(f"{parked:9,} parked: ms: {await reads(store, parked)}")
    return table


if __name__ == "__main__":
    how_many = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    duration = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else None) as where:
        trio.run(measure, how_many, duration, Path(where))
