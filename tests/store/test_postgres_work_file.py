"""What was at work in a process that was killed, for the next one on its machine; the store is elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import Server
from tests.store import working_child
from tests.store.contract import SettableClock
from triobot.seams.journals import Opening
from triobot.store import open_store
from triobot.store.postgres.work_file import take_work_file

WORKING = Path(working_child.__file__)


@pytest.fixture(autouse=True)
def first(postgres_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine on which all this is, by its folder."""
    return on_machine("first", tmp_path, monkeypatch)


def on_machine(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STATE_DIRECTORY", f"{tmp_path / name}:{tmp_path / 'not this one'}")
    return tmp_path / name


def killed_at_work(server: Server, number: int = 7) -> None:
    """Have a process die with this conversation's code at work."""
    command = [sys.executable, str(WORKING), server.url(), str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"at work\n"
        child.kill()


async def opening(server: Server, *, visit: bool = False) -> Opening:
    """What the next process knows, which stops cleanly."""
    clock = SettableClock()
    async with open_store(server.url(), stamp=working_child.STAMP, clock=clock, visit=visit) as store:
        return store.opening()


async def test_the_next_process_finds_it_once(postgres: Server) -> None:
    killed_at_work(postgres)
    found = await opening(postgres)
    assert (found.at_work[0], found.unclean) == (7, 1)
    assert not any((await opening(postgres)).at_work)


async def test_it_stays_on_its_machine_whoever_has_the_store_meanwhile(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_work(postgres)
    on_machine("second", tmp_path, monkeypatch)
    assert not any((await opening(postgres)).at_work)
    on_machine("first", tmp_path, monkeypatch)
    found = await opening(postgres)
    assert (found.at_work[0], found.unclean) == (7, 1)


async def test_a_machine_that_was_started_anew_counts_nothing(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_work(postgres)
    monkeypatch.setattr("triobot.store.postgres.opened.machine_boot", lambda: "another boot")
    assert not any((await opening(postgres)).at_work)


async def test_a_tool_leaves_it_to_the_bot(postgres: Server) -> None:
    killed_at_work(postgres)
    assert not any((await opening(postgres, visit=True)).at_work)
    assert (await opening(postgres)).at_work[0] == 7


async def test_a_process_that_lives_to_close_the_store_was_killed_by_nobody(postgres: Server) -> None:
    """Unless somebody's code is at work then: that has ended the process."""
    async with open_store(postgres.url(), stamp=working_child.STAMP, clock=SettableClock()) as store:
        store.at_work[0] = 7
        store.at_work[0] = 0
    assert not any((await opening(postgres)).at_work)
    async with open_store(postgres.url(), stamp=working_child.STAMP, clock=SettableClock()) as store:
        store.at_work[0] = 7
    found = await opening(postgres)
    assert (found.at_work[0], found.unclean) == (7, 1)


async def test_where_no_file_can_be_the_bot_runs_and_the_log_says_so(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    on_machine("file", tmp_path, monkeypatch)
    async with open_store(postgres.url(), stamp=working_child.STAMP, clock=SettableClock()) as store:
        store.at_work[0] = 7
    assert "will not be parked" in caplog.text
    assert "STATE_DIRECTORY" in caplog.text


def test_two_processes_have_two_files_and_two_stores_have_their_own(first: Path) -> None:
    one, two, other = (take_work_file(store, "boot") for store in ("a", "a", "b"))
    assert one is not None
    assert two is not None
    assert other is not None
    names = sorted(path.name.rpartition(".")[2] for path in first.iterdir())
    assert names == ["0", "0", "1"]
    one.release()
    again = take_work_file("a", "boot")
    assert len(list(first.iterdir())) == 3
    for lock in (two, other, again):
        assert lock is not None
        lock.release()
    assert {path.stat().st_mode & 0o777 for path in first.iterdir()} == {0o600}


def test_where_nothing_names_the_boot_nothing_is_counted(first: Path) -> None:
    assert take_work_file("a", None) is None
    assert not first.exists()
