"""A source of an author's: its functions, and the points in them from which operations come.

A point is described by what a reader goes by: the call, its words, the variable that takes its value, and how
that variable is read. No description has a line number in it, for lines move.
"""

from __future__ import annotations

import ast
import builtins
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias, cast, final

CALLS_ANOTHER: Final = frozenset({"step", "start", "stop"})
"""Operations whose first argument is a function, and whose constants are values rather than words."""
SAYS: Final = frozenset({"ask", "choose", "fill", "send", "edit"})
"""Operations whose record has a fingerprint of their words, wherever these come from."""

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_KEYED: Final = frozenset({"get", "set", "update", "clear"})
_RANGE: Final = "range"
_NAMED: Final = (ast.FunctionDef, ast.AsyncFunctionDef)

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Node: TypeAlias = "ast.expr | ast.With | ast.AsyncWith | ast.AsyncFor"

Range: TypeAlias = "tuple[int | None, int | None, int | None, int | None]"
"""Line, column, last line, column behind the end, as `code.co_positions` has them, in another order."""

Address: TypeAlias = tuple[object, ...]
"""Where a literal text stands: under which name, at which place of how many."""


def digest_of(text: str) -> str:
    """Return the name of a source: the digest of its text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


@final
class Loop(NamedTuple):
    """What a loop goes over.

    Attributes:
        shape: how it is written, without the values.
        values: as these are written, for each list of them; `texts` are the literal ones.
        is_own: what is done in the loop has one of them as an argument.
    """

    shape: str
    values: Sequence[Sequence[str]]
    texts: Sequence[str]
    is_own: bool


ModuleOf: TypeAlias = "Callable[[str], Source | None]"
"""Returns the source of the same build that has this name."""


@final
class Source:
    """A module's text.

    Attributes:
        name: the module's.
        functions: outer ones before those within.
    """

    def __init__(self, name: str, text: str, digest: str = "") -> None:
        self.name = name
        self.text = text
        self.digest = digest or digest_of(text)
        self.tree = ast.parse(text)
        # As Python counts lines, to which a form feed is none.
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
    def calls(self) -> Counter[str]:
        """Count the calls of each name."""
        return Counter(callee_of(node) for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    @cached_property
    def constants(self) -> dict[str, ast.expr | tuple[str, str]]:
        """Return what the module's names stand for: a value, or a name of another module."""
        found: dict[str, ast.expr | tuple[str, str]] = {}
        for statement in self.tree.body:
            match statement:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    found[name] = value
                case ast.ClassDef(name=name, body=body):
                    lines = [one for one in body if isinstance(one, ast.Assign)]
                    names = [ast.Constant(_targets_of(one)) for one in lines]
                    found[name] = ast.Dict([*names], [one.value for one in lines])
                case ast.ImportFrom(module=module, names=imported):
                    found |= {one.asname or one.name: (module or "", one.name) for one in imported}
                case ast.Import(names=imported):
                    found |= {one.asname or one.name: (one.name, "") for one in imported}
                case _:
                    pass
        return found

    @cached_property
    def texts(self) -> dict[str, set[Address]]:
        """Return the literal texts, and where these stand."""
        found: dict[str, set[Address]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and type(node.value) is str:
                found.setdefault(node.value, set()).add((self.name, *self._address(node)))
        return found

    def _address(self, node: ast.AST) -> list[object]:
        path: list[object] = []
        while (above := self.parents.get(node)) is not None:
            match above:
                case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
                    path.append((_place_of(node, elts), len(elts)))
                case ast.Dict(keys=keys, values=values):
                    key = keys[_place_of(node, values if node in values else keys)]
                    path.append((None if key is None else ast.unparse(key), len(keys)))
                case ast.Call(args=args):
                    path.append((callee_of(above), _place_of(node, args)))
                case ast.keyword(arg=arg):
                    path.append(arg)
                case ast.Assign() | ast.AnnAssign():
                    path.append(_targets_of(above))
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    path.append(name)
                case _:
                    pass
            node = above
        return path

    def at(self, place: Range) -> Point | None:
        """Return the point that this range belongs to, whichever version of Python told the range."""
        line = place[0]
        if line is None:
            return None
        inside = [one for one in self.functions if one.node.lineno <= line <= _end_of(one.node)[0]]
        best: tuple[tuple[int, int], Point] | None = None
        for function in inside:
            for point in function.points:
                size = _fits(point.node, place)
                if size is None:
                    continue
                if place[1] is None and best is not None:
                    return None  # there are no columns, and two calls on the line
                if best is None or size < best[0]:
                    best = size, point
        return None if best is None else best[1]


def _fits(node: _Node, place: Range) -> tuple[int, int] | None:
    """Return how far a range begins behind a node that it belongs to; None if it belongs to another."""
    line, column, last, end = place
    if column is None or line is None:
        return (0, 0) if isinstance(node, ast.Await) and node.lineno == line else None
    begins, ends = (node.lineno, node.col_offset), _end_of(node)
    if (heads := _heads_of(node)) is not None:
        first, behind = heads[0], _end_of(heads[-1])
        whole = ((line, column), (last, end)) == (begins, ends)
        part = (first.lineno, first.col_offset) <= (line, column) and (last, end) <= behind
        return (0, 0) if whole or part else None
    if ends != (last, end) or begins > (line, column):
        return None
    return line - begins[0], abs(column - begins[1])


@final
class Function:
    """A function of a source.

    Attributes:
        name: as ``__qualname__`` has it.
        outer: the function around it.
        nodes: of its points, those of functions within not included.
    """

    def __init__(self, source: Source, name: str, node: _Function, outer: Function | None) -> None:
        self.source = source
        self.outer = outer
        self.name = name
        self.node = node
        self.nodes: list[ast.AST] = []

    @property
    def short(self) -> str:
        """Return the name without that of the function or class around."""
        return self.name.rpartition(".")[2]

    @cached_property
    def text(self) -> str:
        """Return the text, in whole lines."""
        return "\n".join(self.source.lines[self.node.lineno - 1 : _end_of(self.node)[0]])

    @cached_property
    def points(self) -> list[Point]:
        """Return the points, in the order of the text."""
        nodes = sorted(cast("list[_Node]", self.nodes), key=_begins)
        return [Point(self, node) for node in nodes]

    @cached_property
    def given(self) -> frozenset[str]:
        """Return the names of what it was called with, and of what its blocks opened."""
        found = frozenset[str]() if self.outer is None else self.outer.given
        for node in ast.walk(self.node):
            match node:
                case ast.arg(arg=name) | ast.withitem(optional_vars=ast.Name(id=name)):
                    found |= {name}
                case _:
                    pass
        return found

    @cached_property
    def names(self) -> dict[str, list[ast.Name]]:
        """Return the places at which each name is read or set."""
        found: dict[str, list[ast.Name]] = {}
        for node in ast.walk(self.node):
            if isinstance(node, ast.Name):
                found.setdefault(node.id, []).append(node)
        return found

    @cached_property
    def keys(self) -> frozenset[str]:
        """Return the names that are part of where values are kept."""
        subscripts = (one for one in ast.walk(self.node) if isinstance(one, ast.Subscript))
        kept = (_names_in(one.slice) for one in subscripts if isinstance(one.ctx, ast.Store))
        return frozenset(name.id for names in kept for name in names)

    @cached_property
    def local(self) -> frozenset[str]:
        """Return the names of its variables and arguments."""
        stored = (one for nodes in self.names.values() for one in nodes if isinstance(one.ctx, ast.Store))
        return self.given.union(one.id for one in stored)

    @cached_property
    def body(self) -> str:
        """Return the text without the name; empty for a lambda."""
        if not isinstance(self.node, _NAMED):
            return ""
        return ast.unparse(_without_name(self.node)).replace(self.node.name, "_")

    @cached_property
    def shape(self) -> str:
        """Return all but the name and the names of variables; empty for a lambda."""
        numbered, _ = self._numbered
        return "" if numbered is None else ast.dump(numbered)

    @cached_property
    def wordless(self) -> str:
        """Return the shape without words."""
        numbered, _ = self._numbered
        return "" if numbered is None else ast.dump(_WordlessCalls().visit(numbered))

    def renames(self, other: Function) -> bool:
        """Return whether no variable has a name by which another one goes in the other function."""
        (_, mine), (_, its) = self._numbered, other._numbered
        return all(its.get(name, number) == number for name, number in mine.items())

    @property
    def _numbered(self) -> tuple[ast.AST | None, Mapping[str, str]]:
        if not isinstance(self.node, _NAMED):
            return None, {}
        plain = _without_name(self.node)
        arguments = [one for one in ast.walk(plain) if isinstance(one, ast.arguments)]
        own = {arg.arg for one in arguments for arg in (*one.posonlyargs, *one.args, *one.kwonlyargs)}
        own |= {
            one.id for one in ast.walk(plain) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }
        numbering = _Numbering(own)
        numbered = cast("ast.FunctionDef", numbering.visit(plain))
        if ast.get_docstring(numbered, clean=False) is not None:
            numbered.body = numbered.body[1:] or [ast.Pass()]
        return numbered, numbering.numbers


@final
class Point:
    """A place from which an operation may come: what is awaited, entered or called.

    Attributes:
        op: the method's or the function's name; of a block with "with " in front.
        call: what is written, without the receiver.
        blank: the same without names.
        words: the literal texts in it; `said` are those of the first argument.
        labels: the texts of a dict in it, by their keys.
        calls: what a step calls, as it is written; `key` is what is read or kept.
        target: what becomes of the value; `name` is the variable that takes it, if one does.
        uses: the ways in which that variable is read.
        around: the statements around it.
    """

    def __init__(self, function: Function, node: _Node) -> None:
        self.function = function
        self.node = node
        heads = _heads_of(node)
        self.words: tuple[str, ...] = ()
        self.said: tuple[str, ...] = ()
        self.calls = self.key = ""
        self.labels: dict[str, str] = {}
        if heads is not None:
            self.op = "with " + ",".join(map(callee_of, heads))
            self.expressions: Sequence[ast.expr] = [_unreceived(head, function) for head in heads]
            self.call = self.blank = ", ".join(map(ast.unparse, self.expressions))
        else:
            call = node.value if isinstance(node, ast.Await) else cast("ast.expr", node)
            self.op = callee_of(call)
            self.expressions = [_unreceived(call, function)]
            self.call = ast.unparse(self.expressions[0])
            self.blank = ast.unparse(Naming(lambda _: "_").visit(copy_of(self.expressions[0])))
            if isinstance(call, ast.Call) and self.op in CALLS_ANOTHER:
                self.calls = ast.unparse(call.args[0]) if call.args else ""
            elif isinstance(call, ast.Call):
                self.words = tuple(_words_in([*call.args, *(one.value for one in call.keywords)]))
                self.said = tuple(_words_in(call.args[:1]))
                self.labels = dict(_labels_in(call))
                self.key = ast.unparse(call.args[0]) if self.op in _KEYED and call.args else ""
        self.target, self.name, self.around = self._surroundings()
        self.uses = self._uses() if self.name else Counter[str]()

    def keys_given(self, called: Function) -> Mapping[str, str]:
        """Return what is written here for the arguments under which a helper keeps values."""
        call = self.node.value if isinstance(self.node, ast.Await) else self.node
        if not isinstance(call, ast.Call):
            return {}
        names = [one.arg for one in (*called.node.args.posonlyargs, *called.node.args.args)]
        given = {one.arg: one.value for one in call.keywords}
        given |= zip(
            names[isinstance(call.func, ast.Attribute) and names[:1] == ["self"] :], call.args, strict=False
        )
        local = self.function.local
        return {
            name: ast.unparse(value)
            for name, value in given.items()
            if name in called.keys and local.isdisjoint(one.id for one in _names_in(value))
        }

    @property
    def line(self) -> int:
        """Return the number of the line, from 1."""
        return self.node.lineno

    @property
    def text(self) -> str:
        """Return the line as it is written."""
        return self.function.source.lines[self.node.lineno - 1].strip()

    def _surroundings(self) -> tuple[str, str, tuple[str, ...]]:
        parents, top = self.function.source.parents, self.function.node
        path: list[str] = []
        around: list[str] = []
        name, found, one = "", False, cast("ast.AST", self.node)
        if isinstance(one, ast.With | ast.AsyncWith):
            names = [item.optional_vars for item in one.items if item.optional_vars is not None]
            path = [", ".join(map(ast.unparse, names))]
            name = path[0] if path[0].isidentifier() else ""
        while (above := parents.get(one)) is not None and above is not top:
            if not found:
                match above:
                    case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
                        name = "" if path else _one_name(above)
                        path.append(_targets_of(above))
                        found = not isinstance(above, ast.NamedExpr)
                    case ast.Call(args=args):
                        path.append(f"{callee_of(above)}[{_place_of(one, args)}]")
                    case ast.keyword(arg=arg):
                        path.append(f"{arg}=")
                    case ast.Dict(keys=keys, values=values):
                        key = keys[_place_of(one, values if one in values else keys)]
                        path.append("**" if key is None else f"{ast.unparse(key)}:")
                    case _:
                        path.append(type(above).__name__)
            if isinstance(above, ast.stmt):
                found = True
                if isinstance(one, ast.stmt):
                    around.append(_head_of(above, one))
            one = above
        return "/".join(path), name, tuple(reversed(around))

    def loops(self, module: ModuleOf) -> Iterator[Loop]:
        """Yield what loops around it go over, and what is named where its value goes."""
        parents, one = self.function.source.parents, cast("ast.AST", self.node)
        own = {name.id for expression in self.expressions for name in _names_in(expression)}
        own = set[str]() if self.op.startswith("start") else own
        while (above := parents.get(one)) is not None and above is not self.function.node:
            heads: list[tuple[ast.expr, ast.expr | None]] = []
            match above:
                case ast.For(target=target, iter=head) if one is not head:
                    heads = [(head, target)]
                case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                    all_of = above.generators
                    outer = all_of[: all_of.index(one)] if isinstance(one, ast.comprehension) else all_of
                    heads = [(loop.iter, loop.target) for loop in outer]
                case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
                    heads = [(name, None) for name in _names_in(target) if isinstance(name.ctx, ast.Load)]
                case _:
                    pass
            for head, each in heads:
                is_own = each is not None and not own.isdisjoint(name.id for name in _names_in(each))
                over = _Over(self.function.source, module, self.function.local)
                shape = ast.unparse(over.visit(copy_of(head)))
                if over.values and not (is_own and self.calls):  # a step has a digest of its arguments
                    yield Loop(shape, over.values, over.texts, is_own)
            one = above

    def texts(self, module: ModuleOf) -> Sequence[str]:
        """Return the texts that are written or named in it."""
        over = _Over(self.function.source, module, self.function.local)
        for expression in self.expressions:
            over.visit(copy_of(expression))
        return over.texts

    @property
    def is_computed(self) -> bool:
        """Return whether what it says may be written anywhere."""
        call = self.expressions[0]
        return not self.said or any(isinstance(one, ast.Call) for one in ast.walk(call) if one is not call)

    def _uses(self) -> Counter[str]:
        """Count in what ways the variable is read, up to where it gets something else."""
        parents, own = self.function.source.parents, self.function.names.get(self.name, ())
        begin = _begins(self.node)
        ends = [_begins(one) for one in own if isinstance(one.ctx, ast.Store) and _begins(one) > begin]
        end = min(ends, default=(1 << 30, 0))
        found: Counter[str] = Counter()
        for node in own:
            if not (isinstance(node.ctx, ast.Load) and begin < _begins(node) < end):
                continue
            path: list[str] = []
            one: ast.AST = node
            while not isinstance(one, ast.stmt) and (above := parents.get(one)) is not None:
                match above:
                    case ast.Call():
                        says = (
                            isinstance(parents.get(above), ast.Await)
                            and callee_of(above) not in CALLS_ANOTHER
                        )
                        path.append(callee_of(above) if says else self._beside(above))
                    case ast.Tuple(elts=elts) | ast.List(elts=elts):
                        path.append(f"{type(above).__name__}[{_place_of(one, elts)}]")
                    case ast.Assign() | ast.AnnAssign():
                        path.append(_targets_of(above))
                    case ast.keyword(arg=arg):
                        path.append(str(arg))
                    case ast.Dict() | ast.Subscript() | ast.Compare():
                        path.append(self._beside(above))
                    case _:
                        path.append(type(above).__name__)
                one = above
            found["/".join(path)] += 1
        return found

    def _beside(self, node: ast.expr) -> str:
        """Return what stands beside the variable, such as the key under which that is kept."""
        own = Naming(lambda name: "_" if name == self.name else name)
        return ast.unparse(own.visit(copy_of(node)))


def loops_alike(mine: Sequence[Loop], its: Sequence[Loop]) -> bool:
    """Return whether loops go over the same values, as far as both go."""
    if len(mine) != len(its):  # one that only counts may be put around a question
        mine, its = ([loop for loop in loops if loop.shape != _RANGE] for loops in (mine, its))
    return len(mine) == len(its) and all(map(_is_like, mine, its))


def _is_like(mine: Loop, its: Loop) -> bool:
    return mine.shape == its.shape and not any(
        # What is said tells whether a value was replaced in its place.
        one != other and not (mine.is_own and its.is_own and one not in others and other not in ones)
        for ones, others in zip(mine.values, its.values, strict=True)
        for one, other in zip(ones, others, strict=False)
    )


def crossed(one: Point, other: Point) -> bool:
    """Return whether a text has gone from one key of a choice to another one."""
    gone = {text for key, text in one.labels.items() if other.labels.get(key) != text}
    return any(text in gone and one.labels.get(key) != text for key, text in other.labels.items())


def used_alike(one: Point, other: Point) -> bool:
    """Return whether the variables that take two values are read in the same ways."""
    most = max(one.uses.total(), other.uses.total())
    return (one.uses & other.uses).total() * 2 >= most


def has_letters(words: Sequence[str]) -> bool:
    """Return whether these texts say anything."""
    return any(letter.isalpha() for word in words for letter in word)


# --- parts of the tree


def callee_of(call: ast.AST) -> str:
    """Return the name of what is called."""
    called = call.func if isinstance(call, ast.Call) else call
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else type(called).__name__


def _is_point(node: ast.AST, parent: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return not isinstance(parent, ast.Await)
    if isinstance(node, _COMPREHENSIONS):
        return any(one.is_async for one in node.generators)
    return isinstance(node, ast.Await | ast.With | ast.AsyncWith | ast.AsyncFor)


def _heads_of(node: ast.AST) -> Sequence[ast.expr] | None:
    """Return what a block is made of, or what a loop goes over; None for an expression."""
    match node:
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return [item.context_expr for item in items]
        case ast.AsyncFor(iter=over):
            return [over]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return [one.iter for one in node.generators if one.is_async]
        case _:
            return None


def _place_of(node: ast.AST, nodes: Sequence[ast.AST | None]) -> int:
    return next((place for place, one in enumerate(nodes) if one is node), -1)


def _begins(node: _Node | ast.Name) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end_of(node: ast.expr | ast.stmt) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def is_within(one: Point, block: Point) -> bool:
    """Return whether a point is inside of a block."""
    return _begins(block.node) < _begins(one.node) < _end_of(block.node)


def _targets_of(node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) -> str:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return "=".join(map(ast.unparse, targets))


def _one_name(node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) -> str:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _head_of(statement: ast.stmt, inside: ast.stmt) -> str:
    name = type(statement).__name__
    if isinstance(statement, ast.If | ast.While):
        return f"{name} {ast.unparse(statement.test)} {'else' if inside in statement.orelse else 'then'}"
    return name


def _unreceived(call: ast.expr, function: Function) -> ast.expr:
    """Return a call without what its method belongs to, if that is only another name of what was given."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if name in function.given:
            method = ast.Attribute(ast.Name("_", ast.Load()), attr, ast.Load())
            return ast.Call(method, call.args, call.keywords)
        case _:
            return call


def _words_in(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the literal texts, as they are written; the keys of a dict are values."""
    for node in nodes:
        match node:
            case ast.JoinedStr(values=values):
                parts = [str(one.value) if isinstance(one, ast.Constant) else "{}" for one in values]
                yield "".join(parts)
            case ast.Constant(value=str() as text):
                yield text
            case ast.Dict(values=values):
                yield from _words_in(values)
            case _:
                yield from _words_in(list(ast.iter_child_nodes(node)))


def _labels_in(call: ast.Call) -> Iterator[tuple[str, str]]:
    for one in call.args:
        if isinstance(one, ast.Dict):
            for key, value in zip(one.keys, one.values, strict=True):
                if key is not None and isinstance(value, ast.Constant) and type(value.value) is str:
                    yield ast.unparse(key), value.value


def _names_in(node: ast.AST) -> Iterator[ast.Name]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Name))


