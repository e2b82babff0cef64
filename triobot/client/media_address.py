"""Allowed addresses of files: the platform's own domains, and public IP addresses. Pure.

The addresses come from events, and anyone who knows the webhook's address can forge an event.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from ..errors import RemoteProtocolError
from .address import BaseUrl, IPAddress, is_loopback_host, registrable_domain

_LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})

# IPv6 addresses that contain an IPv4 address. Packets to such an address go to the contained address.
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def allowed_domains(base: BaseUrl, further: Iterable[str]) -> frozenset[str]:
    """Return the domains that files may be fetched from: the platform's own domain and `further`."""
    own = _LOOPBACK_HOSTS if is_loopback_host(base.host) else ()
    return frozenset({registrable_domain(base.host), *own, *further})


def check_addresses(addresses: Iterable[str], *, trusted_network: bool) -> tuple[str, ...]:
    """Check that all resolved addresses of a media host are public: a name can point into the bot's own
    network.

    Raises:
        RemoteProtocolError: an address is not public.
    """
    checked = tuple(dict.fromkeys(addresses))
    if not trusted_network and not all(is_public(ipaddress.ip_address(one)) for one in checked):
        raise RemoteProtocolError("path", "must lead to a public address")
    return checked


def is_public(address: IPAddress) -> bool:
    """Return whether an address is on the public internet, not on this computer or network."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = _inner_ipv4(address)
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:
            return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    )


def _inner_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None
