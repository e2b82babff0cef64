"""The webhook's answers, and the counters of refused requests.

An answer is a status and a few bytes; it never names the software or the bot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import attrs

from ..base.frozen import guarded

_TEXT: Final = ((b"content-type", b"text/plain; charset=utf-8"),)


@final
@guarded
class Response:
    """An answer's status, body and headers."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


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
    """Return a 503 answer with ``Retry-After: seconds``."""
    return Response(503, b"try later\n", (*_TEXT, (b"retry-after", str(seconds).encode())))


@final
@guarded
class Readiness:
    """Whether the bot accepts and handles events, and the states that decide this.

    Attributes:
        ready: whether ``/readyz`` answers 200; else 503.
        states: named states, such as ``{"store": "ok", "outbox": "held"}``; shown to the operator only.
    """

    ready: bool
    states: Mapping[str, str]


def readiness_answer(readiness: Readiness) -> Response:
    """Return 200 if ready, otherwise 503.

    The body of a 200 shows whether the process works or is a standby; both accept events.

    The answer omits the other states: behind a proxy every request comes from this computer, so strangers and
    the operator can't be distinguished.
    """
    headers = (*_TEXT, (b"cache-control", b"no-store"))
    if not readiness.ready:
        return Response(503, b"not ready\n", headers)
    stands_by = readiness.states.get("conversations") == "standby"
    return Response(200, b"standby\n" if stands_by else b"ready\n", headers)


@final
@attrs.define(kw_only=True)
class TrafficCounters:
    """Counts of requests that were refused before the inbox, and of lost answers.

    Attributes:
        unknown_path: a path without a secret, or with a wrong secret; a rise means that someone is guessing
            secrets.
        wrong_method: the right secret, but another method than POST.
        too_long: a body beyond the limit; each such body may be a lost event.
        bad_framing: two different lengths, or another violation of HTTP.
        too_slow: an incomplete body at the time limit; each such body may be a lost event.
        truncated: the sender closed the connection in the middle of a body.
        overloaded: the bodies in memory had too many bytes in all; each refused request may be a lost event.
        unanswered: the event is stored, but its 200 was not fully written.
    """

    unknown_path: int = 0
    wrong_method: int = 0
    too_long: int = 0
    bad_framing: int = 0
    too_slow: int = 0
    truncated: int = 0
    overloaded: int = 0
    unanswered: int = 0

    def statistics(self) -> TrafficCounters:
        """Return a copy of the counts since the start."""
        return attrs.evolve(self)
