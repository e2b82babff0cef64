"""Parsed sources of an author's modules: functions, and their points, which are awaits, blocks and calls.

The description of a point consists of the call, the call's literal texts, the variable that gets the value,
and the use of this variable. No description contains a line number, because lines move.
"""

from __future__ import annotations

import ast
import builtins
import io
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias, TypeVar, cast, final

from .sites import Range

CALLS_ANOTHER: Final = frozenset({"step", "start", "stop"})
"""Operations with a function as first argument. Their constants are values, not texts for users."""
SAYS: Final = frozenset({"ask", "choose", "fill", "send", "edit"})
"""Operations that store a fingerprint of their texts in the record; the texts may come from any source."""

QUIET: Final = SAYS | {"sleep"}
"""Operations with a value that doesn't depend on their arguments."""

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_AWAITS: Final = (ast.Await, ast.YieldFrom)
COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_KEYED: Final = frozenset({"get", "set", "update", "clear", "fill"})
_READS: Final = frozenset({"print", "len", "str", "repr", "int", "float", "bool", "isinstance", "type"})
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While, *COMPREHENSIONS)
_NAMED: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_BINDING: Final = (*_NAMED, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)
_PARTS: Final = (ast.stmt, ast.ExceptHandler, ast.match_case)

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Node: TypeAlias = "ast.expr | ast.With | ast.AsyncWith | ast.AsyncFor"

Address: TypeAlias = tuple[str, str, int, int]
"""Position of a literal text: module, names set by the text's statement, index of the text in the statement,
and number of the statement's texts.
"""


_Bound: TypeAlias = "ast.stmt | tuple[str, str]"
_AnyNode = TypeVar("_AnyNode", bound=ast.AST)


@final
class Statement(NamedTuple):
    """Statement of a function; for a compound statement, only its head.

    Attributes:
        parts: nodes of the statement, without the statements within.
        sets: names to which the statement assigns a value.
        reads: names that the statement reads.
        touches: names with a value that the statement may change in place.
    """

    node: ast.stmt
    parts: Sequence[ast.AST]
    sets: frozenset[str]
    reads: frozenset[str]
    touches: frozenset[str]


