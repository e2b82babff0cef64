"""Who is there and who has which shard, as this node has seen it last; and the ways to the others.

The database is looked at twice a second, when somebody says that something has changed, and when another node
says that it doesn't have a shard that it should.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, final
from urllib.parse import urlsplit

import trio

from ..errors import ConfigError, StoreAwayError
from ..store.members import Membership, NodeRow, Roster
from .clocks import ServerClock
from .peers import Peer, Peers, keep_alive
from .placement import Candidate, Placement, ShardStanding
from .tls import DoorTls

_log: Final = logging.getLogger("triobot.nodes")
LOOK_SECONDS: Final = 0.5
_LEAST_SECONDS: Final = 0.05
_CONNECT_SECONDS: Final = 2.0
# Longer than a lease: a node that has died is forgotten by then.
_TOLD_SECONDS: Final = 5.0


async def connect_tcp(door: str) -> trio.SocketStream:
    """Connect to a door at HOST:PORT."""
    host, port = read_door(door)
    with trio.fail_after(_CONNECT_SECONDS):
        stream = await trio.open_tcp_stream(host, port)
    keep_alive(stream)
    return stream


@final
class Directory:
    """What this node knows of the others.

    Args:
        key: what the nodes prove to one another.
        clock: hears from each look how late it is at the server.
        tls: encrypts what goes to the others' doors; None: nothing does.
        connect: connects to the door at an address.

    Attributes:
        nodes: those that live; empty before the first look.
        placement: who has what; None before the first look.
        peers: the ways to the other nodes.
        away: the database could not be looked at, and what is known is old.
    """

    def __init__(
        self,
        membership: Membership,
        key: bytes,
        clock: ServerClock | None = None,
        tls: DoorTls | None = None,
        connect: Callable[[str], Awaitable[trio.abc.Stream]] = connect_tcp,
    ) -> None:
        self._tls = tls
        self._connect = connect
        self._membership = membership
        self._clock = clock
        self._key = key
        self._owners: dict[int, int] = {}
        self._waiting: trio.CancelScope | None = None
        self._news = trio.Event()
        self._links: dict[int, tuple[str, trio.CancelScope]] = {}
        self._begun = self._ended = 0
        self.away = False
        self.placement: Placement | None = None
        self.nodes: Sequence[NodeRow] = ()
        self.peers = Peers(self._owners.get, self.look_soon)

    @property
    def alone(self) -> bool:
        """Return whether no other node is known."""
        return not self.peers.all

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look again and again, and keep connected, until cancelled."""
        async with trio.open_nursery() as links:
            while True:
                await self._look(links)
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                with trio.CancelScope() as self._waiting:
                    await self._membership.wait(LOOK_SECONDS)
                await trio.sleep(_LEAST_SECONDS)

    def look_soon(self) -> None:
        """Look at the database soon; never waits."""
        if self._waiting is not None:
            self._waiting.cancel()

    async def wait_news(self) -> None:
        """Wait until the database has been looked at once more."""
        await self._news.wait()

    async def look_again(self) -> None:
        """Wait until a look that begins from now on has ended, which sees what this node has done by now."""
        begun = self._begun
        self.look_soon()
        while self._ended <= begun:
            await self._news.wait()

    async def _look(self, links: trio.Nursery) -> None:
        self._begun += 1
        asked = 0 if self._clock is None else self._clock.steady()
        try:
            roster = await self._membership.look()
        except StoreAwayError as error:
            if not self.away:
                _log.warning("the nodes can't be looked at: %s", error)
            self.away = True
        else:
            self.away = False
            if self._clock is not None and roster.now is not None:
                self._clock.heard(asked, roster.now, self._clock.steady())
            self._take(roster, links)
        self._ended = self._begun
        news, self._news = self._news, trio.Event()
        news.set()

    def _take(self, roster: Roster, links: trio.Nursery) -> None:
        self.nodes = roster.nodes
        self.placement = Placement(
            [
                Candidate(
                    node.id,
                    node.seconds,
                    node.drained,
                    node.build_number,
                    failing=node.failing,
                    aside=node.clock_off != 0,
                )
                for node in roster.nodes
            ],
            [ShardStanding(one.shard, one.owner, one.seconds, one.works) for one in roster.owners],
        )
        self._owners.clear()
        self._owners.update((one.shard, one.owner) for one in roster.owners if one.owner is not None)
        doors = {node.id: node.door for node in roster.nodes if node.id != self._membership.id}
        for node in self._links.keys() - doors.keys():
            # What was asked there is asked anew, of whoever has the shard then.
            self._links.pop(node)[1].cancel()
            del self.peers.all[node]
        for node, door in doors.items():
            if node not in self._links:
                peer = Peer(door, partial(self._reach, door), self._key, told_after=_TOLD_SECONDS)
                self.peers.all[node] = peer
                scope = trio.CancelScope()
                self._links[node] = door, scope
                links.start_soon(_keep_connected, peer, scope)

    async def _reach(self, door: str) -> trio.abc.Stream:
        stream = await self._connect(door)
        return stream if self._tls is None else await self._tls.secure(stream, first=True)


async def _keep_connected(peer: Peer, scope: trio.CancelScope) -> None:
    with scope:
        await peer.keep_connected()


def read_door(door: str) -> tuple[str, int]:
    """Read HOST:PORT; an IPv6 address stands in brackets.

    Raises:
        ConfigError: it is none.
    """
    host, port = None, None
    with suppress(ValueError):
        parts = urlsplit(f"//{door}")
        if not parts.path and parts.username is None:
            host, port = parts.hostname, parts.port
    if host is None or port is None:
        raise ConfigError(
            "the door is where the other nodes reach this one, HOST:PORT, such as 10.0.0.11:7300, and port 0"
            " for a free one"
        )
    if host in ("0.0.0.0", "::"):
        raise ConfigError("the door is one address of this machine, by which the other nodes reach it")
    return host, port


def written_door(host: str, port: int) -> str:
    """Write HOST:PORT."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
