"""Cache of authors' conditions: a filter calls its condition once for each event."""

from __future__ import annotations

from typing import final

import attrs


@final
@attrs.define(eq=False)
class Verdicts:
    """Results of authors' conditions. Routes share a filter's result; waits and blocks don't.

    Attributes:
        said: results by the event's inbox row, until the row is consumed.
        taker: the wait or block that calls its filter now; None for a route.
    """

    said: dict[int, dict[object, object]] = attrs.field(factory=dict[int, dict[object, object]])
    taker: object = None
