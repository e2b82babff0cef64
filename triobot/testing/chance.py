"""Chance that repeats itself: what a seed decides must not be decided again by Trio's scheduler."""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module


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
