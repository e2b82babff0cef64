"""kill -9 at random moments: no acknowledged record is lost, and every journal is whole."""

from __future__ import annotations

import random
import signal
import sys
from pathlib import Path

import pytest
import trio
from sqlite_rig import opened

from triobot.seams.journals import ConversationId
from triobot.store.restoring import examine_file

CHILD = Path(__file__).with_name("appending_child.py")
ROOT = Path(__file__).parents[2]


async def run_until_killed(path: Path, lines: int) -> dict[int, int]:
    """Let a child write at least so many times, kill it, and return where it said that each journal stood."""
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
            process.send_signal(signal.SIGKILL)
            async for chunk in stdout:
                said += chunk
    finally:
        process.kill()
        await process.wait()
    return {int(line.split()[0]): int(line.split()[1]) for line in said.decode().split("\n")[:-1]}


@pytest.mark.slow
@pytest.mark.processes
async def test_no_acknowledged_record_is_lost_by_kill_9(tmp_path: Path) -> None:
    path, newest = tmp_path / "bot.db", 0
    for _ in range(3):
        stood = await run_until_killed(path, random.randrange(1, 600))

        assert list(examine_file(path)) == []
        async with opened(path) as store:
            assert store.opening().unclean == 1
            # Eight wrote; each may have had one commit that it had not told of.
            ahead = 0
            for id_, records in stood.items():
                journal = await store.journal(ConversationId(id_))
                if records == -1 or journal is None:
                    assert journal is None
                    ahead += records != -1
                    assert records in {-1, 12}
                    continue
                assert list(journal.records) == [str(n) for n in range(journal.first, journal.row.position)]
                assert journal.row.position - records in {0, 1}
                ahead += journal.row.position - records
            assert ahead <= 8
            # Each may have had one event that it was about to begin with. Whatever else came was taken in the
            # transaction that accepted it.
            waiting = await store.backlog(after=newest, limit=100)
            assert len({row.chat_id for row in waiting}) == len(waiting)
            for row in waiting:
                assert await store.journal(ConversationId(row.seq)) is None
                newest = row.seq
