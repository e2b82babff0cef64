"""What a take-over costs: ``python -m tests.benchmarks.takeover [--chats N ...]``.

Two nodes share four shards in PostgreSQL. So many chats have an unfinished conversation and an open payment
each; then one node is killed, or stopped, and new customers come, at the node that is left, to the shards
that it hadn't. Measured are the seconds until all shards are at work and until each of the new customers has
their answer, and the CPU seconds and megabytes that the taking node needed more. Of a kill, up to three
seconds are the lease.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, Literal

import attrs
import trio

from tests.loopback import Users, open_platform
from tests.postgres import Server, run_server, why_not
from tests.processes.cluster import SHARDS, Cluster, drop, on_this_machine
from tests.processes.process import BOTS, SECRET
from triobot.shards import shard_of
from triobot.wire.ids import ChatId

from .processes import cpu_of

CHATS: Final = (10, 10_000)
NEW: Final = 8
CONNECTIONS: Final = 64
SELLING: Final = BOTS.with_name("selling.py")


@attrs.frozen
class Taken:
    """What one take-over took."""

    work: float
    answer: float
    cpu: float
    megabytes: float


async def measure(server: Server, chats: int, how: Literal["kill", "stop"]) -> Taken:
    """Open so many conversations and payments, and end one of two nodes."""
    drop(server)
    async with open_platform() as platform:
        with tempfile.TemporaryDirectory() as folder:
            cluster = on_this_machine(Path(folder), platform, server)
            cluster.bot, cluster.module = "bot", SELLING
            try:
                await cluster.mend()
                left = cluster.nodes[1]
                users = Users(left.port, f"/{SECRET}")
                await buy(users, range(1, chats + 1))
                await platform.wait_until(lambda: platform.total >= chats, within=900)
                return await _end(cluster, users, platform.total, how)
            finally:
                cluster.kill()


async def _end(cluster: Cluster, users: Users, said: int, how: Literal["kill", "stop"]) -> Taken:
    first, left = (node.process for node in cluster.nodes)
    assert first is not None
    assert left is not None
    kept = {shard for shard, pid in cluster.owners().items() if pid == left.popen.pid}
    gone = (chat for chat in range(10**6, 10**7) if shard_of(ChatId(chat), SHARDS) not in kept)
    new = list(islice(gone, NEW))
    cpu, resident, began = cpu_of(left.popen.pid), left.resident, trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.kill if how == "kill" else first.stop)
        nursery.start_soon(partial(buy, users, new, patient=True))
        await cluster.until(SHARDS)
        work = trio.current_time() - began
        # Not after the nursery: the process may take longer to end than the others to go on.
        await cluster.platform.wait_until(lambda: cluster.platform.total >= said + NEW)
        answer = trio.current_time() - began
    return Taken(work, answer, cpu_of(left.popen.pid) - cpu, (left.resident - resident) / 1e6)


async def buy(users: Users, chats: Sequence[int], *, patient: bool = False) -> None:
    """Let each chat order once, over connections that stay open; again, while it is refused, if `patient`."""
    waiting = iter(chats)

    async def post() -> None:
        async with users.connect() as line:
            for chat in waiting:
                while (status := await users.say(line, chat, "buy")) != 200:
                    assert patient, status
                    await trio.sleep(0.1)

    async with trio.open_nursery() as nursery:
        for _ in range(min(CONNECTIONS, len(chats))):
            nursery.start_soon(post)


def main() -> None:
    """Measure in rounds, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chats", type=int, nargs="+", default=list(CHATS))
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if (why := why_not()) is not None:
        raise SystemExit(why)
    with run_server() as server:
        for how in ("kill", "stop"):
            for chats in given.chats:
                found = [trio.run(measure, server, chats, how) for _ in range(given.rounds)]
                figures = zip(*map(attrs.astuple, found), strict=True)
                work, answer, cpu, megabytes = map(statistics.median, figures)
                print(
                    f"{how}, {chats:6} open conversations and payments: at work after {work:.1f} s,"
                    f" all answered after {answer:.1f} s; {cpu:.2f} s CPU, {megabytes:.0f} MB",
                    file=sys.stdout,
                    flush=True,
                )


if __name__ == "__main__":
    main()
