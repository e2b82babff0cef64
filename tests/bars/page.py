"""The pictures of the ways, and their places in docs/architecture.md.

Two comments around a picture name the picture's way. The text outside of these comments is written by hand,
and isn't changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from .recording import Way
from .sources import ROOT

PAGE: Final = ROOT / "docs" / "architecture.md"

_WIDTH: Final = 108


def draw(way: Way) -> str:
    """Draw a way: how much it enters, then a line for each stay in a package.

    A line names the modules that are entered there for the first time, in that order.
    """
    stays: list[tuple[str, list[str]]] = []
    for module in way.modules:
        package, _, name = module.partition("/")
        package, name = (package, name) if name else ("triobot", package)
        if not stays or stays[-1][0] != package:
            stays.append((package, []))
        stays[-1][1].append(name)
    lines = [_wrap(f"{package:14}", names) for package, names in stays]
    counted = f"{len(way.modules)} modules, {len(way.classes)} classes, {len(way.functions)} functions"
    return "\n".join([counted, *lines])


def fill(page: str, pictures: Mapping[str, str]) -> str:
    """Put pictures in their places.

    Raises:
        KeyError: the page wants a picture that there is not.
    """

    def put(found: re.Match[str]) -> str:
        return f"<!-- way: {found['name']} -->\n```text\n{pictures[found['name']]}\n```\n<!-- end -->"

    return re.sub(r"<!-- way: (?P<name>[a-z]+) -->.*?<!-- end -->", put, page, flags=re.DOTALL)


def modules_shown(page: str) -> set[str]:
    """Return the modules that the pictures of a page name."""
    found: set[str] = set()
    for picture in re.findall(r"(?s)<!-- way: [a-z]+ -->\n```text\n(.*?)```", page):
        package = ""
        for line in picture.splitlines()[1:]:
            package = line[:14].strip() or package
            inside = "" if package == "triobot" else f"{package}/"
            found.update(inside + name for name in re.findall(r"[\w/]+", line[14:]))
    return found


def _wrap(head: str, names: Sequence[str]) -> str:
    lines, line = list[str](), head
    for number, name in enumerate(names):
        part = name if number == 0 else f" > {name}"
        if number and len(line) + len(part) > _WIDTH:
            lines.append(line)
            line, part = " " * len(head), f"> {name}"
        line += part
    return "\n".join([*lines, line])
