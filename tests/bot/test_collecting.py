"""A bot's program rarely collects garbage, and restores the collector's settings at its end."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from triobot.runtime.serve import rarely_collected


@pytest.fixture(autouse=True)
def as_python_begins() -> Iterator[None]:
    """Another program in this process, such as a type checker, may have settings of its own."""
    before = gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


@pytest.mark.slow
def test_as_it_was_afterwards() -> None:
    with pytest.raises(ZeroDivisionError), rarely_collected():
        assert gc.get_threshold()[0] > 700
        assert gc.get_freeze_count() > 0
        raise ZeroDivisionError

    assert gc.get_threshold() == (700, 10, 10)
    assert gc.get_freeze_count() == 0


def test_what_a_stop_turned_off_is_on_again() -> None:
    with rarely_collected():
        gc.disable()

    assert gc.isenabled()


@pytest.mark.slow
def test_a_process_that_ends_never_looks_at_what_is_left() -> None:
    left: list[object] = []
    with rarely_collected(ends=True):
        left.append(left)

    assert gc.get_freeze_count() > 0
    assert not any(one is left for one in gc.get_objects())
    gc.unfreeze()
