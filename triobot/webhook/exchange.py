"""A request and its answer: read a bounded body, send an answer, detect a disconnected sender.

`RequestExchange` is the endpoint's interface to a server. `serving` implements this interface for triobot's
own listener, and `app` for Quart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias, final

from ..base.frozen import frozen
from .answers import Response

CutShort: TypeAlias = Literal["too long", "too slow", "truncated", "malformed"]
"""Why a body is incomplete. ``too long`` and ``too slow``: the rest is unread. ``truncated``: the sender
disconnected, and no answer can reach the sender. ``malformed``: the body breaks HTTP, and the
listener answers.
"""
Reading: TypeAlias = bytes | CutShort
"""The whole body, or the reason why the body is incomplete."""


class RequestExchange(Protocol):
    """A request and its answer, independent of the server."""

    async def read(self, *, most: int, seconds: float) -> Reading:
        """Read the whole body, or stop after `most` bytes or `seconds`."""
        ...

    def has_left(self) -> bool:
        """Return whether the sender is known to have disconnected."""
        ...

    async def answer(self, answer: Response, on_written: Callable[[bool], None]) -> None:
        """Send an answer; called after `read`.

        Args:
            on_written: called with True if the sender was connected when the kernel got the answer, else with
                False.
        """
        ...

    async def refuse(
        self, answer: Response, *, unread: bool, linger: float, body_first: bool = False
    ) -> None:
        """Send an answer without reading the body.

        Args:
            unread: whether bytes of the body may be unread; if so, the connection is closed.
            linger: seconds for which further received bytes are read and discarded before the connection is
                closed.
            body_first: whether to discard the body before the answer is sent.
        """
        ...


@final
@frozen
class RequestFraming:
    """The body's type and length according to the headers.

    Attributes:
        content_type: received content type; may be empty.
        length: the body's length in bytes; None if no header contains the length.
        conflicting: whether the headers contain two different lengths, or a length that can't be parsed.
        unread: whether a part of the body may be unread.
    """

    content_type: str
    length: int | None
    conflicting: bool
    unread: bool
