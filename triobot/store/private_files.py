"""Private files: readable only by the owner, and durable after a power loss."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..base.open_files import AT_ONCE, CAREFUL, OWNER_ONLY, PLAIN, is_stranger, restrict
from ..errors import ConfigError, StoreCorruptError
from .lock import give_to_owner

_MAGIC: Final = b"SQLite format 3\0"
_MOST_LINKS: Final = 40  # the kernel follows no more links in a path
COMPANIONS: Final = ("-wal", "-shm", "-journal")
"""Endings of the names of SQLite's files beside a database."""


def checked_path(path: Path) -> Path:
    """Resolve the path of a store that exists or can be made.

    Raises:
        ConfigError: no store can be at this path.
    """
    refuse_planted(path)
    path = path.resolve()
    if not path.parent.is_dir():
        raise ConfigError(f"the store's folder {path.parent} doesn't exist")
    if path.exists() and not path.is_file():
        raise ConfigError(f"the store {path} is not a file")
    return path


def refuse_planted(path: Path) -> None:
    """Refuse a link of another user in a folder where everybody may write, such as /tmp.

    Raises:
        ConfigError: `path` is such a link, or a link to itself; names the link.
    """
    for _ in range(_MOST_LINKS):
        if not path.is_symlink():
            return
        link, folder = path.lstat(), path.parent.stat()
        if folder.st_mode & stat.S_IWOTH and is_stranger(link.st_uid, folder.st_uid):
            raise ConfigError(
                f"{path} is somebody else's link in a folder where everybody may write, and was not followed;"
                " put the store into a folder of the bot's own"
            )
        path = path.parent / path.readlink()
    raise ConfigError(f"{path} is a link that leads nowhere but to itself; name the file")


def remove_leftover(path: Path) -> None:
    """Remove a database that an earlier attempt may have left unfinished; leave any other file alone.

    Raises:
        FileExistsError: the file is not a database.
    """
    try:
        fd = os.open(path, os.O_RDONLY | CAREFUL | AT_ONCE)
    except FileNotFoundError:
        return
    except OSError:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
    try:
        whole = stat.S_ISREG(os.fstat(fd).st_mode)
        if not whole or os.read(fd, len(_MAGIC)) not in (b"", _MAGIC):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    finally:
        os.close(fd)
    path.unlink()


def make_private(path: Path) -> None:
    """Create the file if needed, and make it readable by its owner only. SQLite gives the log and the journal
    the same mode.
    """
    try:
        _check_and_restrict(path)
        for suffix in COMPANIONS:
            companion = path.with_name(path.name + suffix)
            if companion.is_symlink():
                raise ConfigError(f"{companion} is a link, and was not followed; look who made it")
            if companion.exists():
                companion.chmod(OWNER_ONLY)
        sync_folder(path.parent)
    except OSError as error:
        raise ConfigError(f"the store {path} can't be used: {error.strerror}") from None


def check_kind(path: Path) -> None:
    """Require that a file is a SQLite database. To be called before a lock file is made beside the file.

    Raises:
        StoreCorruptError: the file is something else.
        OSError: the file can't be read.
    """
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise StoreCorruptError(f"{path} is not a store, and was left alone")


def make_new(path: Path, *, beside: Path | None = None) -> None:
    """Create an empty file, readable by its owner only.

    Args:
        beside: path of a store. If root makes the file, the file's owner is changed to the store's owner.

    Raises:
        FileExistsError: the file existed.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | PLAIN, OWNER_ONLY)
    try:
        if beside is not None:
            give_to_owner(fd, beside)
    finally:
        os.close(fd)


def sync(fd: int) -> None:
    """Make written data durable, also on macOS, where fsync leaves the data in the disk's own memory."""
    try:
        import fcntl
    except ImportError:  # on Windows, fsync reaches the disk
        os.fsync(fd)
        return
    full: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        with suppress(OSError):  # some file systems of macOS don't support this
            fcntl.fcntl(fd, full)
            return
    os.fsync(fd)


def sync_folder(folder: Path) -> None:
    """Make the names of new files in a folder durable."""
    # Windows can't open a folder; its file system has a journal of names.
    if not hasattr(os, "O_DIRECTORY"):
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | PLAIN)
    try:
        sync(fd)
    finally:
        os.close(fd)


def _check_and_restrict(path: Path) -> None:
    # Opening the file here is safe only before a connection exists: closing a second descriptor would drop
    # SQLite's own locks.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | PLAIN, OWNER_ONLY)
    try:
        head = os.read(fd, len(_MAGIC))
        if head and head != _MAGIC:
            raise StoreCorruptError(f"{path} is not a store, and was left alone")
        if stat.S_IMODE(os.fstat(fd).st_mode) != OWNER_ONLY:
            restrict(fd)
        sync(fd)
    finally:
        os.close(fd)
