"""One request and its answer: reads a bounded body, answers, and tells whether the sender was still there.

`RequestExchange` is what the endpoint needs of a server. `serving` implements it over our own listener, and
`app` over Quart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, final

import attrs

from ..base.frozen import frozen
from .answers import Response


@final
@frozen
class Complete:
    """The whole body."""

    body: bytes = attrs.field(repr=False)


@final
@frozen
class TooLong:
    """More than the limit; the rest is unread."""


@final
@frozen
class TooSlow:
    """Not complete in time; the rest is unread."""


@final
@frozen
class Truncated:
    """The sender left in the middle; no answer can reach it."""


@final
@frozen
class Malformed:
    """Its chunks or trailers break HTTP's rules; the listener answers it."""


CutShort: TypeAlias = TooLong | TooSlow | Truncated | Malformed
"""Why there is no whole body."""
Reading: TypeAlias = Complete | CutShort


class RequestExchange(Protocol):
    """One request and its answer, whichever server it came through."""

    async def read(self, *, most: int, seconds: float) -> Reading:
        """Read the whole body, unless it is longer than `most` bytes or takes longer than `seconds`."""
        ...

    def has_left(self) -> bool:
        """Return whether the sender has left, as far as is known."""
        ...

    async def answer(self, answer: Response, told: Callable[[bool], None]) -> None:
        """Write an answer, after `read`.

        Args:
            told: called with whether the sender was still there when the answer was handed to the kernel.
        """
        ...

    async def refuse(
        self, answer: Response, *, unread: bool, linger: float, body_first: bool = False
    ) -> None:
        """Write an answer without wanting the body; close the connection if some of it is `unread`.

        Args:
            linger: seconds for which what still comes is thrown away.
            body_first: throw the body away before the answer.
        """
        ...


@final
@frozen
class RequestFraming:
    """What the headers say of the body.

    Attributes:
        content_type: as it came, or empty.
        length: in bytes; None if no header says it.
        conflicting: the headers give two lengths, or one that can't be read.
        unread: a body may follow.
    """

    content_type: str
    length: int | None
    conflicting: bool
    unread: bool
