"""Replicas: an exact image of a store in a folder, and the part of the store's log sent after the image.

    store.db        the image: an SQLite database
    store.db-wal    commits after the image, as SQLite's own log
    stream.json     the manifest: the store's name, and the time up to which the replica has all commits
    stream.lock     locked while a streamer runs
    next.db         the next image while it is copied; the copy replaces store.db afterwards

After an interruption of the streamer at any point, image and log are a store that SQLite can recover. SQLite
takes each complete transaction of the log with matching checksums, and nothing after the first incomplete
transaction. A finished log is *folded* into the image by a checkpoint. While the log is there, an interrupted
checkpoint is repeated. A log is removed only after its checkpoint, and an image is replaced only after its
log was removed.

Everything here runs in a worker thread. Errors of the folder are raised as StoreError.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, final

import attrs

from ..base.file_locks import try_lock
from ..base.frozen import guarded
from ..base.open_files import CAREFUL, OWNER_ONLY, read_at, room_beside, write_at
from ..errors import ConfigError, StoreCorruptError, StoreFullError, StoreLockedError, StoreVersionError
from ..seams.writes import Shipped
from .log_file import HEAD, read_head
from .private_files import sync, sync_folder
from .schema import BACKUP, put_meta

_FORMAT: Final = 1
_IMAGE: Final = "store.db"
_LOG: Final = "store.db-wal"
_NEXT: Final = "next.db"
_LOCK: Final = "stream.lock"
_MANIFEST: Final = "stream.json"
_DRAFT: Final = "stream.json.new"
_OURS: Final = frozenset({_IMAGE, _LOG, _NEXT, _LOCK, _MANIFEST, _DRAFT})
_EMPTY: Final = frozenset({"lost+found"})


@final
@guarded
class Manifest:
    """Description of a replica.

    Attributes:
        store: name of the store; its copies and restored backups have the same name.
        bot: name of the bot in logs.
        epoch, boot: the store's numbers of restores and openings.
        began_at: time when the image was complete.
        as_of: time up to which the replica has all commits; 0 after damage was found.
        log: length of the durable part of the log in the folder; 0 once the image contains the log.
        salts: the salts of this log.
    """

    store: str
    bot: str
    epoch: int
    boot: int
    began_at: int = 0
    as_of: int = 0
    log: int = 0
    salts: str = ""


@final
class Replica:
    """A replica that is being written.

    Args:
        folder: a locked folder, for this replica alone.
        lock: the open lock file; identifies the folder.
    """

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock
        self._next: int | None = None
        self._log: int | None = None
        self._at = 0
        self._dirty = False
        self._manifest: Manifest | None = None

    def is_beside(self, file: Path) -> bool:
        """Return whether a file is on the same disk as the folder."""
        return self.folder.stat().st_dev == file.parent.stat().st_dev

    def begin(self, of: Manifest) -> None:
        """Begin a new image; the existing image stays until the new image is complete.

        Raises:
            ConfigError: the folder has a replica of another store or a newer replica, or the folder is gone.
            StoreFullError: the folder can't be written.
        """
        with self._told():
            self.close()
            _check_same(self.folder, of)
            (self.folder / _NEXT).unlink(missing_ok=True)
            self._next = os.open(
                self.folder / _NEXT, os.O_RDWR | os.O_CREAT | os.O_EXCL | CAREFUL, OWNER_ONLY
            )
            self._manifest = of

    def take(self, piece: Shipped) -> None:
        """Write a piece of the stream. All pieces are durable once a piece with `as_of` has been written.

        Raises:
            ConfigError: the folder is gone.
            StoreCorruptError: the folder has lost data that was written to it; begin again.
            StoreFullError: the folder can't be written; begin again.
        """
        with self._told():
            if piece.of == "image":
                self._take_image(piece)
                return
            if piece.data:
                self._append(piece)
            if piece.ends:
                self._end_log()
            if piece.as_of is not None:
                self._confirm(piece.as_of)

    def close(self) -> None:
        """Close all files; the last pieces may not be durable."""
        for fd in (self._next, self._log):
            if fd is not None:
                os.close(fd)
        self._next = self._log = None
        self._at, self._dirty = 0, False

    def _take_image(self, piece: Shipped) -> None:
        assert self._next is not None
        if not piece.at and (room := room_beside(self.folder)) < piece.size:
            raise StoreFullError(
                f"{self.folder} has room for {room} bytes, and a new image takes {piece.size}, beside the one"
                " that is there"
            )
        write_at(self._next, piece.data, piece.at)
        if not piece.ends:
            return
        sync(self._next)
        os.close(self._next)
        self._next = None
        image = self.folder / _IMAGE
        # The old image stays valid until the new image is renamed. Before the renaming, the old log must be
        # removed: SQLite would write the old log over the new image.
        there = read_manifest(self.folder)

        def note(found: int) -> None:
            if there is not None:
                as_of = there.as_of if found >= there.log else 0
                self._write(attrs.evolve(there, log=0, salts="", as_of=as_of))

        try:
            fold(image, note)
        except sqlite3.Error:
            note(-1)
        (self.folder / _LOG).unlink(missing_ok=True)
        sync_folder(self.folder)
        (self.folder / _NEXT).replace(image)
        sync_folder(self.folder)

    def _append(self, piece: Shipped) -> None:
        if self._log is None:
            path = self.folder / _LOG
            self._log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | CAREFUL, OWNER_ONLY)
            sync_folder(self.folder)
        if piece.at != self._at:
            raise StoreCorruptError(f"a piece of the log is missing, behind {self._at} bytes")
        write_at(self._log, piece.data, piece.at)
        self._at += len(piece.data)
        self._dirty = True

    def _end_log(self) -> None:
        """Fold a finished log. If the folder has lost data of this log, set the manifest's `as_of` to 0."""
        if self._log is not None:
            sync(self._log)
            os.close(self._log)
        written, self._at = self._at, 0
        self._log, self._dirty = None, False

        def note(found: int) -> None:
            if found == written and self._noted.began_at:
                self._note(0, "", self._noted.as_of)

        if (found := fold(self.folder / _IMAGE, note)) != written:
            self._note(0, "", 0)
            raise StoreCorruptError(
                f"of a log of {written} bytes in {self.folder}, {found} could be read again; look after the"
                " disk"
            )

    def _confirm(self, as_of: int) -> None:
        if self._dirty and self._log is not None:
            sync(self._log)
            self._dirty = False
        salts = "" if self._log is None else read_at(self._log, HEAD, 0)[16:24].hex()
        self._note(self._at, salts, as_of)

    @property
    def _noted(self) -> Manifest:
        assert self._manifest is not None
        return self._manifest

    def _note(self, log: int, salts: str, as_of: int) -> None:
        began = self._noted.began_at or as_of
        self._manifest = attrs.evolve(self._noted, began_at=began, as_of=as_of, log=log, salts=salts)
        self._write(self._manifest)

    def _write(self, manifest: Manifest) -> None:
        draft = self.folder / _DRAFT
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | CAREFUL, OWNER_ONLY)
        try:
            write_at(fd, json.dumps({"format": _FORMAT, **attrs.asdict(manifest)}).encode(), 0)
            # Without this, a power loss may leave an empty manifest, and a replica of an unknown store.
            sync(fd)
        finally:
            os.close(fd)
        draft.replace(self.folder / _MANIFEST)

    def _see_own_folder(self) -> None:
        """Require that the folder is still the locked folder: after a disk was unmounted, the path may lead
        to another folder.
        """
        try:
            is_own = os.path.samestat(os.lstat(self.folder / _LOCK), os.fstat(self._lock))
        except (FileNotFoundError, NotADirectoryError):
            is_own = False
        if not is_own:
            raise ConfigError(
                f"the folder {self.folder} is gone, or another is in its place; start the stream again, and"
                " if a disk belongs there, mount it first"
            )

    @contextmanager
    def _told(self) -> Generator[None]:
        try:
            self._see_own_folder()
            yield
        except FileExistsError as error:
            raise ConfigError(
                f"{error.filename} is there already, and was left alone; move it away"
            ) from None
        except OSError as error:
            raise StoreFullError(f"the folder {self.folder} can't be written: {error.strerror}") from error
        except sqlite3.Error as error:
            raise StoreFullError(f"the replica in {self.folder} can't be written: {error}") from error


