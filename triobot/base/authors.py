"""What leaves an author's code ends what that code did, and never the process.

argparse and click raise SystemExit at words they don't like, a thread's asyncio raises CancelledError, an
extension written in Rust raises what is no Exception either. So each place that calls an author's code
catches BaseException, and asks here what became of it. Only two things pass: what a signal's handler raised,
which is meant for the process, and Trio's own cancellation of a scope around the place.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import CodeType, TracebackType
from typing import Any, TypeVar, cast

import trio

from ..errors import ExitError

E = TypeVar("E", bound=BaseException)
T = TypeVar("T")


def contained(error: BaseException, *, shown: bool = False) -> Exception:
    """Return an error as the failure of the code that raised it.

    Args:
        shown: its `repr` is asked for, too.

    Raises:
        BaseException: the error, if a signal's handler raised it.
    """
    kind, tells = type(error), can_be_told(error, shown=shown)
    if issubclass(kind, Exception) and tells:
        return cast("Exception", error)
    if not issubclass(kind, Exception) and came_by_signal(error):
        raise error
    if tells and issubclass(kind, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        failure: Exception = ExceptionGroup(group.message, [contained(one) for one in _parts_of(error)])
        failure.__cause__ = error.__cause__
    else:
        failure = ExitError(kind_of(error), text_of(error))
        failure.__cause__ = error if tells else None
    return failure.with_traceback(_traceback_of(error))


def all_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its causes, and the parts of a group, each once."""
    seen, left = set[int](), [error]
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            left += [other for other in (one.__cause__, one.__context__) if other is not None]
            left += _parts_of(one)


def can_be_told(error: BaseException, *, shown: bool = False) -> bool:
    """Return whether an error of an author's class, with its causes, bears what is asked of one."""
    try:
        if shown:
            repr(error)
        for one in all_of(error):
            kind = type(one)
            _ = kind.__module__, kind.__name__, vars(one), one.__suppress_context__
            _ = one.with_traceback(one.__traceback__), isinstance(one, OSError) and one.errno
            _ = isinstance(one, BaseExceptionGroup) and cast("Any", one).exceptions
    except BaseException as raised:
        if not issubclass(type(raised), Exception) and came_by_signal(raised):
            raise
        return False
    return True


def contained_in_task(error: BaseException) -> Exception:
    """Return an error as the failure of the code that the current task awaited.

    A cancellation that no scope around the task asked for was carried there from elsewhere.

    Raises:
        BaseException: the error, if a signal's handler raised it, or a scope around the task was cancelled.
    """
    if trio.current_effective_deadline() != float("-inf"):
        return contained(error)
    rest = split(error)[1]
    if rest is None:
        raise error
    return contained(rest)


async def run_contained(fn: Callable[..., Awaitable[T]], *args: object) -> T:
    """Await an author's code; see `contained_in_task` for what leaves it."""
    try:
        return await fn(*args)
    except Exception:
        raise
    except BaseException as error:
        raise contained_in_task(error) from error


def kind_of(error: BaseException) -> str:
    """Return the name of the type of what an author's code raised."""
    return error.kind if type(error) is ExitError else str(type.__getattribute__(type(error), "__name__"))


def split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the cancellations in an error, and what else is in it."""
    if issubclass(type(error), BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).split(trio.Cancelled)
    return (error, None) if issubclass(type(error), trio.Cancelled) else (None, error)


def leaves(error: E) -> Iterator[E]:
    """Yield an error, or those of a group and of the groups in it."""
    if not issubclass(type(error), BaseExceptionGroup):
        yield error
    for inner in _parts_of(error):
        yield from leaves(cast("E", inner))


def only_of(error: BaseException) -> BaseException:
    """Unwrap the one exception of a group; return a group of several as it is."""
    parts = list(leaves(error))
    return parts[0] if len(parts) == 1 else error


def came_by_signal(error: BaseException) -> bool:
    """Return whether an error, or one of a group, has passed a frame of a signal's handler.

    Trio's own handler of Ctrl-C is a function, and so is each that a program has set. Only Python's default
    one, which Trio replaces while it runs, has no frame: where a program has set that again, each
    KeyboardInterrupt counts as a signal's.
    """
    if parts := _parts_of(error):
        return any(map(came_by_signal, parts))
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    if issubclass(type(error), KeyboardInterrupt) and signal.default_int_handler in handlers:
        return threading.current_thread() is threading.main_thread()
    codes = {_code_of(handler) for handler in handlers if callable(handler)}
    trace = _traceback_of(error)
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def note(error: BaseException, text: str) -> None:
    """Add a note to what an author's code raised; its class may refuse to be assigned to."""
    known = vars(error).get("__notes__")
    vars(error)["__notes__"] = [*(known if isinstance(known, list) else ()), text]


def text_of(error: BaseException) -> str:
    """Return the text of what an author's code raised, whatever that has for a `__str__`."""
    try:
        return str(error)
    except BaseException:  # the class is an author's, too
        return ""


def _parts_of(error: BaseException) -> tuple[BaseException, ...]:
    """Return the parts of a group, of which there is one at least; none of another error."""
    if not issubclass(type(error), BaseExceptionGroup):
        return ()
    parts: tuple[BaseException, ...] = vars(BaseExceptionGroup)["exceptions"].__get__(error)
    return parts


def _traceback_of(error: BaseException) -> TracebackType | None:
    trace: TracebackType | None = vars(BaseException)["__traceback__"].__get__(error)
    return trace


def _code_of(handler: Callable[..., object]) -> CodeType | None:
    inner = getattr(handler, "func", handler)  # of a partial
    return getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
