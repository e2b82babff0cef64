"""kill -9 at random moments: what was acknowledged is there, what is there is whole."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import trio
from sqlite_rig import opened

from tests.store.contract.contract import ROOMY, SettableClock, accepted, arrival
from triobot.errors import StoreLockedError
from triobot.seams.inbox import Redelivered
from triobot.store.lock import lock_path
from triobot.wire.ids import ChatId

CHILD = Path(__file__).with_name("accepting_child.py")
ROOT = Path(__file__).parents[2]


async def run_until_killed(path: Path, lines: int) -> set[int]:
    """Let a child accept at least so many events, kill it, and return what it had acknowledged."""
    process = await trio.lowlevel.open_process(
        [sys.executable, str(CHILD), str(path)], stdout=-1, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}
    )
    assert process.stdout is not None
    said = b""
    try:
        async with process.stdout as stdout:
            while said.count(b"\n") < lines:
                chunk = await stdout.receive_some()
                assert chunk, "the child ended by itself"
                said += chunk
            noted = lock_path(path).read_bytes()
            with pytest.raises(StoreLockedError, match=f"another process, number {process.pid};"):
                async with opened(path):
                    pytest.fail("two processes at once")
            # What it noted is for the process that comes after it: whoever is refused leaves it alone.
            assert len(lock_path(path).read_bytes()) == len(noted) > 0
            process.send_signal(signal.SIGKILL)
            async for chunk in stdout:
                said += chunk
    finally:
        process.kill()
        await process.wait()
    assert process.returncode == -signal.SIGKILL
    return {int(line) for line in said.split(b"\n")[:-1]}


NOTING = """
import os, signal, sys, trio
from triobot.seams.inbox import Arrival, InboxRow, Quota
from triobot.store import open_sqlite
from tests.store.accepting_child import STAMP, _Now

async def main(path):
    async with open_sqlite(path, stamp=STAMP, clock=_Now()) as store:
        for key in "answered", "not answered":
            arrival = Arrival(7, None, _Now().now(), "text/plain", b"yes", key)
            stored = await store.accept(arrival, quota=Quota())
            assert isinstance(stored, InboxRow)
        store.note_answered("answered")
        assert store.note_consumed([stored.seq])
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main, sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.processes
async def test_what_was_noted_just_before_kill_9_is_known(tmp_path: Path) -> None:
    path, clock = tmp_path / "bot.db", SettableClock(time.time_ns() // 1_000_000)
    with pytest.raises(subprocess.CalledProcessError) as killed:
        await trio.run_process(
            [sys.executable, "-c", NOTING, str(path)], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}
        )
    assert killed.value.returncode == -signal.SIGKILL

    async with opened(path, clock=clock) as store:
        assert [row.seq for row in await store.backlog(after=0, limit=9)] == [1]
        await accepted(store, arrival(7, key="answered", at=clock.time))
        again = await store.accept(arrival(7, key="not answered", at=clock.time), quota=ROOMY)
        assert again == Redelivered()


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process for each step is forked")
async def test_what_a_kill_leaves_at_any_step_is_opened_again(tmp_path: Path) -> None:
    """At no step do the file, its log and the note of the log disagree."""
    in_memory = Path("/dev/shm")  # there an fsync takes no time
    with tempfile.TemporaryDirectory(dir=in_memory if in_memory.is_dir() else tmp_path) as folder:
        script = str(Path(__file__).with_name("killed_at_each_step.py"))
        done = await trio.run_process(
            [sys.executable, script, folder], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_stdout=True
        )
    words = [line.split() for line in done.stdout.decode().splitlines()]
    assert [line[0] for line in words] == ["new", "stopped", "killed"], done.stdout.decode()
    assert min(int(line[1]) for line in words) > 60


@pytest.mark.slow
@pytest.mark.processes
async def test_no_acknowledged_event_is_lost_by_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    acknowledged: set[int] = set()
    for _ in range(4):
        acknowledged |= await run_until_killed(path, random.randrange(1, 400))

        async with opened(path) as store:
            stored: set[int] = set()
            for chat in range(8):
                rows = await store.pending(ChatId(chat), after=0, limit=10**9)
                stored.update(row.seq for row in rows)
                if rows:
                    assert await store.setting(f"last of {chat}") == rows[-1].body.decode()
            assert acknowledged <= stored
            assert store.statistics().inbox == len(stored)
            # Each of the eight may have had one event stored and not yet acknowledged.
            assert len(stored - acknowledged) <= 8
        acknowledged = stored
