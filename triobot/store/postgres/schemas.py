"""The schema of a store: how it is made, and that it is the one that is meant."""

from __future__ import annotations

import hashlib
from typing import Final

from ...errors import ConfigError, StoreCorruptError
from ..schema import (
    COPY_OF,
    MIGRATIONS,
    Copying,
    Migration,
    Stamp,
    check_stamp,
    due_migrations,
    put_meta,
    put_stamp,
    put_version,
    stored_stamp,
    stored_version,
)
from .address import PostgresAddress
from .dialect import translated_schema
from .orders import ANSWERS, ORDERS
from .session import Connection, Session, named

_MADE: Final = (
    b'CREATE TABLE meta (name text COLLATE "C" PRIMARY KEY, value text COLLATE "C" NOT NULL)',
    # One row: the number of the process that has the store, and what it is called for people.
    b'CREATE TABLE owner (id bigint, name text COLLATE "C")',
    b"INSERT INTO owner VALUES (NULL, NULL)",
    # How many commits a process has made, in one row; see `transactions`.
    b"CREATE TABLE commits (node bigint, n bigint, PRIMARY KEY (node, n))",
    # A row with the last number of an event would leave a dead version for each commit.
    b"CREATE SEQUENCE numbers MINVALUE 0",
    b"SELECT setval('numbers', 0)",
    ORDERS,
    ANSWERS,
)
# Their rows come and go: what is dead is to be cleared away by its number, and not by the table's size.
_CLEARED: Final = tuple(
    f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,"
    " autovacuum_vacuum_cost_delay = 0)".encode()
    for table in ("inbox", "deliveries", "commits")
)


def make_store(
    session: Session,
    address: PostgresAddress,
    stamp: Stamp | None,
    *,
    rebind: bool,
    copying: Copying | None = None,
) -> None:
    """See that the schema is ours and can be read, or make it; nothing else is changed.

    Args:
        copying: it is to be copied, or to become a copy.

    Raises:
        ConfigError: it is another store's, or there is none and none is to be made.
        StoreCorruptError: it is another program's.
        StoreVersionError: a newer triobot made it.
    """
    name, run = named(address), session.run
    tables = check_store(session, address, None if rebind else stamp)
    if not tables and (stamp is None or rebind or copying == "from"):
        raise ConfigError(f"there is no store at {name}")
    if tables:
        return
    with session.connection.transaction():
        # Of several that begin at once one makes it; the lock goes with the transaction.
        run(b"SELECT pg_advisory_xact_lock($1)", (key_of(address),))
        if not _tables_of(session, address.schema):
            assert stamp is not None
            _make_schema(session, address.schema)
            for statement in _MADE:
                run(statement)
            for migration in MIGRATIONS:
                _migrate_to(session, migration)
            for statement in _CLEARED:
                run(statement)
            put_stamp(session, stamp)
            if copying == "to":
                put_meta(session, COPY_OF, "")


def check_store(session: Session, address: PostgresAddress, stamp: Stamp | None) -> set[str]:
    """See that what is there is a store that can be read, and return its tables; none: there is nothing.

    Args:
        stamp: whose it has to be; None: anybody's.

    Raises: as `make_store`.
    """
    name, tables = named(address), _tables_of(session, address.schema)
    if not tables:
        return tables
    if not {"meta", "owner"} <= tables:
        raise StoreCorruptError(
            f"{name}: the schema holds tables of another program, and was left alone; name another with"
            " schema=NAME in the address"
        )
    due_migrations(stored_version(session), MIGRATIONS)
    if stamp is not None:
        check_stamp(stored_stamp(session, name), stamp)
    return tables


def is_there(connection: Connection, address: PostgresAddress) -> bool:
    """Return whether there are tables in the schema of this address, whosever they are."""
    return bool(_tables_of(Session(connection), address.schema))


def migrate(session: Session, stamp: Stamp | None, *, rebind: bool) -> None:
    """Bring the schema up to date, and bind the store to another stamp, in the transaction that is open."""
    for migration in due_migrations(stored_version(session), MIGRATIONS):
        _migrate_to(session, migration)
    if rebind and stamp is not None:
        put_stamp(session, stamp)


def key_of(address: PostgresAddress) -> int:
    """Return the number of the advisory lock under which the schema of a store is made."""
    digest = hashlib.sha256(f"triobot {address.schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def numbers_key(address: PostgresAddress) -> int:
    """Return the number of the advisory lock under which events get their numbers."""
    return key_of(address) ^ 2


def _make_schema(session: Session, schema: str) -> None:
    # CREATE SCHEMA IF NOT EXISTS asks for the right to make one even where it is there.
    if session.run(b"SELECT 1 FROM pg_namespace WHERE nspname = $1", (schema,)).fetchone() is None:
        session.run(f'CREATE SCHEMA "{schema}"'.encode())


def _tables_of(session: Session, schema: str) -> set[str]:
    found = session.run(b"SELECT tablename::text FROM pg_tables WHERE schemaname = $1", (schema,))
    return {name for (name,) in found.fetchall()}


def _migrate_to(session: Session, migration: Migration) -> None:
    for statement in migration.statements:
        session.run(translated_schema(statement))
    put_version(session, migration, MIGRATIONS)
