"""The pages that say what happens once say for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from triobot.store.rules import DAY, ONCE_FOR

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["rooms", "embedding"])
def test_a_page_that_names_a_key_says_how_long_it_is_known(page: str) -> None:
    assert ONCE_FOR == 7 * DAY
    assert "once in seven days" in (DOCS / f"{page}.md").read_text(encoding="utf-8")
