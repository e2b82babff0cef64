"""Copies of a store, and what a bot knows of having been put back; what is wrong in a file."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import re
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio
from sqlite_rig import as_a_crash_leaves_it, opened

from tests.store.contract.contract import MINUTE, NOON, SettableClock, accepted, arrival
from tests.store.contract.journals import append, begin, records_of, standing
from triobot.errors import ConfigError, StoreCorruptError, StoreLockedError
from triobot.seams.broadcasts import (
    AddReceivers,
    AdvanceBroadcast,
    BroadcastStatus,
    OpenBroadcast,
    Outcome,
    TurnBroadcast,
)
from triobot.seams.journals import ConversationId, EndConversation
from triobot.seams.writes import Consume, PutSetting
from triobot.store import backups, sqlite
from triobot.store.restoring import back_up_file, examine_file, restore_file
from triobot.wire.ids import ChatId

CLOCK = SettableClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder / "bot.db"


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    return tmp_path / "copy"


async def restored(backup: Path, path: Path) -> Path | None:
    return restore_file(backup, path, CLOCK.now())


# --- making one


async def test_a_backup_made_while_the_bot_writes_is_whole(
    path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes go on between its steps, and what they write is in it, all of it or nothing."""
    monkeypatch.setattr(backups, "STEP", 1)
    done: list[int] = []
    copied = trio.Event()

    async with opened(path) as store:
        assert (await accepted(store, arrival())).seq == 1
        await store.commit(begin(store, 1), *(append(store, 1, n, "x" * 3_000) for n in range(100)))

        async def write() -> None:
            # Not for ever: a copy of a page a step never ends while more than that is written between two.
            for n in range(300):
                if copied.is_set():
                    return
                await store.commit(append(store, 1, 100 + n, "y" * 500), PutSetting("last", str(n)))
                done.append(n)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            before = len(done)
            await store.backup(backup)
            while_copying = len(done) - before
            copied.set()

    assert while_copying > 3, "nobody wrote meanwhile: nothing was tried"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert [file.name for file in backup.parent.glob("copy*")] == ["copy"]
    assert list(examine_file(backup)) == []
    await restored(backup, path)
    async with opened(path) as store:
        _, records = await records_of(store, 1)
        assert await store.setting("last") == str(len(records) - 101)
        assert len(records) - 100 > before


async def test_a_backup_that_nobody_waits_for_leaves_nothing(
    path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, nobody_waits = threading.Event(), threading.Event()
    between = sqlite._let_others_write

    def pause() -> None:
        under_way.set()
        nobody_waits.wait()
        between()

    async with opened(path) as store:
        await store.commit(begin(store, 1), *(append(store, 1, n, "x" * 3_000) for n in range(400)))
        with trio.CancelScope() as scope, monkeypatch.context() as patch:
            patch.setattr(sqlite, "_let_others_write", pause)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.backup, backup)
                await trio.to_thread.run_sync(under_way.wait)
                assert list(backup.parent.glob("copy*"))
                scope.cancel()
                nobody_waits.set()
        assert not list(backup.parent.glob("copy*"))
        await store.backup(backup)


async def test_a_backup_overwrites_nothing(path: Path, backup: Path) -> None:
    backup.write_text("mine")
    async with opened(path) as store:
        with pytest.raises(ConfigError, match="is there already"):
            await store.backup(backup)
        with pytest.raises(ConfigError, match="can't be written: No such file"):
            await store.backup(backup.parent / "no folder" / "copy")
        await store.check()
    with pytest.raises(ConfigError, match="is there already"):
        back_up_file(path, backup, CLOCK.now())
    assert backup.read_text() == "mine"


