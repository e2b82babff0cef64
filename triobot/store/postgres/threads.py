"""Asks a server in a worker thread, and doesn't wait for one that stands still when the bot stops.

Such a server keeps its connections and says nothing, so that a thread would wait in libpq for ever, and the
process with it. What ends that is the socket: once it is shut down, libpq finds the connection lost. All of
it goes by real time, in threads: the loop's clock may be a virtual one, which runs on while threads work.
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
"""How long an answer is waited for that nobody needs any more, in seconds."""
_AGAIN: Final = 0.1


def cut(connection: Connection) -> None:
    """Have whoever waits for this connection, in whatever thread, find it lost."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as shared:
        shared.shutdown(socket.SHUT_RDWR)


def give_up(when: Callable[[], bool], do: Callable[[], None], over: threading.Event) -> None:
    """Do this as soon as it is time, and again and again until it is over; in a thread of its own."""

    def watch() -> None:
        while not over.wait(_AGAIN):
            if when():
                do()

    threading.Thread(target=watch, name="triobot patience", daemon=True).start()


async def ask(work: Callable[[], R], *kept: Connection | None) -> R:
    """Run this in a worker thread, and return what it returns, or raise what it raises.

    Args:
        kept: over which it asks, but for those that it makes.

    Cancellation: *atomic*: it is waited for, for `PATIENCE` seconds; then its connections are cut.
    """
    over, made = threading.Event(), [one for one in kept if one is not None]
    task, token = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()

    def cut_all() -> None:
        for connection in list(made):
            cut(connection)

    def hurry(_: object) -> trio.lowlevel.Abort:
        until = time.monotonic() + PATIENCE
        give_up(lambda: time.monotonic() >= until, cut_all, over)
        return trio.lowlevel.Abort.FAILED

    def deliver(done: outcome.Outcome[R]) -> None:
        over.set()
        token.run_sync_soon(trio.lowlevel.reschedule, task, outcome.Value(done))

    await trio.lowlevel.checkpoint_if_cancelled()
    context = copy_context()
    context.run(MADE.set, made)
    trio.lowlevel.start_thread_soon(partial(context.run, work), deliver)
    done = cast("outcome.Outcome[R]", await trio.lowlevel.wait_task_rescheduled(hurry))
    if isinstance(done, outcome.Error):
        await trio.lowlevel.checkpoint_if_cancelled()  # that may be why it has failed
    return done.unwrap()
