"""One browser for all tests of the page; each test has a tab and a profile of its own in it."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from chrome import running_browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Where the browser is to be reached."""
    with running_browser(tmp_path_factory.mktemp("browser") / "profile") as address:
        yield address
