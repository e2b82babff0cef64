"""The file: who may open it, what survives a restart, what a crash leaves."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from sqlite_rig import STAMP, as_a_crash_leaves_it, fallible_disk, opened
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.store.contract.contract import (
    ALI,
    DAY,
    NOON,
    ROOMY,
    SARA,
    SECOND,
    SettableClock,
    accepted,
    arrival,
    gathering,
)
from triobot.errors import (
    ConfigError,
    StoreCorruptError,
    StoreFullError,
    StoreLockedError,
    StoreVersionError,
)
from triobot.seams.inbox import InboxRow, Quota, Redelivered, RedeliveredError
from triobot.seams.journals import AppendRecords, ConversationId
from triobot.seams.writes import (
    WORK_SLOTS,
    Accept,
    Consume,
    JournalConflictError,
    KeepRaw,
    PutSetting,
)
from triobot.store import Stamp, Store, file, log_file, open_store, rebind_store, writer
from triobot.store.restoring import examine_file, restore_file
from triobot.store.schema import MIGRATIONS, Migration
from triobot.store.statements import Tables
from triobot.wire.ids import ChatId


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder / "bot.db"


# --- a restart


async def test_everything_survives_a_restart(path: Path) -> None:
    raw = KeepRaw(NOON, "why", "text/plain", b"??")
    async with opened(path) as store:
        rows = [
            # By the time it is read the chat is a group, which it was not when this came.
            attrs.evolve(await accepted(store, arrival(7, sender_id=ALI)), group=True),
            await accepted(store, arrival(7, sender_id=SARA, key="press", once=True)),
        ]
        await store.commit(raw, PutSetting("secret", "s"))
        before = store.statistics()

    async with opened(path) as store:
        assert list(await store.pending(ChatId(7), after=0, limit=10)) == rows
        assert list(await store.raw(limit=10)) == [raw]
        assert await store.setting("secret") == "s"
        assert await store.accept(arrival(7, key="press", once=True), quota=ROOMY) == Redelivered()
        assert store.statistics() == before
        full = await store.accept(arrival(7), quota=Quota(events_per_chat=2))
        assert not isinstance(full, InboxRow)


async def test_numbers_go_on_after_a_restart_although_every_row_is_gone(path: Path) -> None:
    async with opened(path) as store:
        last = await accepted(store, arrival())
        await store.commit(Consume((last.seq,)))
    async with opened(path) as store:
        assert (await accepted(store, arrival())).seq == last.seq + 1


async def test_numbers_go_on_behind_all_that_were_given_before_a_kill(path: Path, tmp_path: Path) -> None:
    given: list[int] = []
    for n in range(1, 4):
        crashed = tmp_path / f"after {n} kills"
        async with opened(path) as store:
            for _ in range(70):
                given.append((await accepted(store, arrival())).seq)
                await store.commit(Consume((given[-1],)))
            path = as_a_crash_leaves_it(path, crashed)
    assert given == sorted(set(given))
    assert given[-1] <= 210 + 3 * 128  # a kill skips the numbers that were set aside


async def test_writes_that_fail_use_up_no_numbers_but_those_they_gave(path: Path) -> None:
    """Else a store of which many fail would come to the numbers that a restore gives."""
    async with opened(path) as store:
        for n in range(100):
            row = await accepted(store, arrival(key=f"event:{n}"))
            with pytest.raises(RedeliveredError):
                await store.commit(Accept(arrival(key=f"event:{n}")))
        assert row.seq == 100
        async with trio.open_nursery() as nursery:  # several at once, one of which comes again
            for n in range(95, 105):
                nursery.start_soon(partial(store.accept, arrival(key=f"event:{n}"), quota=ROOMY))
        assert (await accepted(store, arrival())).seq < 120
    async with opened(path) as store:
        assert (await accepted(store, arrival())).seq < 130


async def test_a_kill_before_what_was_consumed_is_written_leaves_true_counts(
    path: Path, tmp_path: Path
) -> None:
    """They tell whether a chat is at rest, so that something may begin there, and what waits in it."""
    async with opened(path) as store:
        rows = [await accepted(store, arrival(7), beginning=lambda _: "words") for _ in range(3)]
        await store.setting("any")
        assert store.note_consumed([rows[0].seq, rows[1].seq])
        path = as_a_crash_leaves_it(path, tmp_path / "killed")
    async with opened(path) as store:
        assert (store.statistics().inbox, store.statistics().inbox_bytes) == (1, len(rows[2].body))
        assert list(await store.pending(ChatId(7), after=0, limit=9)) == rows[2:]
        await store.commit(Consume((rows[2].seq,)))
        assert (store.statistics().inbox, store.statistics().inbox_bytes) == (0, 0)
        begun = [await accepted(store, arrival(7), beginning=lambda _: "words") for _ in range(2)]
        assert [row.begun for row in begun] == ["words", None]
        assert list(await store.pending(ChatId(7), after=0, limit=9)) == begun
        assert (await store.forget(ChatId(7))).events == 2


async def test_several_rows_of_a_chat_with_which_something_has_begun_are_all_found(path: Path) -> None:
    """Code before this one made such, where it had counted wrongly after a kill."""
    async with opened(path) as store:
        rows = [await accepted(store, arrival(7, body=b"%d" % n)) for n in range(5)]
    connection = sqlite3.connect(path)
    connection.execute("UPDATE inbox SET begun = 'words' WHERE seq IN (1, 2, 4)")
    connection.commit()
    connection.close()
    async with opened(path) as store:
        for after, limit in ((0, 9), (0, 3), (1, 2), (2, 9), (4, 9)):
            told = await store.pending(ChatId(7), after=after, limit=limit)
            assert [row.seq for row in told] == [row.seq for row in rows if row.seq > after][:limit]
        await store.commit(Consume((2,)))
        assert [row.seq for row in await store.pending(ChatId(7), after=0, limit=9)] == [1, 3, 4, 5]
        assert (await store.forget(ChatId(7))).events == 4


async def test_an_event_alone_writes_two_pages(
    path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """The page of its row and the page of its delivery have the rows of the last event, too."""
    disk = fallible_disk(monkeypatch)
    async with opened(path) as store:
        await accepted(store, arrival())
        before = disk.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
        for n in range(200):
            key = f"event:{n % 50}:{hashlib.md5(b'%d' % n).hexdigest()}"
            row = await accepted(store, arrival(100 + n % 50, key=key), beginning=lambda _: "words")
            assert row.begun is not None
            assert store.note_consumed([row.seq])
            store.note_answered(key)
        pages = disk.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1] - before
    assert 2 * 200 <= pages < 2.4 * 200


async def test_a_clean_stop_leaves_one_file_and_no_log(path: Path) -> None:
    async with opened(path) as store:
        await accepted(store, arrival())
    assert {file.name for file in path.parent.iterdir()} == {"bot.db", "bot.db.lock"}


def boots(monkeypatch: pytest.MonkeyPatch, machine: str | None) -> None:
    """Let the machine be one that has been started since, or doesn't tell."""
    monkeypatch.setattr("triobot.store.file.machine_boot", lambda: machine)


