"""A server's TLS contexts, made from the files that certificate programs write."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final, final

from ..errors import ConfigError

_log: Final = logging.getLogger("triobot.http")


def server_context(certificate: str | Path, key: str | Path | None = None) -> ssl.SSLContext:
    """Return a server's TLS context that uses this certificate and offers HTTP/1.1.

    Args:
        certificate: PEM file with the whole chain; may contain the key, too.
        key: PEM file with the key, without a password.

    Raises:
        ConfigError: a file is unreadable or no PEM file, or certificate and key don't match.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise ConfigError(f"the certificate {certificate} and its key can't be used: {reason}") from error
    return context


@final
class RenewedCertificate:
    """TLS contexts that follow the certificate files: each new connection gets the files' current
    certificate.

    If the current files are unusable, for example because a new certificate's key is not written yet, the
    error is logged and the previous context stays in use. Args and Raises: as `server_context`.
    """

    def __init__(self, certificate: str | Path, key: str | Path | None = None) -> None:
        self._certificate = Path(certificate)
        self._key = None if key is None else Path(key)
        # Read the files' state before their content, so that the next call detects a change between the two
        # reads.
        self._seen = self._look()
        self._context = server_context(self._certificate, self._key)

    def __call__(self) -> ssl.SSLContext:
        found = self._look()
        if found != self._seen:
            self._seen = found
            try:
                # Make a new context, because a partly loaded certificate would make the old context unusable.
                self._context = server_context(self._certificate, self._key)
                _log.info("the certificate %s was renewed, and is used from now on", self._certificate)
            except ConfigError as error:
                _log.warning("%s; the one before stays in use", error)
        return self._context

    def _look(self) -> list[tuple[int, ...] | None]:
        return [_state_of(path) for path in (self._certificate, self._key) if path is not None]


def _state_of(path: Path) -> tuple[int, ...] | None:
    """Return values that change when the file is replaced or rewritten; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _refuse_password() -> str:
    """Raise ValueError. Without a password callback, OpenSSL would prompt at the terminal and block a
    service.
    """
    raise ValueError("the key has a password")
