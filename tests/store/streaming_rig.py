"""What the tests of streams share: a store file that is driven step by step, and a replica of it."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlite_rig import STAMP

from triobot.seams.writes import PutSetting, Write
from triobot.store.file import StoreFile, open_file
from triobot.store.replica import Manifest, Replica, copy_replica, lock_replica
from triobot.store.restoring import examine_file, restore_file
from triobot.store.schema import MIGRATIONS
from triobot.store.shipping import Shipment
from triobot.store.statements import Tables
from triobot.store.writer import AskedJob

OF = Manifest("a-store", "pizza", 0, 1)


def open_store(path: Path) -> StoreFile:
    """The store at this path, made if it isn't there."""
    return open_file(path, STAMP, migrations=MIGRATIONS, any_filesystem=True, now=1)


@contextmanager
def store_at(path: Path) -> Generator[StoreFile]:
    """The store at this path, for as long as the block runs."""
    file = open_store(path)
    try:
        yield file
    finally:
        file.close(clean=True, now=2)


def write(file: StoreFile, work: Callable[[Tables], None]) -> Exception | None:
    """Do this in a transaction; the error if it was taken back."""
    with file.turn:
        return file.transactions.run_alone(AskedJob(work, writes=True))


def put(file: StoreFile, name: str, value: str) -> None:
    """Commit a setting."""
    commit(file, PutSetting(name, value))


def commit(file: StoreFile, *writes: Write) -> None:
    """Commit these together."""

    def work(tables: Tables) -> None:
        for one in writes:
            tables.apply(one)

    assert write(file, work) is None


def checkpoint(file: StoreFile) -> None:
    """Fold the log, as the writer does now and then."""
    with file.turn:
        file.transactions.checkpoint()


class Streamer:
    """A streamer that takes a piece when it is told to."""

    def __init__(self, file: StoreFile, replica: Replica) -> None:
        self.file = file
        self.replica = replica
        self.shipment: Shipment | None = None
        self.now = 100

    def begin(self, of: Manifest = OF) -> None:
        """Take a new image."""
        self.file.shipping.end()
        self.shipment = self.file.begin_shipping(self.now)
        self.replica.begin(of)
        at = 0
        while at < self.shipment.size:
            piece = self.shipment.read_image(at)
            self.replica.take(piece)
            at += len(piece.data)

    def pull(self) -> bool:
        """Take one piece; False if the replica has everything with it."""
        assert self.shipment is not None
        self.now += 1
        piece = self.file.take(self.shipment, self.now)
        self.replica.take(piece)
        return piece.as_of is None

    def catch_up(self) -> None:
        """Take all there is."""
        while self.pull():
            pass


@contextmanager
def streamer(file: StoreFile, folder: Path) -> Generator[Streamer]:
    """A streamer that has begun."""
    folder.mkdir(exist_ok=True)
    with lock_replica(folder, file.path) as replica:
        one = Streamer(file, replica)
        one.begin()
        yield one
        file.shipping.end()


def rows_of(path: Path) -> str:
    """A digest of every row of every table, but for the mark of a backup, and that of a log."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return _rows(connection)


def _rows(connection: sqlite3.Connection) -> str:
    digest = hashlib.sha256()
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1").fetchall()
    for (table,) in tables:
        where = " WHERE name NOT IN ('backup_at', 'log')" if table == "meta" else ""
        for row in connection.execute(f"SELECT * FROM {table}{where} ORDER BY 1, 2"):
            digest.update(repr((table, row)).encode())
    return digest.hexdigest()


def live_rows(file: StoreFile) -> str:
    """The rows of a store as they are now."""
    with file.turn:
        return _rows(file.connection)


def copy_of(folder: Path, into: Path) -> tuple[Path, Manifest, str | None]:
    """What comes back of a replica whose streamer ends now."""
    left = into / "left"
    shutil.copytree(folder, left, ignore=shutil.ignore_patterns("stream.lock"))
    return copy_replica(left, into)


def recovered_rows(folder: Path) -> str:
    """The rows of a replica if its streamer ends now."""
    with TemporaryDirectory() as made:
        copy, _, _ = copy_of(folder, Path(made))
        return rows_of(copy)


def restored_rows(folder: Path) -> str:
    """The rows of a replica as they come back if its streamer ends now, having been found whole."""
    with TemporaryDirectory() as made:
        copy, _, missing = copy_of(folder, Path(made))
        assert missing is None
        assert examine_file(copy) == []
        found = rows_of(copy)
        assert restore_file(copy, Path(made) / "bot.db", STAMP, 3) is None
        return found


def bytes_in(folder: Path) -> bytes:
    """All that the files of a folder hold."""
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())
