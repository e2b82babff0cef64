"""The schemas of a store: how they are made, and that they are the ones that are meant.

A store by itself is one schema. A store in shards is a schema for each shard, and one more with what they
have in common: who is there, and who has which shard. A shard's session looks for its tables in its own
schema first, then in that one, so that all statements are the same.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import partial
from typing import Final

import psycopg

from ...errors import ConfigError, StoreCorruptError
from ..schema import (
    COPY_OF,
    MIGRATIONS,
    Copying,
    Migration,
    Stamp,
    check_share,
    check_stamp,
    due_migrations,
    put_meta,
    put_share,
    put_stamp,
    put_version,
    stored_stamp,
    stored_version,
)
from .address import PostgresAddress
from .dialect import translated_schema
from .relay import RELAY_TABLES
from .session import Connection, Session, common_is_gone, named

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
_OWNER: Final = b"ALTER TABLE shard ADD COLUMN owner bigint"
_COMMITS: Final = (
    # How many commits a process has made, in one row; see `transactions.CommitFence`.
    b"CREATE TABLE commits (node bigint, n bigint, PRIMARY KEY (node, n))",
    # A row with the last number of an event would leave a dead version for each commit.
    b"CREATE SEQUENCE numbers MINVALUE 0",
    b"SELECT setval('numbers', last_seq) FROM shard",
    b"ALTER TABLE shard DROP COLUMN last_seq",
    # Their rows come and go: what is dead is to be cleared away by its number, and not by the table's size.
    *(
        f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,"
        " autovacuum_vacuum_cost_delay = 0)".encode()
        for table in ("inbox", "deliveries", "commits")
    ),
)
_NODES: Final = (
    # Whoever has something open, and until when; what it is called is for people.
    b"""CREATE TABLE nodes (
        id bigint PRIMARY KEY,
        name text COLLATE "C" NOT NULL,
        until timestamptz NOT NULL
    )"""
)
_MADE_SINCE: Final = {"nodes": (_OWNER, _NODES), "operator_requests": RELAY_TABLES, "commits": _COMMITS}
_MADE_SINCE_IN_SHARDS: Final = {"operator_requests": (_OWNER, *RELAY_TABLES), "commits": _COMMITS}
# Of each shard who has it, as its own row says, and since when; and who had it last, for people.
_OWNERS: Final = b"""CREATE TABLE owners (
    shard bigint PRIMARY KEY,
    owner bigint,
    name text COLLATE "C" NOT NULL,
    since timestamptz NOT NULL,
    works boolean NOT NULL
)"""
# Of the nodes, which have doors; a tool that has a shard open has none.
_DOORS: Final = b"""ALTER TABLE nodes
    ADD COLUMN label text COLLATE "C",
    ADD COLUMN door text COLLATE "C",
    ADD COLUMN version text COLLATE "C",
    ADD COLUMN since timestamptz,
    ADD COLUMN drained boolean NOT NULL DEFAULT false"""
_EACH: Final = b"INSERT INTO owners SELECT generate_series(0, $1 - 1), NULL, '', clock_timestamp(), false"
_SHARDS: Final = b"SELECT count(*) FROM owners"
# What nodes run, numbered as it is first seen: the higher, the newer. An operator may number one anew.
_SINCE: Final = (
    b"""CREATE TABLE IF NOT EXISTS builds (
        name text COLLATE "C" PRIMARY KEY,
        number bigint NOT NULL UNIQUE
    )""",
    b"""ALTER TABLE nodes
        ADD COLUMN IF NOT EXISTS build text COLLATE "C",
        ADD COLUMN IF NOT EXISTS failing boolean NOT NULL DEFAULT false,
        ADD COLUMN IF NOT EXISTS clock_off bigint NOT NULL DEFAULT 0""",
)
_COMMON: Final = {"nodes", "owners"}
_COMPLETE: Final = (
    b"SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('nodes')"
    b" AND attname = 'clock_off')"
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
    tables = _tables_of(session, address.schema)
    is_common_there = _check_shards(session, address, tables)
    if tables and not {"meta", "shard"} <= tables:
        raise _foreign(name)
    if not tables and (stamp is None or rebind or copying == "from"):
        raise ConfigError(f"there is no store at {name}")
    if tables:
        due_migrations(stored_version(session), MIGRATIONS)
        if not rebind and stamp is not None:
            check_stamp(stored_stamp(session, name), stamp)
        check_share(session, name, address.share, partial(_whole_of, address))
    due = _MADE_SINCE if address.common is None else _MADE_SINCE_IN_SHARDS
    if due.keys() <= tables and is_common_there:
        return
    run(b"BEGIN")
    try:
        # Of several that begin at once one makes it; the lock goes with the transaction.
        run(b"SELECT pg_advisory_xact_lock($1)", (key_of(address),))
        tables = _tables_of(session, address.schema)
        if address.common is not None and address.share is not None:
            _make_common(session, address.schema, address.common, address.share.of)
        if not tables:
            assert stamp is not None
            _make_schema(session, address.schema)
            for statement in _MADE:
                run(statement)
            for migration in MIGRATIONS:
                _migrate_to(session, migration)
            put_stamp(session, stamp)
            put_share(session, address.share)
            if copying == "to":
                put_meta(session, COPY_OF, "")
        for table, statements in due.items():
            if table not in tables:
                for statement in statements:
                    run(statement)
        run(b"COMMIT")
    except BaseException:
        with suppress(psycopg.Error):
            run(b"ROLLBACK")
        raise


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
    """Return the number of the advisory lock under which the schemas of a store are made."""
    digest = hashlib.sha256(f"triobot {address.common or address.schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _check_shards(session: Session, address: PostgresAddress, tables: set[str]) -> bool:
    """Refuse a store by itself where shards are meant, and the other way round.

    Returns: nothing has to be made of what shards have in common.

    Raises:
        ConfigError: the number of shards is another one; or what they have in common was dropped.
        StoreCorruptError: the schema for what the shards have in common is another program's.
    """
    share = address.share
    if address.common is None or share is None:
        if _is_common(tables):
            of = session.run(_SHARDS).fetchone()
            raise ConfigError(
                f"the store {named(address)} is in shards; its address says shards={of[0] if of else ''}"
            )
        return True
    common = _tables_of(session, address.common)
    if {"meta", "shard"} <= common:
        raise ConfigError(
            f"the store in the schema {address.common} is one store, and stays one: the number of shards is"
            f" fixed when a store is made. Leave shards={share.of} out, or name a new schema"
        )
    if common and not _is_common(common):
        raise _foreign(f"the schema {address.common}")
    if tables and not common and not _is_schema(session, address.common):
        raise common_is_gone(address)
    if common:
        ((of,),) = session.run(_SHARDS).fetchall()
        if of != share.of:
            raise ConfigError(
                f"the store in the schema {address.common} is in {of} shards, and the address says"
                f" {share.of}: the number of shards is fixed when a store is made, since it says which one"
                " has a chat"
            )
    return bool(common)


def numbers_key(address: PostgresAddress) -> int:
    """Return the number of the advisory lock under which events get their numbers."""
    return key_of(address) ^ 2


def node_key(address: PostgresAddress) -> int:
    """Return the number of the advisory lock under which nodes join the store of this address."""
    return key_of(address) ^ 1


def complete_common(connection: Connection) -> None:
    """Add what an older triobot didn't make of what the shards have in common; one at a time may do it."""
    with connection.transaction():
        if not (connection.execute(_COMPLETE).fetchone() or (False,))[0]:
            for statement in _SINCE:
                connection.execute(statement)


