"""The ways of running a bot that the README names: by its own code, with real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.processes
def test_each_of_the_six_ways_answers_an_event_and_ends_cleanly() -> None:
    """`.ci/ways` is for an environment with nothing in it but a plain install; here it has this one."""
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "ways", Path(sys.executable).parent],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("works: ") == 6
