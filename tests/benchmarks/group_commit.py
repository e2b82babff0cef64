"""How many events a second the store accepts durably, and what one costs, by the number of producers.

    python tests/benchmarks/group_commit.py [SECONDS] [FOLDER]

Point FOLDER at the disk that matters: the figure is mostly its fsync.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

import trio

from triobot.seams import Arrival, PutSetting, Quota
from triobot.store import Stamp, open_sqlite
from triobot.wire.ids import ChatId


class _Now:
    def now(self) -> int:
        return time.time_ns() // 1_000_000


async def measure(path: Path, producers: int, seconds: float) -> None:
    took: list[float] = []
    body = b"x" * 300

    async def produce(chat: int) -> None:
        for n in range(10**9):
            begun = time.perf_counter()
            await store.accept(
                Arrival(ChatId(chat), None, 0, "application/json", body, key=f"{chat}:{n}", once=True),
                quota=Quota(events_per_chat=10**9, bytes_in_all=10**12),
                also=[PutSetting(f"cursor {chat}", str(n))],
            )
            took.append(time.perf_counter() - begun)

    async with open_sqlite(path, stamp=Stamp("https://bench.test", "t"), clock=_Now()) as store:
        begun = time.perf_counter()
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for chat in range(producers):
                    nursery.start_soon(produce, chat)
        elapsed = time.perf_counter() - begun
    print(
        f"{producers:4} producers: {len(took) / elapsed:8.0f} commits/s,"
        f" p50 {median(took) * 1000:6.2f} ms, p99 {quantiles(took, n=100)[-1] * 1000:6.2f} ms"
    )


async def main(seconds: float, folder: Path) -> None:
    for producers in (1, 8, 64, 256):
        await measure(folder / f"{producers}.db", producers, seconds)


if __name__ == "__main__":
    duration = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as where:
        trio.run(main, duration, Path(where))
