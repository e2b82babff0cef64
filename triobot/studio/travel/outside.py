"""A branch's work in real time: steps that a developer runs, and the execution of generated tests."""

from __future__ import annotations

import itertools
import math
import os
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import STDOUT
from typing import Final, final

import attrs
import trio
from trio.testing import MockClock

from ...base.frozen import guarded

KEPT_FROM: Final = "Kept from a conversation: "
"""Beginning of a generated test's docstring, before the route's name and a comma."""
SECONDS: Final = 60.0
"""Limit of a test's execution, in real seconds."""


@contextmanager
def real_time() -> Generator[None]:
    """Run the clock in real time while the block runs, because a step waits for sockets and real clocks."""
    clock = trio.lowlevel.current_clock()
    if not isinstance(clock, MockClock):
        yield
        return
    rate, threshold = clock.rate, clock.autojump_threshold
    clock.autojump_threshold, clock.rate = math.inf, 1.0
    try:
        yield
    finally:
        clock.rate, clock.autojump_threshold = rate, threshold


@final
@guarded
class KeptTest:
    """A generated test, and the result of its execution.

    Attributes:
        passed: whether the test passed, in an empty folder and its own process; None if it timed out.
        output: pytest's output.
        took: duration of the test in real seconds.
    """

    text: str = attrs.field(repr=False)
    passed: bool | None
    output: str = attrs.field(repr=False)
    took: float


def save_test(folder: Path, text: str) -> Path:
    """Save a test with the bot's own tests, under the route's name and a free number; return the file's path.

    The file goes into the folder ``tests`` if this folder exists, else beside the bot if other tests are
    there. In all other cases ``tests`` is created as a package, so that pytest finds the bot.
    """
    place = folder / "tests"
    if not place.is_dir() and any(folder.glob("test_*.py")):
        place = folder
    elif not place.is_dir():
        place.mkdir()
        (place / "__init__.py").touch()
    name = text.partition(KEPT_FROM)[2].partition(",")[0].rpartition(".")[2]
    for number in itertools.count(1):
        path = place / f"test_{name}_{number}.py"
        with suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
            file.write(text)
            return path
    raise AssertionError("names never end")


async def run_test(text: str, *, folders: Sequence[str] = (), seconds: float = SECONDS) -> KeptTest:
    """Run a test in an empty folder and a process of its own.

    Args:
        folders: folders of the bot's modules, besides this process's import path.
        seconds: limit of the test's execution, in real seconds.
    """
    with tempfile.TemporaryDirectory(prefix="triobot-test-") as folder:
        path = Path(folder) / "test_kept.py"
        path.write_text(text, encoding="utf-8")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRIOBOT_")}
        places = [*folders, *(place for place in sys.path if place)]
        environment = {**kept, "PYTHONPATH": os.pathsep.join(places), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", path.name]
        with real_time():
            began, done = trio.current_time(), None
            with trio.move_on_after(seconds):
                done = await trio.run_process(
                    command, cwd=folder, env=environment, check=False, capture_stdout=True, stderr=STDOUT
                )
            took = trio.current_time() - began
    if done is None:
        return KeptTest(text, passed=None, output=f"it did not end within {seconds:g} s", took=took)
    output = done.stdout.decode("utf-8", "replace").replace(folder + os.sep, "")
    return KeptTest(text, done.returncode == 0, output, took)
