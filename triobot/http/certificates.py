"""A server's TLS, from the files that certificate programs write."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias, final

from ..errors import ConfigError

_log: Final = logging.getLogger("triobot.http")

Tls: TypeAlias = ssl.SSLContext | Callable[[], ssl.SSLContext]
"""A server's TLS context, or a function that returns it for each connection; quick, and must not raise."""


def server_context(certificate: str | Path, key: str | Path | None = None) -> ssl.SSLContext:
    """Return a TLS context for a server with this certificate, offering HTTP/1.1.

    Args:
        certificate: a PEM file with the whole chain; it may hold the key too.
        key: a PEM file with the key, without a password.

    Raises:
        ConfigError: a file can't be read or isn't one, or the two don't belong together.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise ConfigError(f"the certificate {certificate} and its key can't be used: {reason}") from error
    return context


@final
class RenewedCertificate:
    """Returns a TLS context with the certificate that the files hold now, for each connection that begins.

    A certificate that can't be used, such as a new one whose key has not been written yet, is logged, and the
    one before stays in use. Args and Raises: as `server_context`.
    """

    def __init__(self, certificate: str | Path, key: str | Path | None = None) -> None:
        self._certificate = Path(certificate)
        self._key = None if key is None else Path(key)
        # Before they are read: a change in between is seen the next time.
        self._seen = self._look()
        self._context = server_context(self._certificate, self._key)

    def __call__(self) -> ssl.SSLContext:
        """Return the TLS context for a connection that begins now."""
        found = self._look()
        if found != self._seen:
            self._seen = found
            try:
                # A new one: half of a change in the old would break it, too.
                self._context = server_context(self._certificate, self._key)
                _log.info("the certificate %s was renewed, and is used from now on", self._certificate)
            except ConfigError as error:
                _log.warning("%s; the one before stays in use", error)
        return self._context

    def _look(self) -> list[tuple[int, ...] | None]:
        return [_state(path) for path in (self._certificate, self._key) if path is not None]


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _no_password() -> str:
    # Without this OpenSSL would ask at the terminal, and a service would stand still.
    raise ValueError("the key has a password")
