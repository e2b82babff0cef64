"""What is written from the code is what the code says now: `python -m tests.docs.writing` mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.writing import ROOT, written


@pytest.mark.parametrize("path", written(), ids=lambda path: path.name)
def test_it_is_up_to_date(path: Path) -> None:
    what = path.relative_to(ROOT)
    assert path.read_text(encoding="utf-8") == written()[path], f"{what}: run python -m tests.docs.writing"
