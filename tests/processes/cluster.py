"""Processes of one bot at work on one PostgreSQL in shards, behind nginx, while people order from them.

``python -m tests.processes.cluster 40 kill freeze stop drain deploy back`` tells the longest that a chat
had to wait, with two nodes on this machine; with ``unplug``, ``away`` or ``part`` among the words there are
three, each on a machine with a network of its own. ``failover``, the last one then, is for two nodes. With
``buying`` each order is paid for.
"""

from __future__ import annotations

import argparse
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias, final, get_args

import attrs
import trio
import trustme

from tests.loopback import PATIENCE, Platform, Users, free_port, open_platform
from tests.postgres import ROLE, Server, run_pair, run_server, why_not
from tests.processes.machines import Network, forwarding, network_of
from tests.processes.nodes import READY, Node
from tests.processes.ordering import Customer, check_heard
from tests.processes.process import BOTS, HERE, ROOT, SECRET, environment, start_node
from tests.processes.proxy import before_nodes
from tests.processes.shopping import Buyer, check_bought, keys_in

Trouble: TypeAlias = Literal[
    "kill", "freeze", "stop", "drain", "restart", "failover", "deploy", "back", "unplug", "away", "part"
]
"""What happens to a node: SIGKILL, SIGSTOP past its lease and SIGCONT, SIGTERM, or that its shards go to the
other one while it lives; or to the server: all its sessions crash, or it dies, and its standby is made the
primary; or to both nodes: a new build, one after the other, or a new build at one of them, from which an
operator goes back. Or to the network: past its lease nothing passes from a node or to it, or from it to the
database; or none between nodes for a time."""
_CALM: Final = ("stop", "drain", "deploy", "back")
_LONG: Final = ("deploy", "back", "part")
_CUTS: Final = ("unplug", "away", "part")

SKEWED: Final = BOTS.with_name("skewed.py")
SHOPPING: Final = BOTS.with_name("shopping.py")
SHARDS = 4
SCHEMA = "parts"
_QUERY: Final = f"schema={SCHEMA}&shards={SHARDS}"


