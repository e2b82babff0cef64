"""Open a connection: look the name up, connect, agree on TLS."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import httpx
import trio

from .links import Link, PlainLink, TlsLink, detached
from .pool import Origin

Report: TypeAlias = Callable[[str], Awaitable[None]]
"""Told of each step, such as ``connection.connect_tcp.started``, by httpx's own names for them."""


@functools.cache
def default_context() -> ssl.SSLContext:
    """Certificates are verified by httpx's own list, names are checked, HTTP/1.1 is asked for."""
    context = httpx.create_ssl_context(trust_env=False)
    context.set_alpn_protocols(["http/1.1"])
    return context


async def dial(origin: Origin, context: Callable[[], ssl.SSLContext], report: Report | None) -> Link:
    """Connect to an origin.

    Args:
        context: asked for the rules of TLS when they are needed, since reading certificates takes a while.

    Raises:
        httpx.ConnectError: nobody listens there, or TLS was not agreed on. Nothing has been sent.

    Cancellation: *atomic*: the connection is closed.
    """
    if report is not None:
        await report("connection.connect_tcp.started")
    try:
        stream = await trio.open_tcp_stream(origin.host, origin.port)
    except (OSError, ValueError) as error:
        raise httpx.ConnectError(_reason(error)) from error
    try:
        if report is not None:
            await report("connection.connect_tcp.complete")
        if origin.scheme == "http":
            return PlainLink(detached(stream.socket))
        if report is not None:
            await report("connection.start_tls.started")
        try:
            rules = context()
        except OSError as error:  # no descriptor is left to read the certificates with
            raise httpx.ConnectError(_reason(error)) from error
        link = await _agree(stream, origin.name or origin.host, rules)
        if report is not None:
            await report("connection.start_tls.complete")
    except BaseException:
        stream.socket.close()
        raise
    return link


async def _agree(stream: trio.SocketStream, name: str, context: ssl.SSLContext) -> TlsLink:
    secured = trio.SSLStream(stream, context, server_hostname=name, https_compatible=True)
    try:
        await secured.do_handshake()
    except (trio.BrokenResourceError, ssl.SSLError, ValueError) as error:
        raise httpx.ConnectError(_reason(error.__cause__ or error)) from error
    return TlsLink(secured)


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