@final
class Source:
    """Parsed text of a module.

    Attributes:
        name: name of the module.
        functions: all functions, outer functions before inner functions.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.tree = ast.parse(text)
        # Count lines as Python does: unlike `str.splitlines`, Python doesn't end a line at a form feed.
        self.lines = io.StringIO(text, newline=None).read().split("\n")
        self.parents: dict[ast.AST, ast.AST] = {}
        self.functions: list[Function] = []
        for statement in self.tree.body:
            self._visit(statement, self.tree, None, "")

    def _visit(self, node: ast.AST, parent: ast.AST, within: Function | None, path: str) -> None:
        self.parents[node] = parent
        if not isinstance(node, _FUNCTIONS):
            inside = f"{path}{node.name}." if isinstance(node, ast.ClassDef) else path
            if within is not None and _is_point(node, parent):
                within.nodes.append(node)
            for child in ast.iter_child_nodes(node):
                self._visit(child, node, within, inside)
            return
        name = path + getattr(node, "name", "<lambda>")
        function = Function(self, name, node, within)
        self.functions.append(function)
        body = node.body if isinstance(node.body, list) else [node.body]
        own = frozenset(map(id, body))
        for child in ast.iter_child_nodes(node):
            # Decorators and defaults are evaluated outside of the function.
            is_own = id(child) in own
            self._visit(child, node, function if is_own else within, f"{name}.<locals>." if is_own else path)

    @cached_property
    def said(self) -> Counter[Hashable]:
        """Number of points with equal descriptions, by description."""
        return Counter(point.count_key for function in self.functions for point in function.points)

    @cached_property
    def mentions(self) -> Counter[Hashable]:
        """Number of mentions of each name. A mention other than a call counts as two calls, since it may
        cause several calls."""
        nodes = [*ast.walk(self.tree)]
        called = {one.func for one in nodes if isinstance(one, ast.Call)}
        names = [one for one in nodes if isinstance(one, ast.Name | ast.Attribute)]
        found = Counter[Hashable](
            callee_of(one) for one in (*names, *(one for one in names if one not in called))
        )
        found.update(2 * [one.name for one in nodes if isinstance(one, ast.alias) and one.asname])
        found.update(2 * [one.value for one in nodes if isinstance(one, ast.Constant)])
        return found

    @cached_property
    def bound(self) -> Mapping[str, Sequence[_Bound]]:
        """Bindings of the module's names: statements, or the module and name of an import."""
        found: defaultdict[str, list[_Bound]] = defaultdict(list)
        for node in ast.walk(self.tree):
            match node:
                case ast.ImportFrom(module=module, names=names):
                    for one in names:
                        found[one.asname or one.name].append((module or "", one.name))
                case ast.Import(names=names):
                    for one in names:
                        found[one.asname or one.name].append((one.name, ""))
                case _:
                    pass
        left: list[ast.AST] = [*self.tree.body]
        for statement in left:
            if isinstance(statement, _BINDING):
                for name in _names_set_by(statement):
                    found[name].append(statement)
            else:
                left += [one for one in ast.iter_child_nodes(statement) if isinstance(one, _PARTS)]
        return found

    @cached_property
    def texts(self) -> dict[str, set[Address]]:
        """Positions of each literal text."""
        found: dict[str, set[Address]] = {}
        for statement in (one for one in ast.walk(self.tree) if isinstance(one, ast.stmt)):
            named = " ".join(sorted(_names_set_by(statement)))
            inside = [one for part in parts_of(statement) for one in ast.walk(part)]
            texts = [one.value for one in inside if isinstance(one, ast.Constant) and type(one.value) is str]
            for place, text in enumerate(texts):
                found.setdefault(text, set()).add((self.name, named, place, len(texts)))
        return found

    def at(self, place: Range) -> Point | None:
        """Return the point at this range. Versions of Python report different ranges for one point."""
        line, column, last, end = place
        if line is None or column is None or last is None or end is None:  # `python -X no_debug_ranges`
            return None
        inside = [one for one in self.functions if one.node.lineno <= line <= _end_of(one.node)[0]]
        points = (point for function in inside for point in function.points)
        sizes = {point: _fits(point.node, (line, column), (last, end)) for point in points}
        found = {point: size for point, size in sizes.items() if size is not None}
        return min(found, key=found.__getitem__, default=None)


