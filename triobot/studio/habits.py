"""Static checks of a route's source code: calls that cannot work as written.

The checks cover the route's function, and the author's functions to which the route's function passes its
chat. Names are resolved in the module's namespace, so ``from time import time`` is recognised too. No author
code is executed.
"""

from __future__ import annotations

import ast
import builtins
import datetime as dt
import inspect
import random
import textwrap
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any, Final, cast, get_overloads

import trio

from ..conversations.running.lines import LIBRARIES, is_authors

UNAWAITED: Final = "is not awaited, so it does nothing: write await in front of it"
_PLACES: Final = frozenset({"to", "person", "shared"})
_CALLERS: Final = frozenset({None, "step", "start", "continue_as"})
SWALLOWS: Final = (
    "takes trio.Cancelled, too, which ends a block in time: write except Exception, or raise again"
)
FOREIGN_SCOPE: Final = "is unknown to a restart, and must not cut chat operations: use chat.{name}"
BLOCKS: Final = "makes every chat wait: use chat.sleep()"
ASYNCIOS: Final = f"can't run on Trio as it is: {LIBRARIES} says how to use asyncio's libraries"
UNREPEATED: Final = "gives something else when a restart runs this line again: use {instead}"

_SCOPES: Final[Mapping[object, str]] = {
    **{getattr(trio, name): name for name in ("move_on_after", "move_on_at", "fail_after", "fail_at")},
    trio.CancelScope: "cancel_scope",
}
_CLOCKS: Final = time.time, time.time_ns, time.monotonic, time.perf_counter
_INSTEAD: Final[Mapping[object, str]] = {
    **dict.fromkeys((dt.datetime.now, dt.datetime.today, dt.date.today, *_CLOCKS), "chat.now()"),
    dt.datetime.utcnow: "chat.now()",  # pyright: ignore[reportDeprecated]
    **dict.fromkeys((uuid.uuid1, uuid.uuid4), "chat.uuid()"),
}
_MODULES: Final = {"asyncio": ASYNCIOS, "secrets": UNREPEATED.format(instead="a step")}
Found = tuple[str, str, str]
"""A line, an expression in this line, and the problem with the expression."""


def habits(handlers: Iterable[Callable[..., object]], *chats: type) -> Iterator[Found]:
    """Yield the problems in `handlers`, and in the author's functions to which handlers pass their chat.

    Args:
        chats: the classes whose methods are chat operations: `Chat` and `ChatRef`.
    """
    operations = {name for chat in chats for name in dir(chat) if _waits(getattr(chat, name))}
    waiting, seen = [(inspect.unwrap(one), 0) for one in handlers], set[object]()
    while waiting:
        function, place = one = waiting.pop()
        if one in seen or not inspect.iscoroutinefunction(function):
            continue
        seen.add(one)
        if (reader := _SourceReader.of(function, place, operations)) is not None:
            yield from reader.found
            waiting += reader.helpers


def _waits(member: Callable[..., object]) -> bool:
    """Whether `member` is a coroutine function. For an overloaded method, check its overloads."""
    declared = get_overloads(member) if inspect.isfunction(member) else ()
    return any(map(inspect.iscoroutinefunction, declared or [member]))


# Cached: a test starts the same bot many times, and the source does not change between two starts.
@lru_cache(maxsize=256)
def _parsed(code: CodeType) -> ast.stmt:
    lines, first = inspect.getsourcelines(code)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    return tree.body[0]


