"""`triobot store copy`: all is there again, in another engine or place, whatever cuts it off."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from copying_rig import contents, copy, facts, fill
from sqlite_rig import STAMP

from tests.postgres import Server
from tests.samples import sample
from tests.store.contract.contract import NOON, SettableClock, accepted, arrival
from triobot.errors import (
    ConfigError,
    StoreAwayError,
    StoreFullError,
    StoreLockedError,
    StoreVersionError,
)
from triobot.seams.broadcasts import OpenBroadcast
from triobot.seams.writes import Consume, KeepRaw
from triobot.store import Stamp, open_store, schema
from triobot.store.copying import copier, copy_elsewhere, tables
from triobot.store.copying.ends import CopyEnd
from triobot.store.restoring import back_up_file, restore_file
from triobot.store.schema import Copying
from triobot.wire.ids import ChatId

CHILD = Path(__file__).with_name("copying_child.py")
ROOT = Path(__file__).parents[2]
WHEN = ("before", "after")


def at(address: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """An address in this folder, or of a schema that isn't there."""
    if address != "postgres":
        return address.format(folder)
    return new_on(request.getfixturevalue("postgres_server"))


def new_on(server: Server) -> str:
    """An address of a schema that isn't there."""
    server.ask("DROP SCHEMA IF EXISTS moved CASCADE")
    return server.url(query="schema=moved")


# --- all of it


