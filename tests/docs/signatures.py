"""Every public signature as the source has it: what the reference's signatures are written from.

Read from the source and not from the running code, so that overloads, defaults and types are those that were
written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "reference.md"

FACES: Final[Mapping[str, str]] = {
    "triobot": "triobot/surface.py",
    "triobot.filters": "triobot/filters.py",
    "triobot.widgets": "triobot/widgets/__init__.py",
    "triobot.errors": "triobot/errors.py",
    "triobot.testing": "triobot/testing/__init__.py",
}
"""The modules that authors import from, and where each says what is in it."""

_WIDEST: Final = 110
_KEPT: Final = ("overload", "property", "classmethod", "staticmethod", "asynccontextmanager")
_HEADING: Final = re.compile(r"(?m)^#+ .*: `([\w.]+)`\n")
_BLOCK: Final = re.compile(r"\n<!-- signatures -->\n```pyi\n.*?```\n<!-- end of signatures -->\n", re.DOTALL)

Node: TypeAlias = "ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign"


def _text(node: ast.AST) -> str:
    """Return the source of a part, with the quotes that the house writes."""
    text = ast.unparse(node)
    return text if '"' in text else text.replace("'", '"')


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


def definitions(file: Path, name: str) -> Sequence[Node]:
    """Return what defines a name that this file defines or imports: several for overloads."""
    found: list[Node] = []
    for node in _parsed(file).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                found.append(node)
            case ast.AnnAssign(target=ast.Name(id=target)) if target == name:
                found.append(node)
            case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                found.append(node)
            case ast.ImportFrom() if any((one.asname or one.name) == name for one in node.names):
                [original] = [one.name for one in node.names if (one.asname or one.name) == name]
                return definitions(_imported_from(file, node), original)
            case _:
                pass
    return found


def _decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for one in node.decorator_list:
        text = _text(one)
        if text in _KEPT or text.endswith(".setter"):
            yield f"@{text}"


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, indent: str) -> Iterator[str]:
    for decorator in _decorators(node):
        yield indent + decorator
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = "" if node.returns is None else f" -> {_text(node.returns)}"
    line = f"{indent}{word} {node.name}({', '.join(_arguments(node.args))}){returns}: ..."
    if len(line) <= _WIDEST:
        yield line
        return
    yield f"{indent}{word} {node.name}("
    yield from (f"{indent}    {argument}," for argument in _arguments(node.args))
    yield f"{indent}){returns}: ..."


def _arguments(given: ast.arguments) -> Iterator[str]:
    """Yield the arguments one by one, with the signs that stand between them."""
    places = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(places) - len(given.defaults)), *given.defaults]
    for number, (place, default) in enumerate(zip(places, defaults, strict=True), 1):
        yield _argument(place, default)
        if number == len(given.posonlyargs):
            yield "/"
    if given.vararg is not None:
        yield f"*{_argument(given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    for place, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(place, default)


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    kind = "" if argument.annotation is None else f": {_text(argument.annotation)}"
    value = "" if default is None else f" = {_text(default)}"
    return f"{argument.arg}{kind}{value}"


def _is_shown(name: str) -> bool:
    return name == "__init__" or not name.startswith("_")


def _members(node: ast.ClassDef) -> Iterator[str]:
    overloaded = {
        one.name
        for one in node.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and "@overload" in _decorators(one)
    }
    for one in node.body:
        match one:
            case ast.AnnAssign(target=ast.Name(id=name)) if _is_shown(name):
                yield f"    {_assigned(one)}"
            case ast.Assign(targets=[ast.Name(id=name)]) if _is_shown(name):
                yield f"    {name} = {_text(one.value)}"
            case ast.FunctionDef() | ast.AsyncFunctionDef() if _is_shown(one.name):
                if one.name not in overloaded or "@overload" in _decorators(one):
                    yield from _function(one, "    ")
            case _:
                pass


def _assigned(node: ast.AnnAssign) -> str:
    kind = f"{_text(node.target)}: {_text(node.annotation)}"
    if node.value is None:
        return kind
    if isinstance(node.value, ast.Call) and _text(node.value.func) == "attrs.field":
        given = {word.arg: word.value for word in node.value.keywords}
        if "default" in given:
            return f"{kind} = {_text(given['default'])}"
        return f"{kind} = ..." if "factory" in given else kind
    value = _text(node.value)
    if len(kind) + len(value) + 7 <= _WIDEST:
        return f"{kind} = {value}"
    if _text(node.annotation) == "TypeAlias":
        members = value if len(value) + 4 <= _WIDEST else "\n    | ".join(value.split(" | "))
        return f"{kind} = (\n    {members}\n)"
    return f"{kind} = ..."


def lines_of(node: Node) -> Iterator[str]:
    """Yield the lines of one definition."""
    match node:
        case ast.ClassDef():
            bases = f"({', '.join(map(_text, node.bases))})" if node.bases else ""
            members = list(_members(node))
            yield f"class {node.name}{bases}:" if members else f"class {node.name}{bases}: ..."
            yield from members
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _function(node, "")
        case ast.AnnAssign():
            yield _assigned(node)
        case ast.Assign():
            yield _text(node)


def signatures(file: Path, name: str) -> Iterator[str]:
    """Yield the lines of all definitions of a name; of overloads, not of what they stand for."""
    found = definitions(file, name)
    overloads = [
        node
        for node in found
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "@overload" in _decorators(node)
    ]
    for node in overloads or found:
        yield from lines_of(node)


def page() -> str:
    """Return the reference with each section's signatures at its end."""
    text = _BLOCK.sub("", PAGE.read_text(encoding="utf-8"))
    headings = list(_HEADING.finditer(text))
    sections = {heading.group(1) for heading in headings}
    ends = [heading.start() for heading in headings[1:]]
    # The last section ends with the page.
    pieces = [text[: headings[0].start()]]
    for heading, end in zip(headings, [*ends, len(text)], strict=True):
        body = text[heading.start() : end].rstrip("\n")
        lines = "\n".join(_section(heading.group(1), sections))
        pieces.append(f"{body}\n\n<!-- signatures -->\n```pyi\n{lines}\n```\n<!-- end of signatures -->\n\n")
    return "".join(pieces).rstrip("\n") + "\n"


def _section(subject: str, sections: set[str]) -> Iterator[str]:
    if subject in FACES:
        face = ROOT / FACES[subject]
        last = 0
        for name in names_in(face):
            if name not in sections:
                lines = list(signatures(face, name))
                is_class = len(lines) > 1 and lines[0].startswith("class ")
                # Classes with members stand apart.
                if last and (is_class or last > 1):
                    yield ""
                yield from lines
                last = len(lines) if is_class else 1
        return
    for file in FACES.values():
        if subject in names_in(ROOT / file):
            yield from signatures(ROOT / file, subject)
            return
    raise AssertionError(f"no module offers {subject}")
