"""No count exceeds its limit in `tests/bars/table.py`. See ``python -m tests.bars``."""

from __future__ import annotations

import ast

import pytest

from tests.bars.circles import circles, import_graph
from tests.bars.loading import modules_loaded
from tests.bars.measuring import Figures, measure_calls, measure_sources, measure_ways
from tests.bars.page import PAGE, draw, fill, modules_shown
from tests.bars.recording import Way
from tests.bars.sources import (
    PACKAGE,
    Module,
    code_lines,
    name_of,
    names_used_twice,
    read_modules,
    sizes_of_classes,
)
from tests.bars.table import MOST
from tests.bars.ways import TITLES

# So many events that opened connections hardly change the average, and so few that a run takes seconds.
EVENTS = 1_024
# A run may also record code that the clock starts, so the median of several runs counts.
RUNS = 3


def exceeded(figures: Figures) -> dict[str, str]:
    return {name: f"{value} of {MOST[name]}" for name, value in figures.items() if value > MOST[name]}


def test_the_files_keep_within_their_bars() -> None:
    assert exceeded(measure_sources()) == {}


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.cold
def test_a_bot_loads_no_more_code() -> None:
    """Of the bot it is all that is loaded, and nothing of what is there for developers."""
    loaded = modules_loaded(modules := read_modules())

    assert {one.name.partition("/")[0] for one in loaded}.isdisjoint({"emulator", "studio", "testing"})
    assert exceeded({"code lines that a bot loads": sum(map(code_lines, loaded))}) == {}
    assert len(loaded) < len(modules)


@pytest.mark.slow
@pytest.mark.first
@pytest.mark.processes
def test_an_answer_enters_no_more_modules() -> None:
    """Also one that brings a conversation back."""
    assert exceeded(measure_ways(RUNS)) == {}


@pytest.mark.slow
@pytest.mark.processes
def test_an_event_makes_no_more_calls() -> None:
    assert exceeded(measure_calls(EVENTS)) == {}


def module(name: str, text: str) -> Module:
    return Module(name, text, ast.parse(text))


def test_code_lines_are_those_with_code() -> None:
    """A text over several lines is code; a docstring, also that of a value, is not."""
    function = 'def f():\n    """Doc.\n\n    """\n    return """a\nb"""\n'
    text = f'"""Doc."""\n\n# why\nA = 1\n"""Of A."""\n\n{function}'

    assert code_lines(module("m", text)) == 4


def test_a_circle_is_found_through_imports_for_type_checkers() -> None:
    """One that only a package's face closes is none."""
    modules = [
        module("a/one", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..b.two import Two\n"),
        module("b/two", "from .three import Three\n"),
        module("b/three", "from ..a import one\n"),
        module("b/__init__", "from .two import Two\n"),
        module("b/four", "from . import Two\n"),
    ]

    assert circles(import_graph(modules)) == [["a/one", "b/three", "b/two"]]


def test_a_name_with_an_underscore_is_the_same_name() -> None:
    modules = [module("a", "class Lanes: ...\n"), module("b", "class _Lanes: ...\nclass Other: ...\n")]

    assert names_used_twice(modules) == {"Lanes": ["a", "b"]}


def test_a_class_has_its_lines_and_methods() -> None:
    text = 'class A:\n    """Doc."""\n\n    def f(self) -> None:\n        # why\n        def g(): ...\n'

    assert [*sizes_of_classes([module("m", text)])] == [("m:A", 3, 1)]


def test_every_way_is_drawn_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert all(f"<!-- way: {name} -->" in page for name in TITLES)


def test_every_module_on_the_page_exists() -> None:
    """A picture that a change has made untrue is drawn anew: ``python -m tests.bars --write``."""
    shown = modules_shown(PAGE.read_text(encoding="utf-8"))

    assert len(shown) > 50
    assert shown <= {name_of(file) for file in PACKAGE.rglob("*.py")}


def test_a_picture_has_a_line_for_each_stay_in_a_package() -> None:
    way = Way(("http/talk", "clock", "http/links", "http/pool"), frozenset(), frozenset(), 0)

    picture = draw(way)
    page = fill("a\n<!-- way: answer -->\nold\n<!-- end -->\nb", {"answer": picture})

    assert picture.splitlines()[1:] == [
        "http          talk",
        "triobot       clock",
        "http          links > pool",
    ]
    assert page.startswith("a\n") and page.endswith("\nb")
    assert modules_shown(page) == {"http/talk", "clock", "http/links", "http/pool"}