@pytest.mark.parametrize(
    ("origin", "target"),
    [
        ("sqlite:{}/a.db", "sqlite:{}/b.db"),
        ("sqlite:{}/a.db", "postgres"),
        ("postgres", "sqlite:{}/b.db"),
    ],
)
async def test_everything_is_there_again_and_back(
    origin: str, target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    one, other = at(origin, tmp_path, request), at(target, tmp_path, request)
    await fill(one)
    before = contents(one)
    rows = copy(one, other)
    assert contents(one) == before
    assert contents(other) == before
    kept = {table: found for table, found in before.items() if table != "settings"}
    assert rows == sum(map(len, kept.values()))
    assert all(kept.values())
    back = f"sqlite:{tmp_path}/back.db"
    copy(other, back)
    assert contents(back) == before


@pytest.mark.slow
async def test_pages_of_any_size_bring_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = f"sqlite:{tmp_path}/a.db"
    await fill(one, many=3)
    for most, size in ((1, 10**6), (7, 10**6), (2_000, 300)):
        monkeypatch.setattr(tables, "_MOST_ROWS", most)
        monkeypatch.setattr(tables, "_MOST_BYTES", size)
        other = f"sqlite:{tmp_path}/b{most}.db"
        before = contents(one)
        copy(one, other)
        assert contents(other) == before
        one = other


async def test_a_table_is_read_in_pages_that_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = f"sqlite:{tmp_path}/a.db"
    await fill(one)
    monkeypatch.setattr(tables, "_MOST_BYTES", 1_000)
    sizes: list[int] = []
    pages = tables.CopiedTable.pages

    def watched(self: tables.CopiedTable, sql: object) -> object:
        for page in pages(self, sql):  # type: ignore[arg-type]
            if self.name == "inbox":
                sizes.append(sum(len(row[4]) for row in page))
            yield page

    monkeypatch.setattr(tables.CopiedTable, "pages", watched)
    copy(one, f"sqlite:{tmp_path}/b.db")
    assert len(sizes) > 3
    assert max(sizes) <= 1_000


async def test_progress_is_told_every_so_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, told = f"sqlite:{tmp_path}/a.db", list[str]()
    await fill(one)
    monkeypatch.setattr(copier, "_REPORT_EVERY", 10)
    monkeypatch.setattr(tables, "_MOST_ROWS", 5)
    copy(one, f"sqlite:{tmp_path}/b.db", told.append)
    assert "conversations: 10 rows" in told


def test_every_table_and_column_of_a_store_is_copied(tmp_path: Path) -> None:
    """Whoever adds one says in `TABLES` what becomes of it."""
    connection = sqlite3.connect(tmp_path / "a.db")
    for migration in schema.MIGRATIONS:
        schema.run_migration(connection, migration, schema.MIGRATIONS)
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    found = {name: {row[1] for row in connection.execute(f"PRAGMA table_info({name})")} for (name,) in names}
    connection.close()
    assert found.pop("meta")
    assert found.pop("settings")
    assert {table.name: set(table.columns) for table in tables.TABLES} == found


# --- numbers


async def test_events_keep_their_numbers_and_new_ones_are_larger(tmp_path: Path) -> None:
    one, other = f"sqlite:{tmp_path}/a.db", f"sqlite:{tmp_path}/b.db"
    await fill(one)
    numbers = [row[0] for table in ("inbox", "conversations") for row in contents(one)[table]]
    copy(one, other)
    async with open_store(other, stamp=STAMP, clock=SettableClock()) as store:
        assert (await accepted(store, arrival(1))).seq > max(numbers)


async def test_no_number_is_given_again_of_an_event_that_is_gone(tmp_path: Path) -> None:
    """Its conversation may have told others a key that is made of it."""
    one, other = f"sqlite:{tmp_path}/a.db", f"sqlite:{tmp_path}/b.db"
    async with open_store(one, stamp=STAMP, clock=SettableClock()) as store:
        rows = [await accepted(store, arrival(1)) for _ in range(5)]
        await store.commit(Consume(tuple(row.seq for row in rows)))
    copy(one, other)
    async with open_store(other, stamp=STAMP, clock=SettableClock()) as store:
        assert (await accepted(store, arrival(1))).seq == rows[-1].seq + 1


@pytest.mark.slow
async def test_a_store_in_postgresql_numbers_on(tmp_path: Path, postgres_server: Server) -> None:
    one, other = f"sqlite:{tmp_path}/a.db", new_on(postgres_server)
    await fill(one)
    newest = max(row[0] for table in ("inbox", "conversations") for row in contents(one)[table])
    copy(one, other)
    async with open_store(other, stamp=STAMP, clock=SettableClock()) as store:
        assert (await accepted(store, arrival(1))).seq == newest + 1
        # Those that the tables themselves give go on, too.
        await store.commit(OpenBroadcast("new", NOON, "x"))
        await store.commit(KeepRaw(NOON, "no JSON", "text/plain", b"x"))
        assert [job.key for job in await store.broadcasts.all()][-1] == "new"
        assert len(await store.raw(limit=100)) == 4


async def test_a_store_that_was_restored_stays_so(tmp_path: Path) -> None:
    one, other, clock = tmp_path / "a.db", f"sqlite:{tmp_path}/b.db", SettableClock()
    await fill(f"sqlite:{one}")
    back_up_file(one, tmp_path / "backup", clock.now())
    restore_file(tmp_path / "backup", one, clock.now())
    copy(f"sqlite:{one}", other)
    for restored in (True, False):
        async with open_store(other, stamp=STAMP, clock=clock) as store:
            assert (store.opening().epoch, store.opening().restored) == (1, restored)


async def test_a_copy_begins_no_epoch_and_ends_as_after_a_stop(tmp_path: Path) -> None:
    one, other = f"sqlite:{tmp_path}/a.db", f"sqlite:{tmp_path}/b.db"
    await fill(one)
    copy(one, other)
    async with open_store(other, stamp=STAMP, clock=SettableClock()) as store:
        opening = store.opening()
        assert (opening.epoch, opening.restored, opening.unclean, opening.at_work) == (0, False, 0, ())


# --- what is refused


async def test_no_bot_runs_on_a_store_that_was_copied(tmp_path: Path) -> None:
    one, other = f"sqlite:{tmp_path}/a.db", f"sqlite:{tmp_path}/b.db"
    await fill(one)
    copy(one, other)
    with pytest.raises(ConfigError) as refused:
        async with open_store(one, stamp=STAMP, clock=SettableClock()):
            raise AssertionError
    assert f"a.db was copied to sqlite:{tmp_path}/b.db, and its conversations" in str(refused.value)
    with pytest.raises(ConfigError, match=r"was copied to .*b\.db before"):
        copy(one, f"sqlite:{tmp_path}/c.db")
    assert not (tmp_path / "c.db").exists()
    assert copy(one, other) is None  # nothing is left to do
    with pytest.raises(ConfigError, match=r"there is a store at .*a\.db already"):
        copy(other, one)


@pytest.mark.slow
async def test_no_bot_runs_on_a_store_in_postgresql_that_was_copied(
    tmp_path: Path, postgres_server: Server
) -> None:
    one, other = f"sqlite:{tmp_path}/a.db", new_on(postgres_server)
    await fill(one)
    copy(one, other)
    copy(other, f"sqlite:{tmp_path}/b.db")
    with pytest.raises(
        ConfigError, match=r"was copied to sqlite:.*/b\.db, and its conversations go on there"
    ):
        async with open_store(other, stamp=STAMP, clock=SettableClock()):
            raise AssertionError
    with pytest.raises(ConfigError, match=r"there is a store at postgresql .* already"):
        copy(f"sqlite:{tmp_path}/b.db", other)


async def test_a_bot_that_runs_is_let_alone(tmp_path: Path) -> None:
    one, other = f"sqlite:{tmp_path}/a.db", f"sqlite:{tmp_path}/b.db"
    async with open_store(one, stamp=STAMP, clock=SettableClock()):
        with pytest.raises(StoreLockedError, match=r"a\.db is open in this process"):
            copy(one, other)
    assert not (tmp_path / "b.db").exists()
    async with open_store(other, stamp=STAMP, clock=SettableClock()):
        with pytest.raises(StoreLockedError, match=r"b\.db is open in this process"):
            copy(one, other)
    with pytest.raises(
        ConfigError, match=r"there is a store at .*b\.db already, and a copy is made in a new one"
    ):
        copy(one, other)


async def test_only_the_bots_own_store_is_copied(tmp_path: Path) -> None:
    one = f"sqlite:{tmp_path}/a.db"
    await fill(one)
    for stamp, why in (
        (Stamp(STAMP.base_url, "another"), "another token"),
        (Stamp("https://other.test", STAMP.token), "another platform address"),
    ):
        with pytest.raises(ConfigError, match=why):
            copy_elsewhere(
                one,
                f"sqlite:{tmp_path}/b.db",
                stamp=stamp,
                clock=SettableClock(),
                tell=print,
            )
    assert not (tmp_path / "b.db").exists()


@pytest.mark.parametrize(
    ("origin", "target", "why"),
    [
        ("sqlite:{}/none.db", "sqlite:{}/b.db", r"there is no store at .*none\.db"),
        ("sqlite:{}/a.db", "sqlite:{}/a.db", "both addresses are of the same store"),
        ("sqlite:{}/a.db", "sqlite:{0}/x/../a.db", "both addresses are of the same store"),
        ("sqlite:{}/a.db", "sqlite:{}/hard.db", "both addresses are of the same store"),
        ("sqlite:{}/a.db", "sqlite:{}/soft.db", "both addresses are of the same store"),
        ("sqlite:{}/a.db", "sqlite:{}/none/b.db", "the store's folder .*none doesn't exist"),
        ("sqlite:{}/a.db", "memory:", "is sqlite:PATH or postgresql:"),
        ("memory:", "sqlite:{}/a.db", "is sqlite:PATH or postgresql:"),
        ("sqlite:{}/a.db", "postgresql://bots:secret@127.0.0.1:1/bots", "must hold no password"),
        ("sqlite:{}/a.db", "postgresql://bots@127.0.0.1:1/bots", "can't be reached"),
    ],
)
async def test_what_can_not_be_copied_is_refused_in_one_line(
    origin: str, target: str, why: str, tmp_path: Path
) -> None:
    await fill(f"sqlite:{tmp_path}/a.db")
    (tmp_path / "x").mkdir()
    if "hard" in target:
        (tmp_path / "hard.db").hardlink_to(tmp_path / "a.db")
    (tmp_path / "soft.db").symlink_to(tmp_path / "a.db")
    with pytest.raises((ConfigError, StoreAwayError), match=why) as refused:
        copy(origin.format(tmp_path), target.format(tmp_path))
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)
    assert not [one.name for one in tmp_path.iterdir() if one.name.startswith(("b.db", "none"))]
    # It is as it was; with a second name it isn't opened.
    (tmp_path / "hard.db").unlink(missing_ok=True)
    async with open_store(f"sqlite:{tmp_path}/a.db", stamp=STAMP, clock=SettableClock()):
        pass


