"""A shard: a schema that holds a whole store, and the session that has it.

The order matters: the server is looked at before anything is asked of it; the lock comes before anything is
read; the schema is known to be ours before anything is written. The lock belongs to the session, so the
server gives it back when the process ends, however that ends. The fence is what keeps a process from writing
that lost its session and does not know that another one has opened the store since.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from contextlib import suppress
from functools import partial
from typing import Final, final

import attrs
import psycopg
from psycopg import errors

from ...errors import ConfigError, StoreCorruptError, StoreError, StoreLockedError
from ...journals import Lease, Opening
from ...seams import LeaseLostError
from ..broadcasts import stop_after_restore
from ..lock import machine_boot
from ..notes import MemoryNotes
from ..opening import LEAP, begin_epoch, count_run
from ..rules import Retention
from ..schema import (
    MIGRATIONS,
    Migration,
    Stamp,
    check_stamp,
    due_migrations,
    get_meta,
    put_meta,
    put_stamp,
    put_version,
    stored_stamp,
    stored_version,
)
from .address import PostgresAddress
from .dialect import translated_schema
from .failures import for_the_opener
from .rows import ShardTables
from .session import Connection, Session, connect, named, risk_of
from .transactions import ShardTransactions

_log: Final = logging.getLogger("triobot.store")

_MADE: Final = (
    b'CREATE TABLE meta (name text COLLATE "C" PRIMARY KEY, value text COLLATE "C" NOT NULL)',
    # One row: who may write here, how many transactions were committed, and the last number of an event.
    b"""CREATE TABLE shard (
        id bigint PRIMARY KEY CHECK (id = 0),
        fence bigint NOT NULL,
        commits bigint NOT NULL,
        last_seq bigint NOT NULL
    )""",
    b"INSERT INTO shard VALUES (0, 0, 0, 0)",
)
_HOLDER: Final = (
    b"SELECT held.pid, coalesce(host(seen.client_addr), 'this machine') FROM pg_locks AS held"
    b" LEFT JOIN pg_stat_activity AS seen ON seen.pid = held.pid"
    b" WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 1"
    b" AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    b" AND (held.classid::bigint << 32 | held.objid::bigint) = $1"
)
_IDENTITY: Final = b"SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END_OLD: Final = (
    b"SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity"
    b" WHERE pid = $1 AND backend_start = $2::text::timestamptz"
)
_ROW: Final = b"SELECT fence, commits FROM shard FOR UPDATE"
# Names the server's files, the timeline (a standby that becomes the primary begins another one, and so does a
# recovery to a point in time), and the table, which is another one when a dump is loaded.
_HISTORY: Final = (
    b"SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()),"
    b" substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), 'shard'::regclass::oid)"
)
_LEAP: Final = f"UPDATE shard SET last_seq = (last_seq / {LEAP} + 1) * {LEAP}".encode()


@final
class Shard:
    """An open shard, to be served; `triobot.store.table_store.Opened`.

    Attributes:
        name: what the store is called in logs and errors.
        opening: what is known of this run and of the one before.
    """

    def __init__(self, address: PostgresAddress, session: Session) -> None:
        self.name = named(address)
        self.opening = Opening(boot=0, at=0)
        self.tables = ShardTables(session)
        self.notes = MemoryNotes()
        self.turn = threading.Lock()
        self._address = address
        self._session = session
        self._visited = False
        self._identity = _identity_of(session.connection)
        self._transactions: ShardTransactions | None = None

    @property
    def transactions(self) -> ShardTransactions:
        """Return what runs batches."""
        assert self._transactions is not None
        return self._transactions

    def open(self, stamp: Stamp | None, *, now: int, retention: Retention, visit: bool, rebind: bool) -> None:
        """Take the lock, make or migrate the schema, and count this run."""
        _take_lock(self._session.connection, self._address)
        _prepare(self._session, self._address, stamp, rebind=rebind)
        self._visited = visit
        run = self._session.run
        run(b"BEGIN")
        commits: int = _fetched(run(_ROW))[1]
        self._note_history(now)
        opening = count_run(
            self._session, self.tables, self.notes, machine=machine_boot(), now=now, visit=visit
        )
        self.opening = attrs.evolve(opening, risk=risk_of(self._session.connection))
        run(b"UPDATE shard SET fence = $1, commits = commits + 1", (self.opening.boot,))
        run(b"COMMIT")
        self.tables.retention = retention
        self.tables.journals.lease = Lease(0, self.opening.boot)
        self.tables.count_everything()
        self._transactions = ShardTransactions(
            self._session,
            self.tables,
            self._renew,
            name=self.name,
            fence=self.opening.boot,
            commits=commits + 1,
        )

    def _note_history(self, now: int) -> None:
        """Begin an epoch if the server's history isn't the one in which the store was open before.

        Nothing here can tell whether something acknowledged is missing; it is treated as if it were.
        """
        history = _history_of(self._session.connection)
        known = get_meta(self._session, "history")
        if known == history:
            return
        put_meta(self._session, "history", history)
        if known is not None:
            begin_epoch(self._session, now)
            stop_after_restore(self._session)
            self._session.run(_LEAP)

    def erase_log(self) -> None:
        """Do nothing: what was deleted leaves the server's files by its own vacuum and its own log's end."""

    def close(self, *, clean: bool, now: int) -> None:
        """Close the session, and let the next process in; where that goes wrong, the log says so."""
        with self.turn:
            try:
                if clean and not self._visited:
                    self.transactions.put(partial(put_meta, self._session, "clean", str(now)))
            except StoreError as error:
                _log.warning("the store %s could not be closed cleanly: %s", self.name, error)
            finally:
                self._session.close()

    def _renew(self) -> tuple[Connection, int, int]:
        """Make a new session in place of one that was lost.

        Raises:
            ConfigError, StoreError, psycopg.Error: there is none now.
            LeaseLostError: another process has opened the store since.
        """
        connection = connect(self._address)
        try:
            # The server may not know yet that the old one is lost; what it had begun ends with it.
            connection.execute(_END_OLD, self._identity)
            try:
                _take_lock(connection, self._address)
            except StoreLockedError:
                if _fetched(connection.execute(b"SELECT fence FROM shard"))[0] != self.opening.boot:
                    raise LeaseLostError("another process has opened the store") from None
                raise
            fence, commits = _fetched(connection.execute(_ROW))
            self._identity = _identity_of(connection)
        except BaseException:
            connection.close()
            raise
        return connection, fence, commits


def open_shard(
    address: PostgresAddress,
    stamp: Stamp | None,
    *,
    now: int,
    retention: Retention,
    visit: bool = False,
    rebind: bool = False,
) -> Shard:
    """Connect, check, lock, create or migrate, and open the store at this address; in a worker thread.

    Raises: as `triobot.store.postgres.open_postgres`.
    """
    session = Session(connect(address))
    role = session.connection.info.user
    try:
        shard = Shard(address, session)
        shard.open(stamp, now=now, retention=retention, visit=visit, rebind=rebind)
    except BaseException as error:
        with suppress(psycopg.Error):
            session.close()
        if isinstance(error, psycopg.Error):
            raise for_the_opener(error, named(address), role) from error
        raise
    return shard


def _fetched(found: psycopg.Cursor[tuple[object, ...]]) -> tuple[int, int]:
    row = found.fetchone()
    assert row is not None
    return row  # type: ignore[return-value]


def _history_of(connection: Connection) -> str:
    row = connection.execute(_HISTORY, prepare=False).fetchone()
    assert row is not None
    return str(row[0])


def _identity_of(connection: Connection) -> tuple[int, str]:
    return _fetched(connection.execute(_IDENTITY))  # type: ignore[return-value]


def _take_lock(connection: Connection, address: PostgresAddress) -> None:
    """Take the shard's lock, which is the session's; wait a moment for one whose process has just ended.

    Raises:
        StoreLockedError: another process has it.
    """
    digest = hashlib.sha256(f"triobot {address.schema}".encode()).digest()
    key = int.from_bytes(digest[:8], "big", signed=True)
    try:
        connection.execute(b"SELECT pg_advisory_lock($1)", (key,))
    except errors.LockNotAvailable:
        holder = connection.execute(_HOLDER, (key,)).fetchone()
        who = "" if holder is None else f" (the server's session {holder[0]}, from {holder[1]})"
        raise StoreLockedError(
            f"the store {named(address)} is open in another process{who}; one process at a time can use it"
        ) from None


def _prepare(session: Session, address: PostgresAddress, stamp: Stamp | None, *, rebind: bool) -> None:
    """Make the schema, or see that it is ours and bring it up to date."""
    name = named(address)
    there = session.run(b"SELECT 1 FROM pg_namespace WHERE nspname = $1", (address.schema,)).fetchone()
    tables: list[tuple[str]] = session.run(
        b"SELECT tablename::text FROM pg_tables WHERE schemaname = $1", (address.schema,)
    ).fetchall()
    if tables and not {("meta",), ("shard",)} <= set(tables):
        raise StoreCorruptError(
            f"{name}: the schema holds tables of another program, and was left alone; name another with"
            " schema=NAME in the address"
        )
    if not tables and (stamp is None or rebind):
        raise ConfigError(f"there is no store at {name}")
    found = stored_version(session) if tables else None
    due = due_migrations(found, MIGRATIONS)
    if tables and not rebind and stamp is not None:
        check_stamp(stored_stamp(session, name), stamp)
    if not tables or due or rebind:
        session.run(b"BEGIN")
        if not tables:
            if there is None:
                session.run(f'CREATE SCHEMA "{address.schema}"'.encode())
            for statement in _MADE:
                session.run(statement)
        for migration in due:
            _migrate(session, migration)
        if stamp is not None and (rebind or not tables):
            put_stamp(session, stamp)
        session.run(b"COMMIT")


def _migrate(session: Session, migration: Migration) -> None:
    for statement in migration.statements:
        session.run(translated_schema(statement))
    put_version(session, migration, MIGRATIONS)
