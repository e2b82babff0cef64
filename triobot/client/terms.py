"""What all requests of a client have in common, by our own way out (`posted`) and by httpx's (`carried`).

That is where they go and with which headers, and what an answer or a failure means: whether the operation
may have taken effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias, final

import attrs
import trio

from ..base.frozen import guarded
from ..base.secrets import Secret
from ..base.version import __version__
from ..errors import DeliveryUnknownError, NotDeliveredError
from ..wire.content import Descriptor
from ..wire.decode import is_taken
from .address import BaseUrl

LARGEST_ANSWER: Final = 1024 * 1024

_SECONDS: Final = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
_LONGEST_REST: Final = 3600.0

_SHORTEST_TOKEN: Final = 16

USER_AGENT: Final = f"triobot/{__version__}"

Failure: TypeAlias = NotDeliveredError | DeliveryUnknownError
DownloadProgress: TypeAlias = Callable[[int, int | None], None]
UploadProgress: TypeAlias = Callable[[int, int], None]


@final
@attrs.define(eq=False, repr=False)
class Terms:
    """What holds for every request of a client. The token is in headers, and in nothing that can be shown.

    Attributes:
        hosts: domains that files may come from, besides the platform's own.
        slots: one for each request at once.
        patience, certain: see `PlatformClient`.
    """

    base: BaseUrl
    _token: Secret
    hosts: Sequence[str]
    slots: trio.Semaphore
    patience: float
    certain: Callable[[], float] | None
    _token_bytes: bytes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._token_bytes = self._token.reveal().encode("ascii")

    def headers(self, content_type: str, length: int) -> dict[str, str]:
        """Return the headers of a request whose body has this type and length."""
        return {
            "Host": self.base.netloc,
            "User-Agent": USER_AGENT,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "token": self._token.reveal(),
            "Content-Type": content_type,
            "Content-Length": str(length),
        }

    def without_token(self, body: bytes) -> bytes:
        """Return an answer's body without the token, since what it says goes into our errors.

        An error page may show the request. A token that is shorter than usual is some test's, and could stand
        in any word.
        """
        token = self._token_bytes
        # `in` takes bytes for a number first, and raises and drops an error: that costs more than looking.
        return body if body.find(token) < 0 or len(token) < _SHORTEST_TOKEN else body.replace(token, b"***")

    def check_certain(self, operation: str) -> None:
        """Refuse what must not leave any more; to be called right before it does."""
        if self.certain is not None and not self.certain():
            raise NotDeliveredError(
                operation, "the process may have lost its store meanwhile; nothing was sent"
            )


def not_connected(operation: str, error: Exception) -> NotDeliveredError:
    """Return the error of an operation that had no connection: not a byte has left."""
    return NotDeliveredError(operation, f"could not connect: {cause_of(error)}")


def cut_off(operation: str, error: Exception, *, may_have_left: bool) -> Failure:
    """Return the error of an operation whose connection ended."""
    return _verdict(operation, f"the connection failed ({type(error).__name__})", may_have_left)


def stalled(operation: str, patience: float, *, may_have_left: bool) -> Failure:
    """Return the error of an operation that was not answered in time."""
    return _verdict(operation, f"no answer within {patience:g} seconds", may_have_left)


def _verdict(operation: str, what: str, may_have_left: bool) -> Failure:
    if may_have_left:
        return DeliveryUnknownError(operation, f"{what}; it may have taken effect")
    return NotDeliveredError(operation, f"{what}; nothing was sent")


def cause_of(error: BaseException) -> str:
    """Return why a connection was not made, in the words of the resolver, the socket or TLS.

    Those know nothing of the request. The libraries between wrap their error, some without its text: then
    the text of a cause is returned.
    """
    within: BaseException | None = error
    while within is not None:
        if text := str(within):
            return text[:200]
        within = within.__cause__
    return type(error).__name__


@final
@attrs.define
class Answer:
    """A status and its body.

    Attributes:
        too_large: there was more of the body than is read, and it is empty.
        broken: why the body is empty, if the connection failed or stood still behind a 200's head.
        retry_after: see `retry_after_of`.
    """

    status: int
    body: bytes = attrs.field(repr=False)
    retry_after: float | None = None
    too_large: bool = False
    broken: Failure | None = None


def retry_after_of(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """Return for how many seconds the platform asks not to be asked again; None if it names no such time.

    `Retry-After` is a number of seconds, or a date; a date is measured from the answer's own, since the two
    machines' clocks may differ. An hour is the most that is believed.

    Platform: RFC 9110, section 10.2.3.
    """
    told: dict[bytes, str] = {}
    for name, value in headers:
        told.setdefault(name.lower(), value.decode("latin-1").strip())
    said = told.get(b"retry-after", "")
    if _SECONDS.fullmatch(said):
        seconds = float(said)
    else:
        until = _date(said)
        if until is None:
            return None
        seconds = (until - (_date(told.get(b"date", "")) or datetime.now(UTC))).total_seconds()
    return min(seconds, _LONGEST_REST) if seconds > 0 else None


def _date(said: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # servers name seconds, nearly always

    try:
        date = parsedate_to_datetime(said)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def broken_off(status: int, failure: Failure, cause: Exception | None = None) -> Answer:
    """Return what is known of a request that has failed, or stood still if there is no cause.

    The status, 0 if none came, is the platform's word: losing the text behind it takes nothing of that back.
    """
    failure.__cause__ = cause
    if not status:
        raise failure
    return Answer(status, b"", broken=failure if is_taken(status) else None)


@final
@guarded
class Uploaded:
    """What an upload gave.

    Attributes:
        descriptor: the platform's, which may be sent often.
        digest: SHA-256 of the bytes that were sent, in hexadecimal.
        size: how many those were.
    """

    descriptor: Descriptor
    digest: str
    size: int
