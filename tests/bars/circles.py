"""Finds files that import one another in a circle, including imports under TYPE_CHECKING."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from .sources import Module, statements


def import_graph(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Map each module to those that it imports, wherever in it; a package's face is left out.

    A face imports its package's modules so that others need not name them. Counted, it would make a circle
    of any package whose modules meet through it.
    """
    names = {module.name for module in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        found = graph[module.name] = set[str]()
        for base, name in _imported(module):
            inside = f"{base}/{name}" if base else name
            found.update({inside} & names or {base} & names)
    return graph


def _imported(module: Module) -> Iterator[tuple[str, str]]:
    """Yield what is imported from the same package: the path that it is imported from, and its name."""
    here = module.name.split("/")[:-1]
    for node in statements(module):
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = here[: len(here) - node.level + 1]
            base = "/".join([*parts, *(node.module.split(".") if node.module else [])])
            yield from ((base, alias.name) for alias in node.names)


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """List the sets of files of which each reaches every other by imports, the largest first."""
    reached = {name: _reached(graph, name) for name in graph}
    left, found = set(graph), list[list[str]]()
    while left:
        name = left.pop()
        circle = {other for other in reached[name] if name in reached[other]}
        left -= circle
        if len(circle) > 1:
            found.append(sorted(circle))
    return sorted(found, key=lambda circle: (-len(circle), circle))


def _reached(graph: Mapping[str, set[str]], name: str) -> set[str]:
    seen, waiting = set[str](), [name]
    while waiting:
        for other in graph[waiting.pop()] - seen:
            seen.add(other)
            waiting.append(other)
    return seen
