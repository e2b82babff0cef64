"""What it takes to bring a conversation back: ``python -m tests.benchmarks.revival [--rounds N]``.

Each round opens the store anew, as after a restart, and writes to chats whose journals are of several
lengths; measured is the CPU time until the bot has answered. It may grow with the journal, but not faster.
An operation is what the author awaited: here half of them are questions sent, half of them answers taken.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from .bots import asking
from .box import Box, open_box
from .figures import Figures, Spread, note

LENGTHS: Final = (10, 100, 1_000, 4_000)
CHATS: Final = 4
_WARM: Final = 999_999


async def _write(box: Box, chats: range, operations: int) -> None:
    async def answer(chat: int) -> None:
        for _ in range(operations // 2):
            await box.say(chat, "an answer of some words")

    async with trio.open_nursery() as nursery:
        for chat in chats:
            nursery.start_soon(answer, chat)
    await box.rest()


def _chats(operations: int) -> range:
    return range(operations * 100, operations * 100 + CHATS)


async def measure(*, rounds: int, lengths: Sequence[int] = LENGTHS) -> dict[str, Figures]:
    """Milliseconds of CPU and of time, by the operations of a conversation."""
    table: dict[str, Figures] = {str(length): {} for length in lengths}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "revival.db"
        async with open_box(asking, path) as box:
            for length in lengths:
                await _write(box, _chats(length), length)
            await _write(box, range(_WARM, _WARM + 1), 10)
        for _ in range(rounds):
            async with open_box(asking, path) as box:
                await box.say(_WARM, "good morning")
                for length in lengths:
                    for chat in _chats(length):
                        used, began = time.process_time(), time.perf_counter()
                        await box.say(chat, "an answer of some words")
                        cpu, wall = time.process_time() - used, time.perf_counter() - began
                        note(table[str(length)], cpu=cpu * 1e3, wall=wall * 1e3)
    return table


def tell(table: dict[str, Figures]) -> None:
    """Print what was measured."""
    for length, figures in table.items():
        cpu, wall = Spread.of(figures["cpu"]), Spread.of(figures["wall"])
        print(
            f"{length:>6} operations: {cpu.median:7.2f} ms CPU ({cpu.least:.2f}-{cpu.most:.2f}),"
            f" {wall.median:7.2f} ms, {cpu.median / int(length) * 1e3:6.1f} us CPU an operation"
        )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    given = parser.parse_args()

    async def run() -> None:
        tell(await measure(rounds=given.rounds, lengths=given.lengths))

    trio.run(run)


if __name__ == "__main__":
    main()
