"""What a forked process has to do to be the one that was asked for, before it runs its program."""

from __future__ import annotations

import fcntl
import importlib
import io
import os
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypedDict

from trio._core import _run

_ALWAYS_IGNORED: Final = {signal.SIGPIPE, signal.SIGXFSZ}
"""What an interpreter ignores from its start."""
_NEVER_IGNORED: Final = {signal.SIGKILL, signal.SIGSTOP}


class Request(TypedDict):
    """A process that is asked for; its files come along.

    Attributes:
        module: what ``-m`` names; or
        script: a file.
        arguments: what follows.
        folder: where it runs.
        environ: all of its variables.
        numbers: which number each file has in the process; the first three are its streams.
        session: it leads a session of its own.
        ignored: signals that it ignores from its start.
    """

    module: str | None
    script: str | None
    arguments: Sequence[str]
    folder: str
    environ: Mapping[str, str]
    numbers: Sequence[int]
    session: bool
    ignored: Sequence[int]


def become(request: Request, files: Sequence[int], installed: Sequence[str]) -> None:
    """Have all that was asked for, in a process that was forked and has nothing of its own.

    Args:
        installed: what Python's path ends with, whatever the variables say.
    """
    take_files(files, request["numbers"])
    call_process(Path(sys.executable).name)
    if request["session"]:
        os.setsid()
    os.chdir(request["folder"])
    environ = request["environ"]
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    _set_signals(request["ignored"])
    _open_streams(unbuffered=bool(environ.get("PYTHONUNBUFFERED")))
    random.seed()
    _run._r.seed()  # in which order Trio runs what is ready
    script = request["script"]
    first = request["folder"] if script is None else str(Path(script).resolve().parent)
    named = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [first, *named, *(path for path in installed if path not in named)]
    sys.argv[:] = [script or "-m", *request["arguments"]]
    importlib.invalidate_caches()


def take_files(files: Sequence[int], numbers: Sequence[int]) -> None:
    """Have these files at these numbers, and no others."""
    above = max(*files, *numbers) + 1
    for file, number in zip(
        [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in files], numbers, strict=True
    ):
        os.dup2(file, number)
    last = max(numbers)
    for number in {*range(last)} - {*numbers}:
        with suppress(OSError):
            os.close(number)
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


def call_process(name: str) -> None:
    """Have the kernel call this process so."""
    Path("/proc/self/comm").write_text(name)


def _set_signals(ignored: Sequence[int]) -> None:
    for number in signal.valid_signals() - _NEVER_IGNORED:
        if number in ignored or number in _ALWAYS_IGNORED:
            signal.signal(number, signal.SIG_IGN)
        elif number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
        else:
            signal.signal(number, signal.SIG_DFL)


def _open_streams(*, unbuffered: bool) -> None:
    """Open the three streams as an interpreter does that starts, each on this process's own file."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before: io.TextIOWrapper = getattr(sys, name)
        raw = io.FileIO(number, "w" if number else "r", closefd=False)
        raw.name = f"<{name}>"
        if not number:
            buffer: io.IOBase = io.BufferedReader(raw)
        elif unbuffered:
            buffer = raw
        else:
            buffer = io.BufferedWriter(raw)
        stream = io.TextIOWrapper(
            buffer,  # type: ignore[type-var]
            encoding=before.encoding,
            errors=before.errors,
            line_buffering=not unbuffered and (name == "stderr" or raw.isatty()),
            write_through=unbuffered,
        )
        stream.mode = raw.mode[0]  # as the interpreter does
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
