"""The writer's own thread."""

from __future__ import annotations

import threading

import pytest

from tests.loopback import PATIENCE
from triobot.store.hop import Hop


async def test_it_runs_one_after_another_in_one_thread() -> None:
    """And gives back what comes of it."""
    hop = Hop("a test's")
    threads = [await hop.run(threading.get_ident) for _ in range(5)]
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()
    hop.close()


async def test_errors_come_back() -> None:
    """And the next one is run all the same."""
    hop = Hop("a test's")

    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await hop.run(fail)
    assert await hop.run(lambda: 7) == 7
    hop.close()


async def test_the_thread_ends_when_it_is_closed() -> None:
    """Also one that was never needed."""
    Hop("never used").close()
    hop = Hop("a test's")
    thread = await hop.run(threading.current_thread)
    hop.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
