"""What runs in part by default, and whole with ``--long``: matrices of crashes and of moments, random seeds.

Every case of such a test asserts the same of another moment or another seed. Each run takes the same ones, an
even sample of them all, so that a run stays short; a test that begins to fail only in the rest is found by
``python -m tests --long``.
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
