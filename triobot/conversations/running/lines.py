"""The author's line: where in the bot's own code something happened."""

from __future__ import annotations

import inspect
import linecache
import opcode
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace, TracebackType
from typing import Any, Final, TypeVar, cast, final

import attrs
import trio

from ...base.authors import all_of, contained, kind_of, note
from ...base.frozen import guarded
from ...errors import TriobotError


def _places(*names: str) -> tuple[str, ...]:
    return tuple(sysconfig.get_path(name) + os.sep for name in names)


_OURS: Final = str(Path(__file__).parents[2]) + os.sep
# contextlib and Trio stand between us and an author's code.
_BETWEEN: Final = (_OURS, *_places("stdlib", "platstdlib"))
_TRIO: Final = trio.run.__code__.co_filename
_TRIOS: Final = str(Path(trio.__file__).parent) + os.sep
_LOOP: Final = "unrolled_run"
_RUN: Final = "run"
_LIBRARIES: Final = _places("purelib", "platlib")
# Packages among the libraries that are authors': a bot, or its routes, may be installed.
_HOMES: Final[set[str]] = set()
# Such code runs inside of a line only if that line awaits it.
_AWAITED: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
# Generators that step a coroutine by hand: to Python, what they step isn't what they wait for.
_STEPPING: Final[set[CodeType]] = set()

LIBRARIES: Final = "the docs' page libraries"
_RAISE: Final = opcode.opmap["RAISE_VARARGS"]

# Letters of a variable that are shown.
_LONGEST: Final = 10_000

F = TypeVar("F", bound=Callable[..., Any])


def take_home(module: str) -> None:
    """Count the package of this module as an author's from now on: some of a bot's routes are in it."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    for place in _LIBRARIES:
        if file.startswith(place) and not is_ours(file):
            _HOMES.add(place + "".join(file[len(place) :].partition(os.sep)[:2]))


def steps_inner(generator: F) -> F:
    """Have `frames_of` look through a generator function that steps its argument `inner` by hand."""
    _STEPPING.add(generator.__code__)
    return generator


def frames_of(task: trio.lowlevel.Task) -> list[tuple[FrameType, int]]:
    """Return the frames in which a suspended task is, outermost first, whoever steps it; none at its end."""
    if getattr(task.coro, "cr_frame", task) is None:
        return []  # Trio before 0.32 fails at it
    frames = list(task.iter_await_frames())
    while frames and frames[-1][0].f_code in _STEPPING:
        inner = frames.pop()[0].f_locals["inner"]
        frames += awaiting_frames(inner)
    return frames


def running_frames() -> list[tuple[FrameType, int]]:
    """Return the frames of the current task, outermost first; the innermost is the caller's."""
    frames = [(one, one.f_lineno) for one in _in_task(sys._getframe(1))]  # pyright: ignore[reportPrivateUsage]
    return frames[::-1]


def awaiting_frames(suspended: object) -> list[tuple[FrameType, int]]:
    """Return the frames in which a suspended coroutine is, outermost first."""
    task = cast("trio.lowlevel.Task", SimpleNamespace(coro=suspended))
    return list(trio.lowlevel.Task.iter_await_frames(task))


