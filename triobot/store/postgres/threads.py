"""Calls to a server in worker threads. A cancelled call ends soon, even if the server doesn't answer.

A frozen server keeps its connections open and sends nothing. Without a limit, a thread would wait in libpq
for ever, and the process would never end. Shutting down the socket ends this wait: libpq finds the connection
lost. All waits here are in real time and in threads: the event loop may have a virtual clock, which advances
while threads work.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Final, TypeVar, cast

import outcome
import psycopg
import trio

from .session import MADE, Connection

R = TypeVar("R")

PATIENCE: Final = 1.0
"""How long a cancelled caller still waits for an answer, in seconds."""
_AGAIN: Final = 0.1


def cut(connection: Connection) -> None:
    """Shut down a connection's socket. All threads that wait for the connection then get an error."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as shared:
        shared.shutdown(socket.SHUT_RDWR)


def give_up(when: Callable[[], bool], do: Callable[[], None], over: threading.Event) -> None:
    """Start a thread that calls `do` repeatedly while `when()` is true, until `over` is set."""

    def watch() -> None:
        while not over.wait(_AGAIN):
            if when():
                do()

    threading.Thread(target=watch, name="triobot patience", daemon=True).start()


async def ask(work: Callable[[], R], *kept: Connection | None, within: float | None = None) -> R:
    """Run `work` in a worker thread; return its result or raise its error.

    Args:
        kept: existing connections that `work` uses. Connections that `work` makes are found automatically.
        within: number of seconds after which all connections of `work` are cut.

    Cancellation: *atomic*: waits `PATIENCE` seconds for the thread, and then cuts the connections.
    """
    over, made = threading.Event(), [one for one in kept if one is not None]
    task, token = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()

    def cut_all() -> None:
        for connection in list(made):
            cut(connection)

    def end_within(seconds: float) -> None:
        until = time.monotonic() + seconds
        give_up(lambda: time.monotonic() >= until, cut_all, over)

    def hurry(_: object) -> trio.lowlevel.Abort:
        end_within(PATIENCE)
        return trio.lowlevel.Abort.FAILED

    def deliver(done: outcome.Outcome[R]) -> None:
        over.set()
        token.run_sync_soon(trio.lowlevel.reschedule, task, outcome.Value(done))

    await trio.lowlevel.checkpoint_if_cancelled()
    context = copy_context()
    context.run(MADE.set, made)
    if within is not None:
        end_within(within)
    trio.lowlevel.start_thread_soon(partial(context.run, work), deliver)
    done = cast("outcome.Outcome[R]", await trio.lowlevel.wait_task_rescheduled(hurry))
    if isinstance(done, outcome.Error):
        await trio.lowlevel.checkpoint_if_cancelled()  # the cancellation may have caused the error
    return done.unwrap()
