"""Alignment: finds, for each point of an old build, the same point in the current build.

A point is an await, a block or a call from which an operation may come (`sources`). The order of points is
ignored, because the journal contains the order, and replay compares the order. Each match must be certain: a
point that resembles two other points equally isn't matched.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeAlias, TypeVar, final

from .sources import CALLS_ANOTHER, Address, Function, Point, Source, has_letters, is_within

CLEARLY: Final = 0.25
"""A match of reworded lines is refused if another pair's likeness (0 to 1) is larger by more than 0.25."""

Accepted: TypeAlias = tuple[str, str, str]
"""An accepted change: the function's name, the old call, the current call."""

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Hashable)
_Key: TypeAlias = Callable[[Point], Hashable]


@final
class Alignment:
    """Matches points of an old build with points of the current build.

    In functions with unchanged text, points are matched by their indices, without a comparison.

    Args:
        old: changed sources of the old build, by module.
        new: changed sources of the current build, by module.
        formerly: current ``module.function`` names by old names, from the routes.
        accepted: changes that the author has accepted.
        unchanged: returns the sources that both builds share; called only to compare texts.

    Attributes:
        moved: the current function for each old function that has a match.
    """

    def __init__(
        self,
        old: Mapping[str, Source],
        new: Mapping[str, Source],
        formerly: Mapping[str, str] | None = None,
        accepted: Iterable[Accepted] = (),
        unchanged: Callable[[], Iterable[Source]] = tuple,
    ) -> None:
        self._unchanged = unchanged
        self.old, self.new = list(old.values()), list(new.values())
        self.moved: dict[Function, Function] = {}
        self._to: dict[Point, Point] = {}
        self._back: dict[Point, Point] = {}
        self._match_functions(formerly or {})
        names = {old.short: new.short for old, new in self.moved.items()}
        self._renamed = {old: new for old, new in names.items() if old != new and old.isidentifier()}
        same = {old: new for old, new in self.moved.items() if old.text == new.text}
        self._same = same
        self._back_same = {new: old for old, new in same.items()}
        self._pairs = [(old, new) for old, new in self.moved.items() if old not in same]
        self._olds = [p for f in _functions_of(self.old) if f not in same for p in f.points]
        self._news = [q for f in _functions_of(self.new) if f not in self._back_same for q in f.points]
        self._match_points(accepted)

    def to(self, point: Point) -> Point | None:
        """Return the current point for an old point; None without a match, or if the match is doubtful."""
        if point.function.source not in self.old:
            return point
        return _at_same_place(point, self._same) or self._to.get(point)

    def back(self, point: Point) -> Point | None:
        """Return the old point for a current point, or None."""
        if point.function.source not in self.new:
            return point
        return _at_same_place(point, self._back_same) or self._back.get(point)

    def name_of(self, function: str) -> str:
        """Return the current name of an old function, or of a step's function."""
        path, dot, name = function.rpartition(".")
        return f"{path}{dot}{self._renamed.get(name, name)}"

    @cached_property
    def was_said(self) -> Mapping[str, set[Address]]:
        """Literal texts of the old build, with their positions."""
        return _texts_of([*self.old, *self._unchanged()])

    @cached_property
    def is_said(self) -> Mapping[str, set[Address]]:
        """Literal texts of the current build, with their positions."""
        return _texts_of([*self.new, *self._unchanged()])

    # --- functions

    def _match_functions(self, formerly: Mapping[str, str]) -> None:
        olds, news = _by_name(self.old), _by_name(self.new)
        for key, old in olds.items():
            new = news.get(formerly.get(key, key))
            if new is not None:
                self.moved[old] = new
        keys: tuple[Callable[[Function], str], ...] = (lambda one: one.short, lambda one: one.shape)
        for same in keys:
            taken = set(self.moved.values())
            other = _groups(same, (f for f in _functions_of(self.new) if f not in taken))
            gone = [f for f in _functions_of(self.old) if f not in self.moved] if other else []
            one = _groups(same, gone)
            for alike, found in one.items():
                if alike not in ("", "<lambda>") and len(found) == len(other[alike]) == 1:
                    self.moved[found[0]] = other[alike][0]

    # --- points

    def _match_points(self, accepted: Iterable[Accepted]) -> None:
        call, named = self._call, self._now
        keys: tuple[_Key, ...] = (
            lambda p: (p.op, p.words) if has_letters(p.words) else None,
            lambda p: (named(p, p.op), named(p, p.calls), p.target) if p.calls else None,
            lambda p: (named(p, p.op), p.target, p.call.count(","), p.key) if _is_plain(p) else None,
        )
        for old, new in self._pairs:
            if old.shape and old.shape == new.shape and old.renames(new):
                self._pair_all(zip(old.points, new.points, strict=True))
        for name, was, now in accepted:
            for p in self._olds:
                said = [q for q in self._news if q.call == now and p.call == was]
                self._pair_all((p, q) for q in said if name in (p.function.name, q.function.name))
        for old, new in self._pairs:
            self._match(old.points, new.points, lambda p: (call(p), p.target), ordered=True)
        for old, new in self._pairs:
            self._match(old.points, new.points, lambda p: p.op == "sleep" or None, ordered=True)
            for key in keys:
                self._match(old.points, new.points, key)
        self._match(self._olds, self._news, _saying)  # for points that moved to another function
        for old, new in self._pairs:
            self._match_reworded(old, new)
        for old, new in self._pairs:
            self._match_blocks(old, new)

    def _pair_all(self, pairs: Iterable[tuple[Point, Point]]) -> None:
        for p, q in pairs:
            self._to[p], self._back[q] = q, p

    def _call(self, point: Point) -> str:
        """Return the text of a call, with the current names of functions."""
        return (
            re.sub(r"\w+", lambda word: self._now(point, word[0]), point.call)
            if self._renamed
            else point.call
        )

    def _now(self, point: Point, name: str) -> str:
        return name if point.function.source in self.new else self.name_of(name)

    def _match(
        self, olds: Sequence[Point], news: Sequence[Point], key: _Key, *, ordered: bool = False
    ) -> None:
        """Match an old point with a new point if each is the only point with their common key.

        Args:
            ordered: also match several points with the same key, in order, if both sides have equally many.
        """
        one = _groups(key, (p for p in olds if p not in self._to))
        other = _groups(key, (q for q in news if q not in self._back))
        for alike, found in one.items():
            if alike is None or len(found) != len(other[alike]) or not (ordered or len(found) == 1):
                continue
            self._pair_all(zip(found, other[alike], strict=True))

    def _match_reworded(self, old: Function, new: Function) -> None:
        """Match points that differ in their texts, but not in their operation and the use of the value."""
        left = [p for p in old.points if p not in self._to and p.words]
        free = [q for q in new.points if q not in self._back and q.words]
        one, other = _groups(self._kind, left), _groups(self._kind, free)
        alike = ((olds, other[kind]) for kind, olds in one.items() if len(olds) == len(other[kind]))
        found = [pair for olds, news in alike for pair in zip(olds, news, strict=True)]
        was, now = self._words(self._olds, self._to), self._words(self._news, self._back)
        found = [
            (p, q)
            for p, q in found
            if (self._now(p, p.op), p.words) not in now and (q.op, q.words) not in was
        ]
        self._pair_all((p, q) for p, q in found if not _is_crossed(p, q, found))

    def _kind(self, point: Point) -> tuple[str, str]:
        return self._now(point, point.op), point.target

    def _words(self, points: Sequence[Point], matched: Mapping[Point, Point]) -> set[Hashable]:
        """Return operation and texts of all points, except points whose match has the same texts."""
        return {
            (self._now(p, p.op), p.words) for p in points if p not in matched or matched[p].words != p.words
        }

    def _match_blocks(self, old: Function, new: Function) -> None:
        """Match blocks around the same operations, even if their arguments differ."""
        left = [p for p in old.points if p.op.startswith("with ") and p not in self._to]
        free = [q for q in new.points if q.op.startswith("with ") and q not in self._back]
        for p in reversed(left):
            inner = {self._to[one] for one in old.points if one in self._to and is_within(one, p)}
            fits = [
                q
                for q in free
                if inner
                and q.op == p.op
                and (p.target == q.target or p.target.count(" as ") == q.target.count(" as ") == 1)
                and q not in self._back
                and inner == {one for one in new.points if one in self._back and is_within(one, q)}
            ]
            if len(fits) == 1:
                self._pair_all([(p, fits[0])])