def calling_line() -> str:
    """Return ``file:line`` of the nearest caller in an author's code, else of what waits for the task."""
    line = line_above(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # inspect.stack() reads files
    return _waiting_line() if line == "?" else line


def _waiting_line() -> str:
    """Return where the nursery is held in which the current task was started, or ``?``."""
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
    """Return ``file:line`` of the nearest frame in an author's code, from this one outwards, or ``?``."""
    return _authors_line([(one.f_code.co_filename, one.f_lineno) for one in _in_task(frame)])


def working_line(frame: FrameType | None) -> str | None:
    """Return ``file:line`` of an author's code at work in this frame; None if none is, or if it awaits."""
    frames = list(_in_task(frame))
    files = [one.f_code.co_filename for one in frames]
    own = next((place for place, file in enumerate(files) if is_authors(file)), None)
    if own is None or (own and _is_awaited(frames[own - 1])):
        return None
    return f"{files[own]}:{frames[own].f_lineno}"


def _is_awaited(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & _AWAITED)


def _in_task(frame: FrameType | None) -> Iterator[FrameType]:
    """Return this frame and its callers, as far as a task goes; nothing of a frame that is in no task."""
    found: list[FrameType] = []
    while frame is not None:
        if frame.f_code.co_filename == _TRIO:
            if frame.f_code.co_name == _LOOP:
                break
            if frame.f_code.co_name == _RUN:
                # The loop waits for something to happen: what is outside of it is the line that runs all.
                return iter(())
        found.append(frame)
        frame = frame.f_back
    return iter(found)


def failing_line(found: TracebackType | None) -> str:
    """Return ``file:line`` of the innermost frame in an author's code, or ``?``."""
    frames = [(one.tb_frame.f_code.co_filename, one.tb_lineno) for one in _entries(found)]
    return _authors_line(frames[::-1])


def own_words(error: BaseException, *homes: str) -> str:
    """Return what an author's code says by raising this; nothing where Python or a library says it.

    What a builtin raises has the frame of its caller for its innermost, too: there a call was at work, and no
    ``raise``.

    Args:
        homes: names of modules; the packages that they are in count as the author's.
    """
    *_, innermost = _entries(error.__traceback__)
    code, module = innermost.tb_frame.f_code, str(innermost.tb_frame.f_globals.get("__name__"))
    own = is_authors(code.co_filename) or module.split(".")[0] in {home.split(".")[0] for home in homes}
    if not own or code.co_code[innermost.tb_lasti] != _RAISE:
        return ""
    # A KeyError shows its words as a repr, and an error of an attrs validator more than words.
    plain = type(error).__str__ in (BaseException.__str__, KeyError.__str__)
    return str(error.args[0] if plain and error.args else error)


def authors_traceback(found: TracebackType | None) -> TracebackType | None:
    """Return a traceback with an author's frames alone; all of it where none is an author's."""
    return _traceback_of(found, is_authors) or found


def leave_ours_out(error: BaseException) -> None:
    """Take the runtime's frames out of an exception's traceback, and of those of its causes and its parts.

    What people wrote is in their variables, which an error tracker may send; an author's own frames are the
    author's to look after. Where an unexpected exception began in the runtime, a note says so in their place.
    """
    for one in all_of(error):
        entries = list(_entries(one.__traceback__))
        if entries and is_ours(entries[-1].tb_frame.f_code.co_filename) and not isinstance(one, TriobotError):
            code, line = entries[-1].tb_frame.f_code, entries[-1].tb_lineno
            note(one, f"raised in triobot, at {code.co_filename.removeprefix(_OURS)}:{line}")
        # By the method: a frozen class refuses to be assigned to.
        one.with_traceback(_traceback_of(one.__traceback__, lambda file: not is_ours(file)))


def _entries(found: TracebackType | None) -> Iterator[TracebackType]:
    while found is not None:
        yield found
        found = found.tb_next


def _traceback_of(found: TracebackType | None, keep: Callable[[str], bool]) -> TracebackType | None:
    """Return a traceback of the frames alone whose file is to be kept."""
    kept = [one for one in _entries(found) if keep(one.tb_frame.f_code.co_filename)]
    shown: TracebackType | None = None
    for one in reversed(kept):
        shown = TracebackType(shown, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return shown


def authors_words(error: BaseException, *, variables: bool = False) -> str:
    """Write an exception as Python does, with an author's frames alone; a last line counts those left out.

    *Sensitive*: its text, and even more its frames' variables, may hold what people wrote.

    Args:
        variables: show those of each frame, too.
    """
    shown = traceback.TracebackException.from_exception(error)
    if variables:
        _add_variables(shown, error)
    left_out = _left_out(shown)
    words = "".join(shown.format()).rstrip("\n")
    return f"{words}\n(frames of triobot and of libraries left out: {left_out})" if left_out else words


def _add_variables(shown: traceback.TracebackException, error: BaseException) -> None:
    """Add those of an author's frames; the traceback module's own way fails where a ``__repr__`` does."""
    for summary, (frame, _) in zip(shown.stack, traceback.walk_tb(error.__traceback__), strict=False):
        if is_authors(summary.filename):
            summary.locals = {name: _words_of(value) for name, value in frame.f_locals.items()}
    inner: list[tuple[traceback.TracebackException | None, BaseException | None]] = [
        (shown.__cause__, error.__cause__),
        (shown.__context__, error.__context__),
    ]
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        inner += zip(shown.exceptions or (), group.exceptions, strict=False)
    for part, of in inner:
        if part is not None and of is not None:
            _add_variables(part, of)


def _words_of(value: object) -> str:
    try:
        words = repr(value)
    except BaseException as error:
        return f"<{type(value).__name__}: its repr raised {kind_of(contained(error))}>"
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."


def _left_out(shown: traceback.TracebackException) -> int:
    """Leave out of a traceback, and of those of its causes, the frames that are no author's; count them."""
    own = [frame for frame in shown.stack if is_authors(frame.filename)]
    left_out = len(shown.stack) - len(own) if own else 0
    if own:
        shown.stack = traceback.StackSummary.from_list(own)
    causes = [shown.__cause__, None if shown.__suppress_context__ else shown.__context__]
    return left_out + sum(_left_out(cause) for cause in (*causes, *(shown.exceptions or ())) if cause)


@final
@guarded
class Position:
    """A frame of an author's code: where it stands, and what is written there."""

    file: str
    line: int
    function: str
    code: str = attrs.field(repr=False)


def positions(frames: Iterable[tuple[FrameType, int]]) -> tuple[Position, ...]:
    """Return a task's frames that are an author's, outermost first; a file may have changed since it ran."""
    codes = [(frame.f_code, line) for frame, line in frames]
    own = [(code, line) for code, line in codes if is_authors(code.co_filename)]
    return tuple(
        Position(code.co_filename, line, code.co_qualname, linecache.getline(code.co_filename, line).strip())
        for code, line in own
    )


def waiting_line(frames: Sequence[tuple[FrameType, int]]) -> str:
    """Return ``file:line`` of an author's code in which a suspended task waits, or ``?``.

    Args:
        frames: the task's, outermost first.
    """
    return _authors_line([(frame.f_code.co_filename, line) for frame, line in reversed(frames)])


def is_ours(file: str) -> bool:
    """Return whether a file of code is the runtime's."""
    return file.startswith(_OURS)


def is_between(file: str) -> bool:
    """Return whether a file of code is between an author's line and the runtime, or the runtime's own."""
    if file.startswith((_OURS, _TRIOS, "<frozen")):
        return True
    return file.startswith(_BETWEEN) and not file.startswith(_LIBRARIES)


def is_authors(file: str) -> bool:
    """Return whether a file of code is a bot's own: neither ours, nor Python's, nor a library's."""
    return file.startswith(tuple(_HOMES)) or (_is_outside(file) and not file.startswith(_LIBRARIES))


def _is_outside(file: str) -> bool:
    return not file.startswith((*_BETWEEN, "<"))


def _authors_line(innermost_first: Sequence[tuple[str, int]]) -> str:
    """Return the line of the innermost frame of an author's, or of the outermost one of a library, or ``?``.

    Code that is installed, and isn't known yet as a bot's, begins at the outermost such frame.
    """
    own = [(file, line) for file, line in innermost_first if is_authors(file)]
    outside = [(file, line) for file, line in innermost_first if _is_outside(file)]
    file, line = own[0] if own else outside[-1] if outside else ("?", 0)
    return f"{file}:{line}" if line else file
