"""What a disk does when it is full or dying, and who hears of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import trio
from sqlite_rig import Disk, fallible_disk, opened

from tests.store.contract.contract import ROOMY, accepted, arrival
from triobot.errors import StoreAwayError, StoreCorruptError, StoreFullError, TriobotError
from triobot.seams.inbox import InboxRow
from triobot.seams.writes import PutSetting
from triobot.store import Store
from triobot.wire.ids import ChatId


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return fallible_disk(monkeypatch)


class Crowd:
    """Many callers at once: who was told what."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.stored: list[InboxRow] = []
        self.announced: list[InboxRow] = []
        self.errors: list[TriobotError] = []

    async def accept(self, n: int, body: bytes = b"x") -> None:
        try:
            answer = await self.store.accept(
                arrival(n, body=body),
                quota=ROOMY,
                also=[PutSetting(f"with {n}", "yes")],
                on_commit=self.announced.append,
            )
        except TriobotError as error:
            self.errors.append(error)
        else:
            assert isinstance(answer, InboxRow)
            self.stored.append(answer)

    async def come(self, count: int, body: bytes = b"x") -> None:
        async with trio.open_nursery() as nursery:
            for n in range(count):
                nursery.start_soon(self.accept, n, body)


async def have_company(store: Store) -> None:
    """Let some share a batch, so that those who come together next share one from the first of them on."""
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(store.setting, "colour")


async def chats_in(store: Store) -> list[int]:
    return [row.chat_id for row in await store.backlog(after=0, limit=1_000)]


async def test_a_full_disk_fails_only_whom_it_fails(path: Path, disk: Disk) -> None:
    async with opened(path) as store:
        before = await accepted(store, arrival(999))
        pages = disk.ask("page_count")
        assert isinstance(pages, int)
        disk.ask(f"max_page_count = {pages + 300}")
        crowd = Crowd(store)

        await crowd.come(40, bytes(60_000))

        assert crowd.stored and crowd.errors
        assert len(crowd.stored) + len(crowd.errors) == 40
        assert {type(error) for error in crowd.errors} == {StoreFullError}
        told = sorted(row.chat_id for row in crowd.stored)
        assert sorted(await chats_in(store)) == [*told, before.chat_id]
        assert sorted(row.chat_id for row in crowd.announced) == told
        for n in range(40):
            assert (await store.setting(f"with {n}") == "yes") == (n in told)
        found = store.statistics()
        assert (found.inbox, found.inbox_bytes) == (len(told) + 1, len(told) * 60_000 + len(before.body))

        disk.ask(f"max_page_count = {pages + 10_000}")
        again = Crowd(store)
        await again.come(40, bytes(60_000))
        assert not again.errors

    async with opened(path) as store:
        assert store.statistics().inbox == len(told) + 1 + 40


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (sqlite3.SQLITE_FULL, "free some space"),
        (sqlite3.SQLITE_IOERR, "the disk fails, or a quota on it is used up"),
        (sqlite3.SQLITE_READONLY, "the file or its disk is read-only"),
        (sqlite3.SQLITE_CANTOPEN, "a file can't be opened in its folder"),
        (sqlite3.SQLITE_BUSY, "another program has the file open"),
    ],
)
async def test_an_operator_reads_what_to_do_about_the_cause(
    code: int, remedy: str, path: Path, disk: Disk
) -> None:
    """Space is asked for where there is none, and nowhere else."""
    async with opened(path) as store:
        disk.fail("INSERT INTO inbox", code)
        disk.fail("INSERT INTO inbox", code)
        with pytest.raises(StoreFullError) as caught:
            await accepted(store, arrival(1))
        assert caught.value.remedy.startswith(remedy)
        assert ("space" in caught.value.remedy) == (code == sqlite3.SQLITE_FULL)
    assert "space" not in StoreFullError("too much waits in the inbox").remedy
    assert StoreAwayError("away").remedy.startswith("look at the database's server")


async def test_a_write_that_fails_within_a_batch_is_tried_once_more_alone(path: Path, disk: Disk) -> None:
    """The disk failed twice: the transaction is there still, and one caller is told; once, and nobody is."""
    async with opened(path) as store:
        crowd = Crowd(store)
        disk.fail("INSERT INTO inbox", sqlite3.SQLITE_IOERR)
        await crowd.come(10)
        assert not crowd.errors
        assert [row.seq for row in crowd.announced] == sorted(row.seq for row in crowd.stored)
        assert store.statistics().inbox == len(await chats_in(store)) == 10

    async with opened(path.with_name("another.db")) as store:
        crowd = Crowd(store)
        for _ in range(2):
            disk.fail("INSERT INTO inbox", sqlite3.SQLITE_IOERR)
        await crowd.come(10)
        assert [type(error) for error in crowd.errors] == [StoreFullError]
        assert len(crowd.stored) == len(await chats_in(store)) == 9
        settings = [await store.setting(f"with {n}") for n in range(10)]
        assert settings.count("yes") == 9


async def test_a_commit_for_which_there_was_no_room_is_done_one_by_one(path: Path, disk: Disk) -> None:
    async with opened(path) as store:
        crowd = Crowd(store)
        disk.fail("COMMIT", sqlite3.SQLITE_FULL)
        await crowd.come(10)
        assert not crowd.errors
        assert len(await chats_in(store)) == 10
        assert [row.seq for row in crowd.announced] == sorted(row.seq for row in crowd.stored)
        assert store.statistics().inbox == 10


