"""A pytest plugin: what the people of a failed test saw is part of its report.

It is loaded by itself where triobot is installed, and does nothing to tests that don't use `drive`.
"""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

_DRIVING = "triobot.testing.driving"

# What the contract of stores asserts is to be shown as in a test.
pytest.register_assert_rewrite("triobot.testing.stores")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the chats of the test before."""
    # Not imported for the sake of tests that have nothing to do with a bot.
    if (driving := sys.modules.get(_DRIVING)) is not None:
        driving.recent.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the chats of a test that failed."""
    report = yield
    if report.failed and (driving := sys.modules.get(_DRIVING)) is not None:
        for transcript in driving.recent:
            report.sections.append(("chats of the driven bot", transcript))
    return report
