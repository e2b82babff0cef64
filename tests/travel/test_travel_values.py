"""Values as short texts: whatever they are, nothing large is copied and nothing of theirs gets out."""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from typing import Any, NoReturn

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triobot import Location
from triobot.conversations.inspection.closed import closed_resources
from triobot.seams.resources import Resource
from triobot.studio.travel.values import MEMBERS, WHOLE, shown


class Size(enum.Enum):
    LARGE = 2


class Level(enum.IntEnum):
    HIGH = 2


@dataclasses.dataclass
class Row:
    name: str
    cells: list[int]


@attrs.frozen
class Order:
    size: Size
    secret: str = attrs.field(default="hidden", repr=False)


Point = namedtuple("Point", "x y")


class Plain:
    def __init__(self) -> None:
        self.name = "Sara"
        self._private = 1


class Raises:
    def __repr__(self) -> str:
        raise KeyError("no")


class Exits:
    def __repr__(self) -> str:
        sys.exit(3)


class Awaits:
    async def __repr__(self) -> str:  # type: ignore[override]
        return "never"


class Returns:
    def __repr__(self) -> Any:
        return 7


class Lies:
    @property
    def __class__(self) -> NoReturn:  # type: ignore[override]
        raise ValueError

    def __getattribute__(self, name: str) -> NoReturn:
        raise ValueError


class Endless:
    def __repr__(self) -> str:
        return f"<{self!r}>"


class Large:
    def __repr__(self) -> str:
        return "x" * 1_000_000


class Rude(dict[str, int]):
    def __iter__(self) -> NoReturn:
        raise ValueError

    def items(self) -> NoReturn:
        raise ValueError


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__qualname__", "__name__"):
            raise ValueError
        return super().__getattribute__(name)


class Odd(metaclass=Meta):
    pass


def within(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Sara", "'Sara'"),
        (None, "None"),
        (1.5, "1.5"),
        (Size.LARGE, "Size.LARGE"),
        (Level.HIGH, "Level.HIGH"),
        (Row("a", [1, 2]), "Row(name='a', cells=[1, 2])"),
        (Order(Size.LARGE), "Order(size=Size.LARGE)"),
        (Location(35.5, 51.25, "home"), "Location(lat='35.5', long='51.25', desc='home')"),
        (Point(1, (2,)), "Point(x=1, y=(2,))"),
        (Plain(), "<Plain name='Sara'>"),
        ({"a": {1, 3, 2}}, "{'a': {1, 2, 3}}"),
        (frozenset(), "frozenset()"),
        (deque([1]), "deque([1])"),
        (OrderedDict(a=1), "OrderedDict({'a': 1})"),
        (defaultdict(list, a=[]), "defaultdict({'a': []})"),
        (Counter("aa"), "Counter({'a': 2})"),
        (ValueError("v", 1), "ValueError('v', 1)"),
        (int, "<class int>"),
        (len, "<builtin_function_or_method len>"),
        (object(), "<object>"),
        (10**300, "<a number of 997 bits>"),
        (Raises(), "<Raises: its repr raised KeyError>"),
        (Exits(), "<Exits: its repr raised SystemExit>"),
        (Awaits(), "<Awaits: its repr returned no text>"),
        (Returns(), "<Returns: its repr returned no text>"),
        (Endless(), "<Endless: its repr raised RecursionError>"),
        (Rude(a=1), "Rude({'a': 1})"),
        ([Raises(), 1], "[<Raises: its repr raised KeyError>, 1]"),
        (Odd(), "<Odd>"),
        (within(9), "[[[[[…]]]]]"),
    ],
)
def test_a_value(value: object, text: str) -> None:
    assert shown(value) == text


def test_what_denies_what_it_is() -> None:
    assert shown(Lies()).startswith("<Lies")


def test_what_contains_itself() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert shown(value) == "[1, …]"


@pytest.mark.parametrize(
    "value",
    [
        "x" * 1_000_000,
        b"x" * 1_000_000,
        [{"id": n, "name": f"row {n}"} for n in range(2_000)],
        {n: [n] * 100 for n in range(2_000)},
        defaultdict(list, {n: list(range(2_000)) for n in range(200)}),
        Large(),
        [[[["y" * 300] * 30] * 30] * 30] * 30,
    ],
)
def test_what_is_large_is_cut(value: object) -> None:
    assert len(shown(value)) <= WHOLE + 1


def test_a_large_table_is_not_gone_through() -> None:
    """Its text costs as much as that of a small one: the members that are shown."""
    looked = list[int]()

    class Cell:
        def __init__(self, n: int) -> None:
            self.n = n

        def __repr__(self) -> str:
            looked.append(self.n)
            return str(self.n)

    shown([Cell(n) for n in range(5_000)])
    assert len(looked) <= MEMBERS


def test_a_closed_resource_is_shown_by_its_name() -> None:
    pool = closed_resources()[Resource(None, "pool")]  # type: ignore[arg-type]
    assert shown([pool]) == "[<pool, closed>]"


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
        max_leaves=200,
    )
)
def test_any_value(value: object) -> None:
    text = shown(value)
    assert len(text) <= WHOLE + 1
    if len(text) < 100 and "…" not in text and "bits" not in text:
        assert text == repr(value) or "{" in text