def fair(nodes: int) -> Sequence[int]:
    """How many shards each of so many nodes should have."""
    return [SHARDS // nodes + (number < SHARDS % nodes) for number in range(nodes)]


def drop(server: Server) -> None:
    """Leave nothing of the store."""
    for schema in (SCHEMA, *(f"{SCHEMA}_{number}" for number in range(SHARDS))):
        server.ask(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@attrs.frozen
class Lived:
    """What happened.

    Attributes:
        texts: what reached each chat, in order, as often as it did.
        output: what the nodes wrote.
        orders: how many orders each chat has made.
        pauses: the longest that a chat had to wait for its next text, by trouble.
        check_chat: sees that all is well with a chat that has ordered so often.
    """

    texts: Mapping[int, Sequence[str]]
    output: str
    orders: Mapping[int, int]
    pauses: Sequence[tuple[Trouble, float]]
    check_chat: Callable[[int, int], None]

    @property
    def repeats(self) -> int:
        """Texts that came once more."""
        return sum(len(texts) - len(set(texts)) for texts in self.texts.values())

    def check(self, chats: int) -> None:
        """Every conversation ended as it should, in its order; what came twice may not have come."""
        assert len(self.texts) == chats
        for chat, orders in self.orders.items():
            self.check_chat(chat, orders)
        if all(trouble in _CALM for trouble, _ in self.pauses):
            assert self.repeats == 0
        assert self.repeats <= chats * len(self.pauses)
        told = (
            "ALARM crash_loop: ",
            "ALARM store_unwritable: ",
            "alarms can't be stored: ",
            "every chat has",
        )
        # If a node dies before it has answered, the word that somebody has paid comes twice.
        told += ("ALARM maybe_paid_again: ",)
        told += ("was taken over by another process",)
        errors = [line for line in self.output.splitlines() if " ERROR " in line or "Traceback" in line]
        assert (odd := [line for line in errors if not any(words in line for words in told)]) == [], odd


@final
class Cluster:
    """Nodes that share a store.

    Args:
        network: each of its machines has a node; None: there are two on this machine.
        url: where they find the platform.
        store: where they find the database.
        standby: of the server; the store's address names both.

    Attributes:
        build: what a node runs that is started.
        environ: more of the nodes' variables.
        bot, module: what they run; SKEWED where the clocks of their machines can be set.
        set_by: the file that says by how many milliseconds each is.
    """

    def __init__(
        self,
        folder: Path,
        platform: Platform,
        server: Server,
        *,
        url: str,
        store: str,
        network: Network | None = None,
        standby: Server | None = None,
    ) -> None:
        places = [HERE, HERE] if network is None else [machine.place for machine in network.machines]
        self.nodes = [
            Node(free_port(), folder / f"log{number}", place=place) for number, place in enumerate(places)
        ]
        self.store = store
        self.bot, self.module = "orders", BOTS
        self.build = 1
        self.set_by = [folder / f"clock{number}" for number in range(len(places))]
        for clock in self.set_by:
            clock.write_text("0")
        self.platform = platform
        self._url = url
        self._server = server
        self._standby = standby
        self._network = network
        self.within = () if network is None else network.within
        self.environ = {} if network is None else {"TRUSTED": str(folder / "authority.pem")}

    async def start(self, node: Node) -> None:
        """Start a process there, and wait until it takes events."""
        node.process = await start_node(
            self.bot,
            port=node.port,
            platform=self._url,
            store=self.store,
            log=node.log,
            ready=READY,
            environ={
                **self.environ,
                "TRIOBOT_BUILD": f"build-{self.build}",
                "CLOCK_SET_BY": str(self.set_by[self.nodes.index(node)]),
            },
            module=self.module,
            place=node.place,
        )

    async def renew(self, node: Node, build: int) -> None:
        """Stop a node, and start it with another build."""
        assert node.process is not None
        assert await node.process.stop() == 0
        self.build = build
        await self.start(node)

    async def ask(self, *words: str, check: bool = True) -> bytes:
        """Run ``triobot nodes`` with these words, and return what it says of errors."""
        command = [sys.executable, "-m", "triobot", "nodes", *words]
        environ = environment(TRIOBOT_STORE=self.store, TRIOBOT_BASE_URL=self._url)
        run = partial(trio.run_process, env=environ, cwd=ROOT, capture_stdout=True, capture_stderr=True)
        return bytes((await run(command, check=check)).stderr)

    def shares(self) -> dict[str, int]:
        """How many shards are at work at each node that lives, by its process's number."""
        found = self._server.ask(
            f"SELECT label, count(shard) FILTER (WHERE works) FROM {SCHEMA}.nodes"
            f" LEFT JOIN {SCHEMA}.owners ON id = owner WHERE door IS NOT NULL AND until > clock_timestamp()"
            " GROUP BY label"
        )
        return {str(label).rpartition(":")[2]: int(str(count)) for label, count in found}

    def owners(self) -> dict[int, int]:
        """The number of the process that has each shard."""
        found = self._server.ask(
            f"SELECT shard, label FROM {SCHEMA}.owners JOIN {SCHEMA}.nodes ON id = owner ORDER BY shard"
        )
        return {int(str(shard)): int(str(label).rpartition(":")[2]) for shard, label in found}

    async def until(self, *shares: int) -> None:
        """Wait until so many nodes live, and have these shares."""
        with trio.fail_after(PATIENCE):
            while sorted(self.shares().values()) != sorted(shares):
                await trio.sleep(0.05)

    async def suffer(self, trouble: Trouble) -> None:
        """Do this to the first node, and wait until all shards are at work again."""
        node, whole, half, before = self.nodes[0], SHARDS, SHARDS // 2, self.build
        others = fair(len(self.nodes) - 1)
        assert node.process is not None
        match trouble:
            case "kill":
                await node.process.kill()
                await self.until(*others)
            case "stop":
                assert await node.process.stop() == 0
                await self.until(*others)
            case "freeze":
                await node.process.freeze()
                await self.until(*others)
                node.process.thaw()
                await self.until(0, *others)
            case "drain":
                await self.ask("drain", str(node.process.popen.pid))
                await self.until(0, *others)
                assert await node.process.stop() == 0
                await self.until(*others)
            case "restart":
                await trio.to_thread.run_sync(self._server.crash)
                await self.until(*fair(len(self.nodes)))
            case "failover":
                await trio.to_thread.run_sync(self.fail_over)
                await self.until(*fair(len(self.nodes)))
            case "unplug" | "away" | "part":
                await self._cut(trouble)
            case "deploy":
                for one in self.nodes:
                    await self.renew(one, before + 1)
                    await self.until_has(one, whole if one is node else half)
            case "back":
                await self.renew(node, before + 1)
                await self.until_has(node, whole)
                assert node.process is not None
                refused = await self.ask("drain", str(node.process.popen.pid), check=False)
                assert b"triobot nodes prefer BUILD" in refused, refused
                await self.ask("prefer", f"build-{before}")
                await self.until_has(self.nodes[1], whole)
                await self.renew(node, before)
                await self.until(half, half)

    def fail_over(self) -> None:
        """Let the server die, and make the primary of its standby once all leases are over."""
        assert self._standby is not None
        self._server.die()
        lives = f"SELECT count(*) FROM {SCHEMA}.nodes WHERE until > clock_timestamp()"
        while self._standby.ask(lives) != [(0,)]:
            time.sleep(0.05)
        self._standby.promote()
        self._server, self._standby = self._standby, None

    async def _cut(self, cut: Literal["unplug", "away", "part"]) -> None:
        assert self._network is not None
        machine, others = self._network.machines[0], fair(len(self.nodes) - 1)
        match cut:
            case "unplug":
                machine.unplug()
                await self.until(*others)
                machine.plug()
                await self.until(0, *others)
            case "away":
                machine.lose_database()
                await self.until(*others)
                machine.find_database()
                await self.until(0, *others)
            case "part":
                self._network.part()
                heard = self.platform.total + 2 * len(self.platform.texts)
                await self.platform.wait_until(lambda: self.platform.total >= heard)
                self._network.join()

    async def until_has(self, node: Node, share: int) -> None:
        """Wait until a node has so many shards, and the others the rest."""
        assert node.process is not None
        pid = str(node.process.popen.pid)
        with trio.fail_after(PATIENCE):
            while (shares := self.shares()).get(pid) != share or sum(shares.values()) != SHARDS:
                await trio.sleep(0.05)

    async def mend(self) -> None:
        """Have all nodes again, with a fair share of the shards each."""
        for node in self.nodes:
            if node.process is None or node.process.popen.poll() is not None:
                await self.start(node)
        await self.until(*fair(len(self.nodes)))

    async def stop(self) -> None:
        """Stop all."""
        for node in self.nodes:
            assert node.process is not None
            assert await node.process.stop() == 0

    def kill(self) -> None:
        """Leave no process behind."""
        for node in self.nodes:
            if node.process is not None:
                node.process.kill_now()
                node.process.popen.wait()


def on_this_machine(
    folder: Path, platform: Platform, server: Server, standby: Server | None = None
) -> Cluster:
    """Two nodes that reach everything by loopback."""
    store = server.url(query=_QUERY)
    if standby is not None:
        hosts = f"127.0.0.1:{server.port},127.0.0.1:{standby.port}"
        store = f"postgresql://{ROLE}@{hosts}/bots?target_session_attrs=read-write&{_QUERY}"
    return Cluster(folder, platform, server, url=platform.url, store=store, standby=standby)


@asynccontextmanager
async def on_machines(folder: Path, platform: Platform, server: Server) -> AsyncGenerator[Cluster]:
    """Three nodes, each on a machine of its own; the database is on none of them."""
    with network_of(3) as network:
        port = int(platform.url.rpartition(":")[2])
        # No token travels in clear to another machine.
        authority, tls = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(network.here).configure_cert(tls)
        authority.cert_pem.write_to_path(folder / "authority.pem")
        async with (
            forwarding(network, network.here, port, tls) as platform_port,
            forwarding(network, network.database, server.port) as server_port,
        ):
            url = f"https://{network.here}:{platform_port}"
            store = server.url(host=network.database, port=server_port, query=_QUERY)
            yield Cluster(folder, platform, server, url=url, store=store, network=network)


async def _listen(
    platform: Platform, *, task_status: trio.TaskStatus[dict[int, float]] = trio.TASK_STATUS_IGNORED
) -> None:
    """Note the longest that each chat has waited for its next text."""
    longest: dict[int, float] = {}
    heard: dict[int, tuple[int, float]] = {}
    task_status.started(longest)
    while True:
        before = platform.total
        await platform.wait_until(lambda before=before: platform.total > before)
        now = trio.current_time()
        for chat, texts in platform.texts.items():
            count, at = heard.get(chat, (0, now))
            if len(texts) > count:
                heard[chat] = len(texts), now
                longest[chat] = max(longest.get(chat, 0.0), now - at)


async def order_from_cluster(
    folder: Path,
    server: Server,
    troubles: Sequence[Trouble],
    *,
    chats: int,
    standby: Server | None = None,
    between: float = 0,
    buying: bool = False,
) -> Lived:
    """Let everybody order once for each trouble, which comes when a third of all texts has been said.

    While builds are put in place, or nodes are apart, everybody orders again and again.

    Args:
        between: how many seconds from an order to the same person's next one.
        buying: each order is paid for.
    """
    oven = folder / "oven"
    pauses: list[tuple[Trouble, float]] = []
    orders = dict.fromkeys(range(1000, 1000 + chats), 0)
    async with open_platform() as platform, AsyncExitStack() as stack:
        if any(trouble in _CUTS for trouble in troubles):
            cluster = await stack.enter_async_context(on_machines(folder, platform, server))
        else:
            cluster = on_this_machine(folder, platform, server, standby)
        if buying:
            cluster.bot, cluster.module = "bot", SHOPPING
            cluster.environ["OVEN"] = str(oven)
        try:
            addresses = [node.address for node in cluster.nodes]
            async with before_nodes(folder, addresses, SECRET, "pizza-nodes.conf", cluster.within) as port:
                users = Users(port, f"/{SECRET}")

                async def order(chat: int, over: trio.Event) -> None:
                    while True:
                        await (Buyer if buying else Customer)(platform, users, chat).order(orders[chat])
                        orders[chat] += 1
                        if over.is_set():
                            return
                        await trio.sleep(between)

                for trouble in troubles:
                    await cluster.mend()
                    begun, over = platform.total, trio.Event()
                    if trouble not in _LONG:
                        over.set()
                    async with trio.open_nursery() as listening:
                        longest = await listening.start(_listen, platform)
                        async with trio.open_nursery() as nursery:
                            for chat in orders:
                                nursery.start_soon(order, chat, over)
                            moment = begun + chats
                            await platform.wait_until(lambda moment=moment: platform.total >= moment)
                            await cluster.suffer(trouble)
                            over.set()
                        listening.cancel_scope.cancel()
                    pauses.append((trouble, max(longest.values())))
                await cluster.mend()
            await cluster.stop()
        finally:
            cluster.kill()
    output = "".join(node.log.read_text() for node in cluster.nodes)

    if buying:
        check_chat = partial(check_bought, platform, keys_in(oven))
    else:
        check_chat = partial(_check_ordered, platform)
    return Lived(dict(platform.texts), output, orders, pauses, check_chat)


def _check_ordered(platform: Platform, chat: int, orders: int) -> None:
    check_heard(platform.texts[chat], chat, orders)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("chats", type=int, help="how many people order")
    parser.add_argument("words", nargs="+", choices=[*get_args(Trouble), "buying"], metavar="word")
    given = parser.parse_args()
    chats, buying = given.chats, "buying" in given.words
    troubles: list[Trouble] = [word for word in given.words if word != "buying"]
    if (reason := why_not()) is not None:
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        standby: Server | None = None
        if "failover" in troubles:
            server, standby = stack.enter_context(run_pair(synchronous=True))
        else:
            server = stack.enter_context(run_server())
        order = partial(order_from_cluster, chats=chats, standby=standby, buying=buying)
        lived = trio.run(order, Path(folder), server, troubles)
    lived.check(chats)
    print(f"{sum(lived.orders.values())} conversations: all ended well, {lived.repeats} texts twice")
    for trouble, seconds in lived.pauses:
        print(f"{trouble:8} no chat waited longer than {seconds:.1f} s for its next text")


if __name__ == "__main__":
    main()
