"""How an incarnation comes to its end. Only some of these are the run's end, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, final

import attrs

from ..errors import NondeterminismError
from .records import Node


@final
@attrs.frozen
class Returned:
    """It came to its normal end."""

    value: object = attrs.field(default=None, repr=False)


@final
@attrs.frozen
class Crashed:
    """It raised this."""

    error: Exception = attrs.field(repr=False)


@final
@attrs.frozen
class WasInterrupted:
    """An interrupt ended it; what its cleanup raised is `error`."""

    why: str
    error: Exception | None = attrs.field(default=None, repr=False)


@final
@attrs.frozen
class ContinuesAs:
    """It goes on as another function, with a journal of its own; the arguments are nodes."""

    fn: str
    args: Sequence[Node] = attrs.field(repr=False)


@final
@attrs.frozen
class Evicted:
    """It isn't over; this incarnation is. What its cleanup raised is `error`."""

    error: Exception | None = attrs.field(default=None, repr=False)


@final
@attrs.frozen
class Stuck:
    """It isn't over, and can't go on with this code. What that raised at its end is `failure`."""

    error: NondeterminismError
    failure: Exception | None = attrs.field(default=None, repr=False)


End: TypeAlias = Returned | Crashed | WasInterrupted | ContinuesAs | Evicted | Stuck