@pytest.mark.parametrize("machine", ["another boot", None])
async def test_after_a_crash_of_the_machine_only_what_was_written_counts_as_answered(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str | None
) -> None:
    clock = SettableClock()
    if machine is None:
        boots(monkeypatch, None)
    async with opened(path, clock=clock) as store:
        for key in "written", "noted":
            await accepted(store, arrival(key=key))
            store.note_answered(key)
        crashed = as_a_crash_leaves_it(path, tmp_path / "crashed")

    clock.time += SECOND
    boots(monkeypatch, machine)
    async with opened(crashed, clock=clock, visit=True):
        pass  # a tool that looks in first changes nothing
    async with opened(crashed, clock=clock) as store:
        await accepted(store, arrival(key="written", at=clock.time))
        assert await store.accept(arrival(key="noted", at=clock.time), quota=ROOMY) == Redelivered()


async def test_on_the_same_boot_what_was_answered_is_known_at_once(path: Path, tmp_path: Path) -> None:
    """A kill leaves what was written, and notes that stand for an earlier delivery are taken back."""
    clock = SettableClock()
    async with opened(path, clock=clock) as store:
        for key in "noted", "written", "never answered", "said again":
            await accepted(store, arrival(key=key))
        for key in "noted", "written", "said again":
            store.note_answered(key)
        await accepted(store, arrival(key="said again"))
        crashed = as_a_crash_leaves_it(path, tmp_path / "crashed")

    async with opened(crashed, clock=clock, visit=True):
        pass  # a tool that looks in first takes nothing from the bot
    async with opened(crashed, clock=clock) as store:
        for key in "noted", "written":
            await accepted(store, arrival(key=key))
        for key in "never answered", "said again":
            assert await store.accept(arrival(key=key), quota=ROOMY) == Redelivered()


