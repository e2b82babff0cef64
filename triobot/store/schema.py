"""The tables as numbered migrations, and the check whether this code may open a store.

A released migration is never edited; a change gets the next number. Each migration runs in one transaction,
so a store always has the schema of one version. Each store names its `min_reader`: the number of the oldest
schema whose code can still use the store. So a downgrade by one release works if the migrations only added
tables or columns, and no stored value changed its form.

The `meta` table stores facts about the store itself: its schema version, its bot, and whether the store is a
copy of another store.

Each store has a stamp (the platform and the bot) from its creation on, because a store contains the
conversations and the payments of one bot. If another bot, or the same bot on another platform, opened the
store by accident, that bot would verify charges that it never made. The token itself is never stored, only a
salted digest, which is enough to compare tokens.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias, final
from urllib.parse import urlsplit

import attrs

from ..base.frozen import guarded
from ..errors import ConfigError, StoreCorruptError, StoreVersionError
from ..seams.writes import PutStamp
from ..wire.rules import is_text
from .broadcasts import CREATE_BROADCASTS
from .code_rows import CREATE_CODE
from .payment_rows import TABLES as MONEY
from .sql import Sql, as_text

APPLICATION_ID: Final = 0x7472_6962
"""Number in SQLite's header that marks a file as a store: "trib" in ASCII."""
PUT_META: Final = (
    "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
"""SQL that stores a fact about the store itself."""
LOG: Final = "log"
"""Fact that ties a file to its log: a random word. The log's first commit appends a ``+`` to the word.

As long as the word in the main file has no ``+``, no commit of the current log has been moved into this file.
"""
BACKUP: Final = "backup_at"
"""Fact that marks a file as a backup; its value is the time of the backup."""
MOVED: Final = "moved_to"
"""Fact that a store was copied, and that the bot uses the copy now; the value is the copy's address."""
COPY_OF: Final = "copy_of"
"""Fact that a store is an unfinished copy. The value is the copy's random name, or empty before the rows are
copied."""
COPIED: Final = "copied_as"
"""Fact of both stores after a complete copying; the value is the copy's random name."""

Copying: TypeAlias = Literal["from", "to"]
"""Role of a store that `triobot store copy` opens."""


@final
@guarded
class Stamp:
    """The platform and the bot that a store belongs to.

    Args:
        base_url: the platform's address; a slash at the end makes no difference.
        token: the bot's token; never stored.
    """

    base_url: str = attrs.field(validator=is_text())
    token: str = attrs.field(repr=False, validator=is_text())


def sealed(stamp: Stamp) -> PutStamp:
    """Return the stored form of a stamp, with a salted digest instead of the token."""
    salt = secrets.token_hex(16)
    return PutStamp(_normal(stamp.base_url), salt, _digest(salt, stamp.token))


def check_stamp(stored: PutStamp, stamp: Stamp) -> None:
    """Require that a store belongs to this platform and this bot.

    Raises:
        ConfigError: the address or the token differs; the text explains the remedy.
    """
    if stored.base_url != _normal(stamp.base_url):
        raise ConfigError(
            f"this store was made for another platform address, at {_host(stored.base_url)}; give this bot a"
            " store of its own, or, if the platform has moved, run `triobot store rebind`"
        )
    if not hmac.compare_digest(_digest(stored.salt, stamp.token), stored.digest):
        raise ConfigError(
            "this store was made with another token; give this bot a store of its own, or, if the same bot's"
            " token was replaced, run `triobot store rebind`"
        )


def _normal(base_url: str) -> str:
    return base_url.rstrip("/")


def _digest(salt: str, token: str) -> str:
    return hashlib.sha256(f"{salt}:{token}".encode()).hexdigest()


def _host(base_url: str) -> str:
    # Don't return the whole address, which may contain a password.
    return urlsplit(base_url).hostname or "an unnamed host"


@final
@guarded
class Migration:
    """One step of the schema.

    Attributes:
        number: counts from 1 without gaps.
        release: the first release of triobot with this migration.
        min_reader: the oldest schema whose code can use a store with this migration.
        statements: SQL statements, executed in this order in one transaction.
    """

    number: int
    release: str
    min_reader: int
    statements: tuple[str, ...]


# If a migration changes the form of journals, recorded values or the ledger's rows, its `min_reader` is its
# own number. Older code then refuses the store at the start, instead of failing in the middle of a turn.
MIGRATIONS: Final[tuple[Migration, ...]] = (
    Migration(
        number=1,
        release="0.1.0",
        min_reader=1,
        statements=(
            "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
            # AUTOINCREMENT: a seq is never used twice, although consumed rows are deleted.
            """CREATE TABLE inbox (
                seq INTEGER PRIMARY KEY AUTOINCREMENT,
                chat_id INTEGER NOT NULL,
                at INTEGER NOT NULL,
                content_type TEXT NOT NULL,
                body BLOB NOT NULL,
                begun TEXT
            )""",
            # The index leaves out rows with `begun`, because `Tally.begun` returns the numbers of these rows.
            "CREATE INDEX inbox_waiting ON inbox (chat_id, seq) WHERE begun IS NULL",
            # The last accepted delivery of each key. Once the 200 is written, `Tables.catch_up` deletes the
            # row of a key that isn't unique. `postgres.admitting` sets `acknowledged` instead: a batch that
            # is sent again may have an older delivery of the key.
            """CREATE TABLE deliveries (
                key TEXT PRIMARY KEY,
                at INTEGER NOT NULL,
                once INTEGER NOT NULL,
                acknowledged INTEGER
            ) WITHOUT ROWID""",
            """CREATE TABLE senders (
                chat_id INTEGER PRIMARY KEY,
                first_sender INTEGER NOT NULL,
                several INTEGER NOT NULL DEFAULT 0
            )""",
            """CREATE TABLE raw (
                n INTEGER PRIMARY KEY AUTOINCREMENT,
                at INTEGER NOT NULL,
                reason TEXT NOT NULL,
                content_type TEXT NOT NULL,
                body BLOB NOT NULL
            )""",
            "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
            """CREATE TABLE data (
                chat_id INTEGER NOT NULL,
                key TEXT NOT NULL,
                value TEXT NOT NULL,
                PRIMARY KEY (chat_id, key)
            ) WITHOUT ROWID""",
            "CREATE INDEX data_key ON data (key, chat_id)",
            # `id` is a seq of the inbox; the columns are explained at
            # `triobot.seams.journals.ConversationRow`.
            """CREATE TABLE conversations (
                id INTEGER PRIMARY KEY,
                chat_id INTEGER NOT NULL,
                route TEXT NOT NULL,
                kind TEXT NOT NULL,
                version TEXT NOT NULL,
                sender_id INTEGER,
                key TEXT,
                run INTEGER NOT NULL DEFAULT 1,
                unfinished INTEGER NOT NULL,
                wake_at INTEGER,
                parked TEXT,
                error TEXT,
                in_hand INTEGER NOT NULL DEFAULT 0,
                started_at INTEGER NOT NULL,
                updated_at INTEGER NOT NULL,
                ended_at INTEGER,
                rests TEXT,
                build INTEGER NOT NULL DEFAULT 0
            )""",
            # The indexes are partial: a resting conversation without a wake time is only in the first index.
            # There may be a million resting conversations.
            "CREATE INDEX conversations_chat ON conversations (chat_id) WHERE ended_at IS NULL",
            """CREATE INDEX conversations_unfinished ON conversations (id)
                WHERE unfinished = 1 AND parked IS NULL AND ended_at IS NULL""",
            """CREATE INDEX conversations_due ON conversations (wake_at)
                WHERE wake_at IS NOT NULL AND parked IS NULL AND ended_at IS NULL""",
            """CREATE INDEX conversations_parked ON conversations (id)
                WHERE parked IS NOT NULL AND ended_at IS NULL""",
            """CREATE INDEX conversations_ended ON conversations (ended_at, chat_id)
                WHERE ended_at IS NOT NULL""",
            # One row for each append: `size` records from position `n` on, one record in each line.
            """CREATE TABLE journal (
                conversation INTEGER NOT NULL,
                n INTEGER NOT NULL,
                size INTEGER NOT NULL,
                records TEXT NOT NULL,
                PRIMARY KEY (conversation, n)
            ) WITHOUT ROWID""",
            """CREATE TABLE effects (
                conversation INTEGER NOT NULL,
                operation TEXT NOT NULL,
                intended_at INTEGER,
                intent TEXT,
                resulted_at INTEGER,
                result TEXT,
                PRIMARY KEY (conversation, operation)
            ) WITHOUT ROWID""",
            "CREATE INDEX effects_unknown ON effects (conversation) WHERE result IS NULL",
            *CREATE_BROADCASTS,
            *MONEY,
            *CREATE_CODE,
        ),
    ),
)


@final
@guarded
class SchemaVersion:
    number: int
    min_reader: int
    min_reader_release: str


def due_migrations(found: SchemaVersion | None, known: Sequence[Migration]) -> Sequence[Migration]:
    """Return the migrations that bring a store up to date; `found` is None for a new store.

    Raises:
        StoreVersionError: the store is too new for this code; names the release that can use it.
    """
    if found is None:
        return known
    newest = known[-1].number
    if found.min_reader > newest:
        raise StoreVersionError(
            f"the store has schema {found.number}, and this triobot knows {newest};"
            f" it can be opened by triobot {found.min_reader_release} and later"
        )
    return [migration for migration in known if migration.number > found.number]


def read_version(connection: sqlite3.Connection) -> SchemaVersion | None:
    """Read the schema version of a database; None if the database has no store's tables yet."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        return None
    if (version := stored_version(connection)) is None:
        raise ValueError("a store whose facts name no version")
    return version


def stored_version(connection: Sql) -> SchemaVersion | None:
    """Read the schema version from a store's `meta` table; None if the table has no version."""
    number, reader, release = (
        get_meta(connection, name) for name in ("schema", "min_reader", "min_reader_release")
    )
    if number is None or reader is None or release is None:
        return None
    return SchemaVersion(int(number), int(reader), release)


def run_migration(connection: sqlite3.Connection, migration: Migration, known: Sequence[Migration]) -> None:
    """Execute one migration in the open transaction."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in migration.statements:
        connection.execute(statement)
    put_version(connection, migration, known)


def put_version(connection: Sql, migration: Migration, known: Sequence[Migration]) -> None:
    """Store this migration's numbers as the version of the schema."""
    reader_release = next(one.release for one in known if one.number == migration.min_reader)
    put_meta(connection, "schema", str(migration.number))
    put_meta(connection, "min_reader", str(migration.min_reader))
    put_meta(connection, "min_reader_release", reader_release)


def get_meta(connection: Sql, name: str) -> str | None:
    """Return a fact about the store itself, or None."""
    asked = f"SELECT {as_text('value')} FROM meta WHERE name = ?"
    row: tuple[str] | None = connection.execute(asked, (name,)).fetchone()
    return None if row is None else row[0]


def put_meta(connection: Sql, name: str, value: str) -> None:
    """Store a fact about the store itself."""
    connection.execute(PUT_META, (name, value))


def drop_meta(connection: Sql, name: str) -> None:
    """Delete a fact about the store itself."""
    connection.execute("DELETE FROM meta WHERE name = ?", (name,))


def note_that_log_began(connection: sqlite3.Connection) -> None:
    """Append ``+`` to the fact `LOG`, the word of the log. To be called before any other write.

    When the connection is closed, SQLite's own checkpoint moves the changed fact into the main file.
    """
    if (mark := get_meta(connection, LOG)) is not None:
        put_meta(connection, LOG, f"{mark}+")


def check_identity(connection: sqlite3.Connection, path: Path) -> None:
    """Require that a database is a store, or empty.

    Raises:
        StoreCorruptError: the database is another program's.
    """
    identity: tuple[int] = connection.execute("PRAGMA application_id").fetchone()
    tables: tuple[int] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    # If the process is killed while it creates a store, the database has neither an application id nor
    # tables.
    if identity[0] != APPLICATION_ID and (identity[0] or tables[0]):
        raise StoreCorruptError(f"{path} is a database of another program, and was left alone")


def check_original(connection: sqlite3.Connection, path: Path) -> None:
    """Require that a database is no backup: on a backup, a bot would repeat all work since the backup.

    Raises:
        ConfigError: the database is a backup; the text explains the remedy.
    """
    if get_meta(connection, BACKUP) is not None:
        raise ConfigError(
            f"{path} is a backup; `triobot store restore` makes it the bot's store, so that what was done"
            " since it was made is not done again in silence"
        )


def check_whole(connection: Sql, name: object, copying: Copying | None = None) -> None:
    """Require that a store is complete, and that no copy has replaced the store.

    Other rules apply for `triobot store copy`: the source may have been replaced already, and the target must
    be a copy.

    Raises:
        ConfigError: the store can't be used in this role; the text explains the remedy.
    """
    moved, half = get_meta(connection, MOVED), get_meta(connection, COPY_OF) is not None
    if copying == "to":
        if moved is not None or not (half or get_meta(connection, COPIED) is not None):
            raise ConfigError(
                f"there is a store at {name} already, and a copy is made in a new one: name another, or move"
                " this one away"
            )
        return
    if half:
        raise ConfigError(
            f"{name} is half copied: run the same `triobot store copy` again; or remove it,"
            " since the store that it is a copy of has everything"
        )
    if moved is not None and copying is None:
        raise ConfigError(
            f"{name} was copied to {moved}, and its conversations go on there: name that store in"
            " TRIOBOT_STORE or --store; `triobot store copy` the other way brings them back"
        )


def file_of(url: str) -> Path | None:
    """Return the file of a store's address; None if the address names no file."""
    engine, _, place = url.partition(":")
    return Path(place) if engine == "sqlite" and place else None


def stored_stamp(connection: Sql, path: object) -> PutStamp:
    """Read the stamp of a store.

    Raises:
        StoreCorruptError: the store has no stamp.
    """
    base_url, salt, digest = (get_meta(connection, name) for name in ("base_url", "salt", "digest"))
    if base_url is None or salt is None or digest is None:
        raise StoreCorruptError(f"the store {path} doesn't say which platform it belongs to")
    return PutStamp(base_url, salt, digest)


def put_stamp(connection: Sql, stored: PutStamp) -> None:
    """Bind the store to a platform and a bot."""
    put_meta(connection, "base_url", stored.base_url)
    put_meta(connection, "salt", stored.salt)
    put_meta(connection, "digest", stored.digest)
