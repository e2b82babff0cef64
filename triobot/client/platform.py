"""`PlatformClient`: operations in, results out, over HTTP."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self, final

import httpx
import trio
from typing_extensions import TypeVar

from ..errors import ConfigError
from ..secrets import Secret
from ..wire.encode import encode_operation
from ..wire.operations import Operation
from .address import allowed_domains, parse_base_url
from .media import MediaFetcher

R = TypeVar("R")

_HEADER_SAFE: Final = re.compile(r"[\x21-\x7e]+", re.ASCII)

# The shortest idle time after which common servers close is Node's 5 s; a request that meets the closing
# has an unknown outcome, so ours goes first.
_KEEP_ALIVE_SECONDS: Final = 4

_CLOSING_SECONDS: Final = 2


@final
class PlatformClient:
    """Perform operations on the platform, each once.

    Use it with ``async with``; it implements `triobot.seams.Platform`. Nothing is retried, ordered or paced
    here: that is the outbox's work. Redirects are never followed, and the token goes to the base URL's
    origin only.

    HTTP_PROXY and its kin are **not** read, nor SSL_CERT_FILE. Where the platform is behind a proxy, say so:
    ``transport=httpx.AsyncHTTPTransport(proxy="http://proxy:3128")``, and the same as `media_transport`
    for downloads.

    Args:
        base_url: such as ``https://api.example.com``; operations' paths are appended. ``http://`` is for
            this machine only.
        token: the service's, from the developer portal.
        transport: carries the operations; closed with the client. None: httpx's own, HTTP/1.1.
        media_transport: carries downloads, and is then responsible for the addresses it connects to; the
            other rules stay. Never sees the token. None: one that connects to checked addresses only.
        allow_insecure: accept ``http://`` to another machine: on a network that you trust.
        media_hosts: domains, with all below them, that files may be downloaded from besides the base URL's
            own registered domain.
        patience: seconds that a request may take, from its connection to the end of its answer. For
            uploads and downloads: seconds without progress.
        connections: requests at once; further ones wait for their turn, outside the patience.

    Raises:
        ConfigError: one of these is wrong.

    Example:
        async with PlatformClient(base_url, token) as platform:
            sent = await platform.perform(SendMessage(chat_id, "hi"))
    """

    def __init__(
        self,
        base_url: str,
        token: str | Secret,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        media_transport: httpx.AsyncBaseTransport | None = None,
        allow_insecure: bool = False,
        media_hosts: Collection[str] = (),
        patience: float = 30.0,
        connections: int = 16,
    ) -> None:
        self._base = parse_base_url(base_url, allow_insecure=allow_insecure)
        self._token = _check_token(token)
        if not patience > 0 or math.isnan(patience):
            raise ConfigError("patience must be more than 0 seconds")
        if connections < 1:
            raise ConfigError("connections must be at least 1")
        self._patience = patience
        user_agent = f"triobot/{_version()}"
        self._headers = {
            "User-Agent": user_agent,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        # httpcore's pool looks at every connection for every request and again for every connection:
        # hundreds would make it slower, not faster. Its queue is never used, since `_slots` is as long.
        self._transport = transport or httpx.AsyncHTTPTransport(
            trust_env=False,
            limits=httpx.Limits(
                max_connections=connections,
                max_keepalive_connections=connections,
                keepalive_expiry=_KEEP_ALIVE_SECONDS,
            ),
        )
        self._slots = trio.CapacityLimiter(connections)
        self._media = MediaFetcher(
            domains=allowed_domains(self._base, media_hosts),
            trusted_network=self._base.trusted_network,
            transport=media_transport,
            user_agent=user_agent,
            patience=patience,
        )
        self._open: AsyncExitStack | None = None

    def __repr__(self) -> str:
        return f"PlatformClient({str(self._base.root)!r})"

    async def __aenter__(self) -> Self:
        if self._open is not None:
            raise RuntimeError("a PlatformClient can be entered once; make another one")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._transport)
            await stack.enter_async_context(self._media.transport)
            self._open = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections. Leaving the ``async with`` does it too; twice is all right.

        Cancellation: *forceful*: they are closed anyway.
        """

    async def perform(self, operation: Operation[R], /) -> R:
        """Perform one operation, once.

        An answer of 200 that can't be read as the operation's result counts as unknown: the platform may
        have done what it was asked.

        Raises:
            LocalProtocolError: the operation can't be sent, or its file can't be read or changed while it
                was sent; nothing took effect. Your program's fault.
            RefusedError: the platform answered, and said no: any other status than 200, redirects included.
                After 502 and 504 it depends on the machine in between whether it took effect.
            NotDeliveredError: the request never left; safe to repeat.
            DeliveryUnknownError: it may have taken effect.

        Cancellation: *ambiguous* once the request is being written; before that, *atomic*.
        """
        request = encode_operation(operation)
        if request.file is None:
            return _result(operation, await self._post_form(request))
        answer, _ = await self._post_file(request, request.file, None)
        return _result(operation, answer)