@pytest.mark.parametrize("live", [True, False])
async def test_a_backup_is_not_led_elsewhere_by_a_link(path: Path, backup: Path, live: bool) -> None:
    """Wherever it leads, or if it leads nowhere."""
    elsewhere = backup.with_name("elsewhere")
    backup.symlink_to(elsewhere)
    async with opened(path) as store:
        if live:
            with pytest.raises(ConfigError, match="is there already"):
                await store.backup(backup)
    if not live:
        with pytest.raises(ConfigError, match="is there already"):
            back_up_file(path, backup, CLOCK.now())

    assert not elsewhere.exists()
    assert backup.is_symlink()


@pytest.mark.parametrize("name", ["copy.part", "store/bot.db.restoring"])
async def test_what_has_a_copys_passing_name_stays(path: Path, backup: Path, name: str) -> None:
    """Only what an attempt before has left unfinished is removed."""
    place = backup.parent / name
    async with opened(path):
        pass
    if name.startswith("store"):
        back_up_file(path, backup, CLOCK.now())
    place.write_text("years of work")

    with pytest.raises(ConfigError, match=r"is there already"):
        if name.startswith("store"):
            await restored(backup, path)
        else:
            back_up_file(path, backup, CLOCK.now())

    assert place.read_text() == "years of work"


@pytest.mark.parametrize("companion", ["", "-wal"])
async def test_a_planted_link_is_not_followed(
    tmp_path: Path, companion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder where everybody may write, as in /tmp; the bot's own link there is followed."""
    folder, target = tmp_path / "tmp", tmp_path / "target"
    folder.mkdir()
    folder.chmod(0o1777)
    path = folder / "bot.db"
    place = folder / f"bot.db{companion}"
    place.symlink_to(target)
    if not companion:
        really = os.geteuid()
        os.lchown(place, 12345, 12345) if really == 0 else monkeypatch.setattr(os, "geteuid", lambda: 12345)
        folder_of = folder.stat().st_uid
        if really != 0 and folder_of == place.lstat().st_uid:
            return  # only root can give a link to somebody else
    with pytest.raises(ConfigError, match="was not followed"):
        async with opened(path):
            pass

    assert not target.exists()
    if not companion:
        place.unlink()
        place.symlink_to(target)
        async with opened(path):
            pass
        assert target.exists()


async def test_a_store_that_nobody_has_open_can_be_backed_up(path: Path, backup: Path) -> None:
    async with opened(path) as store:
        await accepted(store, arrival())
        with pytest.raises(StoreLockedError):
            back_up_file(path, backup, CLOCK.now())

    back_up_file(path, backup, CLOCK.now())

    await restored(backup, path.with_name("other.db"))
    async with opened(path.with_name("other.db")) as store:
        assert store.statistics().inbox == 1
    with pytest.raises(ConfigError, match="no store"):
        back_up_file(path.with_name("nothing.db"), backup, CLOCK.now())


async def test_what_only_the_log_holds_is_in_a_backup(path: Path, backup: Path) -> None:
    async with opened(path) as store:
        await accepted(store, arrival())
        left = as_a_crash_leaves_it(path, path.parent.parent / "crashed")
    back_up_file(left, backup, CLOCK.now())
    await restored(backup, path)
    async with opened(path) as store:
        assert store.statistics().inbox == 1


# --- putting it back


async def test_a_bot_never_runs_on_a_backup_unawares(path: Path, backup: Path) -> None:
    async with opened(path) as store:
        await store.backup(backup)
    for again in range(2):
        with pytest.raises(ConfigError, match="triobot store restore"):
            async with opened(backup, visit=bool(again)):
                pytest.fail("ran on a backup")


async def test_a_restored_store_says_so_and_gives_no_number_again(path: Path, backup: Path) -> None:
    async with opened(path) as store:
        row = await accepted(store, arrival())
        idle = await accepted(store, arrival())
        await store.commit(begin(store, row.seq), standing(store, row.seq), begin(store, idle.seq))
        await store.backup(backup)
        lost = await accepted(store, arrival())
        await store.commit(begin(store, lost.seq))

    kept = await restored(backup, path)

    async with opened(path) as store:
        assert store.opening().epoch == 1
        assert store.opening().restored
        assert store.opening().unclean == 0
        restored_at = store.opening().epoch_at
        assert restored_at > 0
        assert await store.journal(ConversationId(lost.seq)) is None
        new = await accepted(store, arrival())
        assert new.seq >= 10**9
        await store.commit(begin(store, new.seq), standing(store, row.seq))
    async with opened(path) as store:
        assert (store.opening().epoch, store.opening().restored) == (1, False)
        assert store.opening().epoch_at == restored_at
    # The store before it knows what the backup doesn't, and is kept.
    assert kept is not None
    async with opened(kept) as store:
        assert await store.journal(ConversationId(lost.seq)) is not None

    # The same backup once more: older than ever, and a younger epoch.
    again = await restored(backup, path)
    assert again != kept
    async with opened(path) as store:
        assert store.opening().epoch == 2
        assert (await accepted(store, arrival())).seq >= 2 * 10**9


async def test_nothing_is_restored_that_should_not_be(path: Path, backup: Path) -> None:
    async with opened(path) as store:
        await accepted(store, arrival())
        await store.backup(backup)
        with pytest.raises(StoreLockedError):
            await restored(backup, path)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="not a backup"):
        await restored(path, path.with_name("other.db"))
    with pytest.raises(ConfigError, match="no store"):
        await restored(backup.with_name("nothing"), path)
    with pytest.raises(ConfigError, match="give the backup another name"):
        await restored(backup, backup)
    damaged = bytearray(backup.read_bytes())
    damaged[3 * 4096 : 4 * 4096] = b"\xff" * 4096
    backup.write_bytes(damaged)
    with pytest.raises(StoreCorruptError):
        await restored(backup, path)
    assert path.read_bytes() == before
    assert {file.name for file in path.parent.iterdir()} <= {"bot.db", "bot.db.lock", "other.db.lock"}


