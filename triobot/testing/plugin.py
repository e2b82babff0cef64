"""A pytest plugin: a failed test's report shows what its people saw, and pdb opens where the bot failed.

It is loaded by itself where triobot is installed, and does nothing to tests that don't use `drive`.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import cast

import pytest

_DRIVING = "triobot.testing.driving"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the chats of the test before."""
    # Not imported for the sake of tests that have nothing to do with a bot.
    if (driving := sys.modules.get(_DRIVING)) is not None:
        driving.recent.clear()
        driving.crashes.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the chats of a test that failed, and the failure itself rather than a group with nothing else."""
    driving = sys.modules.get(_DRIVING)
    if driving is not None and (driving.recent or driving.crashes) and call.excinfo is not None:
        alone = _alone(call.excinfo.value)
        own = driving.authors_traceback(alone.__traceback__)
        call.excinfo = pytest.ExceptionInfo[BaseException].from_exception(alone.with_traceback(own))
    report = yield
    if report.failed and driving is not None:
        for transcript in driving.recent:
            report.sections.append(("chats of the driven bot", transcript))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_exception_interact(call: pytest.CallInfo[None]) -> None:
    """Let a debugger open where the bot's own code failed, rather than where its test noticed."""
    if call.excinfo is None or (driving := sys.modules.get(_DRIVING)) is None:
        return
    innermost = _alone(call.excinfo.value)
    while innermost.__cause__ is not None and any(innermost.__cause__ is one for one in driving.crashes):
        innermost = innermost.__cause__
    if innermost is not call.excinfo.value:
        call.excinfo = pytest.ExceptionInfo[BaseException].from_exception(innermost)


def _alone(error: BaseException) -> BaseException:
    """Return the one exception in groups of one: the nurseries around a test say nothing of it."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return _alone(group.exceptions[0]) if len(group.exceptions) == 1 else group
