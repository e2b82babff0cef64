"""Two processes of one bot on one PostgreSQL, behind nginx, while people order from it.

``python -m tests.processes.nodes 50 kill freeze stop restart cut`` tells how long each trouble was felt.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, final, get_args

import attrs
import trio

from tests.loopback import PATIENCE, Platform, Users, free_port, open_platform
from tests.postgres import Server, run_server, why_not
from tests.processes.ordering import Customer, check_heard
from tests.processes.process import SECRET, BotProcess, get, start_node
from tests.processes.proxy import before_nodes

Trouble: TypeAlias = Literal["kill", "freeze", "stop", "restart"]
"""What happens to the node that works: SIGKILL, SIGSTOP past its lease and SIGCONT, SIGTERM; or to the
server: all its sessions crash."""

_TEXTS = 4
_REST = 5.0
READY, STANDBY = b"\r\n\r\nready\n", b"\r\n\r\nstandby\n"


@final
@attrs.define
class Node:
    """A place for a process of the bot: its port and its log."""

    port: int
    log: Path
    process: BotProcess | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    async def says(self, ready: bytes) -> bool:
        """Whether ``/readyz`` is answered so, now."""
        with suppress(OSError, trio.BrokenResourceError), trio.move_on_after(1):
            return ready in await get(self.port, "/readyz")
        return False


@attrs.frozen
class Lived:
    """What happened.

    Attributes:
        texts: what reached each chat, in order, as often as it did.
        output: what the nodes wrote.
        pauses: how many seconds no chat heard anything, behind each trouble.
    """

    texts: Mapping[int, Sequence[str]]
    output: str
    pauses: Sequence[tuple[Trouble, float]]

    @property
    def repeats(self) -> int:
        """Texts that came once more."""
        return sum(len(texts) - len(set(texts)) for texts in self.texts.values())

    def check(self, chats: int, orders: int) -> None:
        """Every conversation ended as it should, in its order; what came twice may not have come."""
        assert len(self.texts) == chats
        for chat, texts in self.texts.items():
            check_heard(texts, chat, orders)
        assert self.repeats <= chats * len(self.pauses)
        # What a death, a lost lease, and an event that comes while the server is away are told by.
        told = (
            *("ALARM crash_loop: ", "ALARM store_unwritable: ", "alarms can't be stored: StoreAwayError"),
            *("every chat has waited", "was taken over by another process"),
        )
        errors = [line for line in self.output.splitlines() if " ERROR " in line]
        assert (odd := [line for line in errors if not any(words in line for words in told)]) == [], odd


@final
class Pair:
    """Two nodes, of which one works and the other one stands by."""

    def __init__(self, folder: Path, platform: Platform, server: Server, store: str) -> None:
        self.nodes = [Node(free_port(), folder / f"log{number}") for number in (0, 1)]
        self._platform = platform
        self._server = server
        self._store = store

    async def start(self, node: Node, ready: bytes) -> None:
        """Start a process there, and wait until it says that it works, or stands by."""
        node.process = await start_node(
            "orders",
            port=node.port,
            platform=self._platform.url,
            store=self._store,
            log=node.log,
            ready=ready,
        )

    async def find(self, ready: bytes) -> Node:
        """Wait for a node that says this."""
        with trio.fail_after(PATIENCE):
            while True:
                for node in self.nodes:
                    if await node.says(ready):
                        return node
                await trio.sleep(0.05)

    async def suffer(self, trouble: Trouble) -> None:
        """Do this to the node that works, and wait until there are two again, one of which works."""
        node = await self.find(READY)
        (other,) = [one for one in self.nodes if one is not node]
        assert node.process is not None
        match trouble:
            case "kill" | "stop":
                if trouble == "kill":
                    await node.process.kill()
                else:
                    assert await node.process.stop() == 0
                # On a busy machine a new process may be quicker than the standby, and take over itself.
                await _until(partial(other.says, READY))
                await self.start(node, STANDBY)
            case "freeze":
                await node.process.freeze()
                await _until(partial(other.says, READY))
                node.process.thaw()
                await _until(partial(node.says, STANDBY))
            case "restart":
                await trio.to_thread.run_sync(self._server.crash)
        await self.find(READY)
        await self.find(STANDBY)

    async def stop(self) -> None:
        """Stop both, the one that waits first."""
        for ready in (STANDBY, READY):
            node = await self.find(ready)
            assert node.process is not None
            assert await node.process.stop() == 0

    def kill(self) -> None:
        """Leave no process behind."""
        for node in self.nodes:
            if node.process is not None:
                node.process.kill_now()
                node.process.popen.wait()


async def _until(says: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE):
        while not await says():  # type: ignore[misc]
            await trio.sleep(0.05)


async def _listen(
    platform: Platform, *, task_status: trio.TaskStatus[list[float]] = trio.TASK_STATUS_IGNORED
) -> None:
    """Note for how long nobody heard anything, each time."""
    silences: list[float] = []
    task_status.started(silences)
    while True:
        before, began = platform.total, trio.current_time()
        await platform.wait_until(lambda before=before: platform.total > before)
        silences.append(trio.current_time() - began)


async def order_from_two(
    folder: Path,
    server: Server,
    store: str,
    troubles: Sequence[Trouble],
    *,
    chats: int,
    orders: int,
    seed: int = 1,
) -> Lived:
    """Let everybody order, with troubles at moments that only the seed knows, counted in texts."""
    chance, pauses = random.Random(seed), list[tuple[Trouble, float]]()
    moments = sorted(chance.randrange(1, chats * orders * (_TEXTS - 1)) for _ in troubles)
    async with open_platform() as platform:
        pair = Pair(folder, platform, server, store)
        try:
            await pair.start(pair.nodes[0], READY)
            await pair.start(pair.nodes[1], STANDBY)
            async with before_nodes(folder, [node.address for node in pair.nodes], SECRET) as port:
                users = Users(port, f"/{SECRET}")

                async def live(chat: int) -> None:
                    for number in range(orders):
                        await Customer(platform, users, chat).order(number)

                async with trio.open_nursery() as listening:
                    silences = await listening.start(_listen, platform)
                    async with trio.open_nursery() as nursery:
                        for chat in range(1000, 1000 + chats):
                            nursery.start_soon(live, chat)
                        for moment, trouble in zip(moments, troubles, strict=True):
                            await platform.wait_until(lambda moment=moment: platform.total >= moment)
                            silences.clear()
                            await pair.suffer(trouble)
                            before = platform.total
                            with trio.move_on_after(_REST):  # maybe everybody has heard everything
                                await platform.wait_until(lambda before=before: platform.total > before)
                            pauses.append((trouble, max(silences, default=0.0)))
                    listening.cancel_scope.cancel()
            await pair.stop()
        finally:
            pair.kill()
    output = "".join(node.log.read_text() for node in pair.nodes)
    return Lived(dict(platform.texts), output, pauses)


def main() -> None:
    chats = int(sys.argv[1])
    troubles: list[Trouble] = [word for word in get_args(Trouble) for said in sys.argv[2:] if word == said]
    if (reason := why_not()) is not None:
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as folder, run_server() as server:
        orders = max(2, len(troubles))
        lived = trio.run(
            partial(order_from_two, chats=chats, orders=orders),
            Path(folder), server, server.url(query="schema=bot"), troubles,
        )  # fmt: skip
    lived.check(chats, orders)
    print(f"{chats} chats, {chats * orders} conversations: all ended well, {lived.repeats} texts twice")
    for trouble, seconds in lived.pauses:
        print(f"{trouble:8} no chat heard anything for {seconds:.1f} s")


if __name__ == "__main__":
    main()