async def test_what_was_noted_at_a_kill_is_none_of_a_backups(
    path: Path, backup: Path, tmp_path: Path
) -> None:
    """A row that was dealt with after the backup, and of which only the notes know, is handled again."""
    async with opened(path) as store:
        row = await accepted(store, arrival())
        await store.backup(backup)
        assert store.note_consumed([row.seq])
        killed = as_a_crash_leaves_it(path, tmp_path / "killed")

    await restored(backup, killed)

    async with opened(killed) as store:
        assert [left.seq for left in await store.backlog(after=0, limit=9)] == [row.seq]


async def test_a_store_that_is_beyond_repair_can_be_replaced(path: Path, backup: Path) -> None:
    async with opened(path) as store:
        await store.backup(backup)
    path.write_bytes(b"rubbish")
    kept = await restored(backup, path)
    assert kept is not None
    assert kept.read_bytes() == b"rubbish"
    async with opened(path) as store:
        assert store.opening().epoch == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("gone", [False, True])
async def test_what_root_restores_is_its_bots(path: Path, backup: Path, gone: bool) -> None:
    """The bot runs as somebody else, and must be able to open it."""
    async with opened(path) as store:
        await store.backup(backup)
    for file in path.parent.iterdir():
        os.chown(file, 4711, 4712)
        if gone:
            file.unlink()
    os.chown(path.parent, 4711, 4712)

    await restored(backup, path)

    assert {(file.stat().st_uid, file.stat().st_gid) for file in path.parent.iterdir()} == {(4711, 4712)}


# --- looking for damage


