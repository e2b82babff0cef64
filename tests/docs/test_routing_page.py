"""docs/routing.md says which rows of the table go ahead; `test_routing_random` compares the table itself."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from triobot.conversations.routes.routing import ROWS

PAGE: Final = (Path(__file__).parents[2] / "docs" / "routing.md").read_text(encoding="utf-8")


def test_the_page_says_which_rows_go_ahead() -> None:
    last = max(number for number, row in enumerate(ROWS, 1) if row.jumps)

    assert all(row.jumps for row in ROWS[:last])
    assert f"**Rows 1 to {last} don't wait**" in PAGE
