"""Every bound of the webhook, in one value.

What arrives is bounded three times: one body by `body_bytes`, all bodies in hand by `bodies_bytes`, and the
connections by `connections`. What has been accepted is bounded by the store's `Quota`, not here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, final

import attrs

from ..base.frozen import guarded
from ..base.limits import PRIVATE, Networks, ServingLimits, check_bounds
from ..errors import ConfigError

_OPTIONAL: Final = frozenset({"connections_per_address", "send_bytes"})
_WHOLE: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?", re.ASCII)


@final
@guarded(kw_only=True)
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
        send_seconds: how long a write may wait for a sender that doesn't read its answers.
        send_bytes: about how many bytes of answers the kernel holds for such a sender, or None.
        connections, connections_per_address, shared_addresses, spare_descriptors: how many connections are
            open at once, and which give way to new ones; see `triobot.base.limits.ServingLimits`. A bot's
            requests to the platform have descriptors besides the spare ones.
        backlog: the kernel's queue of connections that are not accepted yet.
        settle_seconds: at a stop, how long connections that are open may still bring a request.
        grace_seconds: at a stop, how long requests that are in hand may take to be answered.

    Raises:
        ConfigError: one of them is not above zero, or one body is longer than all may be.
    """

    body_bytes: int = 1024 * 1024
    # What hypercorn gives a request line is 5 s; uploads never come this way, so 10 s is plenty.
    body_seconds: float = 10.0
    bodies_bytes: int = 64 * 1024 * 1024
    # nginx: lingering_timeout 5 s. A sender that is cut off sooner only comes back sooner.
    linger_seconds: float = 5.0
    retry_seconds: int = 5
    header_bytes: int = 16 * 1024
    idle_seconds: float = 5.0
    send_seconds: float = 30.0
    # Each of our answers has some hundred.
    send_bytes: int | None = 16 * 1024
    # Enough to bear with thousands that say nothing until their time is over, at some 10 kB each.
    connections: int = 4096
    connections_per_address: int | None = 128
    shared_addresses: tuple[str, ...] = PRIVATE
    spare_descriptors: int = 128
    # As much as Linux allows; those of an attack that wait there must not keep others out.
    backlog: int = 4096
    settle_seconds: float = 0.25
    grace_seconds: float = 10.0

    def __attrs_post_init__(self) -> None:
        check_bounds(self, "the webhook's")
        if self.bodies_bytes < self.body_bytes:
            raise ConfigError("the webhook's bodies_bytes must be at least its body_bytes")
        Networks(self.shared_addresses)

    @staticmethod
    def read(values: Mapping[str, str]) -> Limits:
        """Read limits as people write them: numbers, ``none`` where there may be no bound, lists with commas.

        Args:
            values: by name; others are the defaults.

        Raises:
            ConfigError: there is no such limit, or a value is none for it.
        """
        read: dict[str, Any] = {name: _value(name, text) for name, text in values.items()}
        return Limits(**read)

    @property
    def serving(self) -> ServingLimits:
        """Return the limits for the listener under the webhook."""
        same: dict[str, Any] = {one.name: getattr(self, one.name) for one in attrs.fields(ServingLimits)}
        same["body_seconds"] *= 2  # the endpoint says 408 before that
        return ServingLimits(**same)


LIMITS: Final = tuple(field.name for field in attrs.fields(Limits))
"""The names of all limits."""


def _value(name: str, text: str) -> object:
    if name not in LIMITS:
        raise ConfigError(f"there is no limit {name!r}; there are {', '.join(LIMITS)}")
    usual: object = getattr(Limits(), name)
    if isinstance(usual, tuple):
        return tuple(filter(None, re.split(r"[,\s]+", text)))
    if name in _OPTIONAL and text == "none":
        return None
    if isinstance(usual, float) and _NUMBER.fullmatch(text):
        return float(text)
    if _WHOLE.fullmatch(text):
        return int(text)
    raise ConfigError(f"the webhook's {name} must be a number, such as {usual}")