async def test_a_broadcast_that_was_under_way_tells_nobody_twice_after_a_restore(
    path: Path, backup: Path
) -> None:
    """After the backup others were told, of whom it knows nothing."""
    async with opened(path) as store:
        await store.commit(
            OpenBroadcast("k", NOON, "words"),
            AddReceivers("k", tuple(ChatId(n) for n in range(1, 11))),
            TurnBroadcast("k", "sending"),
            AdvanceBroadcast("k", 4, {1: Outcome.SENT, 2: Outcome.GONE}),
            OpenBroadcast("later", NOON, "words"),
        )
        await store.backup(backup)
        await store.commit(AdvanceBroadcast("k", 10, dict.fromkeys(range(3, 11), Outcome.SENT)))
    await restored(backup, path)

    async with opened(path) as store:
        job = await store.broadcasts.get("k")
        assert job is not None
        assert job.status == BroadcastStatus("stopped", 10, sent=1, gone=1, unknown=8)
        assert job.content == ""
        assert await store.broadcasts.receivers("k", after=0, limit=100) == []
        assert [
            one.chat_id for one in await store.broadcasts.receivers("k", after=0, limit=100, gone=True)
        ] == [2]
        # Of a capture nobody was told anything: it may be started again.
        later = await store.broadcasts.get("later")
        assert later is not None
        assert later.status.state == "capturing"


async def test_a_log_that_was_left_behind_is_not_played_into_what_is_restored(
    path: Path, backup: Path, tmp_path: Path
) -> None:
    """After a crash somebody moves the store away by its name, or a restore is killed: its log stays."""
    async with opened(path) as store:
        await store.commit(PutSetting("when", "before"))
        await store.backup(backup)
        await store.commit(*(PutSetting(f"later-{n}", "y" * 3_000) for n in range(20)))
        left = as_a_crash_leaves_it(path, tmp_path / "crashed")
    log = left.with_name("bot.db-wal")
    assert log.stat().st_size > 0
    left.rename(tmp_path / "moved-away")

    kept = await restored(backup, left)

    assert kept is not None
    assert kept.with_name(f"{kept.name}-wal").is_file()
    assert not log.exists()
    assert examine_file(left) == []
    async with opened(left) as store:
        assert await store.setting("when") == "before"
        assert await store.setting("later-1") is None


async def test_a_backup_that_was_copied_over_a_store_is_refused_for_what_it_is(
    path: Path, backup: Path, tmp_path: Path
) -> None:
    """The log that a crash left beside it was laid over it: the mark was gone, or the mixture damaged."""
    async with opened(path) as store:
        await store.commit(PutSetting("when", "before"))
        await store.backup(backup)
        await store.commit(*(PutSetting(f"later-{n}", "y" * 3_000) for n in range(20)))
        left = as_a_crash_leaves_it(path, tmp_path / "crashed")
    shutil.copyfile(backup, left)
    log = left.with_name("bot.db-wal").read_bytes()
    for visit in (False, True):
        with pytest.raises(
            ConfigError, match="is a backup; `triobot store restore` makes it the bot's store"
        ):
            async with opened(left, visit=visit):
                pytest.fail("opened")
    assert left.read_bytes() == backup.read_bytes()
    assert left.with_name("bot.db-wal").read_bytes() == log


async def crashed(path: Path, folder: Path, said: str, *, folds: int = 0) -> Path:
    """A store whose process died: what it did last is in its log alone."""
    async with opened(path) as store:
        for n in range(folds + 1):
            await store.commit(PutSetting("when", f"{said} {n}"))
            if n < folds:
                await trio.to_thread.run_sync(store._writer._checkpoint)  # type: ignore[attr-defined]
        return as_a_crash_leaves_it(path, folder)


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


async def refused(path: Path, words: str) -> None:
    """The file and what is beside it stay as they are, whoever asks."""

    def seen() -> dict[str, bytes]:
        beside = [one for one in path.parent.iterdir() if one.is_file() and not one.name.endswith(".lock")]
        return {one.name: one.read_bytes() for one in beside}

    before = seen()
    for visit in (False, True):
        with pytest.raises(ConfigError, match=words):
            async with opened(path, visit=visit):
                pytest.fail("opened")
    assert seen() == before


