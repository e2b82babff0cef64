"""A thread that runs the jobs of one task, and a file descriptor that wakes that task.

`trio.to_thread` would use a thread of a pool, and report the result through a queue that all threads share.
Each commit would then also need a turn of Trio's own task for this queue.
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
class WorkerThread:
    """Runs one task's jobs in order, in a thread that is started for the first job."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: Final[queue.SimpleQueue[Callable[[], object] | None]] = queue.SimpleQueue()
        self._answers: Final[queue.SimpleQueue[outcome.Outcome[Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        # A pair of sockets instead of an eventfd would add 4 us to each commit.
        if sys.platform == "linux":
            self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._wakeup, self._wakeup_sender = socket.socketpair()
            self._wakeup.setblocking(False)

    def begin(self, work: Callable[[], object]) -> None:
        """Start `work` in the thread; `wait` returns the outcome of `work`."""
        if self._thread is None:
            # The thread is a daemon, as Trio's threads are: a disk that never answers must not keep the
            # process alive.
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no thread is available
                self._answers.put(outcome.Error(error))
                self.wake()
                return
            self._thread = thread
        self._jobs.put(work)

    def wake(self) -> None:
        """Make `wait` return."""
        if not self._closed:
            self._send_wakeup()

    async def wait(self) -> outcome.Outcome[Any] | None:
        """Wait for the outcome of a job, and return the outcome; return None after `wake`.

        Cancellation: not supported. Call this in a shield, because a job in the thread can't be undone.
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
        """Run `work` in the thread, and return its result. Call this only while no other job runs."""
        self.begin(work)
        while (done := await self.wait()) is None:
            pass
        return cast("R", done.unwrap())

    def close(self) -> None:
        """Stop the thread after the queued jobs; no job may follow."""
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
            with suppress(OSError):  # the buffer is full, so the task will be woken anyway
                self._wakeup_sender.send(b"\0")

    def _close_wakeup(self) -> None:
        if sys.platform == "linux":
            os.close(self._wakeup)
        else:
            self._wakeup.close()
            self._wakeup_sender.close()