async def test_what_is_noted_while_events_come_goes_before_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the notes share their statements, however many events come in between."""
    disk, statements = fallible_disk(monkeypatch), list[str]()
    async with opened(path) as store:
        rows = [await accepted(store, arrival(n, key=f"{n}")) for n in range(3)]
        async with gathering(store) as nursery:
            for n, row in enumerate(rows):
                store.note_answered(f"{n}")
                assert store.note_consumed([row.seq])
                nursery.start_soon(accepted, store, arrival(n, key=f"another {n}"))
                await wait_all_tasks_blocked()
            disk.connection.set_trace_callback(statements.append)
        disk.connection.set_trace_callback(None)
        assert len(await store.backlog(after=rows[2].seq, limit=10)) == 4
    writes = [told for told in statements if told.startswith(("INSERT", "UPDATE", "DELETE"))]
    batch = [" ".join(told.split()[:3]) for told in writes[-12:]]
    assert batch[:6] == ["DELETE FROM inbox"] * 3 + ["DELETE FROM deliveries"] * 3
    assert batch[6:] == ["INSERT INTO deliveries", "INSERT INTO inbox"] * 3


async def test_a_repetition_does_not_see_the_answer_that_came_after_it(path: Path) -> None:
    """Though what was noted before it, and is written with that answer, goes before it."""
    async with opened(path) as store:
        known = await accepted(store, arrival(7, key="known"))
        await accepted(store, arrival(8, key="word"))
        told: list[object] = []

        async def come(key: str) -> None:
            told.append(await store.accept(arrival(8, key=key), quota=ROOMY))

        async with gathering(store) as nursery:
            assert store.note_consumed([known.seq])
            nursery.start_soon(come, "word")
            await wait_all_tasks_blocked()
            store.note_answered("word")
            store.note_answered("known")
        assert told == [Redelivered()]
        for key in "word", "known":
            await come(key)
        assert [type(one) for one in told[1:]] == [InboxRow, InboxRow]


async def test_an_answer_is_not_seen_by_a_commit_that_came_before_it(path: Path) -> None:
    """Of what is no event it isn't known which keys are in it: so nothing joins what was noted before it."""
    async with opened(path) as store:
        known = await accepted(store, arrival(7, key="known"))
        await accepted(store, arrival(8, key="word"))
        refused: list[bool] = []

        async def take() -> None:
            with pytest.raises(RedeliveredError):
                await store.commit(Accept(arrival(8, key="word")))
            refused.append(True)

        async with gathering(store) as nursery:
            assert store.note_consumed([known.seq])
            nursery.start_soon(take)
            await wait_all_tasks_blocked()
            store.note_answered("word")
        assert refused


async def test_a_commit_that_comes_alone_shares_its_statements_too(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Tables, write: object) -> None:
        pytest.fail(f"{write} was done by itself")

    async with opened(path) as store:
        rows = [await accepted(store, arrival(n)) for n in range(3)]
        monkeypatch.setattr(Tables, "apply", refuse)
        await store.commit(*[Consume((row.seq,)) for row in rows])
        assert not await store.backlog(after=0, limit=9)


async def test_more_notes_than_there_is_room_for_cost_the_oldest(path: Path, tmp_path: Path) -> None:
    async with opened(path) as store:
        for number in range(5_000):
            store.note_answered(f"filler {number}" if number else "first")
        store.note_answered("x" * 500)  # no key of ours is as long
        for key in "first", "last":
            await accepted(store, arrival(key=key))
        store.note_answered("last")
        crashed = as_a_crash_leaves_it(path, tmp_path / "crashed")
    assert (tmp_path / "crashed" / "bot.db.lock").stat().st_size < 1024 * 1024

    async with opened(crashed) as store:
        await accepted(store, arrival(key="last"))
        assert await store.accept(arrival(key="first"), quota=ROOMY) == Redelivered()


async def test_what_was_at_work_at_a_kill_is_known_to_the_next_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a tool has looked in; not after a clean stop, nor once the machine was started again.

    Whose code is at work when the store is closed has ended the process, though nobody killed it.
    """
    async with opened(path) as store:
        store.at_work[3] = 5
    async with opened(path) as store:
        assert (store.opening().unclean, store.opening().at_work[3]) == (1, 5)
    async with opened(path) as store:
        store.at_work[0] = 41
        store.at_work[0] = 0
        store.at_work[2] = -7
        store.at_work[WORK_SLOTS - 1] = 10**18
        crashed = as_a_crash_leaves_it(path, tmp_path / "crashed")
        rebooted = as_a_crash_leaves_it(path, tmp_path / "rebooted")
        store.at_work[2] = store.at_work[WORK_SLOTS - 1] = 0
    async with opened(path) as store:
        assert (store.opening().unclean, store.opening().at_work) == (0, ())

    for _ in range(2):
        async with opened(crashed, visit=True):
            pass
    async with opened(crashed) as store:
        noted = {slot: number for slot, number in enumerate(store.opening().at_work) if number}
        assert noted == {2: -7, WORK_SLOTS - 1: 10**18}
        again = as_a_crash_leaves_it(crashed, tmp_path / "again")
    async with opened(again) as store:
        assert (store.opening().unclean, store.opening().at_work) == (2, ())

    boots(monkeypatch, "another boot")
    async with opened(rebooted) as store:
        assert (store.opening().unclean, store.opening().at_work) == (1, ())


@pytest.mark.parametrize(
    ("found", "left"), [("killed", [2]), ("another boot", [1, 2]), ("another store", [1, 2])]
)
async def test_rows_that_were_noted_as_consumed_are_gone_after_a_kill_and_only_then(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str, left: list[int]
) -> None:
    """The machine's crash may have come before what was sent; another store's rows are none of the notes'."""
    async with opened(path) as store:
        await accepted(store, arrival(7))
        await accepted(store, arrival(8))
        await store.setting("any")
        before = as_a_crash_leaves_it(path, tmp_path / "before")
        assert store.note_consumed([1])
        crashed = as_a_crash_leaves_it(path, tmp_path / "crashed")

    if found == "another boot":
        boots(monkeypatch, "another boot")
    elif found == "another store":
        async with opened(before):
            other = as_a_crash_leaves_it(before, tmp_path / "other")
        for name in "bot.db", "bot.db-wal":
            shutil.copy2(other.with_name(name), crashed.with_name(name))
    else:
        async with opened(crashed, visit=True):
            pass
    async with opened(crashed) as store:
        assert [row.seq for row in await store.backlog(after=0, limit=9)] == left
    async with opened(crashed) as store:
        assert [row.seq for row in await store.backlog(after=0, limit=9)] == left


