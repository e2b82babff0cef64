"""How many events a second the store accepts durably, and what one costs, by the number of producers.

    python -m tests.benchmarks.group_commit [SECONDS] [FOLDER]

Point FOLDER at the disk that matters: the figure is mostly its fsync.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import trio

from triobot.seams.inbox import Arrival, Quota
from triobot.seams.writes import PutSetting
from triobot.store import Stamp, open_sqlite
from triobot.wire.ids import ChatId

from .figures import Figures, note, percentile

PRODUCERS: Final = (1, 8, 64, 256)


class _Now:
    def now(self) -> int:
        return time.time_ns() // 1_000_000


async def measure(path: Path, producers: int, seconds: float) -> Figures:
    """Commits a second, microseconds of CPU apiece, and milliseconds until one is durable."""
    took: list[float] = []
    body = b"x" * 300

    async def produce(chat: int) -> None:
        # Each makes one at least, however slow the machine is.
        for n in range(10**9):
            started = time.perf_counter()
            await store.accept(
                Arrival(ChatId(chat), None, 0, "application/json", body, key=f"{chat}:{n}", once=True),
                quota=Quota(events_per_chat=10**9, bytes_in_all=10**12),
                also=[PutSetting(f"cursor {chat}", str(n))],
            )
            took.append(time.perf_counter() - started)
            if time.perf_counter() > begun + seconds:
                return

    async with open_sqlite(path, stamp=Stamp("https://bench.test", "t"), clock=_Now()) as store:
        begun, used = time.perf_counter(), time.process_time()
        async with trio.open_nursery() as nursery:
            for chat in range(producers):
                nursery.start_soon(produce, chat)
        elapsed, used = time.perf_counter() - begun, time.process_time() - used
    figures: Figures = {}
    note(
        figures,
        rate=len(took) / elapsed,
        cpu=used / len(took) * 1e6,
        p50=percentile(took, 0.5) * 1e3,
        p99=percentile(took, 0.99) * 1e3,
    )
    return figures


async def curve(seconds: float, folder: Path) -> dict[str, Figures]:
    """By the number of producers."""
    return {
        str(producers): await measure(folder / f"{producers}.db", producers, seconds)
        for producers in PRODUCERS
    }


def tell(table: dict[str, Figures]) -> None:
    """Print what was measured."""
    for producers, figures in table.items():
        value = {name: values[-1] for name, values in figures.items()}
        print(
            f"{producers:>4} producers: {value['rate']:8.0f} commits/s, {value['cpu']:6.0f} us CPU,"
            f" p50 {value['p50']:6.2f} ms, p99 {value['p99']:6.2f} ms"
        )


if __name__ == "__main__":
    duration = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as where:
        tell(trio.run(curve, duration, Path(where)))
