"""The page's tests share one browser; each test has its own profile and tab."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from chrome import Browser, running_browser


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    """Run the browser for all tests."""
    with running_browser() as running:
        yield running
