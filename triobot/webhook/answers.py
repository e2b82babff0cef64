"""Every answer of the webhook: a status and a few bytes. None of them names the software or the bot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import attrs


@final
@attrs.frozen
class Response:
    """One answer: its status, body and headers."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


_TEXT: Final = ((b"content-type", b"text/plain; charset=utf-8"),)

TAKEN: Final = Response(200)
ALIVE: Final = Response(200, b"ok\n", _TEXT)
BAD_FRAMING: Final = Response(400, b"bad framing\n", _TEXT)
UNSTORABLE: Final = Response(400, b"not storable\n", _TEXT)
NOT_FOUND: Final = Response(404, b"not found\n", _TEXT)
TOO_SLOW: Final = Response(408, b"too slow\n", _TEXT)
TOO_LONG: Final = Response(413, b"too long\n", _TEXT)
POST_ONLY: Final = Response(405, b"POST only\n", (*_TEXT, (b"allow", b"POST")))
GET_ONLY: Final = Response(405, b"GET only\n", (*_TEXT, (b"allow", b"GET, HEAD")))


def try_later(seconds: int) -> Response:
    """Return a 503 whose ``Retry-After`` is this number of seconds."""
    return Response(503, b"try later\n", (*_TEXT, (b"retry-after", str(seconds).encode())))


@final
@attrs.frozen
class Readiness:
    """Whether events are taken and handled, and the named states that it follows from.

    Attributes:
        ready: decides between 200 and 503.
        states: such as ``{"store": "ok", "outbox": "held"}``; for the operator alone.
    """

    ready: bool
    states: Mapping[str, str]


def readiness_answer(readiness: Readiness) -> Response:
    """Return 200 if ready, otherwise 503.

    The states stay out of it: behind a proxy every request comes from this machine, so that strangers can't
    be told from the operator.
    """
    headers = (*_TEXT, (b"cache-control", b"no-store"))
    return Response(200, b"ready\n", headers) if readiness.ready else Response(503, b"not ready\n", headers)
