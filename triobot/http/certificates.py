"""A server's TLS, from the files that certificate programs write."""

from __future__ import annotations

import ssl
from pathlib import Path

from ..errors import ConfigError


def server_context(certificate: str | Path, key: str | Path | None = None) -> ssl.SSLContext:
    """The rules of TLS for a server with this certificate, and HTTP/1.1 behind it.

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


def _no_password() -> str:
    # Without this OpenSSL would ask at the terminal, and a service would stand still.
    raise ValueError("the key has a password")
