"""Every bound of the webhook in one value, each with its precedent.

What arrives is bounded three times: one body by `body_bytes`, all bodies in hand by `bodies_bytes`, and the
connections by `connections`. What has been accepted is bounded by the store's `Quota`, not here.
"""

from __future__ import annotations

from typing import final

import attrs

from ..errors import ConfigError
from ..http.limits import ServingLimits


@final
@attrs.frozen(kw_only=True)
class Limits:
    """How much the webhook takes, and how long it waits.

    Attributes:
        body_bytes: the longest body, whatever its format: JSON, form or multipart. Longer: 413.
        body_seconds: how long a whole body may take from its headers on. Longer: 408.
        bodies_bytes: all bodies in hand together, from the headers until the answer. More: 503.
        linger_seconds: how long what is still sent is read and thrown away after a refusal, so that the
            refusal reaches a sender that reads only after it has written.
        retry_seconds: what ``Retry-After`` says in a 503.
        header_bytes: the longest request line with its headers. Longer: 431.
        idle_seconds: how long a connection may wait for a request, the first included.
        connections: how many connections are open at once; further ones wait in the kernel's queue.
        connections_per_address: the same for one peer, or None. Behind a proxy all have the proxy's
            address, hence None. More: the connection is closed.
        backlog: the kernel's queue of connections that nobody has taken yet.
        settle_seconds: at a stop, how long connections that are open may still bring a request.
        grace_seconds: at a stop, how long requests that are in hand may take to be answered.

    Raises:
        ConfigError: one of them is not above zero, or one body is longer than all may be.
    """

    body_bytes: int = 1024 * 1024
    # What hypercorn gives a request line is 5 s; uploads never come this way, so 10 s is plenty.
    body_seconds: float = 10.0
    bodies_bytes: int = 64 * 1024 * 1024
    # nginx: lingering_timeout 5 s; a platform's client is no browser on a slow line.
    linger_seconds: float = 1.0
    retry_seconds: int = 5
    header_bytes: int = 16 * 1024
    idle_seconds: float = 5.0
    # Below the usual 1,024 descriptors of a process, which the store and the client share.
    connections: int = 512
    connections_per_address: int | None = None
    backlog: int = 1024
    settle_seconds: float = 0.25
    grace_seconds: float = 10.0

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self, recurse=False).items():
            if isinstance(value, int | float) and not value > 0:
                raise ConfigError(f"the webhook's {name} must be above zero")
        if self.bodies_bytes < self.body_bytes:
            raise ConfigError("the webhook's bodies_bytes must be at least its body_bytes")

    @property
    def serving(self) -> ServingLimits:
        """What the listener under the webhook needs to know of them."""
        return ServingLimits(
            header_bytes=self.header_bytes,
            idle_seconds=self.idle_seconds,
            # The endpoint says 408 before that.
            body_seconds=2 * self.body_seconds,
            linger_seconds=self.linger_seconds,
            connections=self.connections,
            connections_per_address=self.connections_per_address,
            settle_seconds=self.settle_seconds,
            grace_seconds=self.grace_seconds,
        )