@pytest.mark.slow
async def test_what_is_noted_is_written_soon_when_nothing_else_comes(
    path: Path, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with opened(path) as store:
        await accepted(store, arrival(7, key="word"))
        store.note_answered("word")
        assert store.note_consumed([1])
        while store.statistics().inbox:
            await trio.sleep(1)
        crashed = as_a_crash_leaves_it(path, tmp_path / "crashed")

    (tmp_path / "crashed" / "bot.db.lock").unlink()
    async with opened(crashed) as store:
        assert store.statistics().inbox == 0
        await accepted(store, arrival(7, key="word"))


async def test_what_was_noted_comes_before_all_else_also_when_the_disk_is_full(
    path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that comes behind it is stored without it, and the rows are read no more."""
    disk = fallible_disk(monkeypatch)
    async with opened(path) as store:
        await accepted(store, arrival(7, key="word"))
        assert store.note_consumed([1])
        for _ in range(10_000):  # until it has room again
            disk.fail("DELETE FROM inbox", sqlite3.SQLITE_FULL)
        with pytest.raises(StoreFullError):
            await store.commit(PutSetting("colour", "blue"))
        assert await store.backlog(after=0, limit=9) == []
        assert store.statistics().inbox == 1
        disk.failures.clear()
        while store.statistics().inbox:
            await trio.sleep(1)
        assert await store.setting("colour") is None


async def test_all_that_was_noted_is_read_no_more_while_the_disk_is_full(
    path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was noted behind something that can't be written is not even tried."""
    disk = fallible_disk(monkeypatch)
    async with opened(path) as store:
        for chat in (7, 8, 9):
            await accepted(store, arrival(chat))
        for _ in range(10_000):  # until it has room again
            disk.fail("DELETE FROM inbox", sqlite3.SQLITE_FULL)
        assert store.note_consumed([1])
        with pytest.raises(StoreFullError):
            await store.commit(PutSetting("colour", "blue"))
        assert store.note_consumed([2])
        assert [row.seq for row in await store.backlog(after=0, limit=9)] == [3]
        assert await store.pending(ChatId(8), after=0, limit=9) == []
        disk.failures.clear()
        while store.statistics().inbox > 1:
            await trio.sleep(1)
        assert [row.seq for row in await store.backlog(after=0, limit=9)] == [3]


async def test_what_could_not_be_written_by_the_end_is_still_noted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = fallible_disk(monkeypatch)
    async with opened(path) as store:
        await accepted(store, arrival(7))
        assert store.note_consumed([1])
        for _ in range(10_000):
            disk.fail("DELETE FROM inbox", sqlite3.SQLITE_FULL)
    disk.failures.clear()
    async with opened(path) as store:
        assert await store.backlog(after=0, limit=9) == []


async def test_old_deliveries_leave_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = fallible_disk(monkeypatch)
    clock = SettableClock()
    async with opened(path, clock=clock) as store:
        await accepted(store, arrival(key="text"))
        await accepted(store, arrival(key="press", once=True))
        clock.time += 2 * 60 * SECOND
        await store.check()
        left = disk.connection.execute("SELECT key FROM deliveries").fetchall()
        assert left == [("press",)]
        clock.time += 7 * DAY
        await store.check()
        assert disk.connection.execute("SELECT key FROM deliveries").fetchall() == []


@pytest.mark.parametrize("together", [1, 50])
async def test_a_busy_bots_old_deliveries_leave_the_file_within_the_minute(
    path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """They are looked for as often as new ones come: one at a time, or many at once."""
    disk, clock = fallible_disk(monkeypatch), SettableClock()
    async with opened(path, clock=clock) as store:
        for old in (True, False):
            for n in range(0, 2_000, together):
                at = clock.time - 2 * 60 * SECOND if old else clock.time
                async with trio.open_nursery() as nursery:
                    for number in range(n, n + together):
                        key = hashlib.md5(b"%d %d" % (old, number)).hexdigest()
                        coming = arrival(number % 7, key=key, at=at)
                        nursery.start_soon(partial(store.accept, coming, quota=Quota(10_000)))
        cutoff = clock.time - 60 * SECOND
        (left,) = disk.connection.execute("SELECT sum(at < ?) FROM deliveries", (cutoff,)).fetchone()
        assert left == 0


async def test_the_log_is_moved_into_the_file_at_some_thousand_pages(
    path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """What is noted with an event is in pages that the next one writes."""
    disk, statements = fallible_disk(monkeypatch), list[str]()
    async with opened(path) as store:
        disk.connection.set_trace_callback(statements.append)
        for n in range(1_500):
            row = await accepted(store, arrival(n % 50, key=f"{n}"), beginning=lambda _: "words")
            assert store.note_consumed([row.seq])
            store.note_answered(f"{n}")
        disk.connection.set_trace_callback(None)
    assert statements.count("PRAGMA wal_checkpoint(PASSIVE)") == 2


# --- being cancelled


@pytest.mark.parametrize("patience", range(7))
async def test_what_was_handed_over_is_finished_when_the_program_is_cancelled(
    path: Path, patience: int
) -> None:
    announced: list[InboxRow] = []

    async def one(store: Store, n: int) -> None:
        await store.accept(arrival(n), quota=ROOMY, on_commit=announced.append)

    with trio.CancelScope() as program:
        async with opened(path) as store, trio.open_nursery() as nursery:
            for n in range(30):
                nursery.start_soon(one, store, n)
            for _ in range(patience):
                await trio.lowlevel.checkpoint()
            program.cancel()
            # It is cancelled here at the latest: on a slow machine all of it may be stored by now.
            await trio.lowlevel.checkpoint()
    assert program.cancelled_caught

    async with opened(path) as store:
        stored = [row.seq for row in await store.backlog(after=0, limit=100)]
    assert stored == [row.seq for row in announced]
    assert patience < 3 or len(stored) == 30


async def test_what_takes_too_long_at_the_end_is_given_up_and_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GRACE", -1.0)
    outcomes: list[str] = []

    async def one(store: Store, n: int) -> None:
        try:
            await store.accept(arrival(n), quota=ROOMY)
        except StoreFullError:
            outcomes.append("given up")
        else:
            outcomes.append("stored")

    async with trio.open_nursery() as nursery, opened(path) as store:
        for n in range(10):
            nursery.start_soon(one, store, n)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()

    assert len(outcomes) == 10
    async with opened(path) as store:
        assert store.statistics().inbox == outcomes.count("stored")


async def test_a_cancelled_opening_leaves_no_lock(path: Path) -> None:
    for patience in range(6):
        async with trio.open_nursery() as nursery:

            async def open_and_close() -> None:
                async with opened(path) as store:
                    await store.check()

            nursery.start_soon(open_and_close)
            for _ in range(patience):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    async with opened(path) as store:
        await store.check()


# --- who may open it


async def test_a_second_one_is_refused_by_name(path: Path) -> None:
    async with opened(path):
        with pytest.raises(StoreLockedError, match=r"bot\.db"):
            async with opened(path):
                pytest.fail("two at once")
    async with opened(path):
        pass


async def test_a_second_one_by_another_name_is_refused(path: Path, tmp_path: Path) -> None:
    other_name = tmp_path / "link.db"
    other_name.symlink_to(path)
    async with opened(path):
        with pytest.raises(StoreLockedError, match="this process"):
            async with opened(other_name):
                pytest.fail("two at once")


async def test_somebody_elses_connection_is_refused_while_it_is_open(path: Path) -> None:
    async with opened(path):
        shell = sqlite3.connect(path, timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            shell.execute("SELECT * FROM inbox")
        shell.close()


async def test_nobody_else_can_read_the_files(path: Path) -> None:
    old = os.umask(0)
    try:
        async with opened(path) as store:
            await accepted(store, arrival())
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(old)
    assert set(modes) >= {"bot.db", "bot.db-wal", "bot.db.lock"}
    assert set(modes.values()) == {0o600}


async def test_a_file_that_others_could_read_is_closed_to_them(path: Path) -> None:
    async with opened(path):
        pass
    path.chmod(0o644)
    async with opened(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_log_and_the_fsync_are_as_asked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = fallible_disk(monkeypatch)
    async with opened(path):
        assert disk.ask("journal_mode") == "wal"
        assert disk.ask("synchronous") == 2
        assert disk.ask("fullfsync") == 1
        assert disk.ask("locking_mode") == "exclusive"


@pytest.mark.slow
async def test_the_log_has_its_size_from_the_opening_and_keeps_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also over checkpoints and after an erasure; a commit never makes its file longer."""
    log = path.with_name("bot.db-wal")
    disk, statements = fallible_disk(monkeypatch), list[str]()
    async with opened(path) as store:
        disk.connection.set_trace_callback(statements.append)
        sizes = {log.stat().st_size}
        for n in range(1_100):
            await store.commit(PutSetting("n", str(n)), PutSetting("long", 8_000 * str(n % 10)))
            sizes.add(log.stat().st_size)
        assert statements.count("PRAGMA wal_checkpoint(PASSIVE)") > 1
        assert await store.setting("n") == "1099"
        await store.forget(ChatId(1))
        sizes.add(log.stat().st_size)
        await store.commit(PutSetting("n", "after it"))
        sizes.add(log.stat().st_size)
    assert sizes == {file._LOG_BEGINS_AT}
    assert not log.exists()
    async with opened(path) as store:
        assert await store.setting("n") == "after it"


async def test_a_log_whose_length_cannot_be_read_costs_no_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> bytes:
        raise OSError(errno.EIO, "the disk fails")

    async with opened(path) as store:
        monkeypatch.setattr(log_file, "read_at", fail)
        for n in range(3):
            await store.commit(PutSetting("n", str(n)))
        assert await store.setting("n") == "2"


async def test_a_crash_leaves_a_log_of_which_only_what_was_written_counts(path: Path, tmp_path: Path) -> None:
    """Before the first commit, and after it: the rest of the log is zeros."""
    async with opened(path) as store:
        empty = as_a_crash_leaves_it(path, tmp_path / "empty")
        await store.commit(PutSetting("colour", "blue"))
        one = as_a_crash_leaves_it(path, tmp_path / "one")
    for left, colour in ((empty, None), (one, "blue")):
        async with opened(left) as store:
            assert await store.setting("colour") == colour


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
async def test_a_disk_without_room_for_the_log_is_one_on_which_it_grows(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    log = path.with_name("bot.db-wal")
    before = getattr(os, call)

    def full(fd: int, *rest: object) -> object:
        if os.fstat(fd).st_ino == log.stat().st_ino:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return before(fd, *rest)

    async with opened(path) as store:
        await store.check()
    log.touch()
    monkeypatch.setattr(os, call, full)
    async with opened(path) as store:
        assert log.stat().st_size < 10_000  # its first entries
        await store.commit(PutSetting("colour", "blue"))
        assert log.stat().st_size < 100_000


async def test_a_visit_leaves_the_log_as_it_needs_it(path: Path) -> None:
    async with opened(path, visit=True):
        assert path.with_name("bot.db-wal").stat().st_size < 100_000


@pytest.mark.parametrize(
    ("pragma", "answer"), [("journal_mode", "delete"), ("synchronous", 1), ("locking_mode", "normal")]
)
async def test_a_disk_that_cannot_have_them_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, pragma: str, answer: object
) -> None:
    disk = fallible_disk(monkeypatch)
    disk.answers[f"PRAGMA {pragma}"] = answer
    with pytest.raises(ConfigError, match=pragma):
        async with opened(path):
            pytest.fail("opened without what it needs")


async def test_a_store_needs_a_folder_and_a_file(tmp_path: Path) -> None:
    for wrong in (tmp_path / "nowhere" / "bot.db", tmp_path):
        with pytest.raises(ConfigError):
            async with opened(wrong):
                pytest.fail("opened")


# --- whose it is


@pytest.mark.parametrize(
    "other",
    [Stamp("https://platform.test/api", "token-two"), Stamp("http://127.0.0.1:8081", "token-one")],
    ids=["token", "platform"],
)
async def test_a_store_of_another_bot_is_refused_until_it_is_rebound(path: Path, other: Stamp) -> None:
    async with opened(path) as store:
        row = await accepted(store, arrival())

    with pytest.raises(ConfigError, match="triobot store rebind") as caught:
        async with opened(path, stamp=other):
            pytest.fail("opened for another bot")
    assert "token-" not in str(caught.value)

    await rebind_store(f"sqlite:{path}", stamp=other, clock=SettableClock())
    async with opened(path, stamp=other) as store:
        assert list(await store.pending(ChatId(1), after=0, limit=10)) == [row]
    with pytest.raises(ConfigError):
        async with opened(path):
            pytest.fail("opened for the former bot")


async def test_a_slash_more_is_the_same_platform(path: Path) -> None:
    async with opened(path):
        pass
    async with opened(path, stamp=Stamp(STAMP.base_url + "/", STAMP.token)):
        pass


async def test_the_token_is_nowhere_in_the_files(path: Path) -> None:
    async with opened(path) as store:
        await store.check()
        content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"token-one" not in content
    assert b"platform.test" in content
    assert "token-one" not in repr(STAMP)


# --- what it is


@pytest.mark.parametrize("content", [b"dear diary", b"SQLite format 3\0 or so it says" * 100])
async def test_a_file_that_is_no_store_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreCorruptError):
        async with opened(path):
            pytest.fail("opened")
    assert path.read_bytes() == content


async def test_another_programs_database_is_left_alone(path: Path) -> None:
    theirs = sqlite3.connect(path)
    theirs.execute("CREATE TABLE bookmarks (url)")
    theirs.commit()
    theirs.close()
    content = path.read_bytes()
    with pytest.raises(StoreCorruptError, match="another program"):
        async with opened(path):
            pytest.fail("opened")
    assert path.read_bytes() == content


async def test_a_damaged_store_is_refused(path: Path) -> None:
    async with opened(path) as store:
        for n in range(50):
            await accepted(store, arrival(n, body=bytes(2_000)))
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreCorruptError):
        async with opened(path):
            pytest.fail("opened")


@pytest.mark.parametrize("at", range(0, 4096, 226))
async def test_whatever_a_damage_hits_the_store_says_that_it_is_damaged(path: Path, at: int) -> None:
    """SQLite's words may quote what is damaged, and Python's error about those said nothing of damage."""
    async with opened(path) as store:
        for n in range(20):
            await accepted(store, arrival(n, body=bytes(2_000)))
        await store.commit(PutSetting("a", "b"))
    content = path.read_bytes()
    path.write_bytes(bytes(x ^ 255 if i % 4096 == at and i > 4096 else x for i, x in enumerate(content)))
    try:
        async with opened(path) as store:
            await store.check()
    except StoreCorruptError as error:
        assert "is damaged or is not a store" in str(error) or "schema" in str(error)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("boot", "CAST(x'ff31' AS TEXT)", "a text in it can't be decoded"),
        ("boot", "'1x'", "what it says of itself can't be read"),
        ("schema", "CAST(x'ff' AS TEXT)", "a text in it can't be decoded"),
        ("schema", "'eight'", "what it says of itself can't be read"),
    ],
)
async def test_what_can_t_be_read_is_damaged(path: Path, name: str, value: str, says: str) -> None:
    async with opened(path) as store:
        await store.check()
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE meta SET value = {value} WHERE name = '{name}'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreCorruptError, match="is damaged or is not a store: ") as caught:
        async with opened(path):
            pytest.fail("opened")
    assert str(caught.value).endswith(says)


async def test_a_store_that_names_no_version_is_damaged_and_there(path: Path) -> None:
    """A tool that only looks said that there was none."""
    async with opened(path):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM meta WHERE name = 'schema'")
    with pytest.raises(StoreCorruptError, match="is damaged or is not a store: what it says of itself"):
        async with opened(path, stamp=None, visit=True):
            pytest.fail("opened")


async def test_a_text_that_is_none_is_read_as_one_that_says_nothing(path: Path) -> None:
    """Whoever reads it refuses it, and knows whom it costs."""
    async with opened(path) as store:
        await store.commit(PutSetting("a", "b"))
    connection = sqlite3.connect(path)
    assert connection.execute("UPDATE settings SET value = CAST(x'ff5365637265742121' AS TEXT)").rowcount
    connection.commit()
    connection.close()
    async with opened(path) as store:
        assert await store.setting("a") == "\x1aSecret!!"


@pytest.mark.parametrize(
    "damage",
    [
        "INSERT INTO deployed VALUES (1, 1, 1, '[\"a')",
        "INSERT INTO deployed VALUES (1, 1, 1, '7')",
        "INSERT INTO sources VALUES ('d', 'bot.py', x'00ff')",
        "INSERT INTO sources VALUES ('d', 'bot.py', 'text')",
        "ALTER TABLE sites RENAME COLUMN line TO lime",
    ],
)
async def test_a_row_with_no_such_values_ends_an_open_store(path: Path, damage: str) -> None:
    async with opened(path) as store:
        await store.check()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(damage)
    with pytest.raises(StoreCorruptError, match="is damaged or is not a store: what it says of itself"):
        async with opened(path) as store:
            await store.code.all()


@pytest.mark.parametrize("damaged", [False, True])
async def test_an_error_to_which_a_damaged_row_led_says_so(path: Path, damaged: bool) -> None:
    """Whoever reads such a value fails in a way of its own."""
    async with opened(path) as store:
        await store.commit(PutSetting("a", "b"))
    if damaged:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE settings SET value = x'00'")
        assert list(examine_file(path)) == ["the column value of settings has a value that is no text"]
    with pytest.raises(StoreCorruptError if damaged else ZeroDivisionError) as caught:
        async with opened(path) as store:
            await store.setting("a")
            raise ZeroDivisionError
    assert str(caught.value).endswith("the column value of settings has a value that is no text") == damaged


async def test_making_a_store_can_be_cut_short_and_done_again(path: Path) -> None:
    half_made = sqlite3.connect(path)
    half_made.execute("PRAGMA journal_mode=WAL")
    half_made.close()
    async with opened(path) as store:
        await store.check()


# --- versions

NEXT = len(MIGRATIONS) + 1
NEXT_VERSION = Migration(NEXT, "0.2.0", 1, ("CREATE TABLE novelty (chat_id INTEGER, n INTEGER)",))
BREAKING_VERSION = Migration(NEXT, "0.3.0", NEXT, ("CREATE TABLE novelty (n INTEGER)",))


async def test_an_older_store_is_migrated_after_a_backup(path: Path) -> None:
    async with opened(path) as store:
        row = await accepted(store, arrival())

    async with opened(path, migrations=[*MIGRATIONS, NEXT_VERSION]) as store:
        assert list(await store.pending(ChatId(1), after=0, limit=10)) == [row]
        await accepted(store, arrival())

    backup = path.with_name(f"bot.db.schema-{NEXT - 1}.backup")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert not list(path.parent.glob("*.part*"))
    with pytest.raises(ConfigError, match="store restore"):
        async with opened(backup):
            pytest.fail("ran on a backup")
    restore_file(backup, path, SettableClock().now())
    async with opened(path) as store:
        assert list(await store.pending(ChatId(1), after=0, limit=10)) == [row]


async def test_only_the_newest_copies_of_migrations_stay(path: Path) -> None:
    """What only looks like one stays as well."""
    ten = [*MIGRATIONS, *(Migration(number, "0.2.0", 1, ()) for number in range(NEXT, 11))]
    async with opened(path, migrations=ten):
        pass
    for number in (2, 3, 8, 9):
        path.with_name(f"bot.db.schema-{number}.backup").write_bytes(b"SQLite format 3\0")
    path.with_name("bot.db.schema-4.backup").write_bytes(b"notes of a person")
    path.with_name("other.db.schema-1.backup").touch()

    async with opened(path, migrations=[*ten, Migration(11, "0.2.0", 1, ())]):
        pass

    assert sorted(one.name for one in path.parent.glob("*.backup")) == [
        *(f"bot.db.schema-{number}.backup" for number in (10, 4, 8, 9)),
        "other.db.schema-1.backup",
    ]


async def test_a_store_that_is_up_to_date_is_not_backed_up(path: Path) -> None:
    for _ in range(2):
        async with opened(path, migrations=[*MIGRATIONS, NEXT_VERSION]):
            pass
    assert not list(path.parent.glob("*.backup"))


async def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    async with opened(path) as store:
        row = await accepted(store, arrival())
    broken = Migration(NEXT, "0.2.0", 1, ("DELETE FROM inbox", "CREATE NONSENSE"))

    with pytest.raises(StoreCorruptError):
        async with opened(path, migrations=[*MIGRATIONS, broken]):
            pytest.fail("opened")

    async with opened(path) as store:
        assert list(await store.pending(ChatId(1), after=0, limit=10)) == [row]


async def test_a_newer_store_says_which_release_can_open_it(path: Path) -> None:
    async with opened(path, migrations=[*MIGRATIONS, BREAKING_VERSION]):
        pass
    with pytest.raises(StoreVersionError, match=r"0\.3\.0"):
        async with opened(path):
            pytest.fail("opened")


async def test_a_newer_store_that_only_gained_something_still_opens(path: Path) -> None:
    async with opened(path, migrations=[*MIGRATIONS, NEXT_VERSION]):
        pass
    async with opened(path) as store:
        await accepted(store, arrival())
    async with opened(path, migrations=[*MIGRATIONS, NEXT_VERSION]) as store:
        assert store.statistics().inbox == 1


def test_the_migrations_count_from_one() -> None:
    assert [migration.number for migration in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


# --- its address


@pytest.mark.parametrize(
    "url", ["", "bot.db", "sqlite:", "sqlite:///bot.db", "memory:x", "memory", "mysql://u:geheim@h/db"]
)
async def test_an_address_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="sqlite:PATH") as caught:
        async with open_store(url, stamp=STAMP, clock=SettableClock()):
            pytest.fail("opened")
    assert "geheim" not in str(caught.value)


async def test_a_consumed_row_is_counted_out_once_whoever_took_it_in(path: Path) -> None:
    """This run, which remembers its size, or an earlier one; also where a transaction is taken back."""
    async with opened(path) as store:
        old = await accepted(store, arrival(7, body=b"123"))
    async with opened(path) as store:
        new = await accepted(store, arrival(8, body=b"12345"))
        both = Consume((old.seq, new.seq, new.seq))
        with pytest.raises(JournalConflictError):
            await store.commit(both, AppendRecords(ConversationId(99), 0, ("[]",)))
        found = store.statistics()
        assert (found.inbox, found.inbox_bytes) == (2, 8)
        for _ in range(2):
            await store.commit(both)
            found = store.statistics()
            assert (found.inbox, found.inbox_bytes) == (0, 0)
