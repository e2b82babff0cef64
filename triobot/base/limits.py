"""How much a listener takes and how long it waits, and which senders count as many. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final, final

import attrs

from ..errors import ConfigError
from .fields import check_types
from .frozen import guarded

PRIVATE: Final = (
    *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
    *("::1", "fc00::/7", "fe80::/10", "unix"),
)
"""The addresses of this machine and of private networks."""


@final
class Networks:
    """Addresses and networks, such as ``10.0.0.0/8``; ``unix`` stands for connections through a path.

    Raises:
        ConfigError: one of them is neither.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._unix = False
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for name in names:
            if name == "unix":
                self._unix = True
                continue
            try:
                self._networks.append(ipaddress.ip_network(name))
            except ValueError:
                raise ConfigError(f"{name!r} is no address or network, such as 10.0.0.0/8") from None

    def hold(self, host: str | None) -> bool:
        """Return whether this host is in one of them; None stands for connections through a path."""
        if host is None:
            return self._unix
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)


@final
@guarded(kw_only=True)
class ServingLimits:
    """How many connections a listener takes, and how long it waits for them.

    Attributes:
        header_bytes: the longest request line with its headers. Longer: 431.
        idle_seconds: how long a connection may wait for a request, and a begun head for its end; up to a
            quarter more. Then it is closed without an answer.
        body_seconds: how long a reader of a body may wait for its next bytes; up to a quarter of
            `idle_seconds` more. Then the connection is closed.
        send_seconds: how long a write may wait for a sender that doesn't read its answers; up to a quarter of
            `idle_seconds` more. Then the connection is closed.
        send_bytes: about how many bytes of answers the kernel holds for a sender that doesn't read them;
            None: as many as it thinks right for long answers, some megabytes.
        linger_seconds: how long what is still sent is read and thrown away after an answer to a request
            that has not come to its end, so that the answer reaches a sender that reads only after it has
            written.
        connections: how many are open at once; never more than the process may have, less what it needs for
            other things. One more: the connection whose sender has kept us waiting for longest is closed;
            where all have a request in hand, the new one waits in the kernel's queue. Strangers who hold
            more than this cost good events a second each; who hold fewer, some milliseconds.
        connections_per_address: the same for one IPv4 address or one IPv6 network of 64 bits, or None. One
            more: as above, among that sender's; where all have a request in hand, the new one is closed.
        shared_addresses: addresses and networks that many senders share, such as a proxy's: what comes from
            these, or through a path, is not bounded as one sender's.
        spare_descriptors: files that the process is to open besides connections: its store, its own requests.
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
    send_bytes: int | None = None
    # nginx: lingering_timeout 5 s. A sender that is cut off sooner only comes back sooner.
    linger_seconds: float = 5.0
    # Enough to bear with thousands that say nothing until their time is over, at some 10 kB each.
    connections: int = 4096
    connections_per_address: int | None = 128
    # This machine's own, and those of private networks, where proxies are.
    shared_addresses: tuple[str, ...] = PRIVATE
    spare_descriptors: int = 128
    settle_seconds: float = 0.25
    grace_seconds: float = 10.0

    def __attrs_post_init__(self) -> None:
        check_bounds(self, "the listener's")


def check_bounds(limits: attrs.AttrsInstance, whose: str) -> None:
    """Refuse a bound that is of another type, or not above zero.

    Raises:
        ConfigError: names it.
    """
    check_types(limits)
    for field in attrs.fields(type(limits)):
        value: object = getattr(limits, field.name)
        if isinstance(value, int | float) and not value > 0:
            raise ConfigError(f"{whose} {field.name} must be above zero")