async def test_a_transaction_that_cannot_begin_fails_its_writers_and_not_its_readers(
    path: Path, disk: Disk
) -> None:
    async with opened(path) as store:
        await store.commit(PutSetting("colour", "blue"))
        await have_company(store)
        crowd = Crowd(store)
        answers: list[str | None] = []

        async def read() -> None:
            answers.append(await store.setting("colour"))

        disk.fail("BEGIN", sqlite3.SQLITE_BUSY)
        async with trio.open_nursery() as nursery:
            for n in range(5):
                nursery.start_soon(crowd.accept, n)
                nursery.start_soon(read)

        assert {type(error) for error in crowd.errors} == {StoreFullError}
        assert answers == ["blue"] * 5
        assert len(crowd.errors) == 5
        await crowd.accept(99)
        assert len(crowd.stored) == 1


@pytest.mark.parametrize("together", [1, 10])
async def test_a_failed_fsync_ends_the_store(path: Path, disk: Disk, together: int) -> None:
    reached_the_end = False
    with pytest.raises(StoreCorruptError, match=r"bot\.db"):
        async with opened(path) as store:
            safe = await accepted(store, arrival(500))
            await have_company(store)
            crowd = Crowd(store)
            with trio.CancelScope(shield=True):
                disk.fail("COMMIT", sqlite3.SQLITE_IOERR_FSYNC)
                await crowd.come(together)
                assert [type(error) for error in crowd.errors] == [StoreCorruptError] * together
                assert crowd.announced == []
                with pytest.raises(StoreCorruptError):
                    await store.check()
                with pytest.raises(StoreCorruptError):
                    await store.setting("colour")
                assert store.statistics().inbox == 1
            await trio.sleep_forever()
            reached_the_end = True
    assert not reached_the_end

    async with opened(path) as store:
        assert list(await store.pending(ChatId(500), after=0, limit=10)) == [safe]


async def test_a_batch_that_waits_behind_a_failed_fsync_is_refused(path: Path, disk: Disk) -> None:
    """A second fsync may report success for pages that the first one lost."""
    with pytest.raises(StoreCorruptError):
        async with opened(path) as store:
            await accepted(store, arrival(500))  # alone: so the first of the crowd begins a batch at once
            crowd = Crowd(store)
            with trio.CancelScope(shield=True):
                disk.fail("COMMIT", sqlite3.SQLITE_IOERR_FSYNC)
                await crowd.come(10)
                assert [type(error) for error in crowd.errors] == [StoreCorruptError] * 10
                assert crowd.announced == crowd.stored == []
            await trio.sleep_forever()

    async with opened(path) as store:
        assert await chats_in(store) == [500]


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB])
async def test_damage_found_while_writing_ends_the_store(path: Path, disk: Disk, code: int) -> None:
    with pytest.raises(StoreCorruptError):
        async with opened(path) as store:
            crowd = Crowd(store)
            with trio.CancelScope(shield=True):
                disk.fail("INSERT INTO inbox", code)
                await crowd.come(10)
                assert {type(error) for error in crowd.errors} == {StoreCorruptError}
                assert crowd.announced == crowd.stored == []
            await trio.sleep_forever()


async def test_a_disk_that_cannot_be_read_ends_the_store(path: Path, disk: Disk) -> None:
    with pytest.raises(StoreCorruptError):
        async with opened(path) as store:
            disk.fail("SELECT value FROM settings", sqlite3.SQLITE_IOERR_READ)
            await store.setting("colour")


async def test_a_checkpoint_that_fails_is_not_passed_over(path: Path, disk: Disk) -> None:
    with pytest.raises(StoreCorruptError):
        async with opened(path) as store:
            disk.fail("PRAGMA wal_checkpoint(PASSIVE)", sqlite3.SQLITE_IOERR_FSYNC)
            for n in range(10):
                await accepted(store, arrival(n, body=bytes(1_000_000)))
            await trio.sleep_forever()


async def test_the_log_does_not_grow_without_end(path: Path) -> None:
    async with opened(path) as store:
        for n in range(40):
            await accepted(store, arrival(n, body=bytes(1_000_000)))
        log = path.with_name("bot.db-wal").stat().st_size
    assert log < 12_000_000


async def test_a_store_that_cannot_be_closed_cleanly_has_lost_nothing(
    path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(path) as store:
        row = await accepted(store, arrival())
        disk.fail("INSERT INTO meta", sqlite3.SQLITE_FULL)
    assert "could not be closed cleanly" in caplog.text
    async with opened(path) as store:
        assert list(await store.pending(ChatId(1), after=0, limit=10)) == [row]


async def test_a_mistake_in_on_commit_stops_the_program_after_the_others_were_told(path: Path) -> None:
    def mistaken(row: InboxRow) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with opened(path) as store:
            crowd = Crowd(store)
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    for n in range(5):
                        nursery.start_soon(crowd.accept, n)

                    async def unlucky() -> None:
                        await store.accept(arrival(77), quota=ROOMY, on_commit=mistaken)

                    nursery.start_soon(unlucky)
            assert len(crowd.announced) == 5
            await trio.sleep_forever()
