"""Every public name in one line: the table at the head of each page of the API, from the docstrings.

Read from the source and not from the running code, so that the table is the same on each Python.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = tuple(
    page for page in sorted((ROOT / "docs" / "api").glob("*.rst")) if page.stem not in ("index", "errors")
)

FACES: Final[Mapping[str, str]] = {
    "triobot": "triobot/runtime/surface.py",
    "triobot.filters": "triobot/filters.py",
    "triobot.widgets": "triobot/widgets/__init__.py",
    "triobot.errors": "triobot/errors.py",
    "triobot.testing": "triobot/testing/__init__.py",
}
"""The modules that authors import from, and where each says what is in it."""

_TOLD: Final = re.compile(r"(?m)^\.\. auto(?:class|function|data):: (\S+)$")
_TABLE: Final = re.compile(r"\n\.\. names\n.*?\n\.\. end of names\n", re.DOTALL)
_HEAD: Final = re.compile(r"\A.+\n=+\n")

Node: TypeAlias = "ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign"


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _imported_from(file: Path, node: ast.ImportFrom) -> Path:
    base = file.parents[node.level - 1] if node.level else ROOT
    place = base.joinpath(*(node.module or "").split("."))
    return place.with_suffix(".py") if place.with_suffix(".py").is_file() else place / "__init__.py"


def names_in(file: Path) -> Iterator[str]:
    """Yield what a face offers: what it defines or imports under its own name, in its order."""
    for node in _parsed(file).body:
        if isinstance(node, ast.ImportFrom):
            yield from (one.name for one in node.names if one.asname == one.name)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def _definition(file: Path, name: str) -> tuple[Node, str]:
    """Return what defines a name that a file defines or imports, and what it says; of overloads the last."""
    found: tuple[Node, str] | None = None
    body = _parsed(file).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                found = node, ast.get_docstring(node) or ""
            case ast.AnnAssign(target=ast.Name(id=target)) | ast.Assign(targets=[ast.Name(id=target)]) if (
                target == name
            ):
                said = after.value if isinstance(after, ast.Expr) else None
                found = node, str(said.value) if isinstance(said, ast.Constant) else ""
            case ast.ImportFrom() if any((one.asname or one.name) == name for one in node.names):
                [original] = [one.name for one in node.names if (one.asname or one.name) == name]
                return _definition(_imported_from(file, node), original)
            case _:
                pass
    assert found is not None, f"{file} has no {name}"
    return found


def _rows(whole: str) -> Iterator[tuple[str, str]]:
    face, _, name = whole.rpartition(".")
    node, said = _definition(ROOT / FACES[face], name)
    yield name, said
    if isinstance(node, ast.ClassDef):
        members: dict[str, str] = {}
        for one in node.body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and not one.name.startswith("_"):
                members[one.name] = members.get(one.name) or ast.get_docstring(one) or ""
        yield from ((f"{name}.{member}", said) for member, said in members.items() if said)


def _table(page: str) -> Iterator[str]:
    yield ".. names"
    yield ""
    yield ".. list-table::"
    yield "   :widths: auto"
    yield ""
    for whole in _TOLD.findall(page):
        for name, said in _rows(whole):
            yield f"   * - ``{name}``"
            yield f"     - {_first_sentence(said)}"
    yield ""
    yield ".. end of names"


def _first_sentence(said: str) -> str:
    """Return a docstring's first paragraph up to its first full stop, on one line."""
    paragraph = " ".join(said.partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[^.\s]{2}\.)\s", paragraph)[0]
    return re.sub(r"(?<!`)`(?!`)", "``", sentence)


def page(path: Path) -> str:
    """Return a page of the API with its table under its title."""
    text = _TABLE.sub("", path.read_text(encoding="utf-8"))
    head = _HEAD.match(text)
    assert head is not None
    table = "\n".join(_table(text))
    return f"{head[0]}\n{table}\n{text[head.end() :]}"


WRITTEN: Final[Mapping[Path, Callable[[], str]]] = {path: partial(page, path) for path in PAGES}
