"""`frozen`: attrs' own for type checkers, and at run time a class whose values are made in half the time.

attrs sets each field of a frozen value past its own refusal to set fields: four fifths of what making one
of five fields costs. Values that are made for each event, and that no author's code sees, are frozen by the
type checkers alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrs import frozen as frozen
else:
    import attrs

    def frozen(cls=None, /, *, eq=True, **options):
        """Make an attrs class, with a hash of its fields unless it is told apart by identity."""
        return attrs.define(cls, eq=eq, unsafe_hash=True if eq else None, **options)
