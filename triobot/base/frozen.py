"""Two decorators for value classes.

Type checkers treat both as attrs' own `frozen`. At run time these decorators make a class in half the time
that attrs needs.

attrs compiles `__eq__`, `__hash__` and `__repr__` for each class, and a start of triobot makes about 300
classes. With these decorators all classes share the three methods, and a comparison takes 0.3 us instead of
0.1 us.

Only type checkers prevent changes of a `frozen` value. attrs' own frozen classes refuse changes at run time,
so their constructors must bypass the refusal for each field. For a value of five fields, the bypass costs
four fifths of the constructor's time. `frozen` is for values that are made for each event and never reach an
author's code. A `guarded` value refuses changes at run time.
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
        """Make a value class; only type checkers prevent changes of its values."""
        return _sharing(attrs.define, cls, eq, options)

    def guarded(cls=None, /, *, eq=True, **options):
        """Make a value class; its values refuse changes at run time."""
        return _sharing(attrs.frozen, cls, eq, options)


__all__ = ["frozen", "guarded"]
