"""The schema of a store: creation, and checks that the schema is this bot's."""

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
    sealed,
    stored_stamp,
    stored_version,
)
from .address import PostgresAddress
from .dialect import translated_schema
from .orders import ANSWERS, ORDERS
from .session import Connection, Session, named

_MADE: Final = (
    # One row: the number of the process that owns the store, and the process's name in texts for people.
    b'CREATE TABLE owner (id bigint, name text COLLATE "C")',
    b"INSERT INTO owner VALUES (NULL, NULL)",
    # For each process, one row with its number of commits; see `transactions`.
    b"CREATE TABLE commits (node bigint, n bigint, PRIMARY KEY (node, n))",
    # The last event's number is in a sequence: a table row would leave a dead version for each commit.
    b"CREATE SEQUENCE numbers MINVALUE 0",
    b"SELECT setval('numbers', 0)",
    ORDERS,
    ANSWERS,
)
# Rows of these tables are inserted and deleted all the time. With this setting, the server vacuums even a
# large table after a fixed number of dead rows.
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
    copying: Copying | None = None,
) -> None:
    """Make the tables of a schema without tables; otherwise check the schema, and change nothing.

    Args:
        copying: whether `triobot store copy` reads from or writes to this store; None otherwise.

    Raises:
        ConfigError: the schema is another bot's, or there are no tables and the schema must not be made.
        StoreCorruptError: the schema is another program's.
        StoreVersionError: a newer triobot made the schema.
    """
    name, run = named(address), session.run
    tables = check_store(session, address, stamp)
    if not tables and (stamp is None or copying == "from"):
        raise ConfigError(f"there is no store at {name}")
    if tables:
        return
    with session.connection.transaction():
        # If several processes start together, only the process with this lock makes the schema. The lock ends
        # with the transaction.
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
            put_stamp(session, sealed(stamp))
            if copying == "to":
                put_meta(session, COPY_OF, "")


def check_store(session: Session, address: PostgresAddress, stamp: Stamp | None) -> set[str]:
    """Check that the schema is a store that this code can use, or is empty; return the names of its tables.

    Args:
        stamp: platform and bot that the store must belong to; None: any platform and bot.

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
    """Return whether the schema of this address has any tables, made by triobot or by another program."""
    return bool(_tables_of(Session(connection), address.schema))


def migrate(session: Session) -> None:
    """Run the due migrations in the open transaction."""
    for migration in due_migrations(stored_version(session), MIGRATIONS):
        _migrate_to(session, migration)


def key_of(address: PostgresAddress) -> int:
    """Return the number of the advisory lock under which a store's schema is made."""
    digest = hashlib.sha256(f"triobot {address.schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def numbers_key(address: PostgresAddress) -> int:
    """Return the number of the advisory lock under which event numbers are taken."""
    return key_of(address) ^ 2


def _make_schema(session: Session, schema: str) -> None:
    # CREATE SCHEMA IF NOT EXISTS would require the right to make schemas even if this schema exists.
    if session.run(b"SELECT 1 FROM pg_namespace WHERE nspname = $1", (schema,)).fetchone() is None:
        session.run(f'CREATE SCHEMA "{schema}"'.encode())


def _tables_of(session: Session, schema: str) -> set[str]:
    found = session.run(b"SELECT tablename::text FROM pg_tables WHERE schemaname = $1", (schema,))
    return {name for (name,) in found.fetchall()}


def _migrate_to(session: Session, migration: Migration) -> None:
    for statement in migration.statements:
        session.run(translated_schema(statement))
    put_version(session, migration, MIGRATIONS)
