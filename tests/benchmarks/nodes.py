"""What nodes that share a store in PostgreSQL cost: ``python -m tests.benchmarks.nodes [--rounds N]``.

One node with one schema, one with eight shards, and two and three nodes with six, all at once on this
machine beside the server and the load, which asks them in turns: ratios are taken round by round. CPU an
event is that of all nodes together, and of the server; each event is a text that is said back. Behind a load
balancer an event comes to any node; two nodes are asked besides so that each has the shard of what it gets,
and so that neither has: what an event costs more that is handed on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs
import trio

from tests.loopback import PATIENCE, Platform, Users, free_port, open_platform
from tests.postgres import Server, run_server, why_not
from tests.processes.nodes import READY
from tests.processes.process import SECRET, BotProcess, start_node
from triobot.shards import shard_of
from triobot.wire.ids import ChatId

from .figures import Figures, Spread, note, ratio
from .postgres import cpu_of_server
from .processes import cpu_of

CONNECTIONS: Final = 64
SHARDS: Final = 6
Where: TypeAlias = Literal["any", "owner", "other"]
"""To which node an event comes: to any, in turns, to the one that has its shard, or to another one."""


@attrs.frozen
class Setup:
    """A way to run the bot, and to ask it.

    Attributes:
        cluster: setups with one of these share their nodes.
        shards: 0: the store is one schema.
    """

    name: str
    cluster: str
    nodes: int
    shards: int
    where: Where = "any"


SETUPS: Final = (
    Setup("1 node, 1 schema", "one", 1, 0),
    Setup("1 node, 8 shards", "eight", 1, 8),
    Setup("2 nodes, to the owner", "two", 2, SHARDS, "owner"),
    Setup("2 nodes, to any", "two", 2, SHARDS),
    Setup("2 nodes, to the other", "two", 2, SHARDS, "other"),
    Setup("3 nodes, to any", "three", 3, SHARDS),
)


@attrs.frozen
class Nodes:
    """The nodes of a store that run.

    Attributes:
        ports: of the processes, by number.
        owners: the number of the process that has each shard.
    """

    processes: Sequence[BotProcess]
    ports: Mapping[int, int]
    owners: Mapping[int, int]

    @property
    def cpu(self) -> float:
        """Seconds that they have used."""
        return sum(cpu_of(process.popen.pid) for process in self.processes)

    def ports_for(self, chats: Iterator[int], where: Where) -> Iterator[tuple[int, int]]:
        """Return the chats, and the port that each is to speak to."""
        turns = list(self.ports.values())
        for number, chat in enumerate(chats):
            owner = self.owners.get(shard_of(ChatId(chat), max(1, len(self.owners))))
            match where:
                case "any":
                    yield chat, turns[number % len(turns)]
                case "owner":
                    yield chat, next(port for pid, port in self.ports.items() if pid == owner)
                case "other":
                    yield chat, next(port for pid, port in self.ports.items() if pid != owner)


async def start(setup: Setup, folder: Path, server: Server, platform: Platform) -> Nodes:
    """Start the nodes of a setup, and wait until each has its share."""
    schema = f"bench_{setup.cluster}"
    store = server.url(query=f"schema={schema}" + (f"&shards={setup.shards}" if setup.shards else ""))
    processes, ports = list[BotProcess](), dict[int, int]()
    for number in range(setup.nodes):
        port = free_port()
        process = await start_node(
            "single",
            port=port,
            platform=platform.url,
            store=store,
            log=folder / f"{setup.cluster}{number}",
            ready=READY,
        )
        processes.append(process)
        ports[process.popen.pid] = port
    owners: dict[int, int] = {}
    if setup.shards:
        with trio.fail_after(PATIENCE):
            while not _is_fair(owners := _owners(server, schema), setup):
                await trio.sleep(0.1)
    return Nodes(processes, ports, owners)


def _is_fair(owners: Mapping[int, int], setup: Setup) -> bool:
    shares = [list(owners.values()).count(pid) for pid in set(owners.values())]
    return len(owners) == setup.shards and len(shares) == setup.nodes and max(shares) - min(shares) <= 1


def _owners(server: Server, schema: str) -> dict[int, int]:
    found = server.ask(
        f"SELECT shard, label FROM {schema}.owners JOIN {schema}.nodes ON id = owner WHERE works"
    )
    return {int(str(shard)): int(str(label).rpartition(":")[2]) for shard, label in found}


async def ask(nodes: Nodes, platform: Platform, where: Where, chats: Iterator[int], events: int) -> None:
    """Let so many chats say something each, over connections that stay open, and hear all of it said back."""
    before = platform.total
    asked: dict[int, list[int]] = {port: [] for port in nodes.ports.values()}
    for chat, port in nodes.ports_for(islice(chats, events), where):
        asked[port].append(chat)
    async with trio.open_nursery() as nursery:
        for port, own in asked.items():
            waiting = iter(own)
            for _ in range(CONNECTIONS // len(asked)):
                nursery.start_soon(_say, Users(port, f"/{SECRET}"), waiting)
    await platform.wait_until(lambda: platform.total >= before + events)


async def _say(users: Users, chats: Iterator[int]) -> None:
    async with users.connect() as line:
        for chat in chats:
            if (status := await users.say(line, chat, "hello")) != 200:
                raise RuntimeError(f"an event was answered {status}")


async def measure(server: Server, setups: Sequence[Setup], rounds: int, events: int) -> dict[str, Figures]:
    """CPU time of an event, in microseconds: the nodes', and the server's."""
    table: dict[str, Figures] = {setup.name: {} for setup in setups}
    chats = count(1)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running: dict[str, tuple[Nodes, Platform]] = {}
        for setup in setups:
            if setup.cluster not in running:
                platform = await stack.enter_async_context(open_platform())
                nodes = await start(setup, folder, server, platform)
                for process in nodes.processes:
                    stack.callback(process.popen.wait)
                    stack.callback(process.kill_now)
                running[setup.cluster] = nodes, platform
        for number in range(rounds + 1):
            for setup in setups:
                nodes, platform = running[setup.cluster]
                own, database = nodes.cpu, cpu_of_server(server)
                await ask(nodes, platform, setup.where, chats, events)
                if number:  # the first one warms up
                    cpu, used = nodes.cpu - own, cpu_of_server(server) - database
                    note(table[setup.name], cpu=cpu / events * 1e6, server=used / events * 1e6)
    return table


def main() -> None:
    """Read the arguments, measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=2048)
    given = parser.parse_args()
    if (why := why_not()) is not None:
        raise SystemExit(why)
    tell: Callable[..., None] = partial(print, file=sys.stdout, flush=True)
    with run_server() as server:
        table = trio.run(measure, server, SETUPS, given.rounds, given.events)
    base = table[SETUPS[0].name]
    for name, figures in table.items():
        inside = ratio(figures["cpu"], base["cpu"])
        cpu, used = (Spread.of(figures[figure]).median for figure in ("cpu", "server"))
        tell(
            f"{name:24}{cpu:6.0f} us {inside.median:6.2f} ({inside.least:.2f}-{inside.most:.2f})"
            f"  the server {used:6.0f} us"
        )


if __name__ == "__main__":
    main()
