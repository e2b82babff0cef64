"""The writer's own thread."""

from __future__ import annotations

import threading

import pytest

from tests.loopback import PATIENCE
from triobot.store.worker_thread import WorkerThread


async def test_it_runs_one_after_another_in_one_thread() -> None:
    """And gives back what comes of it."""
    worker = WorkerThread("a test's")
    threads = [await worker.run(threading.get_ident) for _ in range(5)]
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()
    worker.close()


async def test_errors_come_back() -> None:
    """And the next one is run all the same."""
    worker = WorkerThread("a test's")

    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await worker.run(fail)
    assert await worker.run(lambda: 7) == 7
    worker.close()


async def test_the_thread_ends_when_it_is_closed() -> None:
    """Also one that was never needed."""
    WorkerThread("never used").close()
    worker = WorkerThread("a test's")
    thread = await worker.run(threading.current_thread)
    worker.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
