"""Reading: a description of the code that decides a line's value, and of the use of that value.

The description covers the line's own statement, the iterables of the loops around the line, the arguments of
helpers, and other statements of the function that share variables with this code. In place of a name that a
module defines, the description has the definition.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias, cast, final

from .sources import (
    COMPREHENSIONS,
    Function,
    Point,
    Source,
    Statement,
    above,
    begins,
    callee_of,
    names_in,
    quieted,
    rewritten,
    words_in,
)

ModuleOf: TypeAlias = Callable[[str], Source | None]
"""Returns the source of a module in the same build."""

_Entry: TypeAlias = tuple[str, Sequence[Sequence[str]]]
_LOOPS: Final = (ast.For, ast.AsyncFor)
_DECIDES: Final = (ast.If, ast.While, ast.Match)
_LEAVES: Final = (ast.Continue, ast.Break, ast.Return, ast.Raise)
_ASSIGNS: Final = (ast.Assign, ast.AugAssign, ast.AnnAssign)


@final
class _Scope(NamedTuple):
    """Context in which a node of the syntax tree is described.

    Attributes:
        source: the source of the node.
        function: function of the node; None outside of the point's function.
        names: names that are being described, to stop at cycles.
        is_loop: Whether the node is in a loop's iterable.
        is_listed: Whether the node is in a list or dict.
        is_place: Whether the node is in a subscript; texts in a dict then belong to the description.
        is_step: Whether the node is a step's function; functions are then described by their names.
        is_said: Whether the node is an argument of the operation.
    """

    source: Source
    function: Function | None
    names: frozenset[tuple[str, str]] = frozenset()
    is_loop: bool = False
    is_listed: bool = False
    is_place: bool = False
    is_step: bool = False
    is_said: bool = False


@final
class Reading:
    """Description of the code that decides a line's value.

    Args:
        module: returns sources of the line's build.
        within: helpers that the line calls, from outer to inner; empty for the operation itself.
        is_first: whether no helper call leads to the line's function.

    Attributes:
        entries: a pair for each statement: the statement's text without lists and variables' names, and the
            statement's lists.
        loops: the same pairs for the iterables of loops.
        texts: literal texts in the statements.
        said: literal texts in the operation's arguments, and in the definitions of names in the arguments.
        asked: description, without texts, of all the operation's arguments but the first.
        labels: texts in dicts and keyword arguments, by their keys.
        collects: Whether a loop around the line stores each value separately.
    """

    def __init__(self, point: Point, module: ModuleOf, within: Sequence[Function], *, is_first: bool) -> None:
        self._module, self._is_inner = module, not within
        self.point, self._calls = point, point.heads
        sets = (name for one in point.function.statements for name in one.sets)
        self._variables = {*point.function.numbers, *sets}
        self._numbers: dict[str, str] = {}
        self._lists: list[Sequence[str]] = []
        self.texts: list[str] = []
        self.labels: dict[str, str] = {}
        self.entries: list[_Entry] = []
        self.loops: list[_Entry] = []
        scope = _Scope(point.function.source, point.function)
        connected, own, self.collects = _connected(point, within, is_first=is_first)
        self._own = own.sets
        if not is_first:
            self.entries.append(self._entry(self._signature(point.function, scope)))
        for one in connected:
            is_loop = isinstance(one.node, _LOOPS)
            texts = (self._text(part, scope._replace(is_loop=is_loop)) for part in one.parts)
            (self.loops if is_loop else self.entries).append(self._entry([type(one.node).__name__, *texts]))
        kept, self.texts = self.texts, []
        parts = [part for one in point.expressions for part in ast.iter_child_nodes(one)]
        # The first node is the chat's method, the second node the question's text. The options follow.
        _, self.asked = ([*self._asked(ones, scope)] for ones in (parts[:2], parts[2:]))
        self.said, self.texts, self._numbers, self._lists = self.texts, kept, {}, []
        called = [one for head in point.heads if isinstance(head, ast.Call) for one in head.args[:1]]
        scope = scope._replace(is_step=True)
        self._step = self._entry([self._text(one, scope) for one in called if point.calls])

    def _entry(self, texts: Iterable[str]) -> _Entry:
        shape, lists, self._lists = " ".join(texts), self._lists, []
        return shape, lists

    def goes_over_like(self, other: Reading) -> bool:
        """Whether both readings loop over similar iterables. Loops over a `range` may be added or removed."""
        mine, its = self.loops, other.loops
        if len(mine) != len(its):
            mine, its = ([one for one in loops if one[0].split()[-1:] != ["range"]] for loops in (mine, its))
        return _are_like(mine, its)

    def steps_like(self, other: Reading) -> bool:
        """Whether both readings pass similar expressions to their steps; the functions' bodies may differ."""
        return _is_like(self._step, other._step)

    def ends_like(self, other: Reading) -> bool:
        """Whether similar statements decide and use both readings' values; loops' iterables don't count."""
        return _are_like(self.entries, other.entries)

    def _asked(self, parts: Sequence[ast.AST], scope: _Scope) -> Iterator[str]:
        """Yield descriptions, without texts, of `parts` and of the statements that set their variables."""
        names, made, grown = (
            {one.id for part in parts for one in names_in(part)},
            dict[ast.AST, Statement](),
            -1,
        )
        statements, receivers = self.point.function.statements, self.point.function.receivers
        while grown != len(made):
            grown = len(made)
            made |= {one.node: one for one in statements if names & (one.sets | one.touches) - receivers}
            names |= {name for one in made.values() for name in one.reads}
        yield from (self._text(one, scope._replace(is_said=True)) for one in (*parts, *made))

    def _signature(self, function: Function, scope: _Scope) -> Iterator[str]:
        arguments = function.node.args
        named = [one for one in (*arguments.posonlyargs, *arguments.args) if one.arg != "self"]
        texts = [self._text(ast.Name(one.arg), scope) for one in named]
        behind = len(texts) - len(arguments.defaults)
        for place, value in enumerate(arguments.defaults, behind):
            texts[place] += f"={self._text(value, scope)}"
        self._lists.append(texts)
        others = (*filter(None, arguments.kw_defaults), *getattr(function.node, "decorator_list", ()))
        yield from (self._text(one, scope) for one in others)

    def _text(self, node: ast.AST, scope: _Scope) -> str:
        return ast.unparse(self._read(node, scope))

    def _read(self, node: ast.AST, scope: _Scope) -> ast.AST:
        return rewritten(node, partial(self._change, scope))

    def _change(self, scope: _Scope, node: ast.AST) -> ast.AST | None:
        match node:
            case ast.Call() if node in self._calls:
                return self._own_call(node, scope)
            case ast.Call(func=ast.Name(id="range"), args=args) if all(
                isinstance(one, ast.Constant) for one in args
            ):
                numbers = range(*(getattr(one, "value", 0) for one in args))[:100]
                self._lists.append([str(one) for one in numbers])
                return ast.Name("range")
            case ast.Call(func=ast.Attribute(attr="update"), args=[key, _]):
                return self._read(key, scope)  # leave out the function that makes the new value
            case ast.Call() if not (scope.is_loop or self._takes_value(node)):
                return self._read(node, scope._replace(is_loop=True))
            case ast.Name(id=name):
                return self._name(name, scope)
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                return self._attribute(name, attr, scope)
            case ast.List() | ast.Tuple() | ast.Set() if not scope.is_listed:
                if not isinstance(getattr(node, "ctx", None), ast.Store):
                    within = scope._replace(is_listed=True)
                    self._lists.append([self._text(one, within) for one in node.elts])
                    return ast.List([])
            case ast.Dict() if not scope.is_listed:
                return self._dict(node, scope._replace(is_listed=True))
            case ast.Subscript() if not scope.is_place:
                return self._read(node, scope._replace(is_place=True))
            case ast.comprehension(iter=over) if not (scope.is_loop or scope.is_said):
                around, self._lists = self._lists, []
                self.loops.append(self._entry([self._text(over, scope._replace(is_loop=True))]))
                self._lists = around
                return ast.comprehension(node.target, ast.Name("_"), node.ifs, node.is_async)
            case ast.Constant() | ast.JoinedStr():
                self.texts += words_in([node])
                if scope.is_said and isinstance(node, ast.Constant) and type(node.value) is str:
                    return ast.Constant("")
            case ast.Assign(targets=[ast.Subscript(slice=key)], value=ast.Constant(value=str() as label)):
                self.labels[self._text(key, scope._replace(is_said=False))] = label
            case ast.keyword(arg=str(key), value=ast.Constant(value=str() as label)):
                self.labels[repr(key)] = label
            case _:
                pass
        return quieted(node)

    def _takes_value(self, node: ast.AST) -> bool:
        """Whether a call has the line's value among its arguments."""
        return any(one in self._calls or getattr(one, "id", "") in self._own for one in ast.walk(node))

    def _own_call(self, call: ast.Call, scope: _Scope) -> ast.AST:
        """Describe the line's own call: the operation as a blank, a helper's call by the call's arguments."""
        if self._is_inner:
            return ast.Name("_")
        match call.func:
            case ast.Attribute(value=ast.Call(args=others)):  # the receiver is made only for this call
                pass
            case ast.Attribute(value=value):
                others = [value]
            case func:
                others = [func]
        texts = [self._text(one, scope) for one in (*others, *call.args)]
        # The operations in a helper identify the helper. So the reading omits the helper's name, which may
        # change.
        self._lists.append([one for one in texts if one not in ("_", callee_of(call))])
        return ast.Call(
            ast.Name("_"), [], [rewritten(one, partial(self._change, scope)) for one in call.keywords]
        )

    def _dict(self, node: ast.Dict, scope: _Scope) -> ast.AST:
        keys: list[str] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                scope = scope._replace(is_listed=False)
            text = "**" if key is None else self._text(key, scope._replace(is_said=False))
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                self.labels[text] = value.value
                self.texts.append(value.value)
                value = value if scope.is_place else ast.Constant("")
            keys.append(f"{text}: {self._text(value, scope)}")
        self._lists.append(keys)
        return ast.Dict([], [])

    def _name(self, name: str, scope: _Scope) -> ast.AST | None:
        if scope.function is not None:
            if name in scope.function.receivers:
                return ast.Name("_")
            if name in self._variables:
                return ast.Name(self._numbers.setdefault(name, f"v{len(self._numbers)}"))
        return self._named(name, scope)

    def _attribute(self, name: str, attr: str, scope: _Scope) -> ast.AST | None:
        for one in scope.source.bound.get(name, ()):
            other = self._module(one[0]) if isinstance(one, tuple) and not one[1] else None
            if other is not None:
                return self._named(attr, scope._replace(source=other, function=None)) or ast.Name(attr)
        return None

    def _named(self, name: str, scope: _Scope) -> ast.AST | None:
        """Return the description of a name that a module defines; None for an unknown name, or in a cycle."""
        source = scope.source
        if (source.name, name) in scope.names:
            return None
        around = () if scope.function is None else scope.function.statements
        inner = [one.node for one in around if getattr(one.node, "name", "") == name]
        scope = scope._replace(function=None, names=scope.names | {(source.name, name)})
        bound = (
            inner
            or source.bound.get(name)
            or [(one[0], name) for one in source.bound.get("*", ()) if isinstance(one, tuple)]
        )
        found = [one for one in map(partial(self._bound, name, scope), bound) if one is not None]
        if len(found) > 1:
            return ast.Name(" or ".join(map(ast.unparse, found)))
        return found[0] if found else None

    def _bound(self, name: str, scope: _Scope, bound: ast.stmt | tuple[str, str]) -> ast.AST | None:
        match bound:
            case (str(module), str(other)):
                source = self._module(module)
                if source is None or not other or source is scope.source:
                    return ast.Name(f"{module}.{other}")
                return self._named(other, scope._replace(source=source))
            case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(value=ast.expr() as value):
                # Calls with equal texts may make different objects, so the name is included.
                read = self._read(value, scope)
                return ast.Name(f"{name} {ast.unparse(read)}") if isinstance(value, ast.Call) else read
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = zip(names, values, strict=False)
                one = next((value for at, value in pairs if callee_of(at) == name), bound.value)
                return self._bound(name, scope, ast.Assign([ast.Name(name)], one))
            case ast.AsyncFunctionDef() if any(isinstance(one, ast.Await) for one in ast.walk(bound)):
                return ast.Name("_")  # the operations in the function are compared instead
            case ast.FunctionDef(name=name, body=body) | ast.AsyncFunctionDef(name=name, body=body):
                many = len(self._lists)
                inside = [self._text(one, scope) for one in body]
                if scope.is_step or not scope.is_loop:  # the body is read only for its texts
                    del self._lists[many:]
                    inside = [name]
                return ast.Name("; ".join(inside))
            case ast.ClassDef(body=body):
                fields = [one for one in body if isinstance(one, ast.Assign | ast.AnnAssign)]
                lines = [self._text(part, scope) for one in fields for part in ast.iter_child_nodes(one)]
                self._lists.append(lines)
                return ast.Name(name)
            case _:
                return ast.Name(self._text(bound, scope))


