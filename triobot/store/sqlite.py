"""The default engine: one file, one connection, one writer, group commit.

How a file is opened is in `file`; the store over it, and what serves it, in `table_store`.
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
from .backups import back_up_file, examine_file, restore_file
from .file import FileStream, StoreFile, open_file
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
    """Open the store in this file, making it if it isn't there, for as long as the block runs.

    What a method has returned from is on the disk, fsynced. The file, its log and its lock are readable by
    their owner only. On leaving the block, however it is left, whatever was handed over is finished first.

    If the disk fails in the middle of a commit, what reached it can't be known: the block is cancelled, and
    StoreCorruptError is raised from it. Open the store again, in a new process, to go on.

    Args:
        path: the file; its folder must exist.
        stamp: platform and bot; the store is bound to them when it is made. None: whosever it is; then it
            must be there.
        clock: the time of day.
        migrations: the schema; for tests.
        retention: how long what nothing needs any more is kept.
        visit: open it with a tool, not to run the bot: whether the bot stopped cleanly stays as it is.

    Raises:
        StoreLockedError: another process has it open. Names the file.
        StoreVersionError: a newer triobot made it, or an older one whose conversations this one can't read.
        StoreCorruptError: the file is damaged, or is no store; it was left alone.
        StoreFullError: there is no room to make it.
        ConfigError: it belongs to another platform or bot, or it can't be kept there.

    Cancellation: *forceful*: leaving closes the store in any case, after what was handed over.
    """
    opening = partial(open_file, Path(path), stamp, migrations=migrations, retention=retention, visit=visit)
    file = await trio.to_thread.run_sync(partial(opening, now=clock.now()))
    back_up, stream = partial(_back_up_open, file, clock), FileStream(file, clock)
    async with serve(file, clock, back_up=back_up, stream=stream) as store:
        try:
            yield store
        except Exception as error:
            if not all(isinstance(one, StoreError | ConfigError | trio.Cancelled) for one in leaves(error)):
                with trio.CancelScope(shield=True):  # it takes seconds at most
                    await trio.to_thread.run_sync(file.check_rows, error)
            raise


async def rebind_sqlite(path: str | PathLike[str], *, stamp: Stamp, clock: WallClock) -> None:
    """Bind a store to another platform address or token: after a token was replaced, or a platform moved.

    Nothing in the store is changed besides. Only one process at a time, as with `open_sqlite`.

    Raises: as `open_sqlite`, but for the stamp.
    """
    opening = partial(open_file, Path(path), stamp, migrations=MIGRATIONS, any_filesystem=True)
    file = await trio.to_thread.run_sync(partial(opening, now=clock.now(), visit=True, rebind=True))
    with trio.CancelScope(shield=True):  # it is open: a file left open would keep its lock
        await trio.to_thread.run_sync(partial(file.close, clean=True, now=clock.now()))


async def back_up_sqlite(path: str | PathLike[str], target: str | PathLike[str], *, clock: WallClock) -> None:
    """Copy a store that no program has open into a new file.

    Raises:
        ConfigError: there is no store, or `target` is there already.
        StoreLockedError: a program has it; ask that for a backup.
        StoreCorruptError: it is damaged.
    """
    await trio.to_thread.run_sync(back_up_file, Path(path), Path(target), clock.now())


async def restore_sqlite(
    backup: str | PathLike[str], path: str | PathLike[str], *, stamp: Stamp | None, clock: WallClock
) -> Path | None:
    """Make a backup the store at `path` again, in the next epoch; nothing is lost of the one before it.

    Args:
        stamp: the bot's; None: whosever the backup is. A bot that it isn't doesn't start on it.

    Returns: where that is kept now, or None if there was none.

    Raises:
        ConfigError: it is no backup, or another bot's.
        StoreLockedError: a program has the store or the backup.
        StoreVersionError: a newer triobot made it.
        StoreCorruptError: the backup is damaged, and nothing was changed.
    """
    return await trio.to_thread.run_sync(restore_file, Path(backup), Path(path), stamp, clock.now())


async def examine_sqlite(path: str | PathLike[str]) -> Sequence[str]:
    """Return what is wrong in a store, or a backup, that no program has open: lines for a person, or none.

    Raises: as `back_up_sqlite`.
    """
    return await trio.to_thread.run_sync(examine_file, Path(path))


def _let_others_write() -> None:
    """Sleep between two steps of a copy, long enough for the writer to have its turn; stop if cancelled."""
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
