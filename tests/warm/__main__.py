"""The process from which others are forked: ``python -m tests.warm FD`` serves one that asks over a socket.

It has imported what bots and commands need, and has read no variable, clock or file for any of them. It has
one thread, and no loop. It ends when the other end of the socket is closed.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import threading
from typing import Final

from tests.warm import popen
from tests.warm.becoming import Request, become, call_process, take_files
from triobot import cli

OTHERS: Final = (
    *("encodings.idna", "httpcore", "hypercorn.trio", "watchfiles"),
    *("triobot.conversations.routes.matching", "triobot.filters", "triobot.http.listener"),
    *("triobot.store.postgres.opened", "triobot.runtime.surface", "triobot.testing", "triobot.webhook.app"),
)
"""What is imported beside all commands: bots name it, or it is imported as they run."""
EXTRAS: Final = {"psycopg", "watchfiles"}
"""What a part of the suite does without (.ci/versions)."""
LEFT_OUT: Final = {"demo", "demo_bot"}
"""What makes a bot as it is imported."""
STARTING: Final = {"dev", "inspect", "journal"}
"""Commands that start processes themselves."""


def load() -> None:
    """Import what processes of the project need."""
    for module in pkgutil.iter_modules(cli.__path__, f"{cli.__name__}."):
        if module.name.rpartition(".")[2] not in LEFT_OUT:
            importlib.import_module(module.name)
    for name in OTHERS:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name not in EXTRAS:
                raise
    gc.collect()
    gc.freeze()  # else each process copies all pages that its first collection looks at


def serve(line: socket.socket, installed: list[str]) -> Request | None:
    """Fork processes until the other end is closed.

    Return in each of them what it is to run, and here None.
    """
    for number in (signal.SIGINT, signal.SIGHUP):  # of a terminal, for those that were forked
        signal.signal(number, signal.SIG_IGN)
    while True:
        asked, files, _, _ = socket.recv_fds(line, popen.MOST, popen.FILES)
        if not asked:
            return None
        request: Request = json.loads(asked)
        told, tell = os.pipe()
        begin, let_begin = os.pipe()
        if not (between := os.fork()):
            # Whose parent ends becomes a child of the one that has asked, which is what it is to be.
            if pid := os.fork():
                os.write(tell, str(pid).encode())
                os._exit(0)
            os.close(let_begin)
            os.read(begin, 1)
            line.detach()
            become(request, files, installed)
            return request
        os.waitpid(between, 0)
        os.write(let_begin, b"!")
        line.sendall(os.read(told, 100))
        for file in (*files, told, tell, begin, let_begin):
            os.close(file)


def starts_others(request: Request) -> bool:
    """Return whether what is run starts processes of the project itself."""
    arguments = request["arguments"]
    return request["module"] == "triobot" and (arguments[0] in STARTING or "--processes" in arguments)


def serve_own(request: Request, installed: list[str]) -> Request | None:
    """Fork a process that forks this one's; return the request here, and there as `serve` does."""
    ours, theirs = popen.pair()
    if os.fork():
        theirs.close()
        popen.zygotes.take(ours)
        popen.install()
        return request
    ours.detach()
    nothing = os.open(os.devnull, os.O_RDWR)
    take_files([nothing, nothing, nothing, theirs.detach()], [0, 1, 2, 3])
    call_process(popen.NAME)
    return serve(socket.socket(fileno=3), installed)


def run(request: Request) -> int:
    """Run it as Python does what its command line names, and return its exit code.

    An error is the interpreter's to show.
    """
    try:
        if request["module"] is not None:
            sys.modules.pop(request["module"], None)  # else runpy warns of it
            runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        elif request["script"] is not None:
            runpy.run_path(request["script"], run_name="__main__")
    except SystemExit as stop:
        if not isinstance(stop.code, int | None):
            raise
        return stop.code or 0
    return 0


def end(code: int) -> None:
    """End as an interpreter does, but leave modules whole: to take them apart costs more than a short run."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def main() -> None:
    installed = sys.path[1:]
    load()
    request = serve(socket.socket(fileno=int(sys.argv[1])), installed)
    if request is not None and starts_others(request):
        request = serve_own(request, installed)
    if request is not None:
        end(run(request))


if __name__ == "__main__":
    main()
