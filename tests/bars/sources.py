"""Counts code lines, classes and names in the package's files."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import attrs

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "triobot"

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_LAYOUT: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
        tokenize.ENCODING,
    }
)


@attrs.frozen
class Module:
    """A file of the package.

    Attributes:
        name: its path below the package, without the suffix: ``outbox/lanes``.
    """

    name: str
    text: str = attrs.field(repr=False)
    tree: ast.Module = attrs.field(repr=False)


def name_of(file: Path, package: Path = PACKAGE) -> str:
    """Return a file's path below the package, without the suffix."""
    return file.relative_to(package).with_suffix("").as_posix()


def read_modules(package: Path = PACKAGE) -> list[Module]:
    """Parse every module of a package, in the order of their names."""
    return [
        Module(
            name_of(file, package),
            text := file.read_text(encoding="utf-8"),
            ast.parse(text),
        )
        for file in sorted(package.rglob("*.py"))
    ]


def statements(module: Module) -> Iterator[ast.stmt]:
    """Yield each statement of a module, wherever in it; no expression is gone through."""
    waiting: list[ast.AST] = [module.tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.stmt):
                yield node
            if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
                waiting.append(node)


def numbers_of_code(module: Module) -> set[int]:
    """Return the numbers of the lines that hold code: no docstrings, no comments, nothing blank."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in statements(module):
        # A string that is a whole statement is a docstring, of an attribute, too.
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            case _:
                pass
    return code


def code_lines(module: Module) -> int:
    """Count a module's lines of code."""
    return len(numbers_of_code(module))


def sizes_of_classes(modules: Sequence[Module]) -> Iterator[tuple[str, int, int]]:
    """Yield each class as ``module:Class``, with its lines of code and the number of its methods."""
    for module in modules:
        code = numbers_of_code(module)
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                lines = code.intersection(range(node.lineno, (node.end_lineno or node.lineno) + 1))
                methods = sum(isinstance(one, Function) for one in node.body)
                yield f"{module.name}:{node.name}", len(lines), methods


def classes_by_name(modules: Sequence[Module]) -> Mapping[str, list[str]]:
    """Map each class name to the modules that define it; a leading underscore makes no other name of it."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(module.name)
    return found


def names_used_twice(modules: Sequence[Module]) -> dict[str, list[str]]:
    """Map the class names that mean several classes to the modules that define them."""
    return {name: where for name, where in sorted(classes_by_name(modules).items()) if len(where) > 1}
