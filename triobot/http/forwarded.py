"""Where a request comes from, by the headers of trusted proxies. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import TypeAlias, final

import attrs

from ..errors import ConfigError
from .request import Incoming

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@final
@attrs.frozen
class ForwardedSender:
    """Where a request comes from.

    Attributes:
        address: the host and port; None through a path without a proxy.
        scheme: ``http`` or ``https``, as the sender sees it.
    """

    address: tuple[str, int] | None
    scheme: str


@final
class Proxies:
    """The proxies whose ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are believed.

    Args:
        trusted: addresses or networks, such as ``10.0.0.0/8``; ``unix`` for connections through a path.

    Raises:
        ConfigError: one of them is neither.
    """

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._unix = False
        self._networks: list[Network] = []
        for name in trusted:
            if name == "unix":
                self._unix = True
                continue
            try:
                self._networks.append(ipaddress.ip_network(name))
            except ValueError:
                raise ConfigError(
                    f"{name!r} is no address or network of a proxy, such as 10.0.0.0/8"
                ) from None

    def sender(self, request: Incoming, peer: tuple[str, int] | None, *, secured: bool) -> ForwardedSender:
        """Return where a request comes from. Headers count only if the peer is a trusted proxy."""
        direct = ForwardedSender(peer, "https" if secured else "http")
        if not self.trusts(None if peer is None else peer[0]):
            return direct
        scheme = direct.scheme
        for name, value in request.headers:
            if name == b"x-forwarded-proto" and value.strip().lower() in (b"http", b"https"):
                scheme = value.strip().lower().decode("ascii")
        return ForwardedSender(self._first_stranger(_hops(request)) or peer, scheme)

    def _first_stranger(self, hops: Sequence[str]) -> tuple[str, int] | None:
        """Return the nearest hop that isn't trusted, or the farthest if all are; None if none can be read."""
        found: tuple[str, int] | None = None
        for hop in reversed(hops):
            try:
                address = str(ipaddress.ip_address(hop))
            except ValueError:
                break
            found = (address, 0)
            if not self.trusts(address):
                break
        return found

    def trusts(self, host: str | None) -> bool:
        """Return whether a trusted proxy is at this host; None stands for connections through a path."""
        if host is None:
            return self._unix
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)


def _hops(request: Incoming) -> list[str]:
    told = [value.decode("latin-1") for name, value in request.headers if name == b"x-forwarded-for"]
    return [hop.strip().strip("[]") for hop in ",".join(told).split(",") if hop.strip()]
