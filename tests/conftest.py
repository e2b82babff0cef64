"""Fixtures, options and hooks for all tests.

Each test runs as a program that declares the keys of the test's own module, and no keys of other tests' bots.
A bot without keys starts conversations without reading the chats' data. So a test takes the same way through
the code, whichever tests run together.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Collection, Generator, Iterator
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pytest_trio import enable_trio_mode

from tests import passing, samples
from tests.clocks import run_in_virtual_time
from tests.postgres import Server
from tests.postgres import postgres as postgres
from tests.postgres import postgres_server as postgres_server
from tests.store.postgres_rows import drive_on
from tests.warm import popen
from triobot import Key
from triobot.conversations import data as slots
from triobot.conversations.revival import code as code_module
from triobot.exact.sites import loaded_modules

# Each run has the same examples, and no result depends on how busy the machine is.
# ``--hypothesis-profile=search`` draws new examples.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", settings.get_profile("fixed"), derandomize=False, database=None)
settings.load_profile("fixed")

# pytest shows the values of the contract's failed assertions, as in a test.
pytest.register_assert_rewrite("tests.store.contract")

TURNS = 8
FAST_WAYS = {
    "conversations.early": ["runtime/work.py"],
    "http": [
        "client/posted.py",
        "operator/calling.py",
        "operator/serving.py",
        "seams/own_http.py",
        "webhook/serving.py",
    ],
}
"""Parts that can be deleted: a bot is slower then, no more; each with who may name it."""
_TESTS = Path(__file__).parent
# These tests load bots by name, so no import shows which keys the bots declare.
_LOADED_BY_NAME = {"browser", "cli", "docs", "examples", "processes"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--long``, ``--turn``, ``--postgres`` and ``--without``."""
    parser.addoption("--long", action="store_true", help="run whole what runs in part by default")
    turn = f"run one of {TURNS} of the slow tests as well: another one with each number"
    parser.addoption("--turn", type=int, help=turn)
    parser.addoption("--postgres", action="store_true", help="keep the stores of driven bots in PostgreSQL")
    without = f"leave out a part of the package, and the tests that name it: {' or '.join(FAST_WAYS)}"
    parser.addoption("--without", choices=FAST_WAYS, help=without)


def pytest_configure(config: pytest.Config) -> None:
    """Tell the modules that are loaded next, and let the processes that tests start find them compiled."""
    config.pluginmanager.register(
        enable_trio_mode
    )  # not in pyproject.toml, which also applies to an author's own test
    passing.install()
    if config.getoption("--long"):
        samples.take_all()
    # If Python stores no bytecode, each of a hundred processes would compile two hundred modules.
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if sys.dont_write_bytecode and cache is not None:
        sys.dont_write_bytecode = False
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(cache.mkdir("bytecode"))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    popen.install()
    if (without := config.getoption("--without")) is not None:
        sys.modules[f"triobot.{without}"] = None  # type: ignore[assignment]
    if config.getoption("--postgres"):
        config.pluginmanager.register(OnPostgres())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out tests that name what is left out."""
    without = config.getoption("--without")
    if without is None or collection_path.suffix != ".py":
        return None
    return f"triobot.{without}" in collection_path.read_text(encoding="utf-8") or None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run three workers for two cores: a test that waits for a process or a page computes nothing.

    More would spend on collecting all tests what they gain by that.
    """
    return max(2, (os.cpu_count() or 1) * 3 // 2)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect nothing as garbage meanwhile, and keep the collector away from what tests are made of.

    A test that collects garbage, to see what is left, would go through all of them.
    """
    gc.disable()
    try:
        import_share(session)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def import_share(session: pytest.Session) -> None:
    """Import this worker's share of the tests first, so that no two workers compile the same module.

    All of them collect all tests in one order: beside one another, each would rewrite the assertions of each.
    """
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    number, of = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted(_TESTS.rglob("test_*.py"))[number::of]:
        root = path.parent
        while (root / "__init__.py").exists():
            root = root.parent
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
        with suppress(Exception, pytest.skip.Exception):  # the collection reports the error
            import_module(".".join(path.relative_to(root).with_suffix("").parts))


@pytest.fixture(scope="session")
def long(request: pytest.FixtureRequest) -> bool:
    """Return whether a test that goes through many cases itself takes all of them."""
    return bool(request.config.getoption("--long"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only ``--long`` asks for, begin with what is marked ``first``, and give virtual time.

    What is marked ``apart`` or ``slow`` is left out of a run of all tests, but for the slow ones whose turn
    it is. A ``virtual_time`` mark with False asks for real time; of several the nearest counts.
    """
    if not config.getoption("--long"):
        marks = ["long", "apart"] if config.args == config.getini("testpaths") else ["long"]
        left_out = {item for item in items if any(map(item.get_closest_marker, marks))}
        if "apart" in marks:
            slow = [item for item in items if item.get_closest_marker("slow") and item not in left_out]
            turn: int | None = config.getoption("--turn")
            left_out.update(slow if turn is None else set(slow) - set(slow[turn % TURNS :: TURNS]))
        items[:] = [item for item in items if item not in left_out]
        if left_out:
            config.hook.pytest_deselected(items=[*left_out])
    items.sort(key=lambda item: item.get_closest_marker("first") is None)
    for item in items:
        mark = item.get_closest_marker("virtual_time")
        if mark is not None and mark.args != (False,) and iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.trio(run=run_in_virtual_time), append=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start real commands, imports and all, in a test that is marked ``cold``; with ``--long``, in each."""
    popen.zygotes.cold = item.config.getoption("--long") or item.get_closest_marker("cold") is not None


class OnPostgres:
    """What is added by ``--postgres``: each test pays for a fixture that is there for all."""

    @pytest.fixture(autouse=True)
    def driven_on_postgres(self, postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keep the stores of the bots that are driven in PostgreSQL."""
        drive_on(postgres_server, monkeypatch)


@pytest.fixture(autouse=True)
def declared_keys(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Declare only the keys that this test's module declares, or imports from another of the tests.

    Of the tests' modules these alone are the program's: its store is not to keep the sources of all.
    """
    module = getattr(request, "module", None)
    if not isinstance(module, ModuleType):
        return
    reached, keys = _reached_from(module)
    monkeypatch.setattr(code_module, "loaded_modules", partial(_loaded, reached))
    if request.path.parent.name not in _LOADED_BY_NAME:
        monkeypatch.setattr(slots, "_declared", set(keys))


def _loaded(reached: Collection[str]) -> Iterator[tuple[str, str]]:
    others = f"{_TESTS}{os.sep}"
    return ((name, file) for name, file in loaded_modules() if name in reached or not file.startswith(others))


@cache
def _reached_from(module: ModuleType) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of a module and of those that it imports from the tests, and of their keys."""
    reached = set[str]()
    keys = frozenset(_keys(module, reached))
    return frozenset(reached), keys


def _keys(module: ModuleType, seen: set[str]) -> Iterator[str]:
    seen.add(module.__name__)
    for value in list(vars(module).values()):
        if isinstance(value, Key):
            yield value.name
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        origin = sys.modules.get(name) if isinstance(name, str) and name not in seen else None
        if origin is not None and _TESTS in Path(getattr(origin, "__file__", None) or "/").parents:
            yield from _keys(origin, seen)
