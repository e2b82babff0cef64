"""A month of virtual time in which a crowd sleeps: ``python -m tests.benchmarks.virtual_month [--rounds N]``.

What a test of one's bot pays for ``world.waits(days=30)``. Nothing happens in these days, so that it should
cost next to nothing, however many sleep.
"""

from __future__ import annotations

import argparse
import logging
import time
from functools import partial
from typing import Final

from triobot import Bot, Chat
from triobot.testing import drive, run

from .figures import Figures, Spread, note

DAYS: Final = 30
CROWDS: Final = (0, 1, 100)

bot: Final = Bot()


@bot.conversation
async def nap(chat: Chat) -> None:
    with chat.move_on_after(2 * DAYS * 86_400):
        await chat.ask("When shall I wake you?")
    await chat.send("Good morning.")


async def measure_one(sleepers: int) -> float:
    """Milliseconds of CPU that the month takes."""
    async with drive(bot) as world:
        for number in range(sleepers):
            person = world.user(f"Person {number}")
            await person.joins()
            await person.sees("When shall I wake you?")
        await world.waits(minutes=1)
        used = time.process_time()
        await world.waits(days=DAYS)
        return (time.process_time() - used) * 1e3


def measure(*, rounds: int, crowds: tuple[int, ...] = CROWDS) -> dict[str, Figures]:
    """By how many sleep."""
    logging.disable(logging.WARNING)
    table: dict[str, Figures] = {str(sleepers): {} for sleepers in crowds}
    for _ in range(rounds):
        for sleepers in crowds:
            note(table[str(sleepers)], cpu=run(partial(measure_one, sleepers)))
    logging.disable(logging.NOTSET)
    return table


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    for sleepers, figures in measure(rounds=parser.parse_args().rounds).items():
        cpu = Spread.of(figures["cpu"])
        print(f"{sleepers:>4} asleep: {cpu.median:.1f} ms CPU ({cpu.least:.1f}-{cpu.most:.1f})")


if __name__ == "__main__":
    main()
