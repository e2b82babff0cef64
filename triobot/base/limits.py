"""A listener's limits and time limits, and the networks shared by many senders. Pure."""

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
"""Addresses of this computer and of private networks, and ``unix``."""


@final
class Networks:
    """A set of addresses and networks, such as ``10.0.0.0/8``; ``unix`` stands for connections through a Unix
    socket.

    Raises:
        ConfigError: a name is neither an address nor a network.
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
        """Return whether the set contains `host`; None stands for a connection through a Unix socket."""
        if host is None:
            return self._unix
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)


@guarded(kw_only=True)
class ServingLimits:
    """Limits of a listener: its connections, sizes and waiting times.

    Attributes:
        header_bytes: largest number of bytes of a request line with its headers. A longer head is answered
            with 431.
        idle_seconds: time limit for an idle connection, and for reading the rest of a begun request head. The
            connection is closed without an answer at most a quarter of the limit later.
        body_seconds: time limit for each read of a body. The connection is closed at most a quarter of
            `idle_seconds` later.
        send_seconds: time limit for a write to a sender that doesn't read its answers. The connection is
            closed at most a quarter of `idle_seconds` later.
        send_bytes: about how many bytes of unread answers the kernel buffers for a sender; None: the kernel's
            default for long answers, some megabytes.
        linger_seconds: after the answer to an unfinished request, the time for which further bytes of the
            request are read and discarded. So a sender that writes its whole request before it reads still
            gets the answer.
        connections: largest number of open connections. The number can't be larger than the process's limit
            of open files minus `spare_descriptors`. If there are too many connections, the bot closes the
            connection that has waited longest for its sender. If every connection has a request in progress,
            the new connection waits in the kernel's queue. While strangers open more connections than this
            limit, the platform's events arrive about a second late. Below the limit, an event arrives within
            some milliseconds.
        connections_per_address: largest number of connections of one IPv4 address, or of one IPv6 network of
            64 bits; None: no limit. If a sender opens more connections, the bot closes the connection of this
            sender that has waited longest. If each of the sender's connections has a request in progress, the
            bot closes the new connection.
        shared_addresses: addresses and networks that many senders share, such as a proxy's address.
            `connections_per_address` doesn't apply to these addresses or to Unix sockets.
        spare_descriptors: number of open files that are reserved for other uses than connections, such as the
            store and outgoing requests.
        settle_seconds: when the listener stops, the time during which open connections may still send a
            request.
        grace_seconds: when the listener stops, the time limit for the answers to requests in progress.

    Raises:
        ConfigError: a limit is not above zero.
    """

    header_bytes: int = 16 * 1024
    idle_seconds: float = 5.0
    # nginx's client_body_timeout is 60 s, and also applies to each read. An application may use a lower
    # limit.
    body_seconds: float = 60.0
    # nginx's send_timeout is 60 s. Here the limit is lower: answers are short, and connections are scarce.
    send_seconds: float = 30.0
    send_bytes: int | None = None
    # nginx's lingering_timeout is also 5 s. A shorter time would only make senders reconnect sooner.
    linger_seconds: float = 5.0
    # Enough for thousands of silent connections that stay open until their time limit. A connection takes
    # about 10 kB.
    connections: int = 4096
    connections_per_address: int | None = 128
    # Addresses of this computer and of private networks, where proxies usually run.
    shared_addresses: tuple[str, ...] = PRIVATE
    spare_descriptors: int = 128
    settle_seconds: float = 0.25
    grace_seconds: float = 10.0

    def __attrs_post_init__(self) -> None:
        check_bounds(self, "the listener's")


def check_bounds(limits: attrs.AttrsInstance, whose: str) -> None:
    """Check that each limit has its field's type and is above zero.

    Args:
        whose: text for the error message that says what the limits belong to, such as ``the listener's``.

    Raises:
        ConfigError: a limit has another type, or is not above zero. The error names the field.
    """
    check_types(limits)
    for field in attrs.fields(type(limits)):
        value: object = getattr(limits, field.name)
        if isinstance(value, int | float) and not value > 0:
            raise ConfigError(f"{whose} {field.name} must be above zero")