def read_source(name: str, text: str) -> Source | None:
    """Parse a source; return None for a text that this Python can't parse."""
    try:
        return Source(name, text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _fits(node: _Node, starts: tuple[int, int], ends: tuple[int, int]) -> tuple[int, int] | None:
    """Return the distance, in lines and columns, from the start of a node to the start of a range.

    None if the range doesn't belong to the node.
    """
    begin, end = begins(node), _end_of(node)
    if (heads := _heads_of(node)) is not None:
        whole = (starts, ends) == (begin, end)
        part = begins(heads[0]) <= starts and ends <= _end_of(heads[-1])
        return (0, 0) if whole or part else None
    if ends != end or begin > starts:
        return None
    return starts[0] - begin[0], abs(starts[1] - begin[1])


@final
class Function:
    """Function of a source.

    Attributes:
        name: the ``__qualname__``.
        outer: the enclosing function.
        nodes: nodes of the points, except points of inner functions.
    """

    def __init__(self, source: Source, name: str, node: _Function, outer: Function | None) -> None:
        self.source = source
        self.outer = outer
        self.name = name
        self.node = node
        self.nodes: list[ast.AST] = []

    @property
    def short(self) -> str:
        """Name without the names of the enclosing functions and classes."""
        return self.name.rpartition(".")[2]

    @cached_property
    def text(self) -> str:
        """Text of the function, in whole lines."""
        return "\n".join(self.source.lines[self.node.lineno - 1 : _end_of(self.node)[0]])

    @cached_property
    def points(self) -> list[Point]:
        """Points, in the order of the text."""
        nodes = sorted(cast("list[_Node]", self.nodes), key=begins)
        return [Point(self, node) for node in nodes]

    @cached_property
    def receivers(self) -> frozenset[str]:
        """First arguments of the function and its enclosing functions; these names stand for the chat."""
        names = [one.arg for one in (*self.node.args.posonlyargs, *self.node.args.args)]
        first = names[names[:1] == ["self"] :][:1]
        return frozenset(first) if self.outer is None else self.outer.receivers.union(first)

    @cached_property
    def statements(self) -> Sequence[Statement]:
        """Statements, in the order of the text."""
        found = [one for one in ast.walk(self.node) if isinstance(one, ast.stmt) and one is not self.node]
        if isinstance(self.node, ast.Lambda):
            found = [ast.copy_location(ast.Expr(self.node.body), self.node)]
        others = {name for one in found if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
        return [_statement(one, others, self.receivers) for one in sorted(found, key=begins)]

    @cached_property
    def shape(self) -> str:
        """Text of the body with numbers in place of variables' names; empty for a lambda."""
        if isinstance(self.node, ast.Lambda):
            return ""

        def change(node: ast.AST) -> ast.AST | None:
            match node:
                case ast.Name(id=name) if name in self.numbers:
                    return ast.Name(self.numbers[name])
                case ast.AnnAssign(value=ast.expr()):
                    return rewritten(_untyped(node), change)
                case _:
                    return None

        is_told = ast.get_docstring(self.node, clean=False) is not None
        return ast.unparse(rewritten(ast.Module(self.node.body[is_told:] or [ast.Pass()], []), change))

    def renames(self, other: Function) -> bool:
        """Whether each variable name that both functions use has the same number in both (see `numbers`)."""
        return all(other.numbers.get(name, number) == number for name, number in self.numbers.items())

    def knows(self, name: str) -> bool:
        return name in self.numbers or name in self.source.bound

    @cached_property
    def arguments(self) -> Sequence[str]:
        return [one.arg for one in ast.walk(self.node.args) if isinstance(one, ast.arg)]

    @cached_property
    def numbers(self) -> dict[str, str]:
        """Numbered names (v0, v1, ...) by the names of arguments and variables."""
        if not isinstance(self.node, _NAMED):
            return {}
        sets = {name for one in self.statements for name in one.sets}
        ordered = sorted((one for one in names_in(self.node) if one.id in sets), key=begins)
        return {
            name: f"v{number}"
            for number, name in enumerate(dict.fromkeys([*self.arguments, *(one.id for one in ordered)]))
        }


@final
class Point:
    """Position in a source from which an operation may come: an await, a block or a call.

    Attributes:
        op: name of the method or function; for a block, with "with " in front.
        call: text of the call, without the receiver.
        words: literal texts in the call.
        calls: text of the function that a step calls.
        key: text of the key that is read or set, or of the class of a form.
        heads: the calls of which the point consists.
    """

    def __init__(self, function: Function, node: _Node) -> None:
        self.function = function
        self.node = node
        blocks = _heads_of(node)
        self.heads = blocks or [node.value if isinstance(node, _AWAITS) else cast("ast.expr", node)]
        self.expressions = [_unreceived(head, function) for head in self.heads]
        self.call = ", ".join(map(ast.unparse, self.expressions))
        self.words: tuple[str, ...] = ()
        self.calls = self.key = ""
        if blocks is not None:
            self.op = "with " + ",".join(map(callee_of, blocks))
        else:
            (call,) = self.heads
            self.op = callee_of(call)
            if isinstance(call, ast.Call) and self.op in CALLS_ANOTHER:
                self.calls = ast.unparse(call.args[0]) if call.args else ""
            elif isinstance(call, ast.Call):
                self.words = tuple(words_in([*call.args, *(one.value for one in call.keywords)]))
                self.key = ast.unparse(call.args[0]) if self.op in _KEYED and call.args else ""

    @cached_property
    def count_key(self) -> Hashable:
        """Operation, literal texts and called function, as one key for counting points."""
        return self.op, self.words, self.calls

    @property
    def is_repeated(self) -> bool:
        """Whether the point is in a loop."""
        return any(isinstance(one, _LOOPS) for one in above(self.function, self.node) if one is not self.node)

    @property
    def line(self) -> int:
        """Line number, from 1."""
        return self.node.lineno

    @property
    def text(self) -> str:
        """Line of the source, without indentation."""
        return self.function.source.lines[self.node.lineno - 1].strip()

    @cached_property
    def target(self) -> str:
        """The point's statement with a blank in place of the operation: shows the use of the value."""
        statement = next((one for one in above(self.function, self.node) if isinstance(one, ast.stmt)), None)

        def change(node: ast.AST) -> ast.AST | None:
            return ast.Name("_") if node in self.heads else quieted(node)

        parts = () if statement is None else parts_of(_untyped(statement))
        return "; ".join(ast.unparse(rewritten(one, change)) for one in parts)

    @cached_property
    def handed(self) -> tuple[str, Sequence[str]]:
        """Text of a step with blanks in place of variables' names; and these names, in order.

        The text consists of the step's arguments and of the statements that made the step's function.
        """
        made = (part for one in self.function.statements if self.calls in one.sets for part in one.parts)
        handed = ast.Tuple([*getattr(self.heads[0], "args", ())[1:], *cast("Iterator[ast.expr]", made)])
        return ast.unparse(rewritten(handed, _nameless)), [one.id for one in names_in(handed)]

    def hands_other(self, other: Point, *, is_told: bool) -> bool:
        """Whether two steps get different variables. A renamed variable is no difference.

        Args:
            is_told: whether the records contain the arguments' plain values. If so, different expressions for
                the arguments are no difference.
        """
        (mine, names), (its, others) = self.handed, other.handed
        if mine != its:
            return not is_told
        knows, know = self.function.knows, other.function.knows
        return any(was != now and (knows(now) or know(was)) for was, now in zip(names, others, strict=True))

    @property
    def is_computed(self) -> bool:
        """Whether the operation's text may come from outside of the call, such as from a variable."""
        call = self.expressions[0]
        return not self.words or any(isinstance(one, ast.Call) for one in ast.walk(call) if one is not call)


def has_letters(words: Sequence[str]) -> bool:
    return any(letter.isalpha() for word in words for letter in word)


# --- the syntax tree


def callee_of(call: ast.AST) -> str:
    called = call.func if isinstance(call, ast.Call) else call
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else type(called).__name__


def _is_point(node: ast.AST, parent: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return not isinstance(parent, _AWAITS)
    if isinstance(node, COMPREHENSIONS):
        return any(one.is_async for one in node.generators)
    return isinstance(node, (*_AWAITS, ast.With, ast.AsyncWith, ast.AsyncFor))


def _heads_of(node: ast.AST) -> Sequence[ast.expr] | None:
    """Return the context expressions of a block, or the iterables of an async loop; None for other nodes."""
    match node:
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return [item.context_expr for item in items]
        case ast.AsyncFor(iter=over):
            return [over]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return [one.iter for one in node.generators if one.is_async]
        case _:
            return None


def begins(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end_of(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return cast("tuple[int, int]", (node.end_lineno, node.end_col_offset))


def is_within(one: Point, block: Point) -> bool:
    return begins(block.node) < begins(one.node) < _end_of(block.node)


def _unreceived(call: ast.expr, function: Function) -> ast.expr:
    """Return a call without its receiver, if the receiver is a name of the chat."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if name in function.receivers:
            method = ast.Attribute(ast.Name("_", ast.Load()), attr, ast.Load())
            return ast.Call(method, call.args, call.keywords)
        case _:
            return call


def words_in(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the literal texts in the nodes; in a dict, only the texts in the values."""
    for node in nodes:
        match node:
            case ast.JoinedStr(values=values):
                parts = [str(one.value) if isinstance(one, ast.Constant) else "{}" for one in values]
                yield "".join(parts)
            case ast.Constant(value=str() as text):
                yield text
            case ast.Dict(values=values):
                yield from words_in(values)
            case _:
                yield from words_in(list(ast.iter_child_nodes(node)))


def _names_set_by(statement: ast.stmt) -> set[str]:
    """Return the names that a statement assigns. For an expression, return all names in it, because the
    expression may change their values.
    """
    if name := getattr(statement, "name", ""):
        return {name}
    target = statement if isinstance(statement, ast.Expr) else getattr(statement, "target", None)
    targets = getattr(statement, "targets", [target])
    return {one.id for target in targets if target is not None for one in names_in(target)}


def names_in(node: ast.AST) -> Iterator[ast.Name]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Name))


def _untyped(node: ast.stmt) -> ast.stmt:
    match node:
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return ast.copy_location(ast.Assign([target], value), node)
        case _:
            return node


def _nameless(node: ast.AST) -> ast.AST | None:
    """Return a blank in place of a name; None for any other node."""
    return ast.Name("_") if isinstance(node, ast.Name) else None


def rewritten(node: _AnyNode, change: Callable[[ast.AST], ast.AST | None]) -> _AnyNode:
    """Return a copy of `node`. Each node for which `change` returns another node is replaced in the copy."""

    def each(value: object) -> object:
        if isinstance(value, list):
            return [each(one) for one in cast("list[object]", value)]
        return rewritten(value, change) if isinstance(value, ast.AST) else value

    new = change(node)
    if new is None:
        new = ast.copy_location(
            type(node)(**{name: each(value) for name, value in ast.iter_fields(node)}), node
        )
    return cast("_AnyNode", new)


def quieted(node: ast.AST) -> ast.AST | None:
    """Return the bare name of the called operation if a node calls a `QUIET` operation; otherwise None."""
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return ast.Name(name, ast.Load()) if name in QUIET else None


def above(function: Function, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes around a node of a function, from the node itself outwards."""
    one: ast.AST | None = node
    while one is not None and one is not function.node:
        yield one
        one = function.source.parents.get(one)


def parts_of(statement: ast.stmt) -> Sequence[ast.AST]:
    """Return the nodes of a statement, without the statements within."""
    match statement:
        case ast.AnnAssign(value=None) | ast.While(test=ast.Constant()):
            return []
        case ast.If(test=test) | ast.While(test=test):
            return [test]
        case ast.For(target=target, iter=over) | ast.AsyncFor(target=target, iter=over):
            return [target, over]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return items
        case ast.Match(subject=subject, cases=cases):
            return [subject, *(part for one in cases for part in (one.pattern, one.guard) if part)]
        case ast.Try() | ast.TryStar() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return []
        case _:
            return [statement]


def _statement(node: ast.stmt, others: set[str], receivers: frozenset[str]) -> Statement:
    parts, sets, reads, touches = parts_of(node), set[str](), set[str](), set[str]()
    for part in parts:
        for one in ast.walk(rewritten(part, quieted)):
            match one:
                case (
                    ast.Name(id=name, ctx=ast.Store())
                    | ast.MatchAs(name=str(name))
                    | ast.MatchStar(name=str(name))
                ):
                    sets.add(name)
                case ast.Name(id=name):
                    reads.add(name)
                case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                    touches.add(_owner_of(one))
                case ast.Call(func=func, args=args) if callee_of(one) not in _READS:
                    # Unlike a list's append, a nursery's start_soon doesn't count as a change.
                    owner = [func] if isinstance(func, ast.Attribute) and func.attr != "start_soon" else []
                    touches.update(map(_owner_of, [*args, *owner]))
                case _:
                    pass
    reads |= sets if isinstance(node, ast.AugAssign) else set()
    touches |= sets & others
    touches -= receivers | vars(builtins).keys() | {""}
    return Statement(node, parts, frozenset(sets - others), frozenset(reads), frozenset(touches))


def _owner_of(node: ast.AST) -> str:
    """Return the name of the variable that an expression belongs to; empty if there is none."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
