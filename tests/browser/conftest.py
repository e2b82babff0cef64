"""One browser for all tests of the page; each test has a tab and a profile of its own in it."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from chrome import Browser, running_browser


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    """The running browser."""
    with running_browser() as running:
        yield running
