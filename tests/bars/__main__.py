"""Counts properties that make triobot hard to understand or slow:

    python -m tests.bars                    every row of the table; a minute or two
    python -m tests.bars --quick            the rows that need no bot
    python -m tests.bars --list names       what is behind a row: names, circles, classes, modules, loaded
    python -m tests.bars --way answer       the modules of a way, in the order in which it enters them
    python -m tests.bars --write            draw every way anew in docs/architecture.md

No row depends on a clock; tests.benchmarks measures CPU time, memory and time.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Final

from .circles import circles, import_graph
from .loading import modules_loaded
from .measuring import (
    Figures,
    measure_calls,
    measure_loading,
    measure_sources,
    measure_ways,
    perform_part,
    take_ways,
)
from .page import PAGE, draw, fill
from .sources import code_lines, names_used_twice, read_modules, sizes_of_classes
from .table import MOST
from .ways import TITLES


def list_names() -> Iterator[str]:
    """Yield the class names that mean several classes."""
    for name, where in names_used_twice(read_modules()).items():
        yield f"{name}: {', '.join(where)}"


def list_circles() -> Iterator[str]:
    """Yield the files of each import circle."""
    for circle in circles(import_graph(read_modules())):
        yield f"{len(circle)} files: {', '.join(circle)}"


def list_classes() -> Iterator[str]:
    """Yield the classes with their code lines and methods, the largest first."""
    for name, lines, methods in sorted(sizes_of_classes(read_modules()), key=lambda one: -one[1]):
        yield f"{lines:5} {methods:3} {name}"


def list_loaded() -> Iterator[str]:
    """Yield the modules that a bot loads with their code lines, the largest first."""
    for module in sorted(modules_loaded(read_modules()), key=lambda one: -code_lines(one)):
        yield f"{code_lines(module):5} {module.name}"


def list_modules() -> Iterator[str]:
    """Yield the modules with their code lines, the largest first."""
    sizes = {module.name: code_lines(module) for module in read_modules()}
    for name, lines in sorted(sizes.items(), key=lambda pair: -pair[1]):
        yield f"{lines:5} {name}"


LISTS: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "names": list_names,
    "circles": list_circles,
    "classes": list_classes,
    "modules": list_modules,
    "loaded": list_loaded,
}


def show(figures: Figures) -> None:
    """Print rows beside what the table allows."""
    for name, figure in figures.items():
        mark = "" if figure <= MOST[name] else "   MORE THAN ALLOWED"
        print(f"{name:64} {figure:10,g} of {MOST[name]:7,}{mark}", flush=True)


def main() -> None:
    """Read the arguments, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", choices=list(LISTS))
    parser.add_argument("--way", choices=list(TITLES), nargs="+")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part is not None:
        part, what, number = given.part
        print(json.dumps(perform_part(part, what, int(number))))
    elif given.list is not None:
        print("\n".join(LISTS[given.list]()))
    elif given.way is not None:
        for name, taken in take_ways(given.way).items():
            print(f"{TITLES[name]}\n{draw(taken[0])}\n")
    elif given.write:
        pictures = {name: draw(taken[0]) for name, taken in take_ways(list(TITLES)).items()}
        PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), pictures), encoding="utf-8")
    else:
        show(measure_sources())
        if not given.quick:
            show(measure_loading())
            show(measure_ways())
            show(measure_calls())


if __name__ == "__main__":
    main()
