"""What was measured: the table of docs/speed.md, those of the README beside this file, and a plot.

A table stands between two comments that name it; the words around it are written by hand, and stay. Figures
are medians of the rounds; what is in brackets is the range.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from .attacks import ATTACKS
from .drawing import Bar, Panel, draw
from .figures import Figures, Spread, baseline, ratio
from .systems import ASKING, ECHO, INBOUND, NODE, SHORT, STOCK

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "speed.md"
PAGES: Final = (PAGE, Path(__file__).parent / "README.md")
PLOT: Final = ROOT / "docs" / "images" / "speed.svg"

Results: TypeAlias = Mapping[str, Any]
"""What tests/benchmarks/results.json holds."""

_PEER: Final = "aiogram"
_FSM: Final = "aiogram, its FSM in memory"
_ASKS: Final = {_PEER: _FSM, NODE.name: "grammY conversations (Node)"}
"""Peers that ask by another program than they echo."""
_WORDS: Final = {
    "triobot, hypercorn and quart-trio in": "triobot on hypercorn",
    "triobot, and httpx out": "triobot on hypercorn and httpx",
    "Trio and httptools in, httpx out": "Trio, httptools and httpx",
    "the floor of the design": "a durable echo in one file",
    "triobot, stored and answered": "triobot stores the event",
    "triobot, and a conversation": "triobot stores the event and runs a conversation",
    "triobot, stored, by hypercorn and Quart": "triobot on hypercorn stores the event",
    "quart-trio alone, by hypercorn": "quart-trio alone on hypercorn",
    "httpx out": "triobot on httpx",
    "httpx2 out": "triobot on httpx2",
    "hypercorn and Quart in": "triobot on hypercorn",
    "both": "triobot on hypercorn and httpx",
    _FSM: "aiogram with states in memory",
}
"""What the pages call systems, by their names in the results."""


def write(results: Results) -> None:
    """Fill the tables of the pages, and draw the plot."""
    tables = tables_of(results)
    for page in PAGES:
        page.write_text(fill(page.read_text(), tables))
    PLOT.write_text(plot_of(results))


def fill(page: str, tables: Mapping[str, str]) -> str:
    """Put tables in their places.

    Raises:
        KeyError: the page wants a table that there is not.
    """

    def put(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- measured: {name} -->\n{tables[name]}\n<!-- end of {name} -->"

    return re.sub(
        r"<!-- measured: (?P<name>[a-z-]+) -->.*?<!-- end of (?P=name) -->", put, page, flags=re.DOTALL
    )


def tables_of(results: Results) -> dict[str, str]:
    """Every table, by its name."""
    parts = results["parts"]
    tables = {
        "short": _short(parts),
        "where": f"On {results['machine']}, {results['when']}; load average {_loads(results)}.",
        "cold": _cold(parts["echo"]),
        "ask": _by_connections(parts["ask"], [system.name for system in ASKING], _FSM),
        "inbound": _by_connections(parts["inbound"], [system.name for system in INBOUND], "aiohttp alone"),
        "stock": _by_connections(parts["stock"], [system.name for system in STOCK], "triobot"),
        "ack": _ack(parts["ack"]),
        "attacks": _attacks(parts["attacks"]),
        "outbound": _outbound(parts["outbound"]["connections"], "connections"),
        "idle": _outbound(parts["outbound"]["idle"], "open connections"),
        "commits": _commits(parts["commits"]),
        "answers": _answers(parts["answers"]),
        "revival": _revival(parts["revival"]),
        "starting": _starting(parts["starting"]),
        "virtual": _virtual(parts["virtual"]),
        "memory": _memory(parts["memory"]),
        "parked": _parked(parts["parked"]),
    }
    return {name: _in_words(table) for name, table in tables.items()}


def _in_words(table: str) -> str:
    """Put the pages' names into the cells of a table."""
    return re.sub(r"(?<=\| )[^|]+(?= \|)", lambda cell: _WORDS.get(cell[0], cell[0]), table)


def plot_of(results: Results) -> str:
    """CPU of an echo, of all systems."""
    panels = [
        Panel(
            f"{connections} connections at once" if connections != "1" else "one connection",
            [
                Bar(_WORDS.get(name, name), Spread.of(table[name]["cpu"]), name.startswith("triobot"))
                for name in sorted(table, key=lambda name: Spread.of(table[name]["cpu"]).median)
            ],
        )
        for connections, table in sorted(results["parts"]["echo"].items(), key=lambda pair: -int(pair[0]))
    ]
    return draw("CPU time of an echo", "microseconds", panels)


