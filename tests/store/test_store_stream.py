"""A stream of a store: what was shipped comes back, whatever ended either side, and wherever."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from sqlite_rig import STAMP, as_a_crash_leaves_it, fallible_disk, opened
from streaming_rig import (
    OF,
    Streamer,
    bytes_in,
    checkpoint,
    copy_of,
    live_rows,
    open_store,
    put,
    recovered_rows,
    restored_rows,
    rows_of,
    store_at,
    streamer,
    write,
)

from tests.samples import sample
from tests.store.contract.contract import SettableClock
from triobot.errors import ConfigError, ConflictError, StoreCorruptError, StoreFullError, StoreLockedError
from triobot.seams.writes import PutData, PutSetting, Shipped
from triobot.store import replica as replicas
from triobot.store import shipping
from triobot.store.file import StoreFile
from triobot.store.replica import copy_replica, lock_replica, read_manifest
from triobot.store.restoring import restore_file
from triobot.store.statements import Tables
from triobot.wire.ids import ChatId


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder / "bot.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "replica"


# --- what is shipped


@pytest.mark.slow
def test_a_replica_has_what_was_committed(path: Path, folder: Path) -> None:
    with store_at(path) as file:
        put(file, "before", "x" * 10_000)
        with streamer(file, folder) as one:
            one.catch_up()
            assert restored_rows(folder) == live_rows(file)
            for n in range(20):
                put(file, f"n{n}", str(n) * 3_000)
                one.catch_up()
                assert restored_rows(folder) == live_rows(file)
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
        assert {file.name for file in folder.iterdir()} == {
            "store.db",
            "store.db-wal",
            "stream.json",
            "stream.lock",
        }


def test_checkpoints_between_two_pulls_lose_nothing(path: Path, folder: Path) -> None:
    with store_at(path) as file, streamer(file, folder) as one:
        one.catch_up()
        for n in range(12):
            put(file, f"n{n}", str(n) * 5_000)
            if n % 3:
                checkpoint(file)
        one.catch_up()
        assert restored_rows(folder) == live_rows(file)


def test_the_store_does_not_change_under_an_image(path: Path, folder: Path) -> None:
    """Commits and checkpoints that come while it is copied wait in the log."""
    with store_at(path) as file:
        put(file, "large", "x" * 900_000)
        with lock_replica_of(folder, path) as replica:
            shipment = file.begin_shipping(1)
            replica.begin(OF)
            replica.take(shipment.read_image(0))
            for n in range(5):
                put(file, "large", str(n) * 900_000)
                checkpoint(file)
            at = shipping.PIECE
            while at < shipment.size:
                piece = shipment.read_image(at)
                replica.take(piece)
                at += len(piece.data)
            while (piece := file.take(shipment, 7)).as_of is None:
                replica.take(piece)
            replica.take(piece)
            assert restored_rows(folder) == live_rows(file)
            checkpoint(file)
            file.shipping.end()


def lock_replica_of(folder: Path, path: Path) -> Any:
    folder.mkdir(exist_ok=True)
    return lock_replica(folder, path)


def test_what_is_taken_back_is_not_shipped(path: Path, folder: Path) -> None:
    """Also where its pages went into the log before it was, and a shorter transaction took their place."""
    with store_at(path) as file, streamer(file, folder) as one:
        file.connection.execute("PRAGMA cache_size = 5")
        put(file, "kept", "1")

        def fail(tables: Tables) -> None:
            for n in range(60):
                tables.apply(PutSetting(f"gone{n}", "g" * 4_000))
            raise ValueError("taken back")

        for n in range(3):
            log = path.with_name("bot.db-wal").read_bytes()
            assert isinstance(write(file, fail), ValueError)
            assert path.with_name("bot.db-wal").read_bytes() != log, "nothing of it was in the log"
            one.catch_up()
            assert restored_rows(folder) == live_rows(file)
            put(file, "kept", str(n))
            one.catch_up()
            assert restored_rows(folder) == live_rows(file)


def test_an_entry_that_commits_and_was_not_written_whole_is_not_shipped(path: Path, folder: Path) -> None:
    """As by a disk that was full in its middle: the store goes on, and writes another one over it."""
    with store_at(path) as file, streamer(file, folder) as one:
        put(file, "n", "1")
        one.catch_up()
        log = path.with_name("bot.db-wal")
        before, at = log.read_bytes(), (folder / "store.db-wal").stat().st_size
        put(file, "n", "2")
        after = bytearray(log.read_bytes())
        size = 24 + 4096
        torn = bytes(after[at : at + size - 100]) + before[at + size - 100 : at + size]
        with log.open("r+b") as there:
            there.seek(at)
            there.write(torn)
        assert not one.pull()
        with log.open("r+b") as there:
            there.seek(at)
            there.write(after[at : at + size])
        one.catch_up()
        assert restored_rows(folder) == live_rows(file)


def test_what_is_forgotten_is_in_no_file_of_the_replica(path: Path, folder: Path) -> None:
    secret = "a secret that was told"
    with store_at(path) as file, streamer(file, folder) as one:
        for n in range(30):
            write(file, lambda tables, n=n: tables.apply(PutData(ChatId(7), f"key{n}", f'"{secret}"')))
        one.catch_up()
        assert secret.encode() in bytes_in(folder)

        write(file, lambda tables: (tables.forget(ChatId(7)), None)[1])
        file.erase_log()
        put(file, "after", "1")
        one.catch_up()

        assert secret.encode() not in bytes_in(folder)
        assert secret.encode() not in path.read_bytes()


def test_a_streamer_that_takes_too_little_begins_anew(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "MOST_KEPT", 200_000)
    with store_at(path) as file, streamer(file, folder) as one:
        one.catch_up()
        before = live_rows(file)
        for n in range(10):
            put(file, f"n{n}", "x" * 50_000)
            checkpoint(file)
        with pytest.raises(ConflictError, match="it takes less than is committed"):
            one.catch_up()
        assert restored_rows(folder) == before
        one.begin()
        one.catch_up()
        assert restored_rows(folder) == live_rows(file)


@pytest.mark.parametrize("why", ["long", "erased"])
def test_an_image_is_given_up_where_the_file_must_change(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    with store_at(path) as file, lock_replica_of(folder, path) as replica:
        shipment = file.begin_shipping(1)
        replica.begin(OF)
        put(file, "n", "x" * 100_000)
        if why == "long":
            monkeypatch.setattr(shipping, "LONGEST_LOG", 50_000)
            checkpoint(file)
        else:
            file.erase_log()
        with pytest.raises(ConflictError, match="had to change while its image was being copied"):
            shipment.read_image(0)
        file.shipping.end()


def test_one_streamer_at_a_time_is_attached(path: Path, folder: Path) -> None:
    with store_at(path) as file:
        with streamer(file, folder), pytest.raises(ConflictError, match="another streamer is attached"):
            file.begin_shipping(1)
        file.begin_shipping(2)
        file.shipping.end()


async def test_a_store_ships_itself_until_nobody_wants_it(path: Path, folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    async with opened(path) as store:
        stream = store.stream
        assert stream is not None
        assert stream.attached is None
        with lock_replica(folder, path) as replica:
            replica.begin(OF)
            has_all, committed, since = trio.Event(), trio.Event(), 0

            async def take(piece: Shipped) -> None:
                nonlocal since
                # The first one after the last commit may have been made before.
                since += committed.is_set()
                await trio.to_thread.run_sync(replica.take, piece)
                if piece.as_of is not None and since > 1:
                    has_all.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(stream.ship, take)
                for n in range(50):
                    await store.commit(PutSetting("n", str(n)))
                await store.commit(PutSetting("last", "1"))
                committed.set()
                await has_all.wait()
                assert stream.attached is not None
                nursery.cancel_scope.cancel()
        assert stream.attached is None
    # Closing it changed only what a close writes.
    back = tmp_path / "back"
    back.mkdir()
    copy, _, missing = copy_replica(folder, back)
    assert missing is None
    restore_file(copy, back / "bot.db", STAMP, SettableClock().now())
    async with opened(back / "bot.db") as store:
        assert await store.setting("last") == "1"
        assert (store.opening().epoch, store.opening().restored) == (1, True)


async def test_a_log_that_is_folded_behind_a_piece_is_sent_before_its_time_is(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of it is in memory by the time that the piece is on its way."""
    taken = StoreFile.take

    def take_and_fold(file: StoreFile, *args: Any) -> Any:
        piece = taken(file, *args)
        checkpoint(file)
        return piece

    monkeypatch.setattr(StoreFile, "take", take_and_fold)
    folder.mkdir()
    async with opened(path) as store:
        assert store.stream is not None
        with lock_replica(folder, path) as replica:
            replica.begin(OF)
            confirmed = list[str]()

            async def take(piece: Shipped) -> None:
                await trio.to_thread.run_sync(replica.take, piece)
                if piece.of == "image" and piece.ends:
                    for n in range(40):  # more entries than one piece has
                        await store.commit(PutSetting(f"n{n}", "x" * 9_000))
                if piece.as_of is not None:
                    confirmed.append(recovered_rows(folder))
                    nursery.cancel_scope.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.stream.ship, take)
            assert confirmed == [rows_of(as_a_crash_leaves_it(path, folder.with_name("crashed")))]


