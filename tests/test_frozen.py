"""The package's values: hidden fields stay hidden, and comparison works as in attrs' own classes."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any, cast

import attrs
import pytest

import triobot
from triobot.base.frozen import frozen, guarded


class Told:
    """What stands in a field, and says so where it is shown."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name} is told>"


def classes() -> list[type]:
    """Every attrs class of the package, the nested ones and those of subpackages, too."""
    found: dict[type, None] = {}
    for one in pkgutil.walk_packages(triobot.__path__, "triobot."):
        if one.name.endswith("__main__"):
            continue
        for value in vars(import_module(one.name)).values():
            if isinstance(value, type) and value.__module__.startswith("triobot.") and attrs.has(value):
                found[value] = None
    return list(found)


def filled(cls: type) -> Any:
    """A value of a class without its own code: each field has what says its own name."""
    value = object.__new__(cls)
    for one in attrs.fields(cast("Any", cls)):
        object.__setattr__(value, one.name, Told(one.name))
    return value


def test_what_a_class_hides_is_not_shown() -> None:
    """A field with `repr=False` holds a text, a token or a phone number; all other fields are shown."""
    seen = hidden = 0
    for cls in classes():
        if issubclass(cls, BaseException) or cls.__dict__.get("__repr__", object.__repr__) is object.__repr__:
            continue
        own = cls.__repr__.__module__ == cls.__module__ and "attrs generated" not in (
            getattr(getattr(cls.__repr__, "__code__", None), "co_filename", "")
        )
        try:
            text = repr(filled(cls))
        except (AttributeError, TypeError):
            assert own, cls  # a class's own repr may call methods of a field's value
            continue
        for one in attrs.fields(cast("Any", cls)):
            told = f"<{one.name} is told>" in text
            assert not (told and one.repr is False), f"{cls.__module__}.{cls.__qualname__} tells {one.name}"
            assert own or told == bool(one.repr), f"{cls.__module__}.{cls.__qualname__} and {one.name}"
            hidden += one.repr is False
        seen += 1
    assert seen > 300
    assert hidden > 200


@pytest.mark.parametrize("kind", [frozen, guarded])
def test_values_are_what_attrs_makes_of_them(kind: Any) -> None:
    """Compared, hashed and shown by the same fields, of the same class only."""

    def made(decorate: Any) -> Any:
        class Value:
            a: int
            _b: str = attrs.field(repr=False)
            c: object = attrs.field(default=None, eq=False)

        return decorate(Value)

    ours, theirs = made(kind), made(attrs.frozen)
    for cls in ours, theirs:
        assert cls(1, "x") == cls(1, "x", 5)
        assert cls(1, "x") != cls(1, "y")
        assert hash(cls(1, "x")) == hash(cls(1, "x", []))
        assert repr(cls(1, "x")) == "Value(a=1, c=None)"
        assert len({cls(1, "x"), cls(1, "x", 2), cls(2, "x")}) == 2
    assert ours(1, "x") != theirs(1, "x")
    assert ours(1, "x").__eq__((1, "x")) is NotImplemented


def test_what_a_class_writes_itself_stays() -> None:
    """Its own comparison, hash and representation; and identity, where it says so."""

    @guarded
    class Own:
        a: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    @guarded(eq=False)
    class Itself:
        a: int

    @guarded
    class Nothing:
        pass

    assert (repr(Own(1)), Own(1) == Own(2), hash(Own(1))) == ("own", True, 7)
    assert Itself(1) != Itself(1)
    assert len({Itself(1), Itself(1)}) == 2
    assert (Nothing() == Nothing(), len({Nothing(), Nothing()}), repr(Nothing())) == (True, 1, "Nothing()")


def test_a_value_that_holds_itself_is_shown() -> None:
    """As attrs does it: with dots where it would begin anew."""

    @guarded
    class Ring:
        items: list[object]

    ring = Ring([])
    ring.items.append(ring)
    assert repr(ring) == "Ring(items=[...])"


def test_a_guarded_value_refuses_changes() -> None:
    """At run time, too; `frozen` leaves that to the type checkers."""

    @guarded
    class Value:
        a: int

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Value(1).a = 2  # type: ignore[misc]
