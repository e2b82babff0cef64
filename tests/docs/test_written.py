"""What is written from the code is what the code says now: `python -m tests.docs.writing` mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import shapes
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
