"""A start with many conversations that are due: ``python -m tests.benchmarks.starting [--chats N]``.

While the bot was down, the time came for all of them. They come back at once; meanwhile somebody else goes
on writing, and must not wait for all of them. Measured are the CPU time of one that comes back and says
something, and the time of those answers to somebody else.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import trio

from .bots import sleeping
from .box import Box, Clock, open_box
from .figures import Figures, Spread, note, percentile

_HOUR = 3_600_000
_SOMEBODY = 1_000_000


async def _answers(box: Box, took: list[float]) -> None:
    """Somebody writes every 20 ms; each time it is another chat, as anybody's first message."""
    chat = _SOMEBODY
    while True:
        chat += 1
        began = time.perf_counter()
        await box.say(chat, "echo")
        took.append(time.perf_counter() - began)
        await trio.sleep(0.02)


async def measure(*, rounds: int, chats: int, alone: float = 2) -> dict[str, Figures]:
    """Of `alone` seconds with nothing due, and of a start with many."""
    table: dict[str, Figures] = {"0": {}, str(chats): {}}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            path, clock = Path(folder) / "starting.db", Clock()
            async with open_box(sleeping, path, clock=clock) as box:
                async with trio.open_nursery() as nursery:
                    for chat in range(1, chats + 1):
                        nursery.start_soon(box.post, chat, "good night")
                await box.rest()
            async with open_box(sleeping, path, clock=clock) as box:
                took: list[float] = []
                while not took:  # a machine may be too busy for one answer in so short a time
                    with trio.move_on_after(alone):
                        await _answers(box, took)
                note(
                    table["0"],
                    p50=percentile(took, 0.5) * 1e3,
                    p99=percentile(took, 0.99) * 1e3,
                    longest=max(took) * 1e3,
                )
            clock.ahead += 2 * _HOUR
            async with open_box(sleeping, path, clock=clock) as box:
                took, used, began = [], time.process_time(), time.perf_counter()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_answers, box, took)
                    while box.said < chats + len(took):
                        await trio.sleep(0.01)
                    nursery.cancel_scope.cancel()
                wall = time.perf_counter() - began
                note(
                    table[str(chats)],
                    cpu=(time.process_time() - used) / chats * 1e6,
                    seconds=wall,
                    p50=percentile(took, 0.5) * 1e3 if took else wall * 1e3,
                    p99=percentile(took, 0.99) * 1e3 if took else wall * 1e3,
                    longest=max(took) * 1e3 if took else wall * 1e3,
                    answers=float(len(took)),
                )
    return table


def tell(table: dict[str, Figures]) -> None:
    """Print what was measured."""
    for chats, figures in table.items():
        p50, p99, longest = (Spread.of(figures[name]).median for name in ("p50", "p99", "longest"))
        print(f"{chats:>6} due: others' answers p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {longest:.1f} ms")
        if "cpu" in figures:
            cpu, seconds = Spread.of(figures["cpu"]), Spread.of(figures["seconds"])
            print(
                f"{chats:>6} due: {cpu.median:.0f} us CPU each ({cpu.least:.0f}-{cpu.most:.0f}), all in"
                f" {seconds.median:.1f} s; {Spread.of(figures['answers']).median:.0f} answers meanwhile"
            )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chats", type=int, default=2_000)
    given = parser.parse_args()

    async def run() -> None:
        tell(await measure(rounds=given.rounds, chats=given.chats))

    trio.run(run)


if __name__ == "__main__":
    main()
