"""The TLS context of a client, in a module that is imported only for TLS connections and httpx's
transports.
"""

from __future__ import annotations

import functools
import ssl

import certifi


@functools.cache
def client_context() -> ssl.SSLContext:
    """Return a client's TLS context, which trusts the authorities in Mozilla's list, checks host names, and
    offers HTTP/1.1.

    The context ignores the environment (SSL_CERT_FILE), unlike httpx's own context.
    """
    context = ssl.create_default_context(cafile=certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context