def _loads(results: Results) -> str:
    loads = results["loads"].values()
    return f"{min(loads):.0f} to {max(loads):.0f}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; all columns but the first are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _spread(spread: Spread, digits: int = 2) -> str:
    return f"{spread.median:,.{digits}f} ({spread.least:,.{digits}f} to {spread.most:,.{digits}f})"


def _middle(values: Sequence[float], digits: int = 0) -> str:
    return f"{Spread.of(values).median:,.{digits}f}" if values else ""


def _short(parts: Mapping[str, Any]) -> str:
    echo: dict[str, dict[str, Figures]] = parts["echo"]
    ask: dict[str, dict[str, Figures]] = parts["ask"]
    rows = [
        [
            system.name,
            system.keeps,
            *(
                _cost(table[many], name, peer)
                for table, name, peer in (
                    (echo, system.name, _PEER),
                    (ask, _ASKS.get(system.name, system.name), _FSM),
                )
                for many in ("64", "1")
            ),
            _middle([seconds * 1e3 for seconds in echo["64"][system.name]["start_cpu"]]),
            # A collector that runs in between gives more back than what waits has taken.
            _middle(
                [
                    one
                    for one in ask["64"].get(_ASKS.get(system.name, system.name), {}).get("waiting", [])
                    if one > 0
                ]
            ),
        ]
        for system in SHORT
        if system.name in echo["64"]
    ]
    head = [
        "",
        "stored on disk",
        "echo, 64 connections: CPU µs (ratio to aiogram)",
        "echo, 1 connection",
        "question and answer, 64 connections",
        "question and answer, 1 connection",
        "CPU ms of a start",
        "bytes of a waiting chat",
    ]
    return markdown(head, rows)


def _cost(table: Mapping[str, Figures], name: str, peer: str) -> str:
    """CPU of an event, the database's behind a plus; nothing where a system does not do this."""
    if (figures := table.get(name)) is None:
        return ""
    base = table[baseline(table, (peer,))]["cpu"]
    database = f" + {_middle(figures['database'])}" if "database" in figures else ""
    return f"{_middle(figures['cpu'])}{database} ({ratio(figures['cpu'], base).median:.2f})"


def _by_connections(parts: Mapping[str, Mapping[str, Figures]], names: Sequence[str], wished: str) -> str:
    rows: list[list[str]] = []
    base = wished
    for connections, table in parts.items():
        base = baseline(table, (wished,))
        rows += [
            [
                connections,
                name,
                _middle(table[name]["cpu"]),
                _spread(ratio(table[name]["cpu"], table[base]["cpu"])),
                _middle(table[name]["rate"]),
                _middle(table[name]["p50"], 2),
                _middle(table[name]["p99"], 2),
                _middle(table[name]["load"]),
            ]
            for name in names
            if name in table
        ]
    head = [
        "connections",
        "",
        "CPU µs",
        f"ratio to {_WORDS.get(base, base)}",
        "a second",
        "p50 ms",
        "p99 ms",
        "load %",
    ]
    return markdown(head, rows)


def _cold(parts: Mapping[str, Mapping[str, Figures]]) -> str:
    whole = _by_connections(parts, [system.name for system in ECHO], _PEER)
    rows = [
        [
            name,
            _middle([s * 1e3 for s in figures["start_cpu"]]),
            _middle(figures["first_ms"], 1),
            _middle(figures["cold_cpu"]),
            _middle(figures["cpu"]),
            _middle(figures["megabytes"]),
        ]
        for name, figures in parts["64"].items()
    ]
    head = [
        "64 connections",
        "CPU ms of the start",
        "ms of the first echo",
        "CPU µs of an early echo",
        "CPU µs of a later echo",
        "MB at the end",
    ]
    return whole + "\n\n" + markdown(head, rows)


def _ack(parts: Mapping[str, Mapping[str, Figures]]) -> str:
    rows = [
        [
            rate,
            name,
            _middle(figures["p50"], 2),
            _middle(figures["p99"], 2),
            _middle(figures["cpu"]),
            _middle(figures["load"]),
        ]
        for rate, table in parts.items()
        for name, figures in table.items()
    ]
    return markdown(["events a second", "", "p50 ms", "p99 ms", "CPU µs", "load %"], rows)


