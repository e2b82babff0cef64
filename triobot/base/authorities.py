"""The TLS context of a client; imported for TLS connections and httpx's transports only."""

from __future__ import annotations

import functools
import ssl

import certifi


@functools.cache
def client_context() -> ssl.SSLContext:
    """Return a client's TLS context: certificates by Mozilla's list, checked host names, HTTP/1.1 offered.

    The context ignores the environment (SSL_CERT_FILE), unlike httpx's own.
    """
    context = ssl.create_default_context(cafile=certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context
