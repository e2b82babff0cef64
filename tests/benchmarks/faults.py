"""What the outbox carries to a platform that fails at random, and past chats that are never answered:

    python -m tests.benchmarks.faults [--offered 100] [--seconds 60] [--share 0.05] [--mixed] [--silent 40]

Real sockets on loopback, the outbox and the client as a bot has them; the platform is this process. So many
sends a second are offered. ``--share`` of them fail at random with 500; with ``--mixed`` one in ten of those
with 429, and one in ten with the end of the connection. The sends of ``--silent`` chats get no answer.
"""

from __future__ import annotations

import argparse
import random
import resource
from collections.abc import Callable
from functools import partial
from statistics import median

import attrs
import trio

from tests.loopback import open_platform
from triobot.client import PlatformClient
from triobot.outbox import LaneOutbox, OutboxRules, OutboxStatistics, open_outbox
from triobot.wire.operations import SendMessage

_SILENT = 1_000_000


@attrs.define
class Carried:
    """What became of what was offered.

    Attributes:
        delays: seconds from a send's queueing to its end, of those that were carried in time.
        silent: chats that wait for an answer at the end.
        statistics: where the outbox stood then.
    """

    offered: int
    delays: list[float] = attrs.Factory(list)
    silent: int = 0
    statistics: OutboxStatistics | None = None

    @property
    def share(self) -> float:
        """Which part was carried."""
        return len(self.delays) / self.offered


def at_random(share: float, *, mixed: bool, seed: int = 1) -> Callable[[int], bytes | None]:
    """The status that an operation is answered with, if not 200."""
    dice = random.Random(seed)

    def fault(chat: int) -> bytes | None:
        drawn = dice.random() / share if share else 1
        if drawn >= 1:
            return None
        if mixed and drawn < 0.2:
            return b"429 Too Many Requests" if drawn < 0.1 else b""
        return b"500 Internal Server Error"

    return fault


async def carry(
    fault: Callable[[int], bytes | None],
    *,
    sends: int,
    every: float = 0.0,
    chats: int = 500,
    silent: int = 0,
    within: float,
) -> Carried:
    """Offer sends, and wait for their ends.

    Args:
        every: seconds between two of them; 0: all at once.
        within: seconds for which is waited behind the last one.
        silent: so many other chats, never answered, each with one send before all others.
    """
    carried, rules = Carried(sends), OutboxRules()
    async with open_platform() as platform:
        platform.fault = fault
        platform.held = set(range(_SILENT, _SILENT + silent))
        async with (
            PlatformClient(platform.url, "a-token-of-sixteen", connections=rules.connections) as client,
            open_outbox(client, raise_alarm=print) as outbox,
            trio.open_nursery() as nursery,
        ):

            async def send(number: int) -> None:
                began = trio.current_time()
                await outbox.perform(SendMessage(1 + number % chats, f"text {number}"))
                carried.delays.append(trio.current_time() - began)

            for chat in sorted(platform.held):
                nursery.start_soon(_wait_in_vain, outbox, chat)
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as senders:
                    began = trio.current_time()
                    for number in range(sends):
                        senders.start_soon(send, number)
                        await trio.sleep_until(began + number * every)
                    scope.deadline = trio.current_time() + within
            carried.statistics = outbox.statistics()
            carried.silent = carried.statistics.in_flight
            nursery.cancel_scope.cancel()
            outbox.cut()
    return carried


async def _wait_in_vain(outbox: LaneOutbox, chat: int) -> None:
    await outbox.perform(SendMessage(chat, "x"))


def main() -> None:
    """Read the arguments, offer and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--offered", type=float, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--silent", type=int, default=0)
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    run = partial(
        carry,
        at_random(given.share, mixed=given.mixed),
        sends=round(given.offered * given.seconds),
        every=1 / given.offered,
        silent=given.silent,
        within=0.5,
    )
    carried = trio.run(run)
    print(
        f"of {carried.offered} sends, {given.offered:g} a second, {100 * carried.share:.1f} % were carried in"
        f" time; delay: median {median(carried.delays):.3f} s, longest {max(carried.delays):.2f} s;"
        f" {carried.statistics}"
    )


if __name__ == "__main__":
    main()