def fold(image: Path, note: Callable[[int], None] = lambda found: None) -> int:
    """Move the log, if any, into its image, and remove the log. Return the number of good bytes in the log.

    Args:
        note: called with the number of good bytes once the image contains the log, before the log is removed.

    Raises:
        sqlite3.Error: the image or the log can't be read or written; the log is still there, or the image
            contains all of it.
    """
    log = image.with_name(f"{image.name}-wal")
    if not image.exists() or not log.exists():
        note(0)
        return 0
    with log.open("rb") as file:
        head, size = read_head(file.read(HEAD)), os.fstat(file.fileno()).st_size
    try:
        with closing(sqlite3.connect(image, isolation_level=None)) as connection:
            # In this mode, SQLite needs no shared memory: a folder on another machine can't provide shared
            # memory.
            connection.execute("PRAGMA locking_mode = exclusive").fetchone()
            connection.execute("PRAGMA fullfsync = 1")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            # Only a PASSIVE checkpoint returns the number of entries found.
            _, entries, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            found: int = 0 if head is None or not entries else HEAD + entries * head.entry_size
            note(found)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error:
        if not log.exists():  # the checkpoint succeeded when the connection was closed
            note(size)
        raise
    log.unlink(missing_ok=True)
    sync_folder(image.parent)
    return found