def _without_name(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef | ast.AsyncFunctionDef:
    plain = ast.parse(ast.unparse(node)).body[0]  # ten times as fast as copy.deepcopy()
    assert isinstance(plain, _NAMED)
    plain.name, plain.decorator_list, plain.returns = "_", [], None
    return plain


def copy_of(node: ast.expr) -> ast.expr:
    """Return a copy of an expression."""
    return ast.parse(ast.unparse(node), mode="eval").body


class Naming(ast.NodeTransformer):
    """Gives names other names."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._name_of(node.id), node.ctx)


class _Numbering(Naming):
    """Gives a function's own variables numbers for names."""

    def __init__(self, own: set[str]) -> None:
        super().__init__(lambda name: self._number(name) if name in own else name)
        self.numbers: dict[str, str] = {}

    def _number(self, name: str) -> str:
        return self.numbers.setdefault(name, f"v{len(self.numbers)}")

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(self._number(node.arg))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        return node if node.value is None else ast.Assign([node.target], node.value)


class _Wordless(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Name("WORDS", ast.Load()) if type(node.value) is str else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Name("WORDS", ast.Load())

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        return ast.Dict(node.keys, [self.visit(value) for value in node.values])


class _WordlessCalls(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        func = self.visit(node.func)
        if callee_of(node) in CALLS_ANOTHER:
            return ast.Call(func, node.args, node.keywords)
        words = _Wordless()
        keywords = [ast.keyword(one.arg, words.visit(one.value)) for one in node.keywords]
        return ast.Call(func, [words.visit(one) for one in node.args], keywords)


class _Over(ast.NodeTransformer):
    """Takes the values out of what a loop goes over, and all that changes none of these.

    A name stands for the value that its module gives it, wherever that is written.
    """

    def __init__(self, source: Source, module: ModuleOf, local: frozenset[str] = frozenset()) -> None:
        self._source, self._module, self._local = source, module, local
        self.values: list[Sequence[str]] = []
        self.texts: list[str] = []

    def _take(self, nodes: Sequence[ast.expr], values: Iterable[str]) -> ast.AST:
        self.values.append(list(values))
        self.texts += _words_in(nodes)
        return ast.List([], ast.Load())

    def _named(self, source: Source, name: str) -> ast.AST | None:
        value = source.constants.get(name)
        if isinstance(value, tuple):
            other = self._module(value[0])
            return None if other in (None, source) else self._named(other, value[1])
        if value is None:
            return None
        # What a name stands for within its own value is left there.
        within = _Over(source, self._module, self._local | {name})
        within.values, within.texts = self.values, self.texts
        return cast("ast.AST", within.visit(copy_of(value)))

    def visit_Name(self, node: ast.Name) -> Any:
        known = None if node.id in self._local else self._named(self._source, node.id)
        return known or (node if hasattr(builtins, node.id) else ast.Name("_"))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        match node.value, self._source.constants.get(getattr(node.value, "id", "")):
            case ast.Name(), (str(name), "") if other := self._module(name):
                return self._named(other, node.attr) or node
            case _:
                return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> Any:
        self.texts += _words_in([node])
        return node

    def visit_List(self, node: ast.List | ast.Tuple) -> Any:
        return self._take(node.elts, map(ast.unparse, node.elts))

    visit_Tuple = visit_List

    def visit_Dict(self, node: ast.Dict) -> Any:
        return self._take(node.values, (str(key and ast.unparse(key)) for key in node.keys))

    def visit_Call(self, node: ast.Call) -> Any:
        match node:
            case (
                ast.Call(func=ast.Name(id="enumerate" | "list" | "tuple"), args=[over], keywords=[])
                | ast.Call(func=ast.Attribute(value=over, attr="items" | "values" | "keys"))
            ):
                return self.visit(over)
            case ast.Call(func=ast.Name(id="range"), args=args) if all(
                isinstance(one, ast.Constant) for one in args
            ):
                self._take([], map(str, range(*(cast("Any", one).value for one in args))[:100]))
                return ast.Name(_RANGE)
            case _:
                return self.generic_visit(node)
