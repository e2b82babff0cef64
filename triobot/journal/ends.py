"""How an incarnation comes to its end. Only some of these are the conversation's end, too."""

from __future__ import annotations

from typing import TypeAlias, final

import attrs

from ..errors import NondeterminismError


@final
@attrs.frozen
class Returned:
    """It came to its normal end."""


@final
@attrs.frozen
class Crashed:
    """It raised this."""

    error: BaseExceptionGroup[Exception] = attrs.field(repr=False)


@final
@attrs.frozen
class WasInterrupted:
    """An interrupt ended it; what its cleanup raised is `error`."""

    why: str
    error: BaseExceptionGroup[Exception] | None = attrs.field(default=None, repr=False)


@final
@attrs.frozen
class ContinuesAs:
    """It goes on as another one, in a journal of its own."""

    fn: str
    args: str = attrs.field(repr=False)


@final
@attrs.frozen
class Evicted:
    """It isn't over; this incarnation is. What its cleanup raised is `error`."""

    error: BaseExceptionGroup[Exception] | None = attrs.field(default=None, repr=False)


@final
@attrs.frozen
class Stuck:
    """It isn't over, and can't go on with this code. What that raised at its end, if it did, is `failure`."""

    error: NondeterminismError
    failure: BaseExceptionGroup[Exception] | None = attrs.field(default=None, repr=False)


End: TypeAlias = Returned | Crashed | WasInterrupted | ContinuesAs | Evicted | Stuck
