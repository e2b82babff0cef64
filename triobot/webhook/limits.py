"""All limits of the webhook, in one class.

Three limits apply to received data: `body_bytes` for one body, `bodies_bytes` for all bodies in memory, and
`connections`. Accepted events are limited by the store's `Quota`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, final

import attrs

from ..base.frozen import guarded
from ..base.limits import Networks, ServingLimits, check_bounds
from ..errors import ConfigError

_OPTIONAL: Final = frozenset({"connections_per_address", "send_bytes"})
_WHOLE: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?", re.ASCII)


@final
@guarded(kw_only=True)
class Limits(ServingLimits):
    """Limits of sizes and times, for the webhook and its listener.

    Attributes:
        body_bytes: largest number of bytes of one body, in any format (JSON, form or multipart). A longer
            body is answered 413.
        body_seconds: time limit for receiving the whole body, counted from the end of the headers. A slower
            body is answered 408.
        bodies_bytes: largest number of bytes of all bodies in memory together. A body counts from its headers
            until its answer. Further requests are answered 503.
        linger_seconds: the time after a refusal for which the bot reads and discards further bytes of the
            request. So a sender that writes its whole request before it reads also gets the refusal.
        retry_seconds: value of the ``Retry-After`` header of a 503.
        send_bytes: approximate number of bytes of unread answers that the kernel buffers for one sender; None
            for the system's default.
        backlog: length of the kernel's queue of connections that are not accepted yet.

    Raises:
        ConfigError: a limit is not above zero, or `body_bytes` is above `bodies_bytes`.
    """

    body_bytes: int = 1024 * 1024
    # Large uploads never use the webhook, so 10 s is plenty. For comparison, hypercorn allows 5 s for a
    # request line.
    body_seconds: float = 10.0
    bodies_bytes: int = 64 * 1024 * 1024
    retry_seconds: int = 5
    # An answer of the webhook has a few hundred bytes.
    send_bytes: int | None = 16 * 1024
    # Linux's maximum: an attacker's queued connections must not keep other senders out.
    backlog: int = 4096

    def __attrs_post_init__(self) -> None:
        check_bounds(self, "the webhook's")
        if self.bodies_bytes < self.body_bytes:
            raise ConfigError("the webhook's bodies_bytes must be at least its body_bytes")
        Networks(self.shared_addresses)

    @staticmethod
    def read(values: Mapping[str, str]) -> Limits:
        """Parse limits from texts: numbers, ``none`` for an optional limit, lists with commas.

        Args:
            values: for each limit's name, its text; limits without a text have their defaults.

        Raises:
            ConfigError: a name is not a limit's name, or a value is invalid.
        """
        read: dict[str, Any] = {name: _value(name, text) for name, text in values.items()}
        return Limits(**read)

    @property
    def serving(self) -> ServingLimits:
        """Limits for the webhook's listener."""
        # The listener's time limit is twice the endpoint's, so that the endpoint answers 408 before the
        # listener closes the connection.
        return attrs.evolve(self, body_seconds=self.body_seconds * 2)


LIMITS: Final = tuple(field.name for field in attrs.fields(Limits))
"""Names of all limits."""


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