# --- whatever ends either side


class KilledError(BaseException):
    """The streamer ends here, as by SIGKILL."""


_STEPS = ("write_at", "sync", "sync_folder", "fold", "room_beside")


@attrs.define
class Fate:
    """Kills the streamer before one of its steps, or behind it, or in the middle of a write."""

    left: int | None = None
    tear: bool = False

    def before(self, step: str, done: Callable[..., Any], *args: Any) -> Any:
        if self.left is None:
            return done(*args)
        self.left -= 1
        if self.left > 0:
            return done(*args)
        self.left = None
        if step == "write_at" and self.tear:
            fd, data, at = args
            done(fd, data[: len(data) // 2], at)
        elif self.tear:
            done(*args)
        raise KilledError


def made_mortal(monkeypatch: pytest.MonkeyPatch) -> Fate:
    fate = Fate()

    def patch(step: str) -> None:
        done = getattr(replicas, step)

        def fated(*args: Any) -> Any:
            return fate.before(step, done, *args)

        monkeypatch.setattr(replicas, step, fated)

    for step in _STEPS:
        patch(step)
    return fate


@pytest.mark.slow
@pytest.mark.parametrize("seed", sample(range(36)))
def test_a_replica_is_a_state_that_was_committed_whoever_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """And none that is older than what was confirmed to be durable."""
    chance = random.Random(seed)
    fate = made_mortal(monkeypatch)
    (tmp_path / "0").mkdir()
    folder = tmp_path / "replica"
    folder.mkdir()
    life = 0
    path = tmp_path / "0" / "bot.db"
    file = open_store(path)
    states = [live_rows(file)]
    confirmed: int | None = None
    with lock_replica(folder, path) as replica:
        one: Streamer | None = None

        def checked() -> None:
            if confirmed is not None:
                found = recovered_rows(folder)
                assert found in states[confirmed:], "it is no state since the one that was confirmed"

        for _ in range(100):
            act = chance.choice(("put", "put", "put", "fold", "pull", "pull", "all", "begin", "die", "kill"))
            try:
                if act == "put":
                    put(file, f"k{chance.randrange(20)}", chance.choice("abc") * chance.randrange(1, 30_000))
                    states.append(live_rows(file))
                elif act == "fold":
                    file.erase_log() if chance.random() < 0.2 else checkpoint(file)
                elif act == "kill":  # of the bot: what it left is what the next one finds
                    if chance.random() < 0.3:
                        life += 1
                        left = as_a_crash_leaves_it(path, tmp_path / str(life))
                        file.close(clean=False, now=2)
                        path, file, one = left, open_store(left), None
                        states.append(live_rows(file))
                elif act == "die":  # of the streamer, soon
                    fate.left, fate.tear = chance.randrange(1, 12), chance.random() < 0.5
                elif act == "begin" or one is None:
                    if one is None or chance.random() < 0.2:
                        one = Streamer(file, replica)
                        one.begin()
                elif act == "all":
                    one.catch_up()
                    confirmed = len(states) - 1
                elif not one.pull():
                    confirmed = len(states) - 1
            except KilledError:
                file.shipping.end()
                one = None
                with suppress(OSError):
                    replica.close()
                checked()
            except ConflictError:
                one = None
            if chance.random() < 0.1:
                held, fate.left = fate.left, None
                checked()
                fate.left = held
        fate.left = None
        checked()
        assert confirmed is not None
        assert confirmed > 10, "hardly anything was tried"
        Streamer(file, replica).begin()
    file.shipping.end()
    file.close(clean=True, now=2)


# --- what is wrong with the folder


def test_a_wrong_bit_in_the_log_is_found_when_it_is_folded(path: Path, folder: Path, tmp_path: Path) -> None:
    with store_at(path) as file, streamer(file, folder) as one:
        one.catch_up()
        for n in range(5):
            put(file, f"n{n}", "x" * 5_000)
        one.catch_up()
        log = folder / "store.db-wal"
        damaged = bytearray(log.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        log.write_bytes(damaged)

        # Who restores it now is told.
        (tmp_path / "1").mkdir()
        _, _, missing = copy_of(folder, tmp_path / "1")
        assert missing is not None
        assert "are good" in missing

        checkpoint(file)
        put(file, "next", "1")
        with pytest.raises(StoreCorruptError, match="could be read again"):
            one.catch_up()
        (tmp_path / "2").mkdir()
        _, manifest, missing = copy_of(folder, tmp_path / "2")
        assert manifest.as_of == 0
        assert missing is not None
        assert "found it damaged" in missing
        one.begin()
        one.catch_up()
        assert restored_rows(folder) == live_rows(file)


@pytest.mark.parametrize("damage", ["salts", "emptied", "removed"])
def test_a_log_that_is_not_the_one_that_was_written_is_missed(
    path: Path, folder: Path, tmp_path: Path, damage: str
) -> None:
    """SQLite takes what is left for a log that ends there, and finds nothing wrong."""
    with store_at(path) as file, streamer(file, folder) as one:
        put(file, "n", "1")
        one.catch_up()
    log = folder / "store.db-wal"
    match damage:
        case "salts":
            damaged = bytearray(log.read_bytes())
            damaged[20] ^= 1
            log.write_bytes(damaged)
        case "emptied":
            log.write_bytes(b"")
        case _:
            log.unlink()
    _, _, missing = copy_of(folder, tmp_path)
    assert missing is not None
    assert "and 0 are good" in missing


def test_a_log_that_was_folded_is_not_missed(path: Path, folder: Path) -> None:
    with store_at(path) as file, streamer(file, folder) as one:
        put(file, "n", "1")
        one.catch_up()
        # The next log, of which nothing is confirmed yet, has begun.
        checkpoint(file)
        put(file, "n", "2")
        assert one.shipment is not None
        while (piece := file.take(one.shipment, 7)).as_of is None:
            one.replica.take(piece)
            restored_rows(folder)
        one.replica.take(attrs.evolve(piece, as_of=None))
        assert restored_rows(folder) == live_rows(file)
        # And the next image has taken its place, before anything behind it is confirmed.
        one.begin()
        assert restored_rows(folder) == live_rows(file)


def test_an_image_that_cannot_be_read_any_more_is_replaced_without_its_log(path: Path, folder: Path) -> None:
    """SQLite would write what that log holds over the new image."""
    with store_at(path) as file, streamer(file, folder) as one:
        put(file, "n", "1" * 50_000)
        one.catch_up()
        with (folder / "store.db").open("r+b") as image:
            image.write(b"no database")
        put(file, "n", "2")
        one.begin()
        assert restored_rows(folder) == live_rows(file)


def test_a_torn_tail_is_no_part_of_what_comes_back(path: Path, folder: Path) -> None:
    with store_at(path) as file, streamer(file, folder) as one:
        put(file, "n", "1")
        one.catch_up()
        before = live_rows(file)
        put(file, "n", "2" * 9_000)
        assert one.shipment is not None
        piece = file.take(one.shipment, 7)
        one.replica.take(attrs.evolve(piece, data=piece.data[:-50], as_of=None))
        assert restored_rows(folder) == before


def test_a_full_disk_costs_nothing_that_was_shipped(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_at(path) as file, streamer(file, folder) as one:
        put(file, "n", "1")
        one.catch_up()
        before = live_rows(file)
        put(file, "n", "2")
        with monkeypatch.context() as full:
            full.setattr(replicas, "write_at", fail_with_no_room)
            with pytest.raises(StoreFullError, match="can't be written: No space left"):
                one.catch_up()
            assert restored_rows(folder) == before
            with pytest.raises(StoreFullError, match="No space left"):
                one.begin()
        with monkeypatch.context() as full:
            full.setattr(replicas, "room_beside", little_room)
            with pytest.raises(StoreFullError, match="has room for 1000 bytes, and a new image takes"):
                one.begin()
        assert restored_rows(folder) == before
        one.begin()
        one.catch_up()
        assert restored_rows(folder) == live_rows(file)


@pytest.mark.parametrize("in_its_place", [None, "folder", "file"])
def test_a_folder_that_is_gone_is_not_made_anew(path: Path, folder: Path, in_its_place: str | None) -> None:
    """Below a disk that is unmounted there is the folder where it was mounted: nothing is written there."""
    with store_at(path) as file, streamer(file, folder) as one:
        one.catch_up()
        put(file, "n", "2")
        folder.rename(folder.with_name("elsewhere"))
        if in_its_place == "folder":
            folder.mkdir()
        elif in_its_place == "file":
            folder.touch()
        for go_on in (one.catch_up, one.begin):
            with pytest.raises(
                ConfigError, match="is gone, or another is in its place; start the stream again"
            ):
                go_on()
        assert not bytes_in(folder)


def little_room(path: Path) -> int:
    return 1_000


def fail_with_no_room(fd: int, data: bytes, at: int) -> None:
    os.pwrite(fd, data[:10], at)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_fails_under_a_fold_costs_nothing(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_at(path) as file, streamer(file, folder) as one:
        put(file, "n", "1")
        one.catch_up()
        before = live_rows(file)
        checkpoint(file)
        put(file, "n", "2")
        with monkeypatch.context() as patch:
            fallible_disk(patch).fail("PRAGMA wal_checkpoint(PASSIVE)", sqlite3.SQLITE_FULL)
            with pytest.raises(StoreFullError, match="can't be written"):
                one.catch_up()
        assert restored_rows(folder) == before


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (
            attrs.evolve(OF, store="another", bot="cake"),
            "the stream of another store, of a bot called 'pizza'",
        ),
        (attrs.evolve(OF, boot=0), "a later state of this store"),
    ],
    ids=["another", "older"],
)
def test_a_replica_is_not_replaced_by_what_does_not_go_on_from_it(
    path: Path, folder: Path, of: replicas.Manifest, says: str
) -> None:
    """As by the empty store with which a bot begins that has lost its disk."""
    with store_at(path) as file, streamer(file, folder) as one:
        one.catch_up()
        before = bytes_in(folder)
        with pytest.raises(ConfigError, match=says):
            one.begin(of)
        assert bytes_in(folder) == before
        one.begin(attrs.evolve(OF, boot=0, epoch=1))


def test_a_folder_is_refused_that_cannot_have_a_stream(path: Path, folder: Path) -> None:
    def refused(folder: Path, says: str) -> None:
        with pytest.raises((ConfigError, StoreLockedError), match=says), lock_replica(folder, path):
            pytest.fail("it was taken")

    refused(folder, "there is no folder")
    refused(path.parent, "is where the store is")
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    refused(folder, "holds thesis.txt and no stream")
    assert [file.name for file in folder.iterdir()] == ["thesis.txt"]
    (folder / "thesis.txt").rename(folder / "store.db")
    refused(folder, "holds store.db and no stream")
    (folder / "store.db").unlink()
    with lock_replica(folder, path):
        refused(folder, "another streamer writes to")
        with pytest.raises(StoreLockedError, match="stop it first"):
            copy_replica(folder, folder.parent)
    with pytest.raises(ConfigError, match="holds no stream"):
        copy_replica(folder, folder.parent)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}', '{"format": 2}'])
def test_a_manifest_that_is_none_is_told(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "stream.json").write_text(text)
    with pytest.raises((StoreCorruptError, replicas.StoreVersionError), match=r"stream\.json"):
        read_manifest(folder)


def test_a_visit_of_a_replica_changes_nothing_in_it(path: Path, folder: Path, tmp_path: Path) -> None:
    with store_at(path) as file, streamer(file, folder) as one:
        put(file, "n", "1")
        one.catch_up()
    before = bytes_in(folder)
    (tmp_path / "copy").mkdir()
    copy, _, _ = copy_replica(folder, tmp_path / "copy")
    assert rows_of(copy)
    assert bytes_in(folder) == before
