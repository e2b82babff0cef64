"""A request and its answer: read a bounded body, send an answer, detect a disconnected sender.

`RequestExchange` is the endpoint's interface to a server. `serving` implements it for triobot's own listener,
and `app` for Quart.
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
    """The body is longer than the limit; the rest is unread."""


@final
@frozen
class TooSlow:
    """The body was incomplete at the time limit; the rest is unread."""


@final
@frozen
class Truncated:
    """The sender disconnected in the middle of the body; no answer can reach the sender."""


@final
@frozen
class Malformed:
    """The body's chunks or trailers violate HTTP; the listener answers."""


CutShort: TypeAlias = TooLong | TooSlow | Truncated | Malformed
"""The reason why the body is incomplete."""
Reading: TypeAlias = Complete | CutShort


class RequestExchange(Protocol):
    """A request and its answer, independent of the server."""

    async def read(self, *, most: int, seconds: float) -> Reading:
        """Read the whole body, or stop after `most` bytes or `seconds`."""
        ...

    def has_left(self) -> bool:
        """Whether the sender is known to have disconnected."""
        ...

    async def answer(self, answer: Response, told: Callable[[bool], None]) -> None:
        """Send an answer, after `read`.

        Args:
            told: called with a boolean: whether the sender was connected when the kernel got the answer.
        """
        ...

    async def refuse(
        self, answer: Response, *, unread: bool, linger: float, body_first: bool = False
    ) -> None:
        """Send an answer without reading the body; close the connection if a part of the body is `unread`.

        Args:
            linger: seconds during which further received bytes are discarded.
            body_first: discard the body before the answer.
        """
        ...


@final
@frozen
class RequestFraming:
    """The body's type and length according to the headers.

    Attributes:
        content_type: received content type; may be empty.
        length: the body's bytes; None if no header names the length.
        conflicting: whether the headers name two lengths or an unreadable length.
        unread: whether a body may follow.
    """

    content_type: str
    length: int | None
    conflicting: bool
    unread: bool
