"""Where the client may go: the base URL's rules, and those for addresses that came from outside.

Pure: nothing is resolved or connected here. The token goes to the base URL's origin only; files are
fetched from the platform's own domain only, because their addresses come out of events, and whoever knows
the webhook's address can forge an event.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, TypeAlias, final
from urllib.parse import urlsplit

import httpx
from publicsuffixlist import PSLFILE, PublicSuffixList

from ..base.frozen import guarded
from ..errors import ConfigError, RemoteProtocolError

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_HOST: Final = re.compile(r"[a-z0-9_.\-]{1,253}", re.ASCII)

# Addresses that carry an IPv4 address inside, which is where the packets end up.
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


@final
@guarded
class BaseUrl:
    """The platform's address, checked.

    Attributes:
        root: scheme, host, port and path prefix, without a slash at the end.
        host: the host in lower-case ASCII.
        trusted_network: cleartext and addresses that are not public are all right: the platform is on this
            machine, or the operator said so.
    """

    root: httpx.URL
    host: str
    trusted_network: bool

    def operation(self, path: str) -> httpx.URL:
        """Return the URL of an operation such as ``invoice/verify``; never on another origin."""
        return self.root.copy_with(raw_path=self.root.raw_path.rstrip(b"/") + b"/" + path.encode("ascii"))


def parse_base_url(text: str, *, allow_insecure: bool) -> BaseUrl:
    """Check the platform's base URL.

    Raises:
        ConfigError: it is not one, or it is cleartext to another machine without `allow_insecure`. The text
            itself is not repeated, since a password may be in it.
    """
    try:
        url, host = _parse(text)
    except ValueError:
        raise ConfigError("base_url is not a URL; give one such as https://api.example.com") from None
    if url.scheme not in ("http", "https"):
        raise ConfigError("base_url must begin with https://")
    if url.userinfo:
        raise ConfigError("base_url must hold no user name or password; the token is a setting of its own")
    if url.query or url.fragment or "?" in text or "#" in text:
        raise ConfigError("base_url must hold no query and no fragment; operations are appended to it")
    loopback = is_loopback_host(host)
    if url.scheme == "http" and not loopback and not allow_insecure:
        raise ConfigError(
            "base_url is cleartext http:// to another machine, where anybody on the way can read the token; "
            "use https://, or set allow_insecure=True on a network that you trust"
        )
    return BaseUrl(url, host, loopback or url.scheme == "http")


def _parse(text: str) -> tuple[httpx.URL, str]:
    """Parse a URL and its host, more strictly than httpx, which accepts what no resolver should see.

    Raises:
        ValueError: it is no URL with a host that a name server or a socket understands.
    """
    try:
        url = httpx.URL(text)
        host = host_of(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise ValueError("not a URL") from error
    if not (_HOST.fullmatch(host) or _literal(host)) or not 1 <= (url.port or 443) <= 65535:
        raise ValueError("not a host, or not a port")
    return url, host


def host_of(url: httpx.URL) -> str:
    """Return the host as it would be looked up: lower-case ASCII, without a dot at the end."""
    return url.raw_host.decode("ascii").lower().rstrip(".")


def is_loopback_host(host: str) -> bool:
    """Return whether a host names this machine by itself, without asking a name server."""
    address = _literal(host)
    return host == "localhost" if address is None else address.is_loopback


def registrable_domain(host: str) -> str:
    """Return the part of a host that its owner registered: ``api.example.com`` gives ``example.com``.

    An address stays whole, and so does a name of one label, and one under which anybody may have a name, such
    as ``co.uk``.
    """
    if _literal(host) is not None or "." not in host:
        return host
    end = host.rpartition(".")[2]
    with Path(PSLFILE).open(encoding="utf-8") as lines:
        # Of ten thousand suffixes those that can matter: all of them take twenty times as long, and 4 MB.
        known = PublicSuffixList([line for line in lines if end.startswith("xn--") or _ends(line, end)])
    return known.privatesuffix(host) or host


def _ends(line: str, end: str) -> bool:
    return line.rstrip().endswith(end)


def own_hosts(base_url: str) -> tuple[str, ...]:
    """Return the platform's own domain: ``api.gap.im`` stands for everything under ``gap.im``."""
    host = urlsplit(base_url).hostname or ""
    return () if "." not in host or _literal(host) is not None else (registrable_domain(host),)


def allowed_domains(base: BaseUrl, further: Collection[str]) -> frozenset[str]:
    """Return the domains that files may be fetched from.

    Raises:
        ConfigError: an entry is no plain host name.
    """
    if isinstance(further, str):
        raise ConfigError("media_hosts must be a collection of host names, not one string")
    domains = {registrable_domain(base.host)}
    if is_loopback_host(base.host):
        domains |= _LOOPBACK_HOSTS
    for name in further:
        domain = name.lower().strip(".")
        if not domain or not domain.isascii() or any(sign in domain for sign in "/:@?#* \t\r\n"):
            raise ConfigError("media_hosts must hold plain host names, such as files.example.com")
        domains.add(domain)
    return frozenset(domains)


def check_media_url(text: str, *, domains: Collection[str], trusted_network: bool) -> httpx.URL:
    """Check where a file is said to be, before anything is looked up.

    Raises:
        RemoteProtocolError: this address is not one that we follow. Sender's fault; repeating never helps.
    """
    try:
        url, host = _parse(text)
    except ValueError:
        raise RemoteProtocolError("path", "must be a URL") from None
    if url.scheme != "https" and not (url.scheme == "http" and trusted_network):
        raise RemoteProtocolError("path", "must be an https URL")
    if url.userinfo:
        raise RemoteProtocolError("path", "must hold no user name or password")
    if not any(host == domain or host.endswith("." + domain) for domain in domains):
        raise RemoteProtocolError(
            "path", "must be on the platform's own domain, or on one that media_hosts names"
        )
    return url.copy_with(fragment=None)


def check_addresses(addresses: Iterable[str], *, trusted_network: bool) -> tuple[str, ...]:
    """Check what a media host resolved to: all of it must be public, else a name can lead inside.

    Raises:
        RemoteProtocolError: there is an address that is not public.
    """
    checked = tuple(dict.fromkeys(addresses))
    if not trusted_network and not all(is_public(ipaddress.ip_address(one)) for one in checked):
        raise RemoteProtocolError("path", "must lead to a public address")
    return checked


def is_public(address: IPAddress) -> bool:
    """Return whether an address is on the public internet, not this machine's or network's."""
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


def _literal(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
