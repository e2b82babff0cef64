"""Remembers what authors' conditions have said of an event, so that no condition is asked twice."""

from __future__ import annotations

from typing import final

import attrs


@final
@attrs.define(eq=False)
class Verdicts:
    """What authors' conditions have said of events: a filter asks once of one, and each wait for itself.

    Attributes:
        said: by the event's row, until that is consumed.
        taker: the wait or the block that asks now; None: a route does.
    """

    said: dict[int, dict[object, object]] = attrs.field(factory=dict[int, dict[object, object]])
    taker: object = None
