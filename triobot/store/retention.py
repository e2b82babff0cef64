"""How long a store keeps what nothing needs any more. Pure."""

from __future__ import annotations

from typing import Final, final

import attrs

DAY: Final = 24 * 60 * 60 * 1000


@final
@attrs.frozen
class Retention:
    """How long, in milliseconds; 0 keeps it until the next sweep, a minute at most.

    Events go when they are consumed, journals when their conversation ends: this is for what is left over.

    Attributes:
        crashed: conversations that ended with an error, with their journals.
        raw: requests that could not be read; their number is bounded besides.
    """

    crashed: int = 7 * DAY
    raw: int = 7 * DAY


RETENTION: Final = Retention()
"""Unless somebody says otherwise."""
