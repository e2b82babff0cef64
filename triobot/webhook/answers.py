"""Every answer of the webhook: a status and a few bytes. None of them names the software or the bot.

What never became an event is counted here as well.
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
    """One answer: its status, body and headers."""

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
    """Return a 503 whose ``Retry-After`` is this number of seconds."""
    return Response(503, b"try later\n", (*_TEXT, (b"retry-after", str(seconds).encode())))


@final
@guarded
class Readiness:
    """Whether events are taken and handled, and the named states that it follows from.

    Attributes:
        ready: decides between 200 and 503.
        states: such as ``{"store": "ok", "outbox": "held"}``; for the operator alone.
    """

    ready: bool
    states: Mapping[str, str]


def readiness_answer(readiness: Readiness) -> Response:
    """Return 200 if ready, otherwise 503; and whether this process stands by, and takes events all the same.

    The other states stay out of it: behind a proxy every request comes from this machine, so that strangers
    can't be told from the operator.
    """
    headers = (*_TEXT, (b"cache-control", b"no-store"))
    if not readiness.ready:
        return Response(503, b"not ready\n", headers)
    stands_by = readiness.states.get("conversations") == "standby"
    return Response(200, b"standby\n" if stands_by else b"ready\n", headers)


@final
@attrs.define(kw_only=True)
class TrafficCounters:
    """Requests that were refused before the inbox saw them, and answers that were lost.

    Attributes:
        unknown_path: no secret, or a wrong one; a rise means that secrets are being guessed.
        wrong_method: the right secret, but no POST.
        too_long: a body beyond the limit; each may be a lost event.
        bad_framing: two different lengths, or anything else that breaks HTTP's rules.
        too_slow: a body that was not complete in time; each may be a lost event.
        truncated: a sender that left in the middle of a body.
        overloaded: too many bytes in hand; each may be a lost event.
        unanswered: events that are stored, but whose 200 was not fully written.
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
