"""A thread that runs what one task gives it, and the file descriptor by which it wakes that task.

`trio.to_thread` would take a thread from a pool, and go through the queue of what other threads want of Trio:
each commit would take a step of another task.
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar, cast, final

import outcome
import trio

R = TypeVar("R")


@final
class Hop:
    """Runs what one task gives it, one after another, in a thread that is made for the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: Final[queue.SimpleQueue[Callable[[], object] | None]] = queue.SimpleQueue()
        self._answers: Final[queue.SimpleQueue[outcome.Outcome[Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        # A pair of sockets takes 4 us more of each commit.
        if sys.platform == "linux":
            self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._wakeup, self._wakeup_sender = socket.socketpair()
            self._wakeup.setblocking(False)

    def begin(self, work: Callable[[], object]) -> None:
        """Have this run in the thread, soon; `wait` returns what comes of it."""
        if self._thread is None:
            # A daemon, as Trio's: a disk that never answers must not keep the process from ending.
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # there is no thread to be had
                self._answers.put(outcome.Error(error))
                self.wake()
                return
            self._thread = thread
        self._jobs.put(work)

    def wake(self) -> None:
        """Let `wait` return."""
        if not self._closed:
            self._send_wakeup()

    async def wait(self) -> outcome.Outcome[Any] | None:
        """Wait for what comes of what was begun; None if it was only woken.

        Cancellation: none: to be called in a shield, since what was begun there can't be taken back.
        """
        while True:
            await trio.lowlevel.wait_readable(self._wakeup)
            try:
                if sys.platform == "linux":
                    os.eventfd_read(self._wakeup)
                else:
                    self._wakeup.recv(64)
            except BlockingIOError:
                continue
            break
        try:
            return self._answers.get_nowait()
        except queue.Empty:
            return None

    async def run(self, work: Callable[[], R]) -> R:
        """Run this in the thread while nothing else is; return what it returns, or raise what it raises."""
        self.begin(work)
        while (done := await self.wait()) is None:
            pass
        return cast("R", done.unwrap())

    def close(self) -> None:
        """Let the thread end once it has done what it was given. Nothing is run after it."""
        self._closed = True
        self._jobs.put(None)
        if self._thread is None:
            self._close_wakeup()

    def _work(self) -> None:
        while (work := self._jobs.get()) is not None:
            self._answers.put(outcome.capture(work))
            self._send_wakeup()
        self._close_wakeup()

    def _send_wakeup(self) -> None:
        if sys.platform == "linux":
            os.eventfd_write(self._wakeup, 1)
        else:
            with suppress(OSError):  # it has been woken often enough
                self._wakeup_sender.send(b"\0")

    def _close_wakeup(self) -> None:
        if sys.platform == "linux":
            os.close(self._wakeup)
        else:
            self._wakeup.close()
            self._wakeup_sender.close()