def is_replica(folder: Path) -> bool:
    """Return whether this folder contains a replica."""
    return (folder / _MANIFEST).is_file()


def _see_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}; make it, or mount what belongs there")


@contextmanager
def lock_replica(folder: Path, store: Path) -> Generator[Replica]:
    """Lock a folder for the replica of a store while the block runs.

    Raises:
        ConfigError: the folder doesn't exist, contains the store itself, or contains other files.
        StoreLockedError: another streamer writes to the folder.
    """
    try:
        folder = folder.resolve()
        _see_folder(folder)
        if folder == store.resolve().parent:
            raise ConfigError(
                f"{folder} is where the store is; a stream needs a folder of its own, on another disk"
            )
        there = {file.name for file in folder.iterdir()}
        # Until the first image is complete, only the lock file identifies the folder of a stream.
        others = there - _EMPTY - (_OURS if _LOCK in there else _EMPTY)
        if others and not is_replica(folder):
            raise ConfigError(
                f"{folder} holds {min(others)} and no stream; a stream needs a folder of its own"
            )
        fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | CAREFUL, OWNER_ONLY)
    except OSError as error:
        raise ConfigError(f"the folder {folder} can't be used: {error.strerror}") from None
    try:
        if not try_lock(fd):
            raise StoreLockedError(f"another streamer writes to {folder}; one at a time can")
        replica = Replica(folder, fd)
        try:
            yield replica
        finally:
            replica.close()
    finally:
        os.close(fd)


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of the replica in a folder; None if there is no replica.

    Raises:
        StoreVersionError: a newer triobot wrote the manifest.
        StoreCorruptError: the manifest can't be read.
    """
    path = folder / _MANIFEST
    try:
        told: Any = json.loads(path.read_bytes())
        written = told.pop("format")
        if written != _FORMAT:
            raise StoreVersionError(f"{path} is of stream format {written}, and this triobot knows {_FORMAT}")
        return Manifest(**told)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise StoreCorruptError(f"{path} can't be read; it says of which store this is the stream") from None


def _check_same(folder: Path, of: Manifest) -> None:
    there = read_manifest(folder)
    if there is None:
        return
    if there.store != of.store:
        raise ConfigError(
            f"{folder} holds the stream of another store, of a bot called {there.bot!r}. If the bot has lost"
            " its store and begun with an empty one, stop it and restore this one; else name another folder"
        )
    if (of.epoch, of.boot) < (there.epoch, there.boot):
        raise ConfigError(
            f"{folder} holds a later state of this store than the bot has: an older copy may have been put in"
            " its place. Restore this one, or name another folder"
        )


def copy_replica(folder: Path, into: Path) -> tuple[Path, Manifest, str | None]:
    """Copy a replica into another folder, as a backup of the store. The replica isn't changed.

    Returns: the copy, its manifest, and a text for people about missing commits, or None.

    Raises:
        ConfigError: there is no replica, or no room for a copy.
        StoreLockedError: a streamer writes to the folder.
        StoreCorruptError, StoreVersionError: the replica can't be read.
    """
    copy = into / _IMAGE
    with _held_still(folder):
        if (manifest := read_manifest(folder)) is None or not (folder / _IMAGE).is_file():
            raise ConfigError(f"{folder} holds no stream, or none of which an image was ever complete")
        try:
            for name in (_IMAGE, _LOG):
                if (folder / name).exists():
                    shutil.copyfile(folder / name, into / name)
                    (into / name).chmod(OWNER_ONLY)
        except OSError as error:
            raise ConfigError(f"{folder} can't be copied into {into}: {error.strerror}") from None
    try:
        log = (into / _LOG).read_bytes()[:HEAD] if (into / _LOG).exists() else b""
        found = fold(copy)
        with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            put_meta(connection, BACKUP, str(manifest.as_of))
    except sqlite3.Error as error:
        raise StoreCorruptError(f"the stream in {folder} is damaged: {error}") from error
    missing = None
    if manifest.as_of == 0:
        missing = "the streamer found it damaged, and no new image was complete: the last commits are missing"
    elif (good := found if log[16:24].hex() == manifest.salts else 0) < manifest.log:
        missing = (
            f"its log is damaged: {manifest.log} bytes were written, and {good} are good;"
            " the last commits are missing"
        )
    return copy, manifest, missing


@contextmanager
def _held_still(folder: Path) -> Generator[None]:
    try:
        fd = os.open(folder / _LOCK, os.O_RDONLY | CAREFUL)
    except FileNotFoundError:
        yield  # a copy of a replica may have no lock file
        return
    except OSError as error:
        raise ConfigError(f"{folder / _LOCK} can't be opened: {error.strerror}") from None
    try:
        if not try_lock(fd, shared=True):
            raise StoreLockedError(f"a streamer writes to {folder}; stop it first")
        yield
    finally:
        os.close(fd)
