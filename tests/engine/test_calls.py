"""The engine's room in calls, which need no clock: those beside what Trio and the driver make."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# In a process of its own: what other tests leave behind, such as caches of classes, makes calls of its own.
# Trio shuffles what runs in a pass, and who runs first makes a call or two; here the order is one of its own.
COUNT = """
import json, trio
from trio._core import _run
_run._ALLOW_DETERMINISTIC_SCHEDULING = True
_run._r.seed(0)
from tests.engine.measure import Bare, New, calls, echoes, turns
bare = trio.run(calls, echoes, Bare, "echo")
asked = {kind.__name__: trio.run(calls, turns, kind, "ask") for kind in (Bare, New)}
print(json.dumps({**asked, "echo": trio.run(calls, echoes, New, "echo") - bare}))
"""


@pytest.fixture(scope="module")
def counted() -> Mapping[str, float]:
    """What each way of a turn makes, and an echo beyond a bare one."""
    ran = subprocess.run([sys.executable, "-c", COUNT], cwd=ROOT, capture_output=True, text=True, check=True)
    found: Mapping[str, float] = json.loads(ran.stdout)
    return found


@pytest.mark.slow
@pytest.mark.processes
def test_a_turn_of_ask_has_so_many_calls(counted: Mapping[str, float]) -> None:
    """An answer is taken, and the next question sent: 86, and up to 88 in another order of tasks."""
    assert counted["New"] - counted["Bare"] <= 89


@pytest.mark.processes
def test_an_echo_of_a_fresh_run_has_so_many_calls(counted: Mapping[str, float]) -> None:
    assert counted["echo"] <= 122


@pytest.mark.processes
def test_the_count_sees_what_is_called(counted: Mapping[str, float]) -> None:
    """A count of nothing would prove nothing."""
    assert 50 < counted["Bare"] < counted["New"]
