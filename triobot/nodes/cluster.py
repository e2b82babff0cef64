"""A node of several that share a store in PostgreSQL: it joins them, opens its door, and keeps its share.

The others reach it over TCP. Both sides of a connection prove the store's key. Without certificates what goes
over it is not encrypted, and the network must be private.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, final

import attrs
import trio

from ..errors import ConfigError, StoreAwayError
from ..logs import KEY, Speaker, registered, speaking
from ..runtime import covered
from ..seams import OnAlarm, WallClock
from ..settings import Settings
from ..shards import read_shards
from ..store import Stamp, open_membership
from ..store.belief import SECONDS as LEASE_SECONDS
from ..store.members import Membership
from ..webhook.kept_secrets import FORMER_SECRET, SECRET, forget_former
from ..webhook.secrets import Secrets, read_kept
from .clocks import ServerClock
from .directory import Directory, connect_tcp, read_door, written_door
from .doors import Doors
from .keeper import Keeper
from .node import DOOR_KEY, Node, prepare_shards
from .owners import Owner
from .peers import PeerDoor
from .tls import DoorTls, read_door_tls

HELD_SECONDS: Final = LEASE_SECONDS + 2.0
"""How long an event waits for the owner of its shard: a lease, and what a start takes behind it."""
_LEAVE_SECONDS: Final = 2.0


@final
@attrs.frozen
class NodeDoor:
    """Where this node listens to the others, and how it gets to theirs.

    Attributes:
        address: what the others are told.
        listeners: of it; closed by whoever is handed them.
        connect: connects to the door at an address.
    """

    address: str
    listeners: Sequence[trio.abc.Listener[trio.abc.Stream]]
    connect: Callable[[str], Awaitable[trio.abc.Stream]] = connect_tcp


@asynccontextmanager
async def open_cluster(
    settings: Settings, machine: WallClock, on_alarm: OnAlarm | None = None
) -> AsyncGenerator[Node]:
    """Be one of the nodes of a store in shards while the block runs, and accept events for all of them.

    Shards come as soon as there is work for them to do: see `open_kept_work`.

    Args:
        machine: this machine's clock; the shards go by the server's.

    Raises:
        ConfigError: the store is another bot's, or can't be used; or nobody can listen at the door.
        StoreError: the store can't be reached, or a shard of it can't be opened.
    """
    address = read_shards(settings.store)
    if address.shard is not None or address.shards is None:
        raise ConfigError("a bot runs on all shards of its store: leave &shard= out of the store's address")
    tls = read_door_tls(settings)
    async with open_membership(settings.store) as membership:
        door = await _listen(settings, membership)
        async with open_member(settings, machine, membership, door, on_alarm, tls=tls) as node:
            yield node


@asynccontextmanager
async def open_member(
    settings: Settings,
    machine: WallClock,
    membership: Membership,
    door: NodeDoor,
    on_alarm: OnAlarm | None = None,
    *,
    tls: DoorTls | None = None,
) -> AsyncGenerator[Node]:
    """Be one of the nodes, as the database knows them, behind a door that is open; see `open_cluster`."""
    try:
        shards = len(read_shards(settings.store).each)
        stamp = Stamp(settings.base_url, settings.checked_token.reveal())
        clock = ServerClock(machine)
        asked = clock.steady()
        clock.heard(asked, await membership.now(), clock.steady())
        await membership.join(door.address, settings.build, partial(prepare_shards, settings, clock))
        common = await membership.common(stamp, (SECRET, FORMER_SECRET, KEY, DOOR_KEY))
        key = _key_in(common)
        secrets, untils = _secrets_in(settings, common, clock.now())
        voice = Speaker(settings.label, common.get(KEY, ""), partial(covered, settings, secrets))
        directory, owners = Directory(membership, key, clock, tls, door.connect), dict[int, Owner]()
        doors = Doors(shards, owners, directory.peers)
        node = Node(settings, doors, owners, voice, secrets, directory.peers)
        node.inbox.hold_seconds = node.inbox.late_after = HELD_SECONDS
        node.inbox.certain = membership.held
        keeper = node.keeper = Keeper(node, membership, directory, settings, clock, on_alarm, door.address)
        keeper.clock_off = lambda: clock.differs
        with registered(voice):
            async with trio.open_nursery() as nursery:
                with speaking(voice):
                    if untils:
                        nursery.start_soon(forget_former, secrets, untils, clock)
                    await nursery.start(directory.run)
                    await nursery.start(PeerDoor(node.inbox, owners, key, tls).answer, door.listeners)
                yield node
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            for listener in door.listeners:
                await listener.aclose()
        with trio.move_on_after(_LEAVE_SECONDS, shield=True), suppress(StoreAwayError):
            await membership.leave()


def _secrets_in(settings: Settings, common: Mapping[str, str], now: int) -> tuple[Secrets, Sequence[int]]:
    if settings.webhook_secret is not None:
        return Secrets.parse(settings.webhook_secret.reveal()), ()
    return read_kept(common.get(SECRET, ""), common.get(FORMER_SECRET, ""), now)


def _key_in(common: Mapping[str, str]) -> bytes:
    try:
        key = bytes.fromhex(common[DOOR_KEY])
    except (KeyError, ValueError):
        key = b""
    if not key:
        raise ConfigError("the store's home shard has no key for the nodes' doors; bring that shard back")
    return key


async def _listen(settings: Settings, membership: Membership) -> NodeDoor:
    """Listen at this node's door, where the others find it.

    Raises:
        ConfigError: nobody can listen there.
    """
    if settings.door is not None:
        host, port = read_door(settings.door)
    else:
        host, port = await membership.host(), 0
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise ConfigError(
            f"the other nodes can't reach this one at {written_door(host, port)}: {error.strerror or error};"
            f" name an address of this machine in their network, --door HOST:PORT or {settings.env}DOOR"
        ) from None
    bound: int = listeners[0].socket.getsockname()[1]
    return NodeDoor(written_door(host, bound), listeners)