async def test_a_store_goes_on_with_its_own_log(path: Path, tmp_path: Path) -> None:
    """As a crash leaves the two, in whichever log of the run; and a tool may have looked at it meanwhile."""
    for folds in range(4):
        left = await crashed(path, tmp_path / f"{folds}", "own", folds=folds)
        for looks in (False, True):
            shutil.copytree(left.parent, again := tmp_path / f"{folds} {looks}")
            if looks:
                assert examine_file(again / path.name) == []
            async with opened(again / path.name) as store:
                assert await store.setting("when") == f"own {folds}"


@pytest.mark.parametrize("folds", [0, 2])
async def test_a_log_of_another_store_is_refused(folds: int, path: Path, tmp_path: Path) -> None:
    """It was laid over the file: some mixtures started, and some were damaged."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    left = await crashed(tmp_path / "one" / "bot.db", tmp_path / "left", "one", folds=folds)
    other = await crashed(tmp_path / "two" / "bot.db", tmp_path / "other", "two")
    own = log_of(left).read_bytes()
    shutil.copyfile(log_of(other), log_of(left))
    await refused(left, "bot.db-wal beside the store .* is not its own, but another store's")
    with pytest.raises(ConfigError, match="is not its own"):
        back_up_file(left, tmp_path / "backup", CLOCK.now())
    with pytest.raises(ConfigError, match="is not its own"):
        examine_file(left)
    log_of(left).write_bytes(own)
    async with opened(left) as store:
        assert await store.setting("when") == f"one {folds}"


async def test_an_older_file_of_the_store_is_refused_beside_the_newer_log(path: Path, tmp_path: Path) -> None:
    """A raw copy is no backup; it may be of the same run, or of an earlier one."""
    async with opened(path) as store:
        await store.commit(PutSetting("when", "first"))
    older = path.read_bytes()
    left = await crashed(path, tmp_path / "left", "then", folds=1)
    left.write_bytes(older)
    await refused(left, "another store's, or of another time")
    log_of(left).unlink()
    await refused(left, "bot.db.lock knows a later run than the store .*, which is an older copy")
    # It was stopped: what it has is whole, but not all.
    back_up_file(left, backup := tmp_path / "backup", CLOCK.now())
    await restored(backup, left)
    async with opened(left) as store:
        assert await store.setting("when") == "first"
        assert store.opening().restored


async def test_an_older_file_is_refused_beside_the_lock_of_a_store_that_was_stopped(path: Path) -> None:
    copies: list[bytes] = []
    for n in range(2):
        async with opened(path) as store:
            await store.commit(PutSetting("when", f"{n}"))
        copies.append(path.read_bytes())
    path.write_bytes(copies[0])
    await refused(path, "bot.db.lock knows a later run than the store .*, which is an older copy")
    path.write_bytes(copies[1])
    async with opened(path) as store:
        assert await store.setting("when") == "1"


async def test_a_run_that_could_not_be_noted_is_no_other_s(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock file had no room, and yet the run before."""
    async with opened(path) as store:
        await store.commit(PutSetting("when", "then"))
    with monkeypatch.context() as full:
        full.setattr("triobot.store.notes._allot", raises_no_room)
        async with opened(path) as store:
            await store.commit(PutSetting("when", "now"))
    async with opened(path) as store:
        assert await store.setting("when") == "now"


