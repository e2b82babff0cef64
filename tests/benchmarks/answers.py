"""Whether an answer's cost grows with its conversation: ``python -m tests.benchmarks.answers [--rounds N]``.

In one run, in turns: the 6th to the 15th answers of fresh conversations, and those of conversations that have
got a thousand already. A conversation that stays in memory must not feel its past.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Final

import trio

from .bots import asking
from .box import Box, open_box
from .figures import Figures, Spread, note, ratio

CHATS: Final = 8
_EACH: Final = 10


async def _answers(box: Box, chats: range, count: int) -> float:
    """CPU microseconds an answer, with all that comes of it until the next question has been asked."""
    used = time.process_time()

    async def answer(chat: int) -> None:
        for _ in range(count):
            await box.say(chat, "an answer of some words")

    async with trio.open_nursery() as nursery:
        for chat in chats:
            nursery.start_soon(answer, chat)
    await box.rest()
    return (time.process_time() - used) / (count * len(chats)) * 1e6


async def measure(*, rounds: int, length: int) -> dict[str, Figures]:
    """CPU an answer, by how many came before it."""
    table: dict[str, Figures] = {"10": {}, str(length): {}}
    with tempfile.TemporaryDirectory() as folder:
        async with open_box(asking, Path(folder) / "answers.db") as box:
            old = range(1, CHATS + 1)
            await _answers(box, old, length)
            for number in range(1, rounds + 1):
                fresh = range(number * 1_000, number * 1_000 + CHATS)
                await _answers(box, fresh, 5)
                note(table["10"], cpu=await _answers(box, fresh, _EACH))
                note(table[str(length)], cpu=await _answers(box, old, _EACH))
    return table


def tell(table: dict[str, Figures]) -> None:
    """Print what was measured."""
    (_, few), (many, lots) = table.items()
    inside, least = ratio(lots["cpu"], few["cpu"]), Spread.of(few["cpu"]).median
    print(
        f"answer 10 costs {least:.0f} us CPU, answer {many} {Spread.of(lots['cpu']).median:.0f} us:"
        f" {inside.median:.2f} times ({inside.least:.2f}-{inside.most:.2f})"
    )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--length", type=int, default=1_000)
    given = parser.parse_args()

    async def run() -> None:
        tell(await measure(rounds=given.rounds, length=given.length))

    trio.run(run)


if __name__ == "__main__":
    main()
