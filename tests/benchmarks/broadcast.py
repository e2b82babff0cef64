"""What a broadcast costs: ``python -m tests.benchmarks.broadcast [--receivers N] [--kills N]``.

In process: the runtime's own share for each receiver, with a platform that answers at once and a real file
with fsync; and the peak of memory, which must not grow with the audience. Over sockets: a bot in a process of
its own that is killed in the middle, as `tests.processes.announcement` does it.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import trio

from tests.processes.announcement import announce
from triobot.base.clock import SystemClock
from triobot.outbox import open_broadcasts, open_outbox
from triobot.seams.broadcasts import Announcement
from triobot.store import Stamp, open_sqlite
from triobot.wire.ids import ChatId
from triobot.wire.results import Sent


class _Instant:
    """A platform that takes everything."""

    def __init__(self) -> None:
        self.count = 0

    async def perform(self, operation: Any) -> Any:
        await trio.lowlevel.checkpoint()
        self.count += 1
        return Sent(operation.chat_id, self.count)


async def _chats(many: int) -> AsyncIterator[ChatId]:
    for chat in range(many):
        yield ChatId(chat * 7919 % (10**9 + 7))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def in_process(path: Path, many: int, *, trace: bool) -> None:
    platform = _Instant()
    if trace:
        tracemalloc.start()
    async with (
        open_sqlite(path, stamp=Stamp("https://bench.test", "t"), clock=SystemClock()) as store,
        open_outbox(platform, raise_alarm=lambda alarm: print(alarm.text)) as outbox,
        open_broadcasts(store, outbox, clock=SystemClock(), raise_alarm=print) as broadcasts,
        aclosing(_chats(many)) as chats,
    ):
        cpu, began, resident = _cpu(), time.monotonic(), _peak()
        await broadcasts.start("k", Announcement("hello"), chats)
        captured, captured_at = _cpu(), time.monotonic()
        while not (status := await broadcasts.status("k")).over:
            await trio.sleep(0.2)
        told, told_at = _cpu(), time.monotonic()
    assert status.sent == many == platform.count
    if trace:
        print(f"{many:7} in process: {tracemalloc.get_traced_memory()[1] / 1e6:.1f} MB of memory at the peak")
        tracemalloc.stop()
        return
    print(
        f"{many:7} in process: capture {(captured - cpu) / many * 1e6:.0f} us CPU a receiver"
        f" ({captured_at - began:.1f} s), telling {(told - captured) / many * 1e6:.0f} us"
        f" ({told_at - captured_at:.1f} s, {many / (told_at - captured_at):.0f}/s);"
        f" the process grew by {(_peak() - resident) / 1024:.1f} MB at the peak"
    )


async def over_sockets(folder: Path, many: int, kills: int) -> None:
    result = await announce(folder, many, kills)
    print(
        f"{many:7} over sockets, {kills} kills: {result.status.sent} sent, {result.status.unknown} unknown,"
        f" {len(result.told)} really told, at most {max(result.told.values())} time(s) each;"
        f" {result.cpu / many * 1e6:.0f} us CPU a receiver with all starts, {result.seconds:.1f} s;"
        f" a reply waited for {sorted(result.between)[len(result.between) // 2]} receivers (median),"
        f" {max(result.between)} at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--receivers", type=int, default=200_000)
    parser.add_argument("--over-sockets", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        many: int = arguments.receivers
        trio.run(_in_process, folder / "timed.db", many, False)
        for part in (many // 20, many // 4):
            trio.run(_in_process, folder / f"traced-{part}.db", part, True)
        trio.run(over_sockets, folder, arguments.over_sockets, arguments.kills)


async def _in_process(path: Path, many: int, trace: bool) -> None:
    await in_process(path, many, trace=trace)


if __name__ == "__main__":
    main()
