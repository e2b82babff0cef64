"""Functions for catching every exception of an author's code: an exception ends that code, never the process.

argparse and click raise SystemExit on wrong arguments. Code that runs asyncio in a thread may raise asyncio's
CancelledError. An extension written in Rust may raise a BaseException that is no Exception. So each caller of
an author's code catches BaseException and converts the exception here. Two kinds of exceptions are raised
again unchanged: an exception that a signal handler raised, which is meant for the process, and Trio's
cancellation of a scope around the caller.
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
    """Return an Exception for an error of an author's code: `error` itself, or a new exception that
    describes `error`.

    Args:
        shown: whether the caller will also use the error's `repr`.

    Raises:
        BaseException: `error`, if a signal handler raised it.
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
    """Yield an error, its causes and contexts, and the members of its groups, each once."""
    seen, left = set[int](), [error]
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            left += [other for other in (one.__cause__, one.__context__) if other is not None]
            left += _parts_of(one)


def can_be_told(error: BaseException, *, shown: bool = False) -> bool:
    """Return whether an error of an author's class can be logged without an exception from its
    attributes or its causes.

    Args:
        shown: whether to call `repr` on the error, too.
    """
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
    """Return an Exception, as `contained` does, for an error of the code that the current task awaited.

    If no scope around the task is cancelled, a `trio.Cancelled` came from another task or nursery. Such a
    `trio.Cancelled` is converted, too.

    Raises:
        BaseException: `error`, if a signal handler raised it, or if a scope around the task is cancelled.
    """
    if trio.current_effective_deadline() != float("-inf"):
        return contained(error)
    rest = split(error)[1]
    if rest is None:
        raise error
    return contained(rest)


async def run_contained(fn: Callable[..., Awaitable[T]], *args: object) -> T:
    """Await an author's function. Exceptions are converted by `contained_in_task`."""
    try:
        return await fn(*args)
    except Exception:
        raise
    except BaseException as error:
        raise contained_in_task(error) from error


def kind_of(error: BaseException) -> str:
    """Return an exception's type name; for an `ExitError`, the type name of the original exception."""
    return error.kind if type(error) is ExitError else str(type.__getattribute__(type(error), "__name__"))


def split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Split an error into its cancellations and its other errors; either result may be None."""
    if issubclass(type(error), BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).split(trio.Cancelled)
    return (error, None) if issubclass(type(error), trio.Cancelled) else (None, error)


def leaves(error: E) -> Iterator[E]:
    """Yield `error` itself, or the single errors in a group and its nested groups."""
    if not issubclass(type(error), BaseExceptionGroup):
        yield error
    for inner in _parts_of(error):
        yield from leaves(cast("E", inner))


def only_of(error: BaseException) -> BaseException:
    """Return the single exception in a group; return a group of several exceptions unchanged."""
    parts = list(leaves(error))
    return parts[0] if len(parts) == 1 else error


def came_by_signal(error: BaseException) -> bool:
    """Return whether a signal handler raised the error or, if the error is a group, one of its members.

    The frames of the traceback show whether a signal handler raised the error. Trio's own Ctrl-C handler is a
    Python function, as are the handlers that programs set. Only Python's default handler has no Python frame,
    and Trio replaces that handler while Trio runs. If a program sets the default handler again, each
    KeyboardInterrupt in the main thread counts as raised by a signal handler.
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
    """Add a note to an author's exception, even if its class refuses assignments."""
    known = vars(error).get("__notes__")
    vars(error)["__notes__"] = [*(known if isinstance(known, list) else ()), text]


def text_of(error: BaseException) -> str:
    """Return the text of an author's exception; "" if its `__str__` raises an error."""
    try:
        return str(error)
    except BaseException:  # `__str__` is an author's code, too
        return ""


def _parts_of(error: BaseException) -> tuple[BaseException, ...]:
    if not issubclass(type(error), BaseExceptionGroup):
        return ()
    parts: tuple[BaseException, ...] = vars(BaseExceptionGroup)["exceptions"].__get__(error)
    return parts


def _traceback_of(error: BaseException) -> TracebackType | None:
    trace: TracebackType | None = vars(BaseException)["__traceback__"].__get__(error)
    return trace


def _code_of(handler: Callable[..., object]) -> CodeType | None:
    inner = getattr(handler, "func", handler)  # a partial has its function in `func`
    return getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
