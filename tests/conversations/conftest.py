"""Each test begins as a program without keys: what other tests' bots declare is not its business."""

from __future__ import annotations

import pytest

from triobot.conversations.data import slots as data


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bot without keys reads no data before it begins, which tests of slow stores can tell."""
    monkeypatch.setattr(data, "_declared", set())
