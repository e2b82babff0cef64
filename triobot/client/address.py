"""Rules for the base URL and for host names. Pure.

This module resolves no name and opens no connection. The token is sent to the base URL's origin only.
`media_address` has the rules for files.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, TypeAlias, final
from urllib.parse import urlsplit

from ..base.frozen import guarded
from ..errors import ConfigError

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_HOST: Final = re.compile(r"[a-z0-9_.\-]{1,253}", re.ASCII)

# The pattern rejects each form of a host that httpx or a server's library would correct or interpret
# differently.
_BASE: Final = re.compile(
    r"(?P<scheme>https?)://(?P<user>[^/?#]*@)?"
    r"(?P<host>[a-z0-9_.\-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/(?!\.{1,2}(?:/|$))(?:[a-z0-9._~!$&'()*+,;=:@\-]|%[0-9a-f]{2})*)*)(?P<further>[?#].*)?",
    re.ASCII | re.IGNORECASE,
)
_PORTS: Final = {"https": 443, "http": 80}


@final
@guarded
class BaseUrl:
    """The platform's base URL, which has been checked.

    Attributes:
        host: in lower-case ASCII, without a dot at the end.
        path: prefix of each operation's path; without a slash at the end.
        trusted_network: whether cleartext and non-public addresses are allowed, because the platform is on
            this computer, or because the operator allowed insecure URLs.
    """

    scheme: str
    host: str
    port: int
    path: str
    trusted_network: bool

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.path}"

    @property
    def netloc(self) -> str:
        """Host and port in the form of a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse_base_url(text: object, *, allow_insecure: bool) -> BaseUrl:
    """Check and parse the platform's base URL.

    Raises:
        ConfigError: `text` is no URL (an unset variable's None, for example), or contains a user, a password,
            a query or a fragment. Or `text` is an ``http://`` URL of another computer, and `allow_insecure`
            is False. The error doesn't contain `text`, which may contain a password.
    """
    found = _BASE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ConfigError("base_url is not a URL; give one such as https://api.example.com")
    scheme, host = found["scheme"].lower(), found["host"].lower().strip("[]").rstrip(".")
    if found["user"] is not None:
        raise ConfigError("base_url must hold no user name or password; the token is a setting of its own")
    if found["further"] is not None:
        raise ConfigError("base_url must hold no query and no fragment; operations are appended to it")
    port = int(found["port"] or _PORTS[scheme])
    if not is_host(host) or (found["host"][0] == "[") != (":" in host) or not 1 <= port <= 65535:
        raise ConfigError("base_url is not a URL; give one such as https://api.example.com")
    loopback = is_loopback_host(host)
    if scheme == "http" and not loopback and not allow_insecure:
        raise ConfigError(
            "base_url is cleartext http:// to another machine, where anybody on the way can read the token; "
            "use https://, or set allow_insecure=True on a network that you trust"
        )
    return BaseUrl(scheme, host, port, found["path"].rstrip("/"), loopback or scheme == "http")


def is_host(host: str) -> bool:
    """Return whether `host` is a host name or an IP address; a name's last label must not be a number."""
    named = _HOST.fullmatch(host) is not None and not host.rpartition(".")[2].isdecimal()
    return named or _literal(host) is not None


def is_loopback_host(host: str) -> bool:
    """Return whether a host is ``localhost`` or a loopback address; other names are not resolved."""
    address = _literal(host)
    return host == "localhost" if address is None else address.is_loopback


def registrable_domain(host: str) -> str:
    """Return the registered domain of a host: ``example.com`` for ``api.example.com``.

    An address, a name of one label, and a public suffix such as ``co.uk`` are returned unchanged.
    """
    if _literal(host) is not None or "." not in host:
        return host
    from publicsuffixlist import PSLFILE, PublicSuffixList  # imported here because it is large

    end = host.rpartition(".")[2]
    with Path(PSLFILE).open(encoding="utf-8") as lines:
        # Load only suffixes with the host's ending. All ten thousand suffixes would take 20 times as long,
        # and 4 MB.
        known = PublicSuffixList([line for line in lines if end.startswith("xn--") or _ends(line, end)])
    return known.privatesuffix(host) or host


def _ends(line: str, end: str) -> bool:
    return line.rstrip().endswith(end)


def own_hosts(base_url: str) -> tuple[str, ...]:
    """Return the base URL's registered domain, such as ``gap.im`` for ``api.gap.im``.

    The result is empty for an IP address and for a name of one label.
    """
    host = urlsplit(base_url).hostname or ""
    return () if "." not in host or _literal(host) is not None else (registrable_domain(host),)


def checked_hosts(further: Collection[str]) -> Sequence[str]:
    """Return the operator's further domains in lower case, without dots at the ends.

    Raises:
        ConfigError: an entry is no plain host name.
    """
    if isinstance(further, str):
        raise ConfigError("media_hosts must be a collection of host names, not one string")
    domains = [name.lower().strip(".") for name in further]
    if any(not one or not one.isascii() or any(sign in one for sign in "/:@?#* \t\r\n") for one in domains):
        raise ConfigError("media_hosts must hold plain host names, such as files.example.com")
    return domains


def _literal(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
