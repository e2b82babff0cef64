"""The part of the client that uses httpx: files, and operations over another library's transport.

The client imports this module, and so httpx, before it sends the first file. `posted` sends operations
without a file. A client that was made with a transport, or without `triobot.http`, imports this module at
once.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any, Final, cast, final

import httpx

from ..base.authorities import client_context
from ..errors import ConfigError, DeliveryUnknownError, LocalProtocolError
from ..wire.decode import is_taken
from ..wire.encode import FORM_TYPE, encode_operation, encode_operation_form
from ..wire.operations import Operation
from .exchange import Patience, WholeBody, exchange
from .media import MediaFetcher
from .terms import Reply, Terms, UploadProgress
from .upload import UploadBody, frame, open_source

# If the server closes a connection while a request is sent, the request's outcome is unknown. Common servers
# keep an idle connection for at least 5 s, so this client closes the connection earlier.
_KEEP_SECONDS: Final = 4.0


@final
class Carrier:
    """Sends operations as httpx requests, and fetches files.

    Args:
        transport, media_transport, lent: see `PlatformClient`.
        connections: maximum number of connections of the default transport.

    Raises:
        ConfigError: a transport isn't an `httpx.AsyncBaseTransport`.

    Attributes:
        transport: transport of the operations.
        media: fetcher of files.
        closes: the transports to close when the client is closed.
    """

    def __init__(
        self,
        terms: Terms,
        transport: httpx.AsyncBaseTransport | None,
        media_transport: httpx.AsyncBaseTransport | None,
        connections: int,
        *,
        lent: bool,
    ) -> None:
        for one in (transport, media_transport):
            if not isinstance(cast("object", one), httpx.AsyncBaseTransport | None):
                raise ConfigError(f"a transport is an httpx.AsyncBaseTransport, not {type(one).__name__}")
        limits = httpx.Limits(
            max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=_KEEP_SECONDS
        )
        self.transport = transport or httpx.AsyncHTTPTransport(verify=client_context(), limits=limits)
        self.media = MediaFetcher(terms, media_transport)
        both = (self.transport, transport), (self.media.transport, media_transport)
        self.closes = [one for one, given in both if given is None or not lent]
        self._terms = terms

    async def carry(self, operation: Operation[Any]) -> Reply:
        """Send an operation, including its file if there is one."""
        if encode_operation(operation).file is not None:
            return (await self.upload(operation, None))[0]
        body = WholeBody(encode_operation_form(operation))
        return await self._post(operation.path, FORM_TYPE, body, Patience(self._terms.patience))

    async def upload(
        self, operation: Operation[Any], on_progress: UploadProgress | None
    ) -> tuple[Reply, str, int]:
        """Send an operation's file; return the answer, and the digest and size of the sent bytes.

        Raises:
            LocalProtocolError: the operation has no file, or its file can't be read.
        """
        request = encode_operation(operation)
        if request.file is None:
            raise LocalProtocolError("source", "must be a file")
        edges = frame(
            boundary=secrets.token_hex(16),
            fields=request.fields,
            name=request.file.name,
            filename=request.file.source.filename,
        )
        patience = Patience(self._terms.patience)
        async with open_source(request.file.source) as reader:
            body = UploadBody(edges, reader, patience=patience, on_progress=on_progress)
            try:
                answer = await self._post(request.path, edges.content_type, body, patience)
            except Exception:
                # A transport may have wrapped the error that the body raised.
                if body.failure is not None:
                    raise body.failure from None
                raise
            if body.failure is not None:
                raise body.failure
            if is_taken(answer.status) and not body.whole:
                raise DeliveryUnknownError(request.path, "it was answered before the file was sent")
            return answer, body.digest, reader.size

    async def _post(
        self, path: str, content_type: str, body: WholeBody | UploadBody, patience: Patience
    ) -> Reply:
        headers = self._terms.headers(content_type, body.length)
        request = httpx.Request("POST", f"{self._terms.base}/{path}", headers=headers, stream=body)
        async with self._terms.slots:
            before = partial(self._terms.check_certain, path)
            return await exchange(self.transport, request, operation=path, patience=patience, before=before)
