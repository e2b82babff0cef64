"""How far a request got, and what its failure therefore means. Pure.

The one question is whether a byte of the request may have left this machine: if not, repeating is safe; if
so, nobody knows whether the platform acted. In doubt it may have.
"""

from __future__ import annotations

from typing import Final, final

import attrs
import httpx

from ..errors import DeliveryUnknownError, NotDeliveredError

# Raised while there is no connection to the platform yet, or for a request that can't be written at all.
_BEFORE: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)


@final
@attrs.define
class Delivery:
    """One request's way, as far as its transport reports it.

    Attributes:
        may_have_left: a byte of the request may have left. From the start for a transport that reports
            nothing; else from when the request's headers are about to be written.
        fresh: a connection has just been made and has not been given its request yet.
    """

    may_have_left: bool
    fresh: bool = False

    def step(self, event: str, *, tunnel: bool) -> None:
        """Take note of a step that the transport reports, such as ``connection.connect_tcp.started``.

        `tunnel`: the step concerns the request that opens a way through a proxy, not ours.
        """
        part, _, rest = event.partition(".")
        self.fresh = rest.endswith(".complete") and not part.startswith("http")
        if rest == "send_request_headers.started" and not tunnel:
            self.may_have_left = True

    def failed(self, operation: str, error: Exception) -> NotDeliveredError | DeliveryUnknownError:
        """Return what an error of the transport means for the operation, as an error of ours."""
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return NotDeliveredError(operation, f"could not connect: {cause_of(error)}")
        if isinstance(error, _BEFORE):
            return NotDeliveredError(operation, f"could not be sent ({type(error).__name__})")
        return self._verdict(operation, f"the connection failed ({type(error).__name__})")

    def stalled(self, operation: str, patience: float) -> NotDeliveredError | DeliveryUnknownError:
        """Return what running out of patience means for the operation, as an error of ours."""
        return self._verdict(operation, f"no answer within {patience:g} seconds")

    def _verdict(self, operation: str, what: str) -> NotDeliveredError | DeliveryUnknownError:
        if self.may_have_left:
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