def raises_no_room(fd: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_file_without_the_log_that_it_needs_is_refused(path: Path, tmp_path: Path) -> None:
    """It was renamed or copied alone: what was done last is in a log under another name."""
    left = await crashed(path, tmp_path / "left", "then", folds=1)
    alone = tmp_path / "renamed.db"
    left.rename(alone)
    await refused(alone, "was not stopped, and renamed.db-wal isn't beside it")
    with pytest.raises(ConfigError, match=r"was not stopped, and renamed.db-wal isn't beside it"):
        examine_file(alone)
    # At its old name there is a log without a file.
    await refused(left, "is not there, but a bot has run on it")
    backup = tmp_path / "backup"
    back_up_file(alone, backup, CLOCK.now())
    await restored(backup, alone)
    async with opened(alone) as store:
        assert await store.setting("when") == "then 0"


@pytest.mark.parametrize("folds", [0, 2])
@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(lambda log: b"", id="empty"),
        pytest.param(lambda log: bytes(len(log)), id="zeros"),
        pytest.param(lambda log: random.Random(1).randbytes(len(log)), id="garbage"),
        pytest.param(lambda log: log[:32], id="head alone"),
        pytest.param(lambda log: log[:32].ljust(len(log), b"\0"), id="head before zeros"),
        pytest.param(lambda log: log[: 32 + 4120], id="first page"),
        pytest.param(lambda log: log[: len(log) // 2], id="half"),
        pytest.param(lambda log: log[:-1], id="one byte less"),
    ],
)
async def test_a_log_that_lost_what_it_had_is_refused(
    damaged: Callable[[bytes], bytes],
    folds: int,
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SQLite takes it for a log in which nothing is: what was acknowledged was lost without a word."""
    monkeypatch.setattr("triobot.store.file._LOG_BEGINS_AT", 256 * 1024)
    left = await crashed(path, tmp_path / "left", "then", folds=folds)
    whole = log_of(left).read_bytes()
    log_of(left).write_bytes(damaged(whole))
    await refused(left, "was not stopped, and bot.db-wal is emptied, cut short or damaged")
    shutil.copytree(left.parent, again := tmp_path / "again")
    backup = tmp_path / "backup"
    back_up_file(again / path.name, backup, CLOCK.now())
    await restored(backup, again / path.name)
    async with opened(again / path.name) as store:
        assert store.opening().restored
    log_of(left).write_bytes(whole)
    async with opened(left) as store:
        assert await store.setting("when") == f"then {folds}"


async def test_an_empty_log_without_its_lock_file_is_refused(path: Path, tmp_path: Path) -> None:
    left = await crashed(path, tmp_path / "left", "then")
    log_of(left).write_bytes(b"")
    left.with_name("bot.db.lock").unlink()
    await refused(left, "was not stopped, and bot.db-wal is emptied, cut short or damaged")


@pytest.mark.parametrize("erased", [False, True])
@pytest.mark.parametrize("begun", [0, 32, 32 + 2000, 32 + 4120 + 100])
async def test_a_log_that_was_only_begun_anew_is_in_order(
    begun: int, erased: bool, path: Path, tmp_path: Path
) -> None:
    """As a kill in the first commit after a checkpoint leaves it: the file has everything."""
    async with opened(path) as store:
        await store.commit(PutSetting("when", "then"))
        if erased:
            await store._writer.erase_log()  # type: ignore[union-attr]
        else:
            await trio.to_thread.run_sync(store._writer._checkpoint)  # type: ignore[attr-defined]
        left = as_a_crash_leaves_it(path, tmp_path / "left")
        await store.commit(PutSetting("when", "then"))
        log = log_of(left).read_bytes()
        log_of(left).write_bytes(log_of(path).read_bytes()[:begun] + log[begun:])
    async with opened(left) as store:
        assert await store.setting("when") == "then"


async def test_a_journal_beside_a_store_is_another_databases(path: Path, tmp_path: Path) -> None:
    """A store has a log and no journal: SQLite would roll the file back to what that holds."""
    async with opened(path) as store:
        await store.commit(PutSetting("when", "then"))
    path.with_name("bot.db-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(4088))
    await refused(path, "bot.db-journal beside the store .* is not its own")
    path.with_name("bot.db-journal").unlink()
    path.with_name("bot.db-shm").write_bytes(b"of another" * 4096)  # nobody reads it
    async with opened(path) as store:
        assert await store.setting("when") == "then"


async def test_a_restored_store_goes_on_with_its_own_journal(
    path: Path, backup: Path, tmp_path: Path
) -> None:
    """As a kill leaves it at the first start after a restore, where SQLite changes the file's mode."""
    async with opened(path) as store:
        await store.commit(PutSetting("when", "then"))
        await store.backup(backup)
    await restored(backup, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE big AS SELECT randomblob(100000) FROM json_each('[1, 2]')")
        left = as_a_crash_leaves_it(path, tmp_path / "left")
    assert left.with_name("bot.db-journal").read_bytes().startswith(bytes.fromhex("d9d505f920a163d7"))
    async with opened(left) as store:
        assert await store.setting("when") == "then"


@pytest.mark.parametrize(
    ("suffix", "says"),
    [
        ("-wal", "bot.db-wal is in the way of the store's own"),
        ("-journal", "bot.db-journal is in the way of the store's own"),
        (".lock", "bot.db.lock can't be used: it is not a file"),
        ("", "is a link that leads"),
    ],
)
async def test_what_is_in_the_way_of_a_store_s_files_is_named(path: Path, suffix: str, says: str) -> None:
    async with opened(path) as store:
        await store.check()
    name = path.with_name(f"bot.db{suffix}")
    name.unlink(missing_ok=True)
    if suffix:
        os.mkfifo(name)
    else:
        name.symlink_to(name)
    await refused(path, says)


async def test_a_store_with_a_second_name_is_refused(path: Path, tmp_path: Path) -> None:
    """Each name has a log and a lock of its own; a symbolic link leads to the one name."""
    async with opened(path) as store:
        await store.commit(PutSetting("when", "then"))
    (other := tmp_path / "other.db").hardlink_to(path)
    for name in (path, other):
        await refused(name, "has a second name, a hard link")
    other.unlink()
    other.symlink_to(path)
    async with opened(other) as store:
        assert await store.setting("when") == "then"
        with pytest.raises(StoreLockedError):
            async with opened(path):
                pytest.fail("opened")


@pytest.mark.parametrize(("killed", "beside"), [(False, ".lock"), (True, ".lock"), (True, "-wal")])
async def test_an_emptied_store_is_not_taken_for_a_new_one(
    path: Path, backup: Path, tmp_path: Path, killed: bool, beside: str
) -> None:
    """As a crash of a file system leaves it: what lies beside it knows that there was one."""
    async with opened(path) as store:
        await store.commit(PutSetting("when", "before"))
        await store.backup(backup)
        left = as_a_crash_leaves_it(path, tmp_path / "crashed") if killed else path
    if not killed:
        async with opened(left, visit=True) as store:  # which takes away what was noted, but for the run
            assert await store.setting("when") == "before"
    left.write_bytes(b"")
    left.with_name({".lock": "bot.db-wal", "-wal": "bot.db.lock"}[beside]).unlink(missing_ok=True)
    for _ in range(2):
        with pytest.raises(ConfigError, match="is empty, but a bot has run on it"):
            async with opened(left):
                pytest.fail("opened")
    log = left.with_name("bot.db-wal")
    logged = log.read_bytes() if beside == "-wal" else None
    if logged is not None:
        with pytest.raises(ConfigError, match="is empty, but a bot has run on it"):
            examine_file(left)
        assert log.read_bytes() == logged
    kept = await restored(backup, left)
    if logged is not None:
        assert kept is not None
        assert kept.with_name(f"{kept.name}-wal").read_bytes() == logged
    async with opened(left) as store:
        assert await store.setting("when") == "before"


async def test_an_empty_file_on_which_no_bot_has_run_becomes_a_store(path: Path) -> None:
    """One that somebody made beforehand, or whose making was cut short."""
    path.write_bytes(b"")
    path.with_name("bot.db.lock").write_bytes(b"")
    async with opened(path) as store:
        await store.check()


def drop_record(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM journal WHERE conversation = 1 AND n = 1")


def repeat_record(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE journal SET size = 2, records = records || char(10) || '9' WHERE n = 1")


def miscount(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE journal SET size = 2 WHERE n = 2")


def behead(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM journal WHERE n = 0")


def lose_row(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM conversations")


def number_from_the_future(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'inbox'")


def end_busily(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE conversations SET ended_at = 1")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (drop_record, "gap or an overlap"),
        (repeat_record, "gap or an overlap"),
        (miscount, "as many records"),
        (behead, "doesn't begin at 0"),
        (lose_row, "doesn't exist"),
        (number_from_the_future, "never gave"),
        (end_busily, "has ended, and yet"),
    ],
)
async def test_an_examination_finds_what_is_wrong(
    path: Path, harm: Callable[[sqlite3.Connection], None], said: str
) -> None:
    async with opened(path) as store:
        row = await accepted(store, arrival())
        await store.commit(begin(store, row.seq), *(append(store, row.seq, n, str(n)) for n in range(3)))
        crashed = await accepted(store, arrival())
        await store.commit(
            begin(store, crashed.seq),
            EndConversation(ConversationId(crashed.seq), NOON, "E"),
        )
        with pytest.raises(StoreLockedError):
            examine_file(path)
    assert list(examine_file(path)) == []

    with sqlite3.connect(path) as connection:
        harm(connection)
    connection.close()

    found = examine_file(path)
    assert any(said in line for line in found), found


async def test_an_examination_finds_a_damaged_page(path: Path) -> None:
    async with opened(path) as store:
        for n in range(40):
            await accepted(store, arrival(n, body=b"x" * 3_000))
    content = bytearray(path.read_bytes())
    content[-4096 * 3 : -4096] = b"\xff" * 8192
    path.write_bytes(content)
    assert examine_file(path)


# --- tools leave no trace of themselves


async def test_a_visit_hides_no_crash(path: Path) -> None:
    clock = SettableClock()
    async with opened(path, clock=clock) as store:
        await store.check()
        left = as_a_crash_leaves_it(path, path.parent.parent / "crashed")
    clock.time += MINUTE
    async with opened(left, clock=clock, visit=True) as store:
        await store.commit(PutSetting("a", "b"))
    examine_file(left)
    async with opened(left, clock=clock) as store:
        assert (store.opening().unclean, store.opening().previous_at) == (1, NOON)
        again = as_a_crash_leaves_it(left, path.parent.parent / "again")
    async with opened(again) as store:
        assert store.opening().unclean == 2
    async with opened(again, visit=True):
        pass
    async with opened(again) as store:
        assert store.opening().unclean == 0


async def test_a_store_that_a_tool_made_was_not_left_by_a_crash(path: Path) -> None:
    async with opened(path, visit=True):
        pass
    async with opened(path) as store:
        assert store.opening().unclean == 0


# --- forgetting


@pytest.mark.parametrize("size", [20, 900, 9_000])
async def test_nothing_of_a_forgotten_chat_can_be_read_in_the_files(path: Path, size: int) -> None:
    """Neither what is deleted now nor what was consumed long before."""
    text = "Geheimnis" * (size // 9)
    digests = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(30)]
    async with opened(path) as store:
        for chat in (1, 7):
            words = text if chat == 7 else "y" * size
            for n in range(30):
                key = f"event:{chat}:{digests[n][:-1]}{chat}"
                row = await accepted(store, arrival(chat, body=words.encode(), key=key))
                store.note_answered(key)
                if n % 2:
                    await store.commit(Consume((row.seq,)))
            await store.commit(begin(store, row.seq, chat))
            for n in range(30):
                await store.commit(append(store, row.seq, n, words))
        store.note_answered(key)
        trace = re.compile(b"|".join([b"Geheimnis", *(f"{one[:-1]}7".encode() for one in digests)]))
        found = {file.suffix for file in path.parent.iterdir() if trace.search(file.read_bytes())}
        assert {".db-wal", ".lock"} <= found

        told = await store.forget(ChatId(7))

        assert told.records == 30
        for file in path.parent.iterdir():
            assert not trace.search(file.read_bytes()), file.name
    for file in path.parent.iterdir():
        assert not trace.search(file.read_bytes()), file.name
