"""What these tests' bots send by, as the variables say.

``STACK``: triobot's own transport, or httpx's. ``TRUSTED``, with triobot's own: the certificate of an
authority that the platform's is issued by.
"""

from __future__ import annotations

import os
import ssl

import httpx


def _chosen() -> httpx.AsyncBaseTransport | None:
    if os.environ.get("STACK", "ours") != "ours":
        return httpx.AsyncHTTPTransport()
    if (trusted := os.environ.get("TRUSTED")) is not None:
        from triobot.http import TrioTransport

        return TrioTransport(ssl_context=ssl.create_default_context(cafile=trusted))
    return None


TRANSPORT = _chosen()
