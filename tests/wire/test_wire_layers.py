"""The codec is sans-I/O: it imports nothing that can wait, read a clock or open anything."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import triobot.wire

FOLDER = Path(triobot.wire.__file__).parent
MODULES = sorted(FOLDER.glob("*.py"))
GAPS = (FOLDER.parents[1] / "docs" / "gaps.md").read_text("utf-8")
ROW = r"(?m)^\| (\d+) \| \S.* \| \S.* \| \S.* \|$"

# Named one by one, so that a new import is a decision.
ALLOWED = {
    *(
        "__future__",
        "binascii",
        "collections",
        "contextlib",
        "functools",
        "hashlib",
        "json",
        "math",
        "pathlib",
        "re",
    ),
    *("typing", "urllib", "attrs", "typing_extensions"),
}


def imported(tree: ast.Module) -> set[str]:
    """What a module imports: top-level names, and relative ones with their dots."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names.add("." * node.level + module if node.level else module.partition(".")[0])
    return names


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_module_imports_nothing_that_waits(module: Path) -> None:
    """Only these parts of the standard library, attrs, typing_extensions, errors, and its own package."""
    names = imported(ast.parse(module.read_text("utf-8")))
    own = {f".{path.stem}" for path in MODULES}

    assert names - own - {"..errors", "..base.frozen"} <= ALLOWED


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_module_neither_waits_nor_opens(module: Path) -> None:
    """No coroutine, and of a path only its name is used."""
    tree = ast.parse(module.read_text("utf-8"))
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncWith, ast.AsyncFor)
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    methods = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}

    assert not any(isinstance(node, waiting) for node in ast.walk(tree))
    assert not called & {"open", "input", "print", "eval", "exec"}
    assert not methods & {"read_text", "read_bytes", "write_text", "stat", "exists", "resolve", "expanduser"}


def test_gaps_have_unique_numbers_and_words() -> None:
    """A number stands for one point."""
    numbers = [int(number) for number in re.findall(ROW, GAPS)]

    assert numbers == sorted(set(numbers))
    assert len(numbers) == len(re.findall(r"(?m)^\| \d", GAPS))


def test_cited_gaps_exist() -> None:
    """A docstring that cites a gap can be followed."""
    numbers = {int(number) for number in re.findall(ROW, GAPS)}
    for path in FOLDER.parent.rglob("*.py"):
        for cited in re.findall(r"\bgaps? ((?:\d+(?:, | and | to )?)+)", path.read_text("utf-8")):
            assert {int(number) for number in re.findall(r"\d+", cited)} <= numbers, path.name
