"""The author's line: where in the bot's own code something happened."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final

import trio


def _places(*names: str) -> tuple[str, ...]:
    return tuple(sysconfig.get_path(name) + os.sep for name in names)


_OURS: Final = str(Path(__file__).parent.parent) + os.sep
# contextlib and Trio stand between us and an author's code.
_BETWEEN: Final = (_OURS, *_places("stdlib", "platstdlib"))
_TRIO: Final = trio.run.__code__.co_filename
_LOOP: Final = "unrolled_run"
_LIBRARIES: Final = _places("purelib", "platlib")


def calling_line() -> str:
    """``file:line`` of the nearest caller in an author's code; of who waits for the task, if it has none."""
    line = line_above(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # inspect.stack() reads files
    return _waiting_line() if line == "?" else line


def _waiting_line() -> str:
    """Where the nursery is held in which the current task was started."""
    try:
        task = trio.lowlevel.current_task()
    except RuntimeError:
        return "?"
    line = "?"
    while line == "?" and task.parent_nursery is not None:
        task = task.parent_nursery.parent_task
        waits = [(frame.f_code.co_filename, number) for frame, number in task.iter_await_frames()]
        line = _authors_line(waits[::-1])
    return line


def line_above(frame: FrameType | None) -> str:
    """``file:line`` of the nearest frame in an author's code, from this one outwards, or ``?``."""
    callers: list[tuple[str, int]] = []
    # What is outside of Trio's loop has called no task: it would be the line that runs the whole program.
    while frame is not None and not (frame.f_code.co_name == _LOOP and frame.f_code.co_filename == _TRIO):
        callers.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return _authors_line(callers)


def failing_line(traceback: TracebackType | None) -> str:
    """``file:line`` of the innermost frame in an author's code, or ``?``."""
    frames: list[tuple[str, int]] = []
    while traceback is not None:
        frames.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return _authors_line(list(reversed(frames)))


def is_authors(file: str) -> bool:
    """Whether a file of code is a bot's own: neither ours, nor Python's, nor a library's."""
    return not file.startswith((*_BETWEEN, *_LIBRARIES, "<"))


def _authors_line(innermost_first: Sequence[tuple[str, int]]) -> str:
    """A bot that is installed like a library can't be told from one: then it is the outermost such frame."""
    outside = [(file, line) for file, line in innermost_first if not file.startswith((*_BETWEEN, "<"))]
    own = [(file, line) for file, line in outside if not file.startswith(_LIBRARIES)]
    file, line = own[0] if own else outside[-1] if outside else ("?", 0)
    return f"{file}:{line}" if line else file
