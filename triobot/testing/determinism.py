"""Chance that repeats itself: what a seed decides must not be decided again by Trio's scheduler, nor by how
fast a thread is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import TypeVar
from unittest.mock import patch

import trio
from typing_extensions import TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@contextmanager
def seeded(seed: int | str) -> Generator[None]:
    """Seed Trio's scheduler and the global `random` while the block runs; then both go on as before.

    May be entered around `trio.run`, or within it.
    """
    # Outbox pauses draw from the global generator; Trio shuffles what is ready by one of its own, which it
    # keeps for exactly this use (pytest-trio and hypothesis do the same) but has no public name for.
    run = vars(import_module("trio._core._run"))
    shuffler: random.Random = run["_r"]
    before, shuffling, allowed = (
        random.getstate(),
        shuffler.getstate(),
        run["_ALLOW_DETERMINISTIC_SCHEDULING"],
    )
    random.seed(seed)
    run["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
    shuffler.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
        shuffler.setstate(shuffling)
        run["_ALLOW_DETERMINISTIC_SCHEDULING"] = allowed


@contextmanager
def without_threads() -> Generator[None]:
    """Do at once what would be done in a thread, while the block runs: which of two ends first is chance.

    Virtual time stands still for a thread anyway, so nothing is late that wasn't before.
    """
    with patch.object(trio.to_thread, "run_sync", _run_here):
        yield


async def _run_here(
    sync_fn: Callable[[Unpack[Ts]], T],
    *args: *Ts,
    thread_name: str | None = None,
    abandon_on_cancel: bool = False,
    limiter: object = None,
) -> T:
    await trio.lowlevel.checkpoint()
    return sync_fn(*args)
