"""What runs in part by default, and whole with ``--long``: matrices of crashes and of moments, random seeds.

Every case of such a test asserts the same of another moment or another seed. Each run takes the same ones, an
even sample of them all, so that a run stays short; a test that begins to fail only in the rest is found by
``python -m pytest -n auto --long``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import pytest

T = TypeVar("T")

EVERY: Final = 6
"""By default, one case of so many is run."""
_whole = False


def take_all() -> None:
    """Have the tests that are loaded from now on draw all their examples."""
    global _whole
    _whole = True


def takes_all() -> bool:
    """Return whether all is run."""
    return _whole


def examples(most: int) -> int:
    """Return how many examples Hypothesis draws: an eighth of `most`, and all with ``--long``."""
    return most if _whole else max(1, most // 8)


def some(cases: Iterable[T], *, every: int = EVERY, first: int = 0) -> list[T]:
    """Return one of `every` cases, beginning with the one of number `first`; with ``--long``, all."""
    return list(cases) if _whole else list(cases)[first % every :: every]


def sample(cases: Iterable[Any], *, every: int = EVERY) -> list[Any]:
    """Return these cases as parameters, all but one of `every` marked ``long``."""
    return [
        pytest.param(case, marks=pytest.mark.long) if number % every else case
        for number, case in enumerate(cases)
    ]
