"""Two decorators for values: attrs' own for type checkers; at run time they make a class in half the time.

attrs compiles a comparison, a hash and a representation for each class, and a start waits for some 300
classes. Here classes share these three, so a comparison takes 0.3 us in place of 0.1.

A `frozen` value is kept from changes by type checkers alone: attrs sets each field of a frozen value past its
own refusal to set fields, and that is four fifths of what making a value of five fields costs. It is for
values that are made for each event, and that no author's code sees. A `guarded` value refuses at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrs import frozen as frozen
    from attrs import frozen as guarded
else:
    from operator import attrgetter
    from reprlib import recursive_repr

    import attrs

    @recursive_repr()
    def _shown(self):
        name = type(self).__qualname__.rpartition(">.")[2]
        shown = [f"{one.name}={getattr(self, one.name)!r}" for one in attrs.fields(type(self)) if one.repr]
        return f"{name}({', '.join(shown)})"

    def _sharing(make, cls, eq, options):
        if cls is None:
            return lambda cls: _sharing(make, cls, eq, options)
        own = set(cls.__dict__)
        cls = make(cls, eq=False, repr=False, **options)
        if "__repr__" not in own:
            cls.__repr__ = _shown
        if not eq:
            return cls
        names = [one.name for one in attrs.fields(cls) if one.eq]
        key = attrgetter(*names) if names else lambda value: ()

        def same(self, other):
            return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

        if "__eq__" not in own:
            cls.__eq__ = same
        if "__hash__" not in own:
            cls.__hash__ = lambda self: hash(key(self))
        return cls

    def frozen(cls=None, /, *, eq=True, **options):
        """Make a class whose values only type checkers keep from being changed."""
        return _sharing(attrs.define, cls, eq, options)

    def guarded(cls=None, /, *, eq=True, **options):
        """Make a class whose values refuse to be changed."""
        return _sharing(attrs.frozen, cls, eq, options)


__all__ = ["frozen", "guarded"]
