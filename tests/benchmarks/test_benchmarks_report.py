"""The tables of the pages are those of the results, and the plot shows them. No test depends on speed."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.benchmarks import report
from tests.benchmarks.__main__ import PARTS, RESULTS
from tests.benchmarks.drawing import Bar, Panel, draw
from tests.benchmarks.figures import Spread, baseline, percentile, ratio


def test_the_page_shows_what_was_measured_last() -> None:
    """Neither a table nor a result is edited by hand."""
    results = json.loads(RESULTS.read_text())

    tables = report.tables_of(results)

    for page in report.PAGES:
        assert page.read_text() == report.fill(page.read_text(), tables)
    assert report.PLOT.read_text() == report.plot_of(results)
    assert set(results["parts"]) == set(PARTS)


def test_every_table_is_on_a_page() -> None:
    """What is measured is shown."""
    text = "".join(page.read_text() for page in report.PAGES)

    for name in report.tables_of(json.loads(RESULTS.read_text())):
        assert f"<!-- measured: {name} -->" in text


def test_the_short_table_has_what_was_measured_and_the_database_behind_a_plus() -> None:
    results = json.loads(RESULTS.read_text())
    echo, ask = results["parts"]["echo"], results["parts"]["ask"]
    for table in (*echo.values(), *ask.values()):
        table["triobot, PostgreSQL"] = {
            **table["triobot"],
            "cpu": [500.0] * 5,
            "database": [90.0],
            "waiting": [7.0],
        }

    (row,) = [line for line in report.tables_of(results)["short"].splitlines() if "PostgreSQL |" in line]

    assert row.count("| 500 + 90 (") == 4
    assert row.endswith("| 7 |")


def test_words_around_a_table_stay() -> None:
    """Filling replaces what lies between the marks, and can be repeated."""
    page = "before\n<!-- measured: echo -->\nold\n<!-- end of echo -->\nafter\n"

    filled = report.fill(page, {"echo": "new"})

    assert filled == "before\n<!-- measured: echo -->\nnew\n<!-- end of echo -->\nafter\n"
    assert report.fill(filled, {"echo": "new"}) == filled


def test_a_page_that_wants_an_unknown_table_is_refused() -> None:
    """A slip in a name is seen."""
    with pytest.raises(KeyError):
        report.fill("<!-- measured: ehco -->\n<!-- end of ehco -->", {"echo": "new"})


def test_a_bar_is_as_long_as_its_figure() -> None:
    """Twice as much is twice as long, and names are text, not markup."""
    bars = [Bar("a < b", Spread(10, 5, 20), own=True), Bar("c", Spread(20, 20, 20), own=False)]

    plot = ElementTree.fromstring(draw("CPU", "µs", [Panel("one", bars)]))

    space = "{http://www.w3.org/2000/svg}"
    widths = [float(shape.get("width", 0)) for shape in plot.iter(f"{space}rect")][1:]
    assert widths[1] == pytest.approx(2 * widths[0])
    assert "a < b" in [text.text for text in plot.iter(f"{space}text")]


def test_ratios_are_taken_round_by_round() -> None:
    """A slow moment that both have met doesn't show."""
    assert ratio([2, 200, 4], [1, 100, 2]) == Spread(2, 2, 2)


def test_a_percentile_is_a_value_that_was_seen() -> None:
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([3, 1, 2], 0.99) == 3


def test_another_is_the_measure_where_a_peer_is_missing() -> None:
    """A peer that can't be installed is no error."""
    assert baseline({"triobot": {}, "floor": {}}, ("aiogram", "floor")) == "floor"
    assert baseline({"triobot": {}}, ("aiogram",)) == "triobot"