class _SourceReader(ast.NodeVisitor):
    """Checks the source of one function."""

    def __init__(
        self, file: str, chat: str, names: Mapping[str, object], operations: Collection[str]
    ) -> None:
        self._file = file
        # Names bound to the chat, or to another place reached through the chat.
        self._chats = {chat}
        self._names = names
        self._operations = operations
        # Expressions that are awaited.
        self._awaited = set[ast.expr]()
        # Expressions that are arguments of a call. The called function may await such an argument.
        self._passed = set[ast.expr]()
        self._by_name = set[str]()
        self.found: list[Found] = []
        self.helpers: list[tuple[Callable[..., object], int]] = []

    @classmethod
    def of(
        cls, function: Callable[..., object], place: int, operations: Collection[str]
    ) -> _SourceReader | None:
        """Check an author's function with the chat as argument number `place`; None if unreadable."""
        code = cast("Any", function).__code__
        if not is_authors(code.co_filename):
            return None
        try:
            node = _parsed(code)
            bound = inspect.getclosurevars(function)
        except (OSError, TypeError, SyntaxError, ValueError):
            return None
        if not isinstance(node, ast.AsyncFunctionDef) or place >= code.co_argcount:
            return None
        names = {**vars(builtins), **cast("Any", function).__globals__, **bound.nonlocals}
        reader = cls(code.co_filename, code.co_varnames[place], names, operations)
        waits = [part.value for part in ast.walk(node) if isinstance(part, ast.Await)]
        reader._by_name = {value.id for value in waits if isinstance(value, ast.Name)}
        for statement in node.body:
            reader.visit(statement)
        return reader

    def _tell(self, node: ast.expr | ast.excepthandler, what: str, wrong: str) -> None:
        self.found.append((f"{self._file}:{node.lineno}", what, wrong))

    # A nested function may be a step. In a step, only a missing await is a problem.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Skip the nested function."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Report only missing awaits in a nested coroutine function."""
        before, self.found = self.found, []
        self.generic_visit(node)
        self.found = before + [one for one in self.found if one[2] == UNAWAITED]

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Skip the lambda."""

    def visit_Await(self, node: ast.Await) -> None:
        """Record the awaited expression."""
        self._await(node.value)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Record names bound to a chat, and coroutines bound to a name that is awaited later."""
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if self._is_place(node.value):
            self._chats |= names
        elif names & self._by_name:
            self._await(node.value)
        self.generic_visit(node)

    def _await(self, value: ast.expr) -> None:
        self._awaited.add(value)
        if isinstance(value, ast.IfExp):
            self._await(value.body)
            self._await(value.orelse)
        elif isinstance(value, ast.NamedExpr):
            self._await(value.value)

    def visit_Try(self, node: ast.Try) -> None:
        """Report an except clause that swallows `trio.Cancelled`."""
        if self._awaits(node.body):
            first = next((handler for handler in node.handlers if self._takes_cancelled(handler)), None)
            if first is not None and not any(isinstance(part, ast.Raise) for part in ast.walk(first)):
                what = "except" if first.type is None else f"except {ast.unparse(first.type)}"
                self._tell(first, what, SWALLOWS)
        self.generic_visit(node)

    def _takes_cancelled(self, handler: ast.ExceptHandler) -> bool:
        if handler.type is None:
            return True
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        values = map(self._value, kinds)
        return any(value is BaseException or value is trio.Cancelled for value in values)

    def visit_With(self, node: ast.With) -> None:
        """Report Trio scopes around chat operations."""
        for item in node.items:
            call = item.context_expr
            scope = _SCOPES.get(self._hashed(call.func)) if isinstance(call, ast.Call) else None
            if scope is not None and self._operates(node.body):
                what = f"{ast.unparse(cast('ast.Call', call).func)}()"
                self._tell(call, what, FOREIGN_SCOPE.format(name=scope))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Report missing awaits, blocking and unrepeatable calls; collect functions that receive the chat."""
        called = self._hashed(node.func)
        what = f"{ast.unparse(node.func)}()"
        if inspect.isfunction(called) and is_authors(called.__code__.co_filename):
            self._awaited.update(node.args)  # the called function may await its arguments
            if inspect.iscoroutinefunction(called) and not {node} & (self._awaited | self._passed):
                self._tell(node, what, UNAWAITED)
            given = {one.arg: one.value for one in node.keywords}
            names = called.__code__.co_varnames
            for place, value in enumerate([*node.args, *map(given.get, names[len(node.args) :])]):
                if value is not None and self._is_chat(value):
                    self.helpers.append((called, place))
        elif self._operation(node) in _CALLERS and getattr(called, "__module__", "") != "builtins":
            self._passed.update(node.args)
        if node not in self._awaited and self._operation(node) is not None:
            self._tell(node, what, UNAWAITED)
        elif called is time.sleep:
            self._tell(node, what, BLOCKS)
        elif (wrong := _MODULES.get(str(getattr(called, "__module__", "")).partition(".")[0])) is not None:
            self._tell(node, what, wrong)
        elif (instead := _INSTEAD.get(called)) is not None:
            self._tell(node, what, UNREPEATED.format(instead=instead))
        elif getattr(called, "__self__", None) is _RANDOM:
            self._tell(node, what, UNREPEATED.format(instead="chat.random()"))
        self.generic_visit(node)

    def _operation(self, call: ast.Call) -> str | None:
        function = call.func
        if isinstance(function, ast.Attribute) and self._is_place(function.value):
            return function.attr if function.attr in self._operations else None
        return None

    def _is_chat(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._chats

    def _is_place(self, node: ast.expr) -> bool:
        way = node.func if isinstance(node, ast.Call) else node
        leads = isinstance(way, ast.Attribute) and way.attr in _PLACES and self._is_chat(way.value)
        return leads or self._is_chat(node)

    def _awaits(self, body: Iterable[ast.stmt]) -> bool:
        return any(isinstance(part, ast.Await) for statement in body for part in ast.walk(statement))

    def _operates(self, body: Iterable[ast.stmt]) -> bool:
        calls = (part for statement in body for part in ast.walk(statement) if isinstance(part, ast.Call))
        return any(self._operation(call) is not None for call in calls)

    def _hashed(self, node: ast.expr) -> object:
        """Like `_value`, but None if the value is unhashable."""
        value = self._value(node)
        try:
            hash(value)
        except TypeError:
            return None
        return value

    def _value(self, node: ast.expr) -> object:
        """Return the object to which the module binds a dotted name; None if unknown."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            # Only attributes of modules and classes are read: on other objects, attribute access may run
            # code.
            if inspect.ismodule(owner) or inspect.isclass(owner):
                return getattr(owner, node.attr, None)
        return None


_RANDOM: Final = cast("Any", random.random).__self__
"""The shared generator behind the functions of the module `random`."""
