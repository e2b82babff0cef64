"""Find lines of the author's code, for errors, logs and journals."""

from __future__ import annotations

import inspect
import linecache
import opcode
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace, TracebackType
from typing import Any, Final, TypeVar, cast, final

import attrs
import trio

from ...base.authors import all_of, note
from ...base.frozen import guarded
from ...errors import TriobotError


def _places(*names: str) -> tuple[str, ...]:
    return tuple(sysconfig.get_path(name) + os.sep for name in names)


_OURS: Final = str(Path(__file__).parents[2]) + os.sep
# contextlib and Trio have frames between triobot's frames and the author's.
_BETWEEN: Final = (_OURS, *_places("stdlib", "platstdlib"))
_TRIO: Final = trio.run.__code__.co_filename
_TRIOS: Final = str(Path(trio.__file__).parent) + os.sep
_LOOP: Final = "unrolled_run"
_RUN: Final = "run"
_LIBRARIES: Final = _places("purelib", "platlib")
# Installed packages with the author's code: a bot, or routes of the bot, may be installed.
_HOMES: Final[set[str]] = set()
# Flags of code that runs only while the calling line awaits the code.
_AWAITED: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
# Code of generators that resume a coroutine by hand. Python's await chain ends at such a generator.
_STEPPING: Final[set[CodeType]] = set()

LIBRARIES: Final = "the docs' page libraries.md"
_RAISE: Final = opcode.opmap["RAISE_VARARGS"]

F = TypeVar("F", bound=Callable[..., Any])


def take_home(module: str) -> None:
    """Treat an installed package as the author's code from now on, because `module` has routes or hooks."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    for place in _LIBRARIES:
        if file.startswith(place) and not is_ours(file):
            _HOMES.add(place + "".join(file[len(place) :].partition(os.sep)[:2]))


def steps_inner(generator: F) -> F:
    """Make `frames_of` follow a generator function that resumes its argument `inner` by hand."""
    _STEPPING.add(generator.__code__)
    return generator


def frames_of(task: trio.lowlevel.Task) -> list[tuple[FrameType, int]]:
    """Return a suspended task's frames, outermost first; empty for an ended task."""
    if getattr(task.coro, "cr_frame", task) is None:
        return []  # Trio before 0.32 raises here
    frames = list(task.iter_await_frames())
    while frames and frames[-1][0].f_code in _STEPPING:
        inner = frames.pop()[0].f_locals["inner"]
        frames += awaiting_frames(inner)
    return frames


def running_frames() -> list[tuple[FrameType, int]]:
    """Return the current task's frames, outermost first, the caller's frame last."""
    frames = [(one, one.f_lineno) for one in _in_task(sys._getframe(1))]  # pyright: ignore[reportPrivateUsage]
    return frames[::-1]


def awaiting_frames(suspended: object) -> list[tuple[FrameType, int]]:
    """Return a suspended coroutine's frames, outermost first."""
    task = cast("trio.lowlevel.Task", SimpleNamespace(coro=suspended))
    return list(trio.lowlevel.Task.iter_await_frames(task))


