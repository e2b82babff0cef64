"""What a store's file says of itself: that it is a store, of which bot, and whether it is a copy of one."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from ..errors import ConfigError, StoreCorruptError
from .schema import APPLICATION_ID, get_meta, put_meta
from .stamp import Stamp, StoredStamp, sealed

BACKUP: Final = "backup_at"
"""The fact that makes a file a backup: when it was made."""


def check_identity(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that is no store.

    Raises:
        StoreCorruptError: it is another program's.
    """
    identity: tuple[int] = connection.execute("PRAGMA application_id").fetchone()
    tables: tuple[int] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    # Neither id nor tables: a store whose making was cut short.
    if identity[0] != APPLICATION_ID and (identity[0] or tables[0]):
        raise StoreCorruptError(f"{path} is a database of another program, and was left alone")


def check_original(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a backup: a bot that runs on it unawares does again what was done after it was made.

    Raises:
        ConfigError: says what to do.
    """
    if get_meta(connection, BACKUP) is not None:
        raise ConfigError(
            f"{path} is a backup; `triobot store restore` makes it the bot's store, so that what was done"
            " since it was made is not done again in silence"
        )


def stored_stamp(connection: sqlite3.Connection, path: Path) -> StoredStamp:
    """Read which platform and bot the store belongs to.

    Raises:
        StoreCorruptError: it doesn't say.
    """
    base_url, salt, digest = (get_meta(connection, name) for name in ("base_url", "salt", "digest"))
    if base_url is None or salt is None or digest is None:
        raise StoreCorruptError(f"the store {path} doesn't say which platform it belongs to")
    return StoredStamp(base_url, salt, digest)


def put_stamp(connection: sqlite3.Connection, stamp: Stamp) -> None:
    """Bind the store to a platform and a bot."""
    stored = sealed(stamp)
    put_meta(connection, "base_url", stored.base_url)
    put_meta(connection, "salt", stored.salt)
    put_meta(connection, "digest", stored.digest)
