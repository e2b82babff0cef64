"""What a chat takes that waits for an answer, in memory and out of it:

    python -m tests.benchmarks.memory [--chats N] [--extra N]

As many chats as are kept in memory ask a question each and wait. Then others come, and as many leave memory.
Told are the bytes of this process apiece, those of the file, and how many objects of a chat the garbage
collector walks through. With --profile: which lines took the memory.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import tempfile
import time
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import trio

from triobot.conversations import registry

from .bots import asking
from .box import Box, open_box
from .figures import Figures, note
from .processes import proportional_memory

_AT_ONCE = 64


def _memory() -> int:
    """Bytes of this process, when what is free has been given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return proportional_memory(_own_pid())


def _own_pid() -> int:
    return int(Path("/proc/self").readlink().name)


async def _ask(box: Box, chats: Iterable[int]) -> None:
    left = iter(chats)

    async def some() -> None:
        for chat in left:
            await box.say(chat, "hello")

    async with trio.open_nursery() as nursery:
        for _ in range(_AT_ONCE):
            nursery.start_soon(some)
    await box.rest()


async def measure(*, chats: int = registry.KEPT, extra: int | None = None, profile: bool = False) -> Figures:
    """Bytes of a live chat, of one that has left memory, and on the disk; and what a collection takes."""
    figures: Figures = {}
    extra = chats if extra is None else extra
    first = min(500, chats // 2)  # what any run needs is not a chat's
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        async with open_box(asking, path) as box:
            await _ask(box, range(1, first + 1))
            if profile:
                tracemalloc.start(12)
            empty, before = _memory(), len(gc.get_objects())
            await _ask(box, range(first + 1, chats + 1))
            full, walked = _memory(), len(gc.get_objects()) - before
            if profile:
                _tell_profile(chats - first)
                tracemalloc.stop()
            began = time.perf_counter()
            gc.collect()
            collection = time.perf_counter() - began
            await _ask(box, range(chats + 1, chats + extra + 1))
            fuller = _memory()
            evicted = box.bot.statistics().counts.get("evicted", 0)
        size = path.stat().st_size
    note(
        figures,
        live=(full - empty) / (chats - first),
        objects=walked / (chats - first),
        evicted=(fuller - full) / extra,
        left=float(evicted),
        disk=size / (chats + extra),
        collection=collection * 1e3,
    )
    return figures


def _tell_profile(chats: int) -> None:
    snapshot = tracemalloc.take_snapshot()
    for line in snapshot.statistics("lineno")[:40]:
        size, count, frame = line.size / chats, line.count / chats, line.traceback[0]
        print(f"{size:8.0f} bytes, {count:5.1f} blocks a chat  {frame.filename}:{frame.lineno}")


def tell(figures: Figures) -> None:
    """Print what was measured."""
    value = {name: values[-1] for name, values in figures.items()}
    print(
        f"a chat that waits in memory takes {value['live']:.0f} bytes, and {value['objects']:.1f} objects for"
        f" the collector, one that has left it"
        f" {value['evicted']:.0f} ({value['left']:.0f} left); on the disk {value['disk']:.0f};"
        f" a full collection {value['collection']:.0f} ms"
    )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chats", type=int, default=registry.KEPT)
    parser.add_argument("--extra", type=int)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()

    async def run() -> None:
        tell(await measure(chats=given.chats, extra=given.extra, profile=given.profile))

    trio.run(run)


if __name__ == "__main__":
    main()
