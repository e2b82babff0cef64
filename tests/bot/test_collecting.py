"""A bot's own program collects rarely, and leaves the collector as it was."""

from __future__ import annotations

import gc

import pytest

from triobot.collecting import rarely_collected


def test_as_it_was_afterwards() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with pytest.raises(ZeroDivisionError), rarely_collected():
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > frozen
        raise ZeroDivisionError

    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
