"""A thread of its own for whoever goes there often, one thing after another.

`trio.to_thread` takes a thread, names it, copies a context and asks a limiter for each call, and its answer
goes through the queue that all threads share: more than the work of a small transaction. Here the thread
stays, and its task waits for the answer's one byte itself.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar, cast, final

import outcome
import trio

R = TypeVar("R")


@final
class Hop:
    """Runs what one task gives it, one after another, in a thread that is made for the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: Final[queue.SimpleQueue[Callable[[], object] | None]] = queue.SimpleQueue()
        self._answers: Final[queue.SimpleQueue[outcome.Outcome[object]]] = queue.SimpleQueue()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[], R]) -> R:
        """Run this in the thread; what it raises is raised here.

        Raises:
            RuntimeError: there is no thread to be had; nothing was run.

        Cancellation: none: to be called in a shield, since what was begun there can't be taken back.
        """
        if self._thread is None:
            # A daemon, as Trio's: a disk that never answers must not keep the process from ending.
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        self._jobs.put(work)
        while True:
            await trio.lowlevel.wait_readable(self._ours)
            with suppress(BlockingIOError):
                self._ours.recv(1)
                break
        return cast("R", self._answers.get_nowait().unwrap())

    def close(self) -> None:
        """Let the thread end once it has done what it was given. Nothing is run after it."""
        self._jobs.put(None)
        self._ours.close()
        if self._thread is None:
            self._theirs.close()

    def _work(self) -> None:
        with self._theirs:
            while (work := self._jobs.get()) is not None:
                self._answers.put(outcome.capture(work))
                with suppress(OSError):  # nobody waits any more
                    self._theirs.send(b"\0")
