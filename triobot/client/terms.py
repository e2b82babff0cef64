"""Common rules for a client's requests over `triobot.http` (`posted`) and through httpx (`carried`).

The rules define the address and the headers of requests. The rules also decide whether an operation may have
taken effect, given the answer or the failure.
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
    """Common values of a client's requests. The token is used only in headers, and is never printed.

    Attributes:
        hosts: further domains that files may come from, besides the platform's own.
        slots: limits the number of requests at a time.
        patience, certain: as in `PlatformClient`.
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

    def headers(self, content_type: str, length: int | str) -> dict[str, str]:
        """Return the headers of a request with a body of this type and length; ``Content-Length`` is last."""
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
        """Return an answer's body with the token masked, since parts of the body go into errors.

        An error page may contain the request, and so the token. A token that is shorter than usual is a
        test's token, and isn't masked: any word could contain such a token.
        """
        token = self._token_bytes
        # `find` is faster than `in`, which first tries to convert `token` to an integer.
        return body if body.find(token) < 0 or len(token) < _SHORTEST_TOKEN else body.replace(token, b"***")

    def check_certain(self, operation: str) -> None:
        """Raise NotDeliveredError if the process may have lost its store; call right before sending."""
        if self.certain is not None and not self.certain():
            raise NotDeliveredError(
                operation, "the process may have lost its store meanwhile; nothing was sent"
            )


def not_connected(operation: str, error: Exception) -> NotDeliveredError:
    """Return the error of an operation for which no connection was made: no byte left this computer."""
    return NotDeliveredError(operation, f"could not connect: {cause_of(error)}")


def cut_off(operation: str, error: Exception, *, may_have_left: bool) -> Failure:
    """Return the error of an operation whose connection failed."""
    return _verdict(operation, f"the connection failed ({type(error).__name__})", may_have_left)


def stalled(operation: str, patience: float, *, may_have_left: bool) -> Failure:
    """Return the error of an operation that got no answer in time."""
    return _verdict(operation, f"no answer within {patience:g} seconds", may_have_left)


def _verdict(operation: str, what: str, may_have_left: bool) -> Failure:
    if may_have_left:
        return DeliveryUnknownError(operation, f"{what}; it may have taken effect")
    return NotDeliveredError(operation, f"{what}; nothing was sent")


def cause_of(error: BaseException) -> str:
    """Return the text of the error that prevented a connection: an error of the resolver, the socket or TLS.

    The text of such an error contains nothing of the request. HTTP libraries wrap errors of connections. If a
    wrapping error has no text, return the text of the wrapped error, which is found by the context: httpcore
    removes the cause.
    """
    within: BaseException | None = error
    while within is not None:
        if text := str(within):
            return text[:200]
        within = within.__cause__ or within.__context__
    return type(error).__name__


@final
@attrs.define
class Reply:
    """A status with its body.

    Attributes:
        too_large: whether the body was longer than the limit; `body` is then empty.
        broken: the failure that came after a 2xx head and left `body` empty; None without such a failure.
        retry_after: see `retry_after_of`.
    """

    status: int
    body: bytes = attrs.field(repr=False)
    retry_after: float | None = None
    too_large: bool = False
    broken: Failure | None = None


def retry_after_of(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """Return the pause in seconds that the platform asks for; None if the platform asks for none.

    `Retry-After` is a number of seconds, or a date. A date is compared with the answer's own date, since the
    two computers' clocks may differ. The result is at most an hour.

    Platform: RFC 9110, section 10.2.3.
    """
    by_name: dict[bytes, str] = {}
    for name, value in headers:
        by_name.setdefault(name.lower(), value.decode("latin-1").strip())
    said = by_name.get(b"retry-after", "")
    if _SECONDS.fullmatch(said):
        seconds = float(said)
    else:
        until = _date(said)
        if until is None:
            return None
        seconds = (until - (_date(by_name.get(b"date", "")) or datetime.now(UTC))).total_seconds()
    return min(seconds, _LONGEST_REST) if seconds > 0 else None


def _date(said: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # only for a date: servers usually send seconds

    try:
        date = parsedate_to_datetime(said)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def broken_off(status: int, failure: Failure, cause: Exception | None = None) -> Reply:
    """Return an answer without a body, for a request that failed after the answer's status had arrived.

    If no status had arrived (0), raise `failure`.

    Args:
        cause: the transport's error; None for a timeout.
    """
    failure.__cause__ = cause
    if not status:
        raise failure
    return Reply(status, b"", broken=failure if is_taken(status) else None)


@final
@guarded
class Uploaded:
    """Result of an upload.

    Attributes:
        descriptor: the platform's descriptor, which may be sent often.
        digest: SHA-256 of the sent bytes, in hexadecimal.
        size: number of sent bytes.
    """

    descriptor: Descriptor
    digest: str
    size: int
