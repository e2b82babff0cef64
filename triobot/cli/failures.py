"""How a command that failed says so: one line per cause, and an exit code.

What triobot raises on purpose speaks for itself. Of anything else only the type and the place are shown,
since its text may hold what must not be shown; ``--debug`` shows all.
"""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

from ..errors import TriobotError
from .terminal import harmless

FAILED: Final = 1
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells count


def report(error: BaseException, *, debug: bool) -> int:
    """Tell on the error output what went wrong; return the exit code."""
    causes = list(_leaves(error))
    for cause in causes:
        if isinstance(cause, SystemExit):
            return _asked_for(cause)
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes):
        return INTERRUPTED
    if debug:
        traceback.print_exception(error)
    elif all(isinstance(cause, BrokenPipeError) for cause in causes):
        # Whoever read our output has gone; the interpreter's own last flush must not complain either.
        sys.stdout = None
        return FAILED
    # A crowd of tasks may fail for one reason.
    for line in dict.fromkeys(one_line(cause) for cause in causes):
        print(f"triobot: {line}", file=sys.stderr)
    return FAILED


def one_line(error: BaseException) -> str:
    """Say in one line what went wrong, for the person at the terminal."""
    if isinstance(error, TriobotError):
        return harmless(str(error) or type(error).__name__)
    if isinstance(error, OSError) and error.strerror:
        return harmless(_of_system(error))
    return harmless(f"stopped by {type(error).__name__}{_place(error)}; --debug shows where it came from")


def _of_system(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        # asyncio, trio and hypercorn put the address into the text in their own ways, or leave it out.
        return "the port is in use already; choose another one with --port, or end what listens there"
    if error.errno == errno.EACCES and error.filename is None:
        return (
            "listening there is not permitted; choose a port above 1023, or let systemd hand over the socket"
        )
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror}"


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _asked_for(error: SystemExit) -> int:
    if isinstance(error.code, str):
        print(harmless(error.code), file=sys.stderr)
        return FAILED
    return error.code or 0
