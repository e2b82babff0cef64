"""The stores' contract as somebody else's project runs it: no setting of ours, one class, one method."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
A_PART = ("-k", "setting or lease")
MINE = """\
from triobot.store import MemoryRows, open_memory
from triobot.testing.stores import StoreContract

class TestMine(StoreContract):
    rows = {}

    def opened(self, clock, folder):
        return BROKEN(open_memory(clock=clock, rows=self.rows.setdefault(folder, MemoryRows())))
"""
# A store that takes settings and forgets them.
FORGETFUL = """
from contextlib import asynccontextmanager

@asynccontextmanager
async def forgetful(opening):
    async with opening as store:
        async def setting(name):
            return None
        store.setting = setting
        yield store
"""


def run(folder: Path, program: str, *arguments: str) -> str:
    (folder / "test_mine.py").write_text(program)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", "test_mine.py"]
    command += arguments
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.processes
def test_a_store_from_elsewhere_is_held_to_it(tmp_path: Path, long: bool) -> None:
    """To all of it; by default a part is run there, since our own stores are held to all of it."""
    end = run(tmp_path, MINE.replace("BROKEN", ""), *([] if long else A_PART))
    found = re.fullmatch(r"(\d+) passed(?:, (\d+) deselected)?.*", end)
    assert found is not None and sum(map(int, found.groups("0"))) > 100


@pytest.mark.processes
def test_a_store_that_forgets_fails(tmp_path: Path, long: bool) -> None:
    end = run(tmp_path, FORGETFUL + MINE.replace("BROKEN", "forgetful"), *([] if long else A_PART))
    assert re.search(r"[1-9]\d* failed", end)
