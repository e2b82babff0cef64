"""Samples of large tests: a part of all crashes, moments and random seeds; with ``--long``, all of them.

The cases of such a test differ only in the moment or the seed. By default, each run takes the same evenly
spaced cases, so that a run stays short. ``python -m tests --long`` also runs the other cases.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

T = TypeVar("T")

EVERY: Final = 11
"""By default, one case of so many is run: a prime, since moments come in pairs and in rounds."""
_whole = False


def take_all() -> None:
    """Have the tests that are loaded from now on draw all their examples."""
    global _whole
    _whole = True


def takes_all() -> bool:
    """Return whether all is run."""
    return _whole


def examples(most: int, *, every: int = 4) -> int:
    """Return how many examples Hypothesis draws: one of `every` of `most`, and all with ``--long``."""
    return most if _whole else max(1, most // every)


def sample(cases: Iterable[T], *, every: int = EVERY, first: int = 0) -> list[T]:
    """Return one of `every` cases, beginning with the one of number `first`; with ``--long``, all.

    What is left out is not collected: each worker of a run would make it a test, to drop it again.
    """
    return list(cases) if _whole else list(cases)[first % every :: every]