async def test_a_copy_of_a_store_in_postgresql_onto_itself_is_told(postgres_server: Server) -> None:
    """However its server is called."""
    one = new_on(postgres_server)
    await fill(one)
    other = one + ("&" if "?" in one else "?") + "application_name=another"
    with pytest.raises(ConfigError, match="both addresses are of the same store"):
        copy(one, other)


async def test_a_newer_triobots_store_is_refused(tmp_path: Path) -> None:
    one = f"sqlite:{tmp_path}/a.db"
    await fill(one)
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("UPDATE meta SET value = '99' WHERE name IN ('schema', 'min_reader')")
    connection.commit()
    connection.close()
    with pytest.raises(StoreVersionError, match="the store has schema 99"):
        copy(one, f"sqlite:{tmp_path}/b.db")


async def test_a_damaged_store_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    one = f"sqlite:{tmp_path}/a.db"
    await fill(one)
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("DELETE FROM conversations WHERE id = (SELECT min(conversation) FROM journal)")
    connection.commit()
    connection.close()
    with pytest.raises(Exception, match=r"there are records of conversation \d+, which doesn't exist"):
        copy(one, f"sqlite:{tmp_path}/b.db")
    assert "moved_to" not in facts(one)
    assert not (tmp_path / "b.db").exists()