def _is_common(tables: set[str]) -> bool:
    return _COMMON <= tables <= {*_COMMON, "builds"}


def _foreign(what: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"{what}: the schema holds tables of another program, and was left alone; name another with"
        " schema=NAME in the address"
    )


def _whole_of(address: PostgresAddress, number: str, of: str) -> str:
    whole = address.schema.removesuffix(f"_{number}")
    return f"the one of the schema {whole}, with shards={of}"


def _make_common(session: Session, own: str, schema: str, shards: int) -> None:
    if _tables_of(session, schema):
        return
    _make_schema(session, schema)
    # The shard's own schema may be there already, and would come first.
    session.run(f'SET LOCAL search_path TO "{schema}"'.encode())
    for statement in (_NODES, _DOORS, _OWNERS, *_SINCE):
        session.run(statement)
    session.run(_EACH, (shards,))
    session.run(f'SET LOCAL search_path TO "{own}", "{schema}"'.encode())


def _make_schema(session: Session, schema: str) -> None:
    # CREATE SCHEMA IF NOT EXISTS asks for the right to make one even where it is there.
    if not _is_schema(session, schema):
        session.run(f'CREATE SCHEMA "{schema}"'.encode())


def _is_schema(session: Session, schema: str) -> bool:
    return bool(session.run(b"SELECT 1 FROM pg_namespace WHERE nspname = $1", (schema,)).fetchone())


def _tables_of(session: Session, schema: str) -> set[str]:
    found = session.run(b"SELECT tablename::text FROM pg_tables WHERE schemaname = $1", (schema,))
    return {name for (name,) in found.fetchall()}


def _migrate_to(session: Session, migration: Migration) -> None:
    for statement in migration.statements:
        session.run(translated_schema(statement))
    put_version(session, migration, MIGRATIONS)
