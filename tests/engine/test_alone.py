"""A durable coroutine without a bot, in a process that is really killed."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MANY = 9
KILLS = (1, 2, 4, 7)
"""After so many events; a line that came too late for its answer is sent again."""


class Process:
    """One life of `counting`."""

    def __init__(self, file: Path) -> None:
        self.lines: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.counting", str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        self.until("ready")

    def until(self, what: str) -> None:
        assert self._process.stdout is not None
        while True:
            line = self._process.stdout.readline()
            assert line, "it ended"
            self.lines.append(json.loads(line))
            if what in self.lines[-1]:
                return

    def give(self, number: int, text: str, *, wait: bool = True) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number} {text}\n".encode())
        self._process.stdin.flush()
        if wait:
            self.until("accepted")

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self.end()

    def end(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.lines += [json.loads(line) for line in self._process.stdout if line.endswith(b"\n")]
        self._process.wait()
        self._process.stdout.close()

    @property
    def told(self) -> list[tuple[int, int]]:
        return [(line["sum"], line["told"]) for line in self.lines if "told" in line]


@pytest.mark.processes
def test_it_goes_on_after_each_kill(tmp_path: Path) -> None:
    """No accepted event is lost, and whatever is told twice says the same."""
    file, told = tmp_path / "counting.db", list[tuple[int, int]]()
    for number in KILLS:
        process = Process(file)
        for again in range(number + 1):
            process.give(again, "x" * again, wait=again < number or number % 2 == 0)
        process.kill()
        told += process.told
    process = Process(file)
    for again in range(MANY):
        process.give(again, "x" * again)
    process.end()
    told += process.told

    sums = {number: sum(range(3 * number - 3, 3 * number)) for number in range(1, MANY // 3 + 1)}
    assert set(told) == set(sums.items())
    assert len(told) <= len(sums) + len(KILLS)
    with sqlite3.connect(file) as db:
        assert db.execute("SELECT count(*), sum(taken) FROM inbox").fetchone() == (MANY, MANY)
    db.close()