def _are_like(mine: Sequence[_Entry], its: Sequence[_Entry]) -> bool:
    return len(mine) == len(its) and all(_is_like(*pair) for pair in zip(mine, its, strict=True))


def _is_like(mine: _Entry, its: _Entry) -> bool:
    shapes = (mine[0], len(mine[1])), (its[0], len(its[1]))
    pairs = (pair for lists in zip(mine[1], its[1], strict=False) for pair in zip(*lists, strict=False))
    return shapes[0] == shapes[1] and all(one == other for one, other in pairs)


def _connected(
    point: Point, within: Sequence[Function], *, is_first: bool
) -> tuple[Sequence[Statement], Statement, bool]:
    """Return the statements that decide or use a line's value, the line's own statement, and whether a loop
    collects the values.
    """
    function = point.function
    outwards = [one for one in above(function, point.node) if isinstance(one, ast.stmt)]
    repeats = [one for one in outwards if isinstance(one, (*_LOOPS, ast.While))]
    many = len(outwards) if not is_first else outwards.index(repeats[-1]) + 1 if repeats else 0
    again = [one for one in outwards[:many] if isinstance(one, _DECIDES)]
    around = [*outwards[:1], *(one for one in outwards[1:] if isinstance(one, _LOOPS) or one in again)]
    chosen = {one.node: one for one in function.statements if one.node in around or not outwards}
    own = chosen[around[0]] if around else function.statements[0]
    gone, filled = (dict.fromkeys(names, begins(own.node)) for names in (own.sets, own.touches))
    known = {name for f in within for one in f.statements for name in one.reads - f.numbers.keys()}
    before = {one.node for one in function.statements if begins(one.node) < begins(own.node)}
    in_loops = {node for loop in repeats for node in ast.walk(loop)}
    grown = -1
    while grown != len(chosen):
        grown = len(chosen)
        wanted = {name for one in chosen.values() for name in one.reads} - gone.keys()
        for one in function.statements:
            if one.node in chosen:
                continue
            inside = [*ast.walk(one.node)] if isinstance(one.node, _DECIDES) else []
            if any(_reaches(function, name, since, one) for name, since in (*gone.items(), *filled.items())):
                gone |= {name: begins(one.node) for name in one.sets - gone.keys()}
                chosen[one.node] = one
            elif (
                one.sets & wanted
                or (isinstance(one.node, _ASSIGNS) and (one.sets | one.touches) & known)
                or (many and one.node in before and any(isinstance(node, _LEAVES) for node in inside))
                or (one.touches & wanted and one.node in before | in_loops)
                or (one.node not in outwards and not chosen.keys().isdisjoint(inside))
            ):
                chosen[one.node] = one
    uses = [one for one in chosen.values() if one is own or one.reads & gone.keys()]
    turning = {name for one in function.statements if one.node in in_loops for name in one.sets} - own.sets
    collects = any(isinstance(one, COMPREHENSIONS) for one in above(function, point.node)) or any(
        one.reads & turning
        or (isinstance(one.node, ast.Expr) and (one.touches or isinstance(one.node.value, ast.Yield)))
        for one in uses
        if one.node in in_loops and not isinstance(one.node, _DECIDES)
    )
    return [one for one in function.statements if one.node in chosen], own, collects


def _reaches(function: Function, name: str, since: tuple[int, int], to: Statement) -> bool:
    """Whether a variable assigned at `since` may still have its value in the statement `to`."""
    ends = (one for one in function.statements if name in one.sets - one.reads)
    return (name in to.reads and since < begins(to.node)) and not any(
        since < begins(one.node) < begins(to.node) and _precedes(one.node, to.node, function) for one in ends
    )


def _precedes(one: ast.stmt, to: ast.AST, function: Function) -> bool:
    """Whether `one` is a statement of a block around `to`, so that `to` never runs without `one`."""
    fields: dict[str, object] = vars(function.source.parents[one])
    blocks = [cast("list[object]", block) for block in fields.values() if isinstance(block, list)]
    return any(one in block and node in block for block in blocks for node in above(function, to))
