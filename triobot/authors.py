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
from types import CodeType
from typing import TypeVar, cast

import trio

from .errors import ExitError

T = TypeVar("T")


def contained(error: BaseException) -> Exception:
    """Return an error as the failure of the code that raised it.

    Raises:
        BaseException: the error, if a signal's handler raised it.
    """
    if isinstance(error, Exception):
        return error
    if came_by_signal(error):
        raise error
    if not isinstance(error, BaseExceptionGroup):
        failure: Exception = ExitError(type(error).__name__, text_of(error))
    else:
        group = cast("BaseExceptionGroup[BaseException]", error)
        failure = ExceptionGroup(group.message, [contained(one) for one in group.exceptions])
    failure.__cause__ = error.__cause__ if isinstance(error, BaseExceptionGroup) else error
    return failure.with_traceback(error.__traceback__)


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
    return error.kind if isinstance(error, ExitError) else type(error).__name__


def split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the cancellations in an error, and what else is in it."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    return (error, None) if isinstance(error, trio.Cancelled) else (None, error)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, or those of a group and of the groups in it."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(inner)
    else:
        yield error


def came_by_signal(error: BaseException) -> bool:
    """Return whether an error, or one of a group, has passed a frame of a signal's handler.

    Trio's own handler of Ctrl-C is a function, and so is each that a program has set. Only Python's default
    one, which Trio replaces while it runs, has no frame: where a program has set that again, each
    KeyboardInterrupt counts as a signal's.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(map(came_by_signal, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    if isinstance(error, KeyboardInterrupt) and signal.default_int_handler in handlers:
        return threading.current_thread() is threading.main_thread()
    codes = {_code_of(handler) for handler in handlers if callable(handler)}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def text_of(error: BaseException) -> str:
    """Return the text of what an author's code raised, whatever that has for a `__str__`."""
    try:
        return str(error)
    except BaseException:  # the class is an author's, too
        return ""


def _code_of(handler: Callable[..., object]) -> CodeType | None:
    inner = getattr(handler, "func", handler)  # of a partial
    return getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
