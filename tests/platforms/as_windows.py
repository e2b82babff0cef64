"""Runs a command, or a module's tests, in a process without what Windows lacks, and with its `msvcrt`.

Trio, the web server and the standard library know Windows by themselves, and are imported before.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.abc import MetaPathFinder
from types import ModuleType, SimpleNamespace

import httpx
import trio

FLOCK, LOCK_AT_ONCE = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB
KNOWN = (asyncio, httpx, shutil, subprocess, tempfile)
OTHERS = ("hypercorn.trio", "PIL.Image", "psycopg", "pytest", "quart_trio")
# Commands that load none of the others: each of a dozen processes would take its time for them.
LEAN = frozenset({"journal", "new", "run", "status", "store"})

MODULES = frozenset(
    {"curses", "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
)
NAMES: dict[ModuleType, str] = {
    os: "chown chroot fchmod fchown fork forkpty fstatvfs getegid geteuid getgid getloadavg getpgid killpg"
    " mkfifo nice posix_fallocate posix_fadvise pread preadv pwrite pwritev register_at_fork"
    " sched_getaffinity setsid statvfs sync uname wait3 wait4"
    " O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC",
    select: "poll POLLERR POLLHUP POLLIN POLLNVAL POLLOUT POLLPRI POLLRDHUP",
    signal: "alarm getitimer pause pthread_sigmask setitimer sigwait ITIMER_PROF ITIMER_REAL SIGALRM SIGCHLD"
    " SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGUSR1 SIGUSR2",
    socket: "AF_UNIX SCM_RIGHTS SO_PEERCRED SO_REUSEPORT recv_fds send_fds",
    trio.socket: "AF_UNIX SO_PEERCRED SO_REUSEPORT",
    time: "tzset",
}


def locking(fd: int, mode: int, count: int) -> None:
    """Lock as `msvcrt.locking` does, by what this system has."""
    try:
        FLOCK(fd, LOCK_AT_ONCE)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None


class Absent(MetaPathFinder):
    """Has no module that Windows lacks."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Refuse them."""
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide() -> None:
    """Take away what Windows lacks."""
    # What Trio does elsewhere goes on: on Windows it asks a socket, and wakes itself, in other ways.
    vars(import_module("trio._socket"))["select"] = SimpleNamespace(**vars(select))
    socket.socketpair = partial(socket.socketpair, socket.AF_UNIX)  # type: ignore[assignment]
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Absent())
    sys.modules["msvcrt"] = SimpleNamespace(LK_NBLCK=2, locking=locking)  # type: ignore[assignment]
    for module, names in NAMES.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)


def main(arguments: Sequence[str]) -> None:
    """Do what is asked: `import`, `pytest ...`, or a command of triobot."""
    if arguments[0] not in LEAN:
        for name in OTHERS:
            import_module(name)
    hide()
    assert not [name for name in sys.modules if name.partition(".")[0] == "triobot"]
    match arguments:
        case ["import", *names]:
            for name in names:
                import_module(name)
        case ["pytest", *rest]:
            sys.exit(import_module("pytest").main(rest))
        case _:
            import_module("triobot.cli").main(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
