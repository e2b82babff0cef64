"""Takes the place of `subprocess.Popen`: programs of this project start warm, and all others as ever.

These are ``python -m triobot...``, ``-m tests...`` and ``python FILE.py``, on Linux, as long as nothing is
asked for that is an interpreter's own: its options, its variables, its locale.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, AnyStr, Final

import attrs

from tests.warm.becoming import Request

ROOT: Final = Path(__file__).parents[2]
NAME: Final = "warm"
"""What the kernel calls a process that forks others for one of a test."""
SEEDS: Final = 2
"""From so many processes the others are forked in turns: two lives of a bot in a row hash in two ways."""
MOST: Final = 1 << 20
"""Bytes of a request."""
FILES: Final = 250
"""Files of a request."""
_PR_SET_CHILD_SUBREAPER: Final = 36
_HARMLESS: Final = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE"}
"""Variables of an interpreter that a forked process goes by, or that change nothing for what is imported."""


_TAKEN: Final = "C.UTF-8"
"""The locale that an interpreter takes where none is named."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a line over which processes are asked for."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST)
    return ends


@attrs.define
class Zygotes:
    """The processes from which this one's are forked.

    Attributes:
        cold: programs start as ever.
    """

    cold: bool = False
    _lines: list[socket.socket] = attrs.Factory(list[socket.socket])
    _turn: int = 0
    _lock: threading.Lock = attrs.Factory(threading.Lock)

    def fork(self, request: Request, files: Sequence[int]) -> int:
        """Return the number of a new process, a child of this one."""
        with self._lock:
            while len(self._lines) < SEEDS:
                self._start()
            self._turn += 1
            line = self._lines[self._turn % len(self._lines)]
            socket.send_fds(line, [json.dumps(request).encode()], files)
            told = line.recv(100)
        if not told:
            raise RuntimeError("the process from which others are forked has ended; its error is further up")
        return int(told)

    def take(self, line: socket.socket) -> None:
        """Have all processes forked by the one at the other end."""
        _adopt()
        self._lines = [line] * SEEDS

    def _start(self) -> None:
        _adopt()
        ours, theirs = pair()
        with theirs:
            process = _Popen(
                [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
                cwd=ROOT,
                env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._lines.append(ours)

        @atexit.register
        def close() -> None:
            ours.close()
            process.wait()


def _adopt() -> None:
    """Become the parent of descendants whose parent has ended."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


zygotes: Final = Zygotes()
_Popen: Final = subprocess.Popen


class Popen(subprocess.Popen[AnyStr]):
    """`subprocess.Popen`, but that programs of this project start warm."""

    def _execute_child(
        self,
        args: Any,
        executable: object,
        preexec_fn: object,
        close_fds: bool,
        pass_fds: Sequence[int],
        cwd: Any,
        env: Mapping[str, str] | None,
        startupinfo: object,
        creationflags: int,
        shell: bool,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        restore_signals: bool,
        gid: object,
        gids: object,
        uid: object,
        umask: int,
        start_new_session: bool,
        process_group: int,
    ) -> None:
        pipes = (p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
        streams = [own if one == -1 else one for own, one in enumerate((p2cread, c2pwrite, errwrite))]
        environ = dict(os.environ if env is None else env)
        program = None if shell else program_of(args)
        unusual = not close_fds or (umask, process_group) != (-1, -1) or _own(environ) != _own(os.environ)
        if any(one is not None for one in (executable, preexec_fn, gid, gids, uid)):
            unusual = True
        if program is None or unusual or zygotes.cold:
            super()._execute_child(  # type: ignore[misc]
                *(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags),
                *(shell, *pipes, restore_signals, gid, gids, uid, umask, start_new_session, process_group),
            )
            return
        module, script, arguments = program
        request = Request(
            module=module,
            script=script,
            arguments=arguments,
            folder=str(Path(os.fsdecode(cwd or ".")).absolute()),
            environ=environ,
            numbers=[0, 1, 2, *pass_fds],
            session=start_new_session,
            ignored=[one for one in signal.valid_signals() if signal.getsignal(one) == signal.SIG_IGN],
        )
        try:
            self.pid = zygotes.fork(request, [*streams, *pass_fds])
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def program_of(args: Any) -> tuple[str | None, str | None, list[str]] | None:
    """Return the module or the script that a command runs, and its arguments; None if it is not of ours."""
    if isinstance(args, str | bytes | os.PathLike):
        return None
    match [os.fsdecode(one) for one in args]:
        case [sys.executable, "-m", module, *arguments] if module.split(".")[0] in ("triobot", "tests"):
            return module, None, arguments
        case [sys.executable, script, *arguments] if script.endswith(".py"):
            return None, script, arguments
        case _:
            return None


def _own(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables by which an interpreter itself goes, but those that say what it takes anyway."""
    own = ("PYTHON", "LC_", "LANG")
    names = [name for name in environ if name.startswith(own) and name not in _HARMLESS]
    return {name: environ[name] for name in names if environ[name] != _TAKEN}


def install() -> None:
    """Have programs of this project start warm from now on."""
    if sys.platform == "linux":
        subprocess.Popen = Popen  # type: ignore[misc]
