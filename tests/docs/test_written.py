"""What is written from the code is what the code says now: `python -m tests.docs.writing` mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import shapes, words
from tests.docs.writing import ROOT, WRITTEN
from triobot.wire import operations
from triobot.wire.encode import encode_event_data


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_it_is_up_to_date(path: Path) -> None:
    what = path.relative_to(ROOT)
    assert path.read_text(encoding="utf-8") == WRITTEN[path](), f"{what}: run python -m tests.docs.writing"


def test_the_wire_s_page_has_every_event_and_operation() -> None:
    kinds = {encode_event_data(event)[0] for event in shapes.EVENTS.values()}
    assert kinds == {
        *("join", "leave", "text", "image", "video", "audio", "voice", "file", "contact", "location"),
        *("triggerButton", "submitForm", "payCallback", "invoiceCallback"),
    }
    page = shapes.PAGE.read_text(encoding="utf-8")
    paths = {getattr(one, "path", "") for one in vars(operations).values() if isinstance(one, type)}
    assert [path for path in paths if isinstance(path, str) and path and f"`{path}`" not in page] == []


def test_words_that_code_writes_are_not_counted(tmp_path: Path) -> None:
    """What stands between two marks, and a file that a page shows."""
    page = tmp_path / "page.md"
    page.write_text(
        "# By hand\n\n<!-- written: settings -->\n| a | table |\n<!-- end -->\n\n"
        "<!-- measured: echo -->\n| 1 | 2 |\n<!-- end of echo -->\n\n"
        "<!-- examples/echo.py, new 1 -->\n```py\nprint(1)\n```\n",
        encoding="utf-8",
    )

    assert words.count(page, tmp_path) == ("page.md", 3, 34)
