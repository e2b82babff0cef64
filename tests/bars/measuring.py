"""Measures every row of the table. Each profile runs in a process of its own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from .calls import Kind, count_calls
from .circles import circles, import_graph
from .loading import lines_loaded
from .recording import Way
from .sources import ROOT, code_lines, names_used_twice, read_modules, sizes_of_classes
from .ways import record

Figures: TypeAlias = dict[str, float]

EVENTS: Final = 3_072
RUNS: Final = 5


def measure_sources() -> Figures:
    """Count what reading the files is enough for."""
    modules = read_modules()
    return {
        "code lines": sum(map(code_lines, modules)),
        "code lines of conversations and engine": sum(
            code_lines(module)
            for module in modules
            if module.name.partition("/")[0] in ("conversations", "engine")
        ),
        "code lines of the largest class": max(lines for _, lines, _ in sizes_of_classes(modules)),
        "methods of the class with most": max(methods for *_, methods in sizes_of_classes(modules)),
        "files in import circles": sum(map(len, circles(import_graph(modules)))),
        "class names used twice": len(names_used_twice(modules)),
    }


def measure_loading() -> Figures:
    """Count what a bot loads."""
    return {"code lines that a bot loads": lines_loaded(read_modules())}


def measure_ways(runs: int = RUNS) -> Figures:
    """Count the modules and classes that an answer enters; of so many runs the median is told."""
    figures: Figures = {}
    taken = take_ways(("answer", "restart"), runs=runs)
    for name, event in (("answer", "an answer"), ("restart", "an answer after a restart")):
        upto = ", up to a charge" if name == "restart" else ""
        for what in ("modules", "classes"):
            entered = [len(getattr(way, what)) for way in taken[name]]
            figures[f"{what} that {event} enters{upto}"] = statistics.median(entered)
    return figures


def measure_calls(events: int = EVENTS) -> Figures:
    """Count the calls of an echo and of a turn of `ask`."""
    return {
        "calls of an echo": round(_apart("calls", "echo", events)),
        "calls of a turn of `ask`": round(_apart("calls", "ask", events)),
    }


def take_ways(names: Sequence[str], *, runs: int = 1) -> dict[str, list[Way]]:
    """Record ways in a process of its own."""
    return {
        name: [_way(told) for told in ways] for name, ways in _apart("ways", ",".join(names), runs).items()
    }


def perform_part(part: str, what: str, number: int) -> object:
    """Measure in this process what another one has asked for."""
    if part == "calls":
        kind: Kind = "ask" if what == "ask" else "echo"
        return count_calls(kind, number)
    ways = record(what.split(","), runs=number)
    return {
        name: [attrs.asdict(way, value_serializer=_plain) for way in taken] for name, taken in ways.items()
    }


def _apart(part: str, what: str, number: int) -> Any:
    command = [sys.executable, "-m", "tests.bars", "--part", part, what, str(number)]
    # With a fixed hash seed, sets have the same order in each run.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def _plain(instance: type, field: attrs.Attribute[Any], value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value


def _way(told: Mapping[str, Any]) -> Way:
    functions, classes = (
        frozenset((module, name) for module, name in told[of]) for of in ("functions", "classes")
    )
    return Way(tuple(told["modules"]), functions, classes, told["calls"])
