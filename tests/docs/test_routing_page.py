"""docs/routing.md has the routing table as the code has it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from triobot.conversations.routing import ROWS

PAGE: Final = (Path(__file__).parents[2] / "docs" / "routing.md").read_text(encoding="utf-8")


def table() -> str:
    """The rows, word for word and in their order."""
    return "".join(f"| {number} | {row.name} | {row.meaning} |\n" for number, row in enumerate(ROWS, 1))


def test_the_page_has_the_table() -> None:
    assert f"|---|---|---|\n{table()}\n" in PAGE


def test_the_page_says_which_rows_go_ahead() -> None:
    last = max(number for number, row in enumerate(ROWS, 1) if row.jumps)

    assert all(row.jumps for row in ROWS[:last])
    assert f"* **Rows 1 to {last} go ahead**" in PAGE
