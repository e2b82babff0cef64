"""pytest plugin: runs tests of bots in virtual time, and shows the chats of a failed test.

An async test function is run without any setting if its module imports from `triobot.testing`, or if the
function's calls and fixtures lead to `triobot.testing`. Other plugins have precedence: pytest-trio in its
Trio mode or by its mark, anyio, and pytest-asyncio by its mark. Each Hypothesis example is a separate run. A
failed test is reported with the bot's own error, and pdb opens at the line that raised this error.

pytest loads this module wherever triobot is installed. Therefore this module imports only pytest, and isn't
part of the package: tests without a bot don't load triobot.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, cast

import pytest

_DRIVING: Final = "triobot.testing.driving"
_KIT: Final = ("triobot.testing", "triobot.emulator")
# Before Python 3.12.4, sqlite3 mistakes ?1 for a named parameter, and warns.
_NO_NAME: Final = "ignore:Binding [0-9]+ .'[?][0-9]+'. is a named parameter:DeprecationWarning"
_OTHERS: Final = ("trio", "anyio", "asyncio")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests of bots here instead of in pytest-asyncio. Ignore a wrong warning of sqlite3: strict tests
    would fail.
    """
    items[:] = [_taken_back(item) if isinstance(item, pytest.Function) else item for item in items]
    if (3, 12) <= sys.version_info < (3, 12, 4):
        for item in items:
            item.add_marker(pytest.mark.filterwarnings(_NO_NAME))


def _taken_back(item: pytest.Function) -> pytest.Function:
    """Return a plain item for a bot's test that pytest-asyncio took only because of its automatic mode."""
    given = [
        *getattr(item.obj, "pytestmark", ()),
        *(mark for node in item.listchain()[:-1] for mark in node.own_markers),
    ]
    if not type(item).__module__.startswith("pytest_asyncio.") or "asyncio" in {mark.name for mark in given}:
        return item
    if not _is_a_bots(item):
        return item
    make = cast("Callable[..., pytest.Function]", pytest.Function.from_parent)  # pyright: ignore[reportUnknownMemberType]
    plain = make(
        item.parent,
        name=item.name,
        callspec=getattr(item, "callspec", None),
        callobj=item.obj,
        fixtureinfo=item._fixtureinfo,  # pyright: ignore[reportPrivateUsage]
        originalname=item.originalname,
    )
    plain.own_markers = [mark for mark in item.own_markers if mark.name != "asyncio"]
    return plain


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Clear the chats of the previous test."""
    _forget_chats()


def _forget_chats() -> None:
    # Only if `driving` is loaded: tests without a bot must not import triobot.
    if (driving := sys.modules.get(_DRIVING)) is not None:
        driving.recent.clear()
        driving.crashes.clear()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Run an async test of a bot in virtual time; use the clock that a fixture provides, if there is one."""
    if type(pyfuncitem) is not pytest.Function or not _is_a_bots(pyfuncitem):
        return None
    if any(map(pyfuncitem.get_closest_marker, _OTHERS)):
        return None
    if (given := getattr(pyfuncitem.obj, "hypothesis", None)) is not None:
        given.inner_test = _in_virtual_time(given.inner_test)
        return None
    _in_virtual_time(pyfuncitem.obj)(
        **{
            name: pyfuncitem.funcargs[name]
            for name in inspect.signature(pyfuncitem.obj).parameters
            if name in pyfuncitem.funcargs
        }
    )
    return True


def _in_virtual_time(test: Callable[..., Coroutine[Any, Any, object]]) -> Callable[..., None]:
    @wraps(test)
    def run(*values: object, **named: object) -> None:
        import trio.testing

        _forget_chats()  # the chats of the previous example
        clocks = [value for value in (*values, *named.values()) if isinstance(value, trio.abc.Clock)]
        clock = clocks[0] if clocks else trio.testing.MockClock(autojump_threshold=0)
        run_it = partial(trio.run, partial(test, *values, **named), clock=clock)
        if not trio.lowlevel.in_trio_run():
            run_it()
            return
        # A Trio run of an anyio fixture already uses this thread, and a thread can have only one Trio run.
        with ThreadPoolExecutor(1) as threads:
            threads.submit(run_it).result()

    return run


def _is_a_bots(item: pytest.Function) -> bool:
    given = getattr(item.obj, "hypothesis", None)
    test = item.obj if given is None else given.inner_test
    if not inspect.iscoroutinefunction(test):
        return False
    fixtures = item._fixtureinfo.name2fixturedefs.values()  # pyright: ignore[reportPrivateUsage]
    uses: list[object] = [test, *(fixture.func for of_name in fixtures for fixture in of_name)]
    return any(map(_is_of_kit, vars(item.module).values())) or _reach_kit(uses, item.config.rootpath)


def _is_of_kit(value: object) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return str(name).startswith(_KIT)


def _reach_kit(uses: list[object], within: Path) -> bool:
    """Whether the names in these functions lead to the test kit, through the project's own modules."""
    seen: set[CodeType | type] = set()
    for used in uses:
        if _is_of_kit(used):
            return True
        if isinstance(used, type) and used not in seen:
            seen.add(used)
            uses += vars(used).values()
        function = inspect.unwrap(used) if callable(used) else used
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType) or function.__code__ in seen:
            continue
        seen.add(function.__code__)
        file = Path(function.__code__.co_filename)
        if "site-packages" in file.parts or not file.is_relative_to(within):
            continue
        names = set(_names_in(function.__code__))
        if any(name.startswith(_KIT) for name in names):  # an import in the function
            return True
        found = [function.__globals__[name] for name in names & function.__globals__.keys()]
        for module in [one for one in found if isinstance(one, ModuleType)]:
            found += [vars(module)[name] for name in names & vars(module).keys()]
        uses += found
    return False


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_in(inner)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the chats to a failed test's report, and report the error without exception groups around it."""
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
    """Make a debugger open where the bot's own code failed, not where the test noticed the failure."""
    if call.excinfo is None or (driving := sys.modules.get(_DRIVING)) is None:
        return
    innermost = _alone(call.excinfo.value)
    # The crashes of a failure are listed from the outermost to the innermost; an error may be its own cause.
    crashes: list[BaseException] = driving.crashes
    for crash in crashes:
        if innermost.__cause__ is crash:
            innermost = crash
    if innermost is not call.excinfo.value:
        call.excinfo = pytest.ExceptionInfo[BaseException].from_exception(innermost)


def _alone(error: BaseException) -> BaseException:
    """Return the exception inside exception groups with one member, which nurseries around a test make."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return _alone(group.exceptions[0]) if len(group.exceptions) == 1 else group