def calling_line() -> str:
    """Return ``file:line`` of the author's nearest calling line, else of the code that awaits the task."""
    line = line_above(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # inspect.stack() reads files
    return _waiting_line() if line == "?" else line


def _waiting_line() -> str:
    """Return the line that waits for the nursery of the current task, or ``?``."""
    try:
        task = trio.lowlevel.current_task()
    except RuntimeError:
        return "?"
    line = "?"
    while line == "?" and task.parent_nursery is not None:
        task = task.parent_nursery.parent_task
        waits = [(frame.f_code.co_filename, number) for frame, number in frames_of(task)]
        line = _authors_line(waits[::-1])
    return line


def line_above(frame: FrameType | None) -> str:
    """Return ``file:line`` of the author's nearest frame, from `frame` outwards, or ``?``."""
    return _authors_line([(one.f_code.co_filename, one.f_lineno) for one in _in_task(frame)])


def working_line(frame: FrameType | None) -> str | None:
    """Return ``file:line`` of the author's innermost frame; None if that line awaits a coroutine."""
    frames = list(_in_task(frame))
    files = [one.f_code.co_filename for one in frames]
    own = next((place for place, file in enumerate(files) if is_authors(file)), None)
    if own is None or (own and _is_awaited(frames[own - 1])):
        return None
    return f"{files[own]}:{frames[own].f_lineno}"


def _is_awaited(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & _AWAITED)


def _in_task(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield this frame and its callers within the task; nothing for a frame outside of tasks."""
    found: list[FrameType] = []
    while frame is not None:
        if frame.f_code.co_filename == _TRIO:
            if frame.f_code.co_name == _LOOP:
                break
            if frame.f_code.co_name == _RUN:
                # The event loop is idle: outer frames belong to the line that started the loop.
                return iter(())
        found.append(frame)
        frame = frame.f_back
    return iter(found)


def failing_line(found: TracebackType | None) -> str:
    """Return ``file:line`` of the author's innermost frame, or ``?``."""
    frames = [(one.tb_frame.f_code.co_filename, one.tb_lineno) for one in _entries(found)]
    return _authors_line(frames[::-1])


def own_words(error: BaseException, *homes: str) -> str:
    """Return the text of an error that the author's code raised; empty for Python's and libraries' errors.

    An error that a builtin raises also has the caller's frame as its innermost frame. But that frame's
    last instruction is a call, not a ``raise``.

    Args:
        homes: names of modules; the packages that contain these modules count as the author's.
    """
    *_, innermost = _entries(error.__traceback__)
    code, module = innermost.tb_frame.f_code, str(innermost.tb_frame.f_globals.get("__name__"))
    own = is_authors(code.co_filename) or module.split(".")[0] in {home.split(".")[0] for home in homes}
    if not own or code.co_code[innermost.tb_lasti] != _RAISE:
        return ""
    # A KeyError shows its text as a repr, and an attrs validator's error shows more than its text.
    plain = type(error).__str__ in (BaseException.__str__, KeyError.__str__)
    return str(error.args[0] if plain and error.args else error)


def authors_traceback(found: TracebackType | None) -> TracebackType | None:
    """Return a traceback with only the author's frames; without such frames, the whole traceback."""
    return _traceback_of(found, is_authors) or found


def leave_ours_out(error: BaseException) -> None:
    """Remove triobot's frames from the tracebacks of an exception, its causes and its group's exceptions.

    The variables of these frames contain users' texts, which an error tracker may send. Authors are
    responsible for their own frames. An unexpected exception that began in triobot gets the line as an added
    text.
    """
    for one in all_of(error):
        entries = list(_entries(one.__traceback__))
        if entries and is_ours(entries[-1].tb_frame.f_code.co_filename) and not isinstance(one, TriobotError):
            code, line = entries[-1].tb_frame.f_code, entries[-1].tb_lineno
            note(one, f"raised in triobot, at {code.co_filename.removeprefix(_OURS)}:{line}")
        # with_traceback, because frozen classes refuse assignment.
        one.with_traceback(_traceback_of(one.__traceback__, lambda file: not is_ours(file)))


def _entries(found: TracebackType | None) -> Iterator[TracebackType]:
    while found is not None:
        yield found
        found = found.tb_next


def _traceback_of(found: TracebackType | None, keep: Callable[[str], bool]) -> TracebackType | None:
    """Return a traceback with only the frames of files that `keep` accepts."""
    kept = [one for one in _entries(found) if keep(one.tb_frame.f_code.co_filename)]
    shown: TracebackType | None = None
    for one in reversed(kept):
        shown = TracebackType(shown, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return shown


@final
@guarded
class Position:
    """Frame of the author's code: position and source line."""

    file: str
    line: int
    function: str
    code: str = attrs.field(repr=False)


def positions(frames: Iterable[tuple[FrameType, int]]) -> tuple[Position, ...]:
    """Return the author's frames of a task, outermost first. The files are read now, and may have changed."""
    codes = [(frame.f_code, line) for frame, line in frames]
    own = [(code, line) for code, line in codes if is_authors(code.co_filename)]
    return tuple(
        Position(code.co_filename, line, code.co_qualname, linecache.getline(code.co_filename, line).strip())
        for code, line in own
    )


def waiting_line(frames: Sequence[tuple[FrameType, int]]) -> str:
    """Return the author's ``file:line`` at which a suspended task waits, or ``?``.

    Args:
        frames: the task's frames, outermost first.
    """
    return _authors_line([(frame.f_code.co_filename, line) for frame, line in reversed(frames)])


def is_ours(file: str) -> bool:
    """Whether a code file is triobot's."""
    return file.startswith(_OURS)


def is_between(file: str) -> bool:
    """Whether a code file is triobot's, or may have frames between triobot's frames and the author's."""
    if file.startswith((_OURS, _TRIOS, "<frozen")):
        return True
    return file.startswith(_BETWEEN) and not file.startswith(_LIBRARIES)


def is_authors(file: str) -> bool:
    """Whether a code file is the author's: not triobot's, Python's or a library's."""
    return file.startswith(tuple(_HOMES)) or (_is_outside(file) and not file.startswith(_LIBRARIES))


def _is_outside(file: str) -> bool:
    return not file.startswith((*_BETWEEN, "<"))


def _authors_line(innermost_first: Sequence[tuple[str, int]]) -> str:
    """Return the innermost line of the author's code, else a library's outermost line, else ``?``.

    A library's line is used because the library may be an installed bot that isn't known yet as the author's
    code.
    """
    own = [(file, line) for file, line in innermost_first if is_authors(file)]
    outside = [(file, line) for file, line in innermost_first if _is_outside(file)]
    file, line = own[0] if own else outside[-1] if outside else ("?", 0)
    return f"{file}:{line}" if line else file
