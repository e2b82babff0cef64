"""The nodes that share a store in PostgreSQL: rows of the schema that its shards have in common.

A node has one session for all of this, besides the one over which its lease is renewed. It is asked in worker
threads, one question at a time, and made anew when it is lost. Whoever changes something rings the channel of
the nodes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Final, TypeVar, final

import psycopg
import trio

from ...clock import steady_time
from ...errors import ConfigError, StoreAwayError
from ...seams import WallClock
from ...shards import Share, home_of
from ...version import __version__
from ..members import NodeRow, OwnerRow, Roster
from ..rules import Retention
from ..schema import Stamp, check_stamp, stored_stamp
from ..table_store import Store
from . import open_postgres
from .address import PostgresAddress, read_address
from .failures import first_line
from .lease import END, LASTS, NodeLease
from .relay import nodes_channel
from .schemas import complete_common, node_key
from .session import Connection, Session, connect, named
from .shard import label, new_node, own_name
from .threads import ask

R = TypeVar("R")
_PAUSE: Final = 0.1
_SOME_BUILDS: Final = 10
_LIVES: Final = b"door IS NOT NULL AND until > clock_timestamp()"
_THERE: Final = b"SELECT to_regclass('owners') IS NOT NULL"
_ALONE: Final = b"SELECT NOT EXISTS (SELECT 1 FROM nodes WHERE " + _LIVES + b")"
_LOCK: Final = b"SELECT pg_try_advisory_lock($1)"
_UNLOCK: Final = b"SELECT pg_advisory_unlock($1)"
_JOIN: Final = (
    b"INSERT INTO nodes (id, name, until, label, door, version, build, since) VALUES ($1, $2, "
    + LASTS
    + b", $3, $4, $5, $6, clock_timestamp())"
)
_SEE_BUILD: Final = (
    b"INSERT INTO builds SELECT $1, coalesce(max(number), 0) + 1 FROM builds ON CONFLICT (name) DO NOTHING"
)
# Of those that died long ago, and that nobody had to take a shard from.
_SWEEP: Final = b"DELETE FROM nodes WHERE until < clock_timestamp() - interval '1 minute'"
_RING: Final = b"SELECT pg_notify($1, '')"
_NODES: Final = (
    b"SELECT id, label, door, version, extract(epoch FROM clock_timestamp() - since)::float8, drained,"
    b" coalesce(build, ''), coalesce(number, 0), failing, clock_off"
    b" FROM nodes LEFT JOIN builds ON builds.name = build WHERE " + _LIVES + b" ORDER BY since, id"
)
# Of a dead owner's shard it counts since when it is free.
_OWNERS: Final = (
    b"SELECT shard, CASE WHEN nodes.until > clock_timestamp() THEN owner END, coalesce(owners.name, ''),"
    b" extract(epoch FROM clock_timestamp() - CASE WHEN nodes.until <= clock_timestamp() THEN nodes.until"
    b" ELSE owners.since END)::float8, works"
    b" FROM owners LEFT JOIN nodes ON nodes.id = owners.owner ORDER BY shard"
)
_WORKS: Final = b"UPDATE owners SET works = true WHERE shard = $1 AND owner = $2"
_LET_GO: Final = b"UPDATE owners SET owner = NULL, since = clock_timestamp() WHERE shard = $1 AND owner = $2"
_NOW: Final = b"SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8"
_CLOCK: Final = b"UPDATE nodes SET clock_off = $2 WHERE id = $1"
_FAILING: Final = b"UPDATE nodes SET failing = $2 WHERE id = $1"
_BUILDS: Final = b"SELECT name FROM builds ORDER BY number DESC"
_PREFER: Final = b"UPDATE builds SET number = (SELECT max(number) + 1 FROM builds) WHERE name = $1"
_DRAIN: Final = b"UPDATE nodes SET drained = true WHERE id = $1"
_HOST: Final = b"SELECT host(inet_client_addr())"
_LOOPBACK: Final = "127.0.0.1"


@final
class PostgresMembership:
    """`triobot.store.members.Membership` in PostgreSQL."""

    def __init__(self, place: str, shards: int) -> None:
        self._place = place
        self._shards = shards
        self._address = read_address(place)
        self._connection: Connection | None = None
        self._turn = trio.Lock()
        self._lease: NodeLease | None = None
        # Something changed while the session was asked something else.
        self._rung = False

    @property
    def id(self) -> int:
        """Return its number."""
        return self._held_lease.node

    @property
    def _held_lease(self) -> NodeLease:
        assert self._lease is not None
        return self._lease

    def held(self) -> float:
        """Return for how many seconds more its lease is certain; 0 if it isn't."""
        return 0.0 if self._lease is None else self._lease.belief.held()

    @property
    def lost(self) -> bool:
        """Return whether others may have taken all that it had."""
        return self._held_lease.belief.lost

    async def host(self) -> str:
        """Return the address of this machine, as the database sees it."""
        ((host,),) = await self._ask(_HOST)
        return str(host or _LOOPBACK)

    async def now(self) -> int:
        """Return the server's time of day."""
        ((now,),) = await self._ask(_NOW)
        return int(str(now))

    async def common(self, stamp: Stamp, names: Sequence[str]) -> Mapping[str, str]:
        """Read the settings of the whole bot that are kept in its home shard."""
        home = read_address(self._place, Share(home_of(self._shards), self._shards))

        def read() -> Mapping[str, str]:
            with connect(home) as connection:
                session = Session(connection)
                check_stamp(stored_stamp(session, named(home)), stamp)
                found = session.run(b"SELECT name, value FROM settings WHERE name = ANY($1)", (list(names),))
                return {str(name): str(value) for name, value in found}

        try:
            return await ask(read)
        except psycopg.Error as error:
            raise self._away(error) from None

    async def join(
        self, door: str, build: str | None, prepare: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Be a node from now on."""
        key = node_key(self._address)
        while not (await self._ask(_LOCK, (key,)))[0][0]:  # noqa: ASYNC110 - a server gives no event
            await trio.sleep(_PAUSE)
        try:
            if prepare is not None and await self._is_alone():
                await prepare()
            await self._do(complete_common)
            await self._check_shards()
            self._lease = await self._do(partial(_join, self._address, door, build))
        finally:
            with trio.move_on_after(1, shield=True), suppress(StoreAwayError):
                await self._ask(_UNLOCK, (key,))

    async def _is_alone(self) -> bool:
        return not (await self._ask(_THERE))[0][0] or bool((await self._ask(_ALONE))[0][0])

    async def _check_shards(self) -> None:
        ((shards,),) = await self._ask(b"SELECT count(*) FROM owners")
        if shards != self._shards:
            raise ConfigError(
                f"the store {named(self._address)} is in {shards} shards, and the address says"
                f" {self._shards}: the number of shards is fixed when a store is made"
            )

    async def leave(self) -> None:
        """Be none any more, and tell the others."""
        if self._lease is None:
            return
        self._lease.end()
        if not self.held():
            await trio.lowlevel.checkpoint()
            return  # it is over, and the server may stand still
        await self._ask(END, (self._lease.node,))
        await self._ring()

    async def look(self) -> Roster:
        """Return who is there, and who has what."""
        return await self._do(members_of)

    async def wait(self, seconds: float) -> None:
        """Wait until somebody has said that something changed, or so long."""
        connection = self._connection
        if self._rung:
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(seconds), suppress(trio.ClosedResourceError):
            if connection is None or connection.closed:
                await trio.sleep_forever()
            else:
                await trio.lowlevel.wait_readable(connection.fileno())

    async def say_works(self, shard: int) -> None:
        """Say that a shard's events are handled by this node now."""
        await self._ask(_WORKS, (shard, self.id))
        await self._ring()

    async def say_failing(self, failing: bool) -> None:
        """Say whether a shard's work has failed at this node."""
        await self._ask(_FAILING, (self.id, failing))
        await self._ring()

    async def say_drained(self) -> None:
        """Say that this node is to have no shards, for as long as it is one."""
        await self._ask(_DRAIN, (self.id,))
        await self._ring()

    async def say_clock(self, off: int) -> None:
        """Say by how much this machine's clock differs."""
        await self._ask(_CLOCK, (self.id, off))
        await self._ring()

    async def let_go(self, shard: int) -> None:
        """Let others have a shard that this node has by its row alone, and not open."""
        schema, owner = read_address(self._place, Share(shard, self._shards)).schema, self.id

        def release(connection: Connection) -> None:
            with connection.transaction():
                connection.execute(
                    f'UPDATE "{schema}".shard SET owner = NULL WHERE owner = $1'.encode(), (owner,)
                )
                connection.execute(_LET_GO, (shard, owner))

        await self._do(release)
        await self._ring()

    def open_store(
        self, url: str, *, stamp: Stamp, clock: WallClock, retention: Retention
    ) -> AbstractAsyncContextManager[Store]:
        """Open a shard under this node's lease."""
        from ...shards import read_shards

        share = read_shards(url).share
        return open_postgres(
            self._place, stamp=stamp, clock=clock, retention=retention, share=share, lease=self._held_lease
        )

    async def _ring(self) -> None:
        await self._ask(_RING, (nodes_channel(self._address.schema),))

    async def _ask(
        self, statement: bytes, values: Sequence[object] | None = None
    ) -> Sequence[tuple[object, ...]]:
        def ask(connection: Connection) -> Sequence[tuple[object, ...]]:
            found = connection.execute(statement, values)
            return found.fetchall() if found.description else []

        return await self._do(ask)

    async def _do(self, work: Callable[[Connection], R]) -> R:
        """Have this done over the session; make one if there is none.

        Raises:
            StoreAwayError: it could not be done.
        """

        def run() -> R:
            if self._connection is None or self._connection.closed:
                self._connection = self._connected()
            connection = self._connection
            self._rung = False
            list(connection.notifies(timeout=0))
            done = work(connection)
            self._rung = bool(list(connection.notifies(timeout=0)))
            return done

        async with self._turn:
            try:
                return await ask(run, self._connection)
            except psycopg.Error as error:
                self.close()
                raise self._away(error) from None

    def _connected(self) -> Connection:
        try:
            return _listening(self._address)
        except ConfigError as error:
            if self._lease is None:
                raise
            # It was good enough when this node joined, and others see to it that it is again.
            raise StoreAwayError(str(error)) from None

    def close(self) -> None:
        """End the session, and renew the lease no more if it has not ended."""
        if self._connection is not None:
            if not self._connection.closed:
                trio.lowlevel.notify_closing(self._connection.fileno())
            self._connection.close()
            self._connection = None

    def end_lease(self) -> None:
        """Renew the lease no more."""
        if self._lease is not None:
            self._lease.end()

    def _away(self, error: psycopg.Error) -> StoreAwayError:
        return StoreAwayError(f"the store {named(self._address)} is away: {first_line(error)}")


@asynccontextmanager
async def open_postgres_membership(place: str, shards: int) -> AsyncGenerator[PostgresMembership, None]:
    """Yield what makes this process a node of the store at this address.

    Raises: as `triobot.store.members.open_membership`.
    """
    membership = PostgresMembership(place, shards)
    try:
        yield membership
    finally:
        membership.end_lease()
        membership.close()


async def read_postgres_members(place: str) -> Roster:
    """Return who is there, and who has what.

    Raises: as `triobot.store.members.read_members`.
    """
    return await _once(read_address(place), members_of)


async def drain_postgres_member(place: str, name: str) -> None:
    """Have a node give up its shards.

    Raises: as `triobot.store.members.drain_member`.
    """
    address = read_address(place)

    def drain(connection: Connection) -> None:
        nodes = members_of(connection).nodes
        newest = max((node.build_number for node in nodes), default=0)
        meant = [node for node in nodes if name in (node.name, node.name.rpartition(":")[2], node.door)]
        called = ", ".join(node.name for node in nodes) or "none runs"
        if not meant:
            raise ConfigError(f"no node is called {name}; there are: {called}")
        if len(meant) > 1:
            # Containers with the name of their machine are all alike, and in each it is process 1.
            doors = ", ".join(f"{node.door} ({node.name})" for node in meant)
            raise ConfigError(f"several nodes are called {name}; name one of them by its door: {doors}")
        if not [node for node in nodes if node is not meant[0] and not node.drained]:
            raise ConfigError(f"no other node could take the shards of {meant[0].name}; start one first")
        others = [node for node in nodes if node.build_number == newest and not node.drained]
        if others == meant:
            raise ConfigError(
                f"no other node of the build {meant[0].build} could take the shards of {meant[0].name};"
                " start one first, or go back to another build on purpose: triobot nodes prefer BUILD"
            )
        connection.execute(_DRAIN, (meant[0].id,))
        connection.execute(_RING, (nodes_channel(address.schema),))

    await _once(address, drain)


async def prefer_postgres_build(place: str, name: str) -> None:
    """Have the shards go to a build that some node runs.

    Raises: as `triobot.store.members.prefer_build`.
    """
    address = read_address(place)

    def prefer(connection: Connection) -> None:
        with connection.transaction():
            # As whoever joins, which may number a build, too.
            connection.execute(b"SELECT pg_advisory_xact_lock($1)", (node_key(address),))
            known = [str(build) for (build,) in connection.execute(_BUILDS)]
            if name not in known:
                called = ", ".join(known[:_SOME_BUILDS]) or "none yet"
                raise ConfigError(
                    f"no node has ever run a build {name}; there were, the last first: {called}"
                )
            rows = connection.execute(_NODES).fetchall()
            nodes = [NodeRow(*row) for row in rows]
            if not any(node.build == name and not node.drained for node in nodes):
                running = ", ".join(sorted({node.build for node in nodes})) or "none"
                raise ConfigError(
                    f"no node runs the build {name} that could take shards; start one first. The builds that"
                    f" run: {running}"
                )
            if name != known[0]:
                connection.execute(_PREFER, (name,))
        connection.execute(_RING, (nodes_channel(address.schema),))

    await _once(address, prefer)


async def _once(address: PostgresAddress, work: Callable[[Connection], R]) -> R:
    """Do this over a session of its own.

    Raises:
        ConfigError: there is no store in shards.
    """

    def run() -> R:
        with connect(address) as connection:
            if not (connection.execute(_THERE).fetchone() or (False,))[0]:
                raise ConfigError(f"there is no store in shards at {named(address)}")
            return work(connection)

    try:
        return await ask(run)
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigError(f"this role may not look at {named(address)}: {first_line(error)}") from None
    except psycopg.Error as error:
        raise StoreAwayError(f"the store {named(address)} is away: {first_line(error)}") from None


def members_of(connection: Connection) -> Roster:
    """Return who is there, and who has what, at one moment of the server's."""
    with connection.transaction():
        connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        nodes = connection.execute(_NODES).fetchall()
        owners = connection.execute(_OWNERS).fetchall()
        ((now,),) = connection.execute(_NOW).fetchall()
    return Roster([NodeRow(*row) for row in nodes], [OwnerRow(*row) for row in owners], now)


def _join(address: PostgresAddress, door: str, build: str | None, connection: Connection) -> NodeLease:
    node, asked = new_node(), steady_time()
    connection.execute(_SWEEP)
    build = build or f"triobot-{__version__}"
    connection.execute(_SEE_BUILD, (build,))
    connection.execute(_JOIN, (node, own_name(), label(), door, __version__, build))
    connection.execute(_RING, (nodes_channel(address.schema),))
    return NodeLease(address, node, asked)


def _listening(address: PostgresAddress) -> Connection:
    connection = connect(address)
    try:
        connection.execute(f'LISTEN "{nodes_channel(address.schema)}"'.encode())
    except BaseException:
        connection.close()
        raise
    return connection
