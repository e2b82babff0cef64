"""What people wait for after an outage: ``python -m tests.benchmarks.recovery [--waiting N ...]``.

So many chats write, one every 20 ms, while the platform refuses connections, answers 503, or answers nothing.
After a minute more it answers everything, each request in 50 ms. The outbox is the real one, in virtual time:
the figures are the same on every machine. Two more people write 1 and 5 seconds after the outage.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import attrs
import trio
from trio.testing import MockClock

from triobot.errors import NotDeliveredError, RefusedError
from triobot.outbox import open_outbox
from triobot.wire.operations import Operation, SendMessage
from triobot.wire.results import Sent

WAITING: Final = (300, 2_000, 10_000)
DOWN: Final = 60.0
ANSWERS_IN: Final = 0.05


async def refuse(operation: Operation[Any]) -> None:
    raise NotDeliveredError(operation.path, "connection refused")


async def answer_503(operation: Operation[Any]) -> None:
    raise RefusedError(operation.path, 503)


async def say_nothing(operation: Operation[Any]) -> None:
    await trio.sleep_forever()


OUTAGES: Final[dict[str, Callable[[Operation[Any]], Awaitable[None]]]] = {
    "refused": refuse,
    "503": answer_503,
    "silent": say_nothing,
}


@attrs.frozen
class Recovery:
    """Seconds from the outage's end until half of the chats and all were answered; the newcomers' waits."""

    half: float
    all: float
    newcomers: tuple[float, ...]


async def recover(waiting: int, outage: str, *, answers_in: float = ANSWERS_IN) -> Recovery:
    """Let so many chats wait through an outage of this kind."""
    down = OUTAGES[outage]
    back_at = trio.current_time() + waiting * 0.02 + DOWN
    answered: dict[int, float] = {}

    class Platform:
        async def perform(self, operation: Operation[Any], /) -> Any:
            assert isinstance(operation, SendMessage)
            if trio.current_time() < back_at:
                await down(operation)
            await trio.sleep(answers_in)
            answered[operation.chat_id] = trio.current_time() - back_at
            return Sent(operation.chat_id, None)

    async def write(chat: int, at: float) -> None:
        await trio.sleep_until(at)
        await outbox.perform(SendMessage(chat, "hello"))

    newcomers = {waiting + 1: 1.0, waiting + 2: 5.0}
    rng = random.Random(7).random
    async with (
        open_outbox(Platform(), raise_alarm=lambda alarm: None, random=rng) as outbox,
        trio.open_nursery() as nursery,
    ):
        began = trio.current_time()
        for chat in range(waiting):
            nursery.start_soon(write, chat + 1, began + chat * 0.02)
        for chat, after in newcomers.items():
            nursery.start_soon(write, chat, back_at + after)
    times = sorted(answered[chat + 1] for chat in range(waiting))
    waits = tuple(answered[chat] - after for chat, after in newcomers.items())
    return Recovery(times[waiting // 2], times[-1], waits)


def measure(waiting: int, outage: str) -> Recovery:
    """Return the figures of one row."""
    return trio.run(partial(recover, waiting, outage), clock=MockClock(autojump_threshold=0))


def main() -> None:
    """Read the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--waiting", type=int, nargs="*", default=WAITING)
    arguments = parser.parse_args()
    print("| waiting | outage | half, s | all, s | newcomers, s |\n|---|---|---|---|---|")
    for waiting in arguments.waiting:
        for outage in OUTAGES:
            row = measure(waiting, outage)
            waits = ", ".join(f"{wait:.1f}" for wait in row.newcomers)
            print(f"| {waiting:,} | {outage} | {row.half:.1f} | {row.all:.1f} | {waits} |", flush=True)


if __name__ == "__main__":
    main()
