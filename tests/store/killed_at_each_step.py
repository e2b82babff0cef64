"""Forks a process for each step of a run on a store, kills it before that step, and opens what it left.

A step is a statement of SQLite's or a write of ours, from the opening over commits and checkpoints of either
kind up to the close. A bot opens what is left, at once and after others that had it open: a check, and a bot
that was refused. The line that each one ends in is a mistake, but the last: how many steps there are.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import trio

from triobot.errors import ConfigError, StoreCorruptError
from triobot.seams.writes import PutSetting
from triobot.store import Stamp, file, open_sqlite
from triobot.store.restoring import examine_file

STAMP, OTHER = (
    Stamp("https://platform.test/api", "token-one"),
    Stamp("https://platform.test/api", "token-two"),
)


class _Now:
    def now(self) -> int:
        return 1_700_000_000_000


async def run(path: Path) -> None:
    said = os.open(path.with_name("said"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with open_sqlite(path, stamp=STAMP, clock=_Now()) as store:
        for n in range(4):
            await store.commit(PutSetting(f"{n}", "x" * 3_000))
            os.writev(said, [f"{n}\n".encode()])
            if n == 1:
                await store._writer.erase_log()
            elif n % 2 == 0:
                await trio.to_thread.run_sync(store._writer._checkpoint)  # type: ignore[union-attr]


async def look(path: Path) -> None:
    async with open_sqlite(path, stamp=STAMP, clock=_Now()) as store:
        for n in path.with_name("said").read_text().split() if path.with_name("said").exists() else ():
            assert await store.setting(n) is not None, f"{n} is lost"


async def look_after_others(path: Path) -> None:
    """SQLite moves the log into the file, and deletes the log, when each of them closes the store."""
    try:
        assert examine_file(path) == []
    except (ConfigError, StoreCorruptError):
        pass  # there is none yet
    else:
        with suppress(ConfigError):
            async with open_sqlite(path, stamp=OTHER, clock=_Now()):
                raise AssertionError("another bot's token opened it")
    await look(path)


def kill_before(step: int) -> None:
    """Have this process killed before a step of its; it never comes to one that is zero."""
    steps = count(1)

    def reached(*_: object) -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **rest: Any) -> Any:
            reached()
            return call(*args, **rest)

        return counting

    connect = sqlite3.connect

    def connect_traced(*args: Any, **rest: Any) -> sqlite3.Connection:
        connection = connect(*args, **rest)
        connection.set_trace_callback(reached)
        return connection

    sqlite3.connect = connect_traced
    for name in ("fsync", "ftruncate", "posix_fallocate", "pwrite", "write"):
        if hasattr(os, name):
            setattr(os, name, counted(getattr(os, name)))


def forked(work: Callable[[], None]) -> int:
    """Run this in a process of its own, and return how it ended."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(folder: Path) -> None:
    file._LOG_BEGINS_AT = 64 * 1024  # type: ignore[misc]
    before = folder / "before"
    before.mkdir()
    for state in ("new", "stopped", "killed"):
        for step in count(1):
            left = shutil.copytree(before, folder / f"{state} {step}") / "bot.db"

            def die(left: Path = left, step: int = step) -> None:
                kill_before(step)
                trio.run(run, left)

            ended = forked(die)
            if ended == 0:
                break
            assert ended == -signal.SIGKILL
            for looking in (look, look_after_others):
                again = shutil.copytree(left.parent, folder / "again") / "bot.db"
                if forked(lambda looking=looking, again=again: trio.run(looking, again)):  # type: ignore[misc]
                    print(f"{state}, killed before step {step}", flush=True)
                shutil.rmtree(again.parent)
        print(state, step, flush=True)
        shutil.rmtree(before)
        # The next round begins with a store that was stopped; the last with one that was killed in its midst.
        shutil.copytree(left.parent if state == "new" else folder / f"{state} {step // 2}", before)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
