"""Reached lines: which statements of an author's code have run, in a process that loads it so that it tells.

Before each statement a call is put that notes it. That costs the author's own lines next to nothing and all
other code nothing, in every task and thread; Python's tracing, before 3.12, makes the whole process three
times as slow. Lines and variables stay as they are. Neither the bot's process nor a twin loads code this way.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.util import decode_source
from pathlib import Path
from types import CodeType
from typing import Any, Final, Literal, TypeAlias, cast, final
from unittest.mock import patch

import attrs

from ..conversations.revival.stored import Stored
from ..conversations.running.lines import is_authors
from ..engine.records import OUTCOMES
from ..frozen import guarded
from ..wire.rules import JsonValue

_NOTES: Final = "__triobot_reached__"

State: TypeAlias = Literal[0, 1, 2]
"""Of a statement: not reached; reached; in a step that ran, of which a replay sees nothing."""


@final
@guarded
class Statement:
    """A statement, from its first line to its last; of a compound one its head.

    Attributes:
        function: whose it is, by its qualified name; "" for the module's own.
    """

    first: int
    last: int
    function: str


@final
@guarded
class ProbedSource:
    """An author's file as it was loaded."""

    path: str
    text: str = attrs.field(repr=False)
    statements: Sequence[Statement] = attrs.field(repr=False)


@final
class Reached:
    """Notes which statements ran; made by `probing`.

    Attributes:
        sources: the author's files, in the order in which they were loaded.
    """

    def __init__(self) -> None:
        self.sources: list[ProbedSource] = []
        self.noted: set[tuple[int, int]] = set()

    def compile(self, path: str, data: bytes) -> CodeType:
        """Compile a file whose statements are noted."""
        text = decode_source(data)
        tree = ast.parse(text, path)
        probing = _Probing(len(self.sources))
        probing.module(tree)
        self.sources.append(ProbedSource(path, text, probing.statements))
        return compile(tree, path, "exec", dont_inherit=True)

    def forget_since(self, before: Collection[tuple[int, int]]) -> None:
        """Forget what ran since `noted` was this."""
        self.noted.intersection_update(before)

    def told(self, steps: Collection[str] = ()) -> list[JsonValue]:
        """Tell each file with its statements.

        Args:
            steps: the functions that ran as steps, unseen from here, by their qualified names.
        """
        return [
            {
                "path": source.path,
                "name": Path(source.path).name,
                "text": source.text,
                "lines": [
                    [one.first, one.last, self._state(number, place, one, steps)]
                    for place, one in enumerate(source.statements)
                ],
            }
            for number, source in enumerate(self.sources)
        ]

    def _state(self, source: int, place: int, one: Statement, steps: Collection[str]) -> State:
        if (source, place) in self.noted:
            return 1
        inside = (one.function == step or one.function.startswith(f"{step}.<locals>.") for step in steps)
        return 2 if any(inside) else 0


@contextmanager
def probing() -> Generator[Reached]:
    """Have the author's files that are loaded while the block runs tell what they reach until it ends."""
    reached = Reached()
    plain = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        path = loader.get_filename(fullname)
        # Not what is kept of it in a cache: that notes nothing, and must go on doing so.
        return reached.compile(path, loader.get_data(path)) if is_authors(path) else plain(loader, fullname)

    with (
        patch.object(SourceFileLoader, "get_code", get_code),
        patch.object(builtins, _NOTES, reached.noted.add, create=True),
    ):
        yield reached


def steps_in(stored: Stored) -> set[str]:
    """Return the functions that were steps of a conversation, by their qualified names."""
    steps = (record for record in stored.records if record[0] in OUTCOMES and record[3] == "step")
    return {str(record[4]).partition(" ")[0] for record in steps} - {""}


@final
class _Probing:
    """Puts a call before each statement of a file.

    Attributes:
        statements: those of the file; a call gives the number of one.
    """

    def __init__(self, source: int) -> None:
        self._source = source
        self.statements: list[Statement] = []

    def module(self, tree: ast.Module) -> None:
        """Change a module in place."""
        tree.body = self._body(tree.body, "", "")
        ast.fix_missing_locations(tree)

    def _body(self, body: Sequence[ast.stmt], function: str, prefix: str) -> list[ast.stmt]:
        probed: list[ast.stmt] = []
        for one in body:
            if _runs(one):
                probed.append(self._call(one, function))
            self._inside(one, function, prefix)
            probed.append(one)
        return probed

    def _inside(self, node: ast.AST, function: str, prefix: str) -> None:
        if isinstance(node, ast.If) and _never_holds(node.test):
            node.orelse = self._body(node.orelse, function, prefix)
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = prefix + node.name
            prefix = f"{function}.<locals>."
        elif isinstance(node, ast.ClassDef):
            prefix = f"{prefix}{node.name}."
        for name, value in ast.iter_fields(node):
            if not isinstance(value, list) or not value:
                continue
            parts = cast("list[object]", value)
            if isinstance(parts[0], ast.stmt):
                setattr(node, name, self._body(cast("list[ast.stmt]", parts), function, prefix))
            else:
                for part in parts:
                    if isinstance(part, ast.ExceptHandler | ast.match_case):
                        self._inside(part, function, prefix)

    def _call(self, one: ast.stmt, function: str) -> ast.stmt:
        first, last = _extent(one)
        number = len(self.statements)
        self.statements.append(Statement(first, last, function))
        # The compiler takes a tuple, too, and makes no new one at each call.
        which = ast.Constant(cast("Any", (self._source, number)))
        call = ast.Call(ast.Name(_NOTES, ast.Load()), [which], [])
        return ast.copy_location(ast.Expr(call), one)


def _runs(one: ast.stmt) -> bool:
    """Return whether a statement does anything by itself: words, `...` and declarations don't."""
    if isinstance(one, ast.ImportFrom) and one.module == "__future__":
        return False
    is_words = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
    return not is_words and not isinstance(one, ast.Global | ast.Nonlocal)


def _extent(one: ast.stmt) -> tuple[int, int]:
    """Return the first line and the last, of a compound statement those of its head."""
    decorators: list[ast.expr] = getattr(one, "decorator_list", [])
    first = min([one.lineno, *(each.lineno for each in decorators)])
    inner = (ast.stmt, ast.ExceptHandler, ast.match_case)
    heads = [child for child in ast.iter_child_nodes(one) if not isinstance(child, inner)]
    if len(heads) == len(list(ast.iter_child_nodes(one))):
        return first, one.end_lineno or one.lineno
    ends = [getattr(part, "end_lineno", None) or 0 for head in heads for part in ast.walk(head)]
    return first, max([one.lineno, *ends])


def _never_holds(test: ast.expr) -> bool:
    """Return whether this is true for type checkers only, or where the file is run as a program."""
    if isinstance(test, ast.Compare):
        return ast.unparse(test) == "__name__ == '__main__'"
    name = test.id if isinstance(test, ast.Name) else test.attr if isinstance(test, ast.Attribute) else ""
    return name == "TYPE_CHECKING"