async def test_a_store_whose_copy_is_lost_is_not_copied_again(tmp_path: Path) -> None:
    """It would go on where it was before, and do all since once more."""
    one, other = f"sqlite:{tmp_path}/a.db", f"sqlite:{tmp_path}/b.db"
    await fill(one)
    copy(one, other)
    (tmp_path / "b.db").rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"b\.db before, and the copy isn't there: bring it back"):
        copy(one, other)
    assert not usable(one)


async def test_a_store_whose_copy_is_lost_comes_back_as_from_a_backup(tmp_path: Path) -> None:
    """In the next epoch: what was done in the copy isn't known."""
    one, clock = tmp_path / "a.db", SettableClock()
    await fill(f"sqlite:{one}")
    newest = max(row[0] for row in contents(f"sqlite:{one}")["conversations"])
    copy(f"sqlite:{one}", f"sqlite:{tmp_path}/b.db")
    back_up_file(one, tmp_path / "backup", clock.now())
    restore_file(tmp_path / "backup", one, clock.now())
    async with open_store(f"sqlite:{one}", stamp=STAMP, clock=clock) as store:
        assert (store.opening().epoch, store.opening().restored) == (1, True)
        assert (await accepted(store, arrival(1))).seq > newest + 10**8


@pytest.mark.processes
async def test_a_half_copy_is_no_backup(tmp_path: Path) -> None:
    one, other, clock = f"sqlite:{tmp_path}/a.db", tmp_path / "b.db", SettableClock()
    await fill(one)
    assert child(one, f"sqlite:{other}", 1, "after").returncode == -9
    back_up_file(other, tmp_path / "backup", clock.now())
    with pytest.raises(ConfigError, match="is a backup of a store that was half copied"):
        restore_file(tmp_path / "backup", tmp_path / "c.db", clock.now())


# --- it is cut off