def _at_same_place(point: Point, same: Mapping[Function, Function]) -> Point | None:
    other = same.get(point.function)
    return None if other is None else other.points[point.function.points.index(point)]


def _functions_of(sources: Iterable[Source]) -> Iterable[Function]:
    return (function for source in sources for function in source.functions)


def _by_name(sources: Sequence[Source]) -> dict[str, Function]:
    """Return the functions by module and name; functions that share a name are left out."""
    found = _groups(lambda one: f"{one.source.name}.{one.name}", _functions_of(sources))
    return {key: functions[0] for key, functions in found.items() if len(functions) == 1}


def _texts_of(sources: Iterable[Source]) -> dict[str, set[Address]]:
    found: dict[str, set[Address]] = {}
    for source in sources:
        for text, places in source.texts.items():
            found[text] = found.get(text, set()) | places
    return found


def _is_plain(point: Point) -> bool:
    return point.op not in CALLS_ANOTHER and not point.words and point.target != "Expr"


def _saying(point: Point) -> Hashable:
    distinct = has_letters(point.words) or point.calls
    return (point.op, point.words or point.call) if distinct else None


def _is_crossed(p: Point, q: Point, pairs: Sequence[tuple[Point, Point]]) -> bool:
    """Whether another pair of reworded points is clearly more alike than `p` and `q`."""
    others = [_likeness(p, other) for _, other in pairs if other is not q and other.op == q.op]
    others += [_likeness(other, q) for other, _ in pairs if other is not p and other.op == p.op]
    return max(others, default=0.0) > _likeness(p, q) + CLEARLY


def _likeness(p: Point, q: Point) -> float:
    one, other = " ".join(p.words).lower(), " ".join(q.words).lower()
    return difflib.SequenceMatcher(None, one, other).ratio()


def _groups(key: Callable[[_T], _K], ones: Iterable[_T]) -> defaultdict[_K, list[_T]]:
    found: defaultdict[_K, list[_T]] = defaultdict(list)
    for one in ones:
        found[key(one)].append(one)
    return found