def _outbound(parts: Mapping[str, Mapping[str, Figures]], what: str) -> str:
    rows: list[list[str]] = []
    for many, table in parts.items():
        base = baseline(table, ("aiohttp's client",))
        rows += [
            [
                f"{int(many):,}",
                name,
                _middle(figures["cpu"]),
                _spread(ratio(figures["cpu"], table[base]["cpu"])),
                _middle(figures["rate"]),
                _middle(figures["p50"], 2),
                _middle(figures["p99"], 2),
            ]
            for name, figures in table.items()
        ]
    return markdown([what, "", "CPU µs", "ratio to aiohttp", "a second", "p50 ms", "p99 ms"], rows)


def _attacks(parts: Mapping[str, Mapping[str, Figures]]) -> str:
    rows = [
        [
            ATTACKS[kind],
            server,
            *(_middle(figures[name], digits) for name, digits in (("p50", 0), ("p99", 0), ("failed", 1))),
        ]
        for kind, table in parts.items()
        for server, figures in table.items()
    ]
    return markdown(["attack", "server", "p50 ms", "p99 ms", "failed %"], rows)


def _commits(parts: Mapping[str, Figures]) -> str:
    rows = [
        [
            many,
            *(
                _middle(figures[name], digits)
                for name, digits in (("rate", 0), ("cpu", 0), ("p50", 2), ("p99", 2))
            ),
        ]
        for many, figures in parts.items()
    ]
    return markdown(["producers at once", "commits a second", "CPU µs", "p50 ms", "p99 ms"], rows)


def _answers(parts: Mapping[str, Figures]) -> str:
    first = next(iter(parts.values()))["cpu"]
    rows = [
        [
            f"answer {int(many):,}",
            _spread(Spread.of(figures["cpu"]), 0),
            _spread(ratio(figures["cpu"], first)),
        ]
        for many, figures in parts.items()
    ]
    return markdown(["", "CPU µs", "ratio to the first row"], rows)


def _revival(parts: Mapping[str, Figures]) -> str:
    rows = [
        [
            f"{int(many):,}",
            _spread(Spread.of(figures["cpu"]), 1),
            _middle(figures["wall"], 1),
            _middle([value * 1e3 / int(many) for value in figures["cpu"]]),
        ]
        for many, figures in parts.items()
    ]
    return markdown(["operations in the journal", "CPU ms", "wall ms", "CPU µs per operation"], rows)


def _starting(parts: Mapping[str, Figures]) -> str:
    def of(figures: Figures, name: str, digits: int = 0) -> str:
        return _middle(figures[name], digits) if name in figures else ""

    rows = [
        [
            f"{int(many):,}",
            of(figures, "cpu"),
            of(figures, "seconds", 1),
            *(of(figures, name, 1) for name in ("p50", "p99", "longest")),
        ]
        for many, figures in parts.items()
    ]
    head = [
        "due conversations",
        "CPU µs of each",
        "s until the last message",
        "wait of other chats: p50 ms",
        "p99 ms",
        "longest ms",
    ]
    return markdown(head, rows)


def _virtual(parts: Mapping[str, Figures]) -> str:
    rows = [[sleepers, _spread(Spread.of(figures["cpu"]), 1)] for sleepers, figures in parts.items()]
    return markdown(["sleeping conversations", "CPU ms for 30 days"], rows)


def _memory(figures: Figures) -> str:
    rows = [
        ["a waiting chat in memory", f"{_middle(figures['live'])} bytes"],
        ["a waiting chat that was evicted", f"{_middle(figures['evicted'])} bytes"],
        ["a chat on the disk, after one question", f"{_middle(figures['disk'])} bytes"],
        ["a full garbage collection with 10,000 chats in memory", f"{_middle(figures['collection'])} ms"],
    ]
    return markdown(["", ""], rows)


def _parked(parts: Mapping[str, Mapping[str, Figures]]) -> str:
    rows: list[list[str]] = []
    for callers, table in parts.items():
        first = next(iter(table.values()))["event"]
        rows += [
            [callers, known, _middle(figures["event"]), _spread(ratio(figures["event"], first))]
            for known, figures in table.items()
        ]
    return markdown(["events at once", "known conversations", "µs of an event", "ratio to the first"], rows)
