"""What a listener bears with, in one value, each bound with its precedent."""

from __future__ import annotations

from typing import final

import attrs

from ..errors import ConfigError


@final
@attrs.frozen(kw_only=True)
class ServingLimits:
    """How many connections a listener takes, and how long it waits for them.

    Attributes:
        header_bytes: the longest request line with its headers, about. Longer: 431.
        idle_seconds: how long a connection may wait for a request, and a begun head for its end; up to a
            quarter more. Then it is closed without a word.
        body_seconds: how long a body may keep whoever reads it waiting for its next bytes; up to a quarter of
            `idle_seconds` more. Then the connection is closed.
        send_seconds: how long a write may wait for a sender that doesn't read its answers; up to a quarter of
            `idle_seconds` more. Then the connection is closed.
        linger_seconds: how long what is still sent is read and thrown away after an answer to a request
            that has not come to its end, so that the answer reaches a sender that reads only after it has
            written.
        connections: how many are open at once; further ones wait in the kernel's queue.
        connections_per_address: the same for one peer, or None. More: the connection is closed.
        settle_seconds: at a stop, how long connections that are open may still bring a request.
        grace_seconds: at a stop, how long requests that are in hand may take to be answered.

    Raises:
        ConfigError: one of them is not above zero.
    """

    header_bytes: int = 16 * 1024
    idle_seconds: float = 5.0
    # nginx: client_body_timeout 60 s, and as there between two reads. Applications may want less.
    body_seconds: float = 60.0
    # nginx: send_timeout 60 s; our answers are short, a place is dear.
    send_seconds: float = 30.0
    # nginx: lingering_timeout 5 s; a platform's client is no browser on a slow line.
    linger_seconds: float = 1.0
    # Below the usual 1,024 descriptors of a process, which others share.
    connections: int = 512
    connections_per_address: int | None = None
    settle_seconds: float = 0.25
    grace_seconds: float = 10.0

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self, recurse=False).items():
            if isinstance(value, int | float) and not value > 0:
                raise ConfigError(f"the listener's {name} must be above zero")