def child(origin: str, target: str, number: int = 0, when: str = "") -> subprocess.CompletedProcess[str]:
    """Copy in a process that kills itself at a transaction, or at none."""
    return subprocess.run(
        [sys.executable, str(CHILD), origin, target, str(number), when],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def usable(address: str) -> bool:
    """Whether a bot could open it."""
    try:
        known = facts(address)
    except (sqlite3.Error, psycopg.Error):  # it isn't there yet
        return False
    return bool(known) and not {"moved_to", "copy_of"} & known.keys()


DIRECTIONS = (
    ("sqlite:{}/a.db", "sqlite:{}/b.db"),
    ("sqlite:{}/a.db", "postgres"),
    ("postgres", "sqlite:{}/b.db"),
)
# All rows; the mark in the source; the mark in the copy.
CUTS = [(*ways, at, when) for ways in DIRECTIONS for at in (1, 2, 3) for when in WHEN]


@pytest.mark.processes
@pytest.mark.parametrize("cut", sample(CUTS, every=5))
async def test_a_copy_that_is_killed_begins_again(
    cut: tuple[str, str, int, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    origin, target, number, when = cut
    one, other = at(origin, tmp_path, request), at(target, tmp_path, request)
    await fill(one)
    before = contents(one)
    assert child(one, other, number, when).returncode == -9
    assert not (usable(one) and usable(other))
    again = child(one, other)
    assert again.returncode == 0, again.stderr
    assert contents(other) == before
    assert usable(other)
    assert not usable(one)


@pytest.mark.processes
async def test_a_copy_that_is_killed_has_no_row_until_it_has_all(tmp_path: Path) -> None:
    one, other = f"sqlite:{tmp_path}/a.db", f"sqlite:{tmp_path}/b.db"
    await fill(one)
    assert child(one, other, 1, "before").returncode == -9
    assert not any(contents(other).values())
    assert usable(one)


@pytest.mark.processes
async def test_a_copy_has_what_a_bot_did_after_an_attempt(tmp_path: Path) -> None:
    one, other = f"sqlite:{tmp_path}/a.db", f"sqlite:{tmp_path}/b.db"
    await fill(one)
    assert child(one, other, 1, "after").returncode == -9
    with pytest.raises(ConfigError, match=r"b\.db is half copied: run the same `triobot store copy` again"):
        async with open_store(other, stamp=STAMP, clock=SettableClock()):
            raise AssertionError
    async with open_store(one, stamp=STAMP, clock=SettableClock()) as store:
        await accepted(store, arrival(1, body=b"meanwhile"))
        row = (await store.pending(ChatId(1), after=0, limit=1))[0]
        await store.commit(Consume((row.seq,)))
    before = contents(one)
    copy(one, other)
    assert contents(other) == before


@pytest.mark.processes
async def test_a_half_copy_of_another_store_begins_anew(tmp_path: Path) -> None:
    one, two, other = (f"sqlite:{tmp_path}/{name}.db" for name in "abc")
    await fill(one)
    await fill(two, seed=2)
    assert child(one, other, 1, "after").returncode == -9
    copy(two, other)
    assert contents(other) == contents(two)
    assert usable(one)


@pytest.mark.slow
async def test_a_full_disk_stops_a_copy_and_nothing_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = f"sqlite:{tmp_path}/a.db", f"sqlite:{tmp_path}/b.db"
    await fill(one, many=20)
    before = contents(one)
    opened = copier.open_end

    def open_with_little_room(address: str, stamp: Stamp, *, now: int, copying: Copying) -> CopyEnd:
        end = opened(address, stamp, now=now, copying=copying)
        if copying == "to":
            (pages,) = end.sql.execute("PRAGMA page_count").fetchone()
            end.sql.execute(f"PRAGMA max_page_count = {pages + 20}").fetchone()
        return end

    with monkeypatch.context() as patch:
        patch.setattr(copier, "open_end", open_with_little_room)
        with pytest.raises(StoreFullError, match=r"b\.db could not be written"):
            copy(one, other)
    assert usable(one)
    assert not usable(other)
    copy(one, other)
    assert contents(other) == before


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["to the server", "from the server"])
async def test_a_connection_that_is_lost_ends_a_copy_of_which_nothing_is_left(
    direction: str, tmp_path: Path, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = f"sqlite:{tmp_path}/a.db", new_on(postgres_server)
    await fill(one)
    before = contents(one)
    if direction == "from the server":
        copy(one, other)
        one, other = other, f"sqlite:{tmp_path}/b.db"
    monkeypatch.setattr(copier, "_REPORT_EVERY", 1)

    def lose(text: str) -> None:
        if text.startswith("data:"):
            postgres_server.ask(
                "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE usename = 'bots'"
            )

    with pytest.raises(StoreAwayError):
        copy(one, other, lose)
    assert not any(contents(other).values())
    assert usable(one)
    copy(one, other)
    assert contents(other) == before
