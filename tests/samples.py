"""What runs in part by default, and whole with ``--long``: matrices of crashes, seeds of random programs.

Every case of such a test asserts the same of another moment or another seed. Each run takes the same ones, an
even sample of them all, so that a run stays short; a test that begins to fail only in the rest is found by
``python -m pytest -n auto --long``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

EVERY: Final = 3
"""By default, one case of so many is run."""


def sample(cases: Iterable[Any], *, every: int = EVERY) -> list[Any]:
    """Return these cases as parameters, all but one of `every` marked ``long``."""
    return [
        pytest.param(case, marks=pytest.mark.long) if number % every else case
        for number, case in enumerate(cases)
    ]
