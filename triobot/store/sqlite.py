"""The default store: one SQLite file, one connection, one writer, group commit.

The module `file` opens and closes the file. The module `table_store` contains the store, and the function
that serves an open store.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from os import PathLike
from pathlib import Path

import trio

from ..base.authors import leaves
from ..base.clock import WallClock
from ..errors import ConfigError, StoreError, StoreFullError
from .file import StoreFile, open_file
from .rules import RETENTION, Retention
from .schema import MIGRATIONS, Migration, Stamp
from .table_store import Store, serve


@asynccontextmanager
async def open_sqlite(
    path: str | PathLike[str],
    *,
    stamp: Stamp | None,
    clock: WallClock,
    migrations: Sequence[Migration] = MIGRATIONS,
    retention: Retention = RETENTION,
    visit: bool = False,
) -> AsyncGenerator[Store, None]:
    """Open the store in this file while the block runs; make a new store if there is no file.

    When a method of the store returns, its writes are fsynced. Only the owner of the file can read the file,
    its log and its lock. The end of the block waits for all jobs that the store has accepted, even after an
    error or a cancellation.

    If the disk fails in the middle of a commit, it is unknown whether the commit is stored. The block is then
    cancelled, and StoreCorruptError is raised from the block. To go on, open the store in a new process.

    Args:
        path: the file; its folder must exist.
        stamp: platform and bot; a new store is bound to both. None: the store may belong to any bot, and must
            exist.
        clock: the time of day.
        migrations: the schema; for tests.
        retention: how long the store keeps data that is no longer needed.
        visit: whether a tool, and not the bot, opens the store. A visit doesn't change the stored facts about
            the bot's last stop.

    Raises:
        StoreLockedError: another process has the store open. Names the file.
        StoreVersionError: a newer triobot made the store.
        StoreCorruptError: the file is damaged, or is not a store; the file was not changed.
        StoreFullError: there is no room for a new store.
        ConfigError: the store belongs to another platform or bot, or no store can be at this path.

    Cancellation: *forceful*: leaving the block always closes the store, after all accepted jobs are done.
    """
    opening = partial(open_file, Path(path), stamp, migrations=migrations, retention=retention, visit=visit)
    file = await trio.to_thread.run_sync(partial(opening, now=clock.now()))
    async with serve(file, clock, back_up=partial(_back_up_open, file, clock)) as store:
        try:
            yield store
        except Exception as error:
            if not all(isinstance(one, StoreError | ConfigError | trio.Cancelled) for one in leaves(error)):
                with trio.CancelScope(shield=True):  # the check takes a few seconds at most
                    await trio.to_thread.run_sync(file.check_rows, error)
            raise


def _let_others_write() -> None:
    """Sleep between two steps of a copy, so that the writer can lock the connection; raise if cancelled."""
    trio.from_thread.check_cancelled()
    time.sleep(0.002)


async def _back_up_open(file: StoreFile, clock: WallClock, path: Path) -> None:
    try:
        await trio.to_thread.run_sync(partial(file.copy, path, clock.now(), between=_let_others_write))
    except FileExistsError:
        raise ConfigError(f"{path} is there already; name a new file") from None
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise ConfigError(f"the backup {path} can't be written: {error.strerror}") from error
    except (OSError, sqlite3.Error) as error:
        raise StoreFullError(f"the backup {path} could not be written: {error}") from error
