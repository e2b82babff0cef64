"""`PlatformClient`: performs operations over HTTP, and returns their results."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, final

import trio
from typing_extensions import TypeVar

from ..base.secrets import Secret
from ..errors import ConfigError, DeliveryUnknownError, RemoteProtocolError
from ..seams.own_http import new_connections
from ..wire.content import Media
from ..wire.decode import decode_result, is_taken, shape_of, take_unread
from ..wire.operations import Operation, Upload
from ..wire.results import Sent
from .address import checked_hosts, parse_base_url
from .terms import LARGEST_ANSWER, DownloadProgress, Reply, Terms, Uploaded, UploadProgress

if TYPE_CHECKING:
    import httpx

    from .carried import Carrier
    from .posted import Forms, PostedForm

R = TypeVar("R")

_HEADER_SAFE: Final = re.compile(r"[\x21-\x7e]+", re.ASCII)

_CLOSING_SECONDS: Final = 2


@asynccontextmanager
async def opened_transports(*transports: httpx.AsyncBaseTransport | None) -> AsyncGenerator[None]:
    """Open transports that several clients share; close them at the end of the block."""
    async with AsyncExitStack() as opening:
        for one in transports:
            if one is not None:
                await opening.enter_async_context(one)
        stack = opening.pop_all()
    try:
        yield
    finally:
        await _close(stack)


async def _close(transports: AsyncExitStack) -> None:
    # Shielded, so that a cancelled program closes its sockets. There is a deadline, because a transport is
    # foreign code, and may hang.
    with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSING_SECONDS):
        await transports.aclose()


@final
class PlatformClient:
    """A client of the platform that performs each operation once.

    Use the client with ``async with``. The client implements `triobot.seams.outbox.Platform`. The outbox, not
    the client, retries, orders and paces operations. Redirects are never followed, and the token is sent to
    the base URL's origin only.

    Environment variables such as HTTP_PROXY and SSL_CERT_FILE are **not** read. For a proxy, pass
    ``transport=httpx.AsyncHTTPTransport(proxy="http://proxy:3128")``, and the same as `media_transport` for
    downloads.

    Args:
        base_url: such as ``https://api.example.com``; operations' paths are appended. ``http://`` is for this
            computer only.
        token: the service's token, from the developer portal.
        transport: httpx transport of the operations; closed with the client. None: operations use connections
            of `triobot.http`, and files use httpx's own transport. Without `triobot.http`, operations use
            httpx's own transport, too.
        media_transport: transport of downloads. A transport that you pass must itself check the IP
            addresses that it connects to. The client still applies the other rules for downloads, and never
            passes the token to this transport. None: a transport that connects to checked addresses only.
        lent: whether the given transports stay open, because other clients share them.
        allow_insecure: whether to accept ``http://`` to another computer; for a trusted network only.
        media_hosts: further domains from which files may be downloaded, with all names below these domains.
            The base URL's registered domain is always allowed.
        patience: seconds for a request, from connecting to the end of its answer. For uploads and downloads:
            seconds without progress.
        connections: maximum number of requests at a time. Further requests wait; this wait doesn't count for
            `patience`.
        on_unreadable: called for each unreadable 2xx answer, with the operation's path and the answer's
            shape, without its content. Must be quick, and must not raise.
        certain: returns the number of seconds for which the process certainly still owns its store. Called
            right before a request is sent, since the process may have been suspended while the request waited
            for a connection. If the result is 0, nothing is sent, and NotDeliveredError is raised. The
            function isn't called if you pass a transport that reports no steps.

    Raises:
        ConfigError: an argument is invalid.

    Examples:
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
        lent: bool = False,
        allow_insecure: bool = False,
        media_hosts: Collection[str] = (),
        patience: float = 30.0,
        connections: int = 16,
        on_unreadable: Callable[[str, str], None] | None = None,
        certain: Callable[[], float] | None = None,
    ) -> None:
        base = parse_base_url(base_url, allow_insecure=allow_insecure)
        if not patience > 0 or math.isnan(patience):
            raise ConfigError("patience must be more than 0 seconds")
        if connections < 1:
            raise ConfigError("connections must be at least 1")
        slots, hosts = trio.Semaphore(connections), checked_hosts(media_hosts)
        terms = self._terms = Terms(base, _check_token(token), hosts, slots, patience, certain)
        self._on_unreadable = on_unreadable
        # Operations without a file are sent over connections of `triobot.http`. The carrier uses httpx. The
        # carrier is created at the first file, or here if a transport is given or `triobot.http` is missing.
        own = self._own = new_connections(base.scheme, base.host, base.port) if transport is None else None

        def carrier() -> Carrier:
            from .carried import Carrier

            return Carrier(terms, transport, media_transport, connections, lent=lent)

        self._make_carrier = carrier
        self._carrier = carrier() if own is None or media_transport is not None else None
        self._forms: Forms | None = None
        if own is not None:
            from .posted import Forms

            self._forms = Forms(own, terms, self._result)
        self._open: AsyncExitStack | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"PlatformClient({str(self._terms.base)!r})"

    async def __aenter__(self) -> Self:
        if self._open is not None or self._closed:
            raise RuntimeError("a PlatformClient can be entered once; make another one")
        async with AsyncExitStack() as stack:
            if self._own is not None:
                stack.callback(self._own.close)
            for one in () if self._carrier is None else self._carrier.closes:
                await stack.enter_async_context(one)
            self._open = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections.

        The end of the ``async with`` block does the same. A second call does nothing.

        Cancellation: *forceful*: the connections are closed anyway.
        """
        stack, self._open = self._open, None
        self._closed = True
        if stack is not None:
            await _close(stack)
        await trio.lowlevel.checkpoint()

    async def perform(self, operation: Operation[R], /) -> R:
        """Perform one operation, once.

        After a send, any 2xx status means that the platform accepted the message, even if the answer's body
        is unreadable or doesn't arrive. The `Sent` then has no id. Every other operation without a
        result in the body also succeeds with any 2xx status. For an operation with a result in the body, an
        unreadable 2xx answer counts as an unknown outcome, because the platform may have performed the
        operation. If the answer's head breaks off after the status, the status decides. A transport that you
        pass doesn't report the status, so the outcome is unknown if the head breaks off.

        Raises:
            LocalProtocolError: the operation can't be sent, its file can't be read, or its file changed while
                being sent. The operation took no effect. Your program's fault.
            RefusedError: the platform answered with a status that isn't 2xx, redirects included. After 502
                and 504 the operation may have taken effect, depending on the gateway.
            NotDeliveredError: the request was never sent; safe to repeat.
            DeliveryUnknownError: the operation may have taken effect.

        Cancellation: *ambiguous* once the request is being written; before that, *atomic*.
        """
        posted = self.begin(operation)
        if posted is not None:
            async with self._terms.slots:
                try:
                    with trio.CancelScope(deadline=trio.current_time() + self._terms.patience):
                        return await posted.result()
                    posted.expire(self._terms.patience)
                    return await posted.result()
                finally:
                    posted.close()
        return self._result(operation, await self._carried().carry(operation))

    def begin(self, operation: Operation[R], /, *, fresh: bool = False) -> PostedForm[R] | None:
        """Encode an operation as a request. The task that awaits `result` sends the request.

        The caller must limit the request's time with `seams.Begun.expire`: no other timeout ends the request.
        The caller must also limit the number of requests at a time: each request has its own connection.

        Args:
            fresh: whether to use a new connection, since the platform may have closed an idle connection
                unnoticed.

        Returns:
            The request; None for an operation with a file, and for every operation over another library's
            transport: only `perform` can send these operations.

        Raises:
            LocalProtocolError: as `perform`.
        """
        if self._forms is None or isinstance(operation, Upload):
            return None
        self._check_open()
        return self._forms.write_out(operation, fresh=fresh)

    async def upload(self, operation: Upload, on_progress: UploadProgress | None = None) -> Uploaded:
        """Perform an upload, and return the descriptor with the sent file's digest and size.

        The file is read in pieces while it is sent; one piece is in memory at a time.

        Args:
            on_progress: called with the bytes sent so far and the file's size, from 0 to the end. Must be
                quick; an exception ends the upload.

        Raises: as `perform`.

        Cancellation: *ambiguous*, and harmless: uploads may be repeated.
        """
        answer, digest, size = await self._carried().upload(operation, on_progress)
        return Uploaded(self._result(operation, answer), digest, size)

    async def download(
        self,
        source: Media | str,
        to: Path,
        *,
        limit: int = 100 * 1024 * 1024,
        on_progress: DownloadProgress | None = None,
    ) -> Path:
        """Download a file from the platform, without the token.

        The address must be https, on the base URL's registered domain or on one of the `media_hosts`, and its
        IP addresses must be public. Redirects aren't followed. If the base URL is on this computer, or was
        accepted because of `allow_insecure`, cleartext and non-public addresses are allowed. The file appears
        complete or not at all, and only the file's owner can read the file. At most a harmless ending of the
        sender's filename is used.

        Args:
            source: media with a descriptor, or one of its `screenshots`.
            to: the file's path, which is replaced; or a directory, where the file gets a random name with at
                most a harmless ending.
            limit: largest size of the file in bytes.
            on_progress: called with the bytes received so far, and the total if it is known.

        Returns: the file's path.

        Raises:
            LocalProtocolError: the media has no descriptor. Your program's fault.
            RemoteProtocolError: the address or the file breaks the rules above. The sender of the file is at
                fault; a repetition never helps.
            RefusedError: the answer was not 200.
            NotDeliveredError: the connection failed, or made no progress. Safe to repeat.
            OSError: your disk's own error, unchanged.

        Cancellation: *atomic*: no partial file stays behind.
        """
        return await self._carried().media.fetch(source, to, limit=limit, on_progress=on_progress)

    def _result(self, operation: Operation[R], answer: Reply) -> R:
        body = self._terms.without_token(answer.body)
        try:
            if (answer.too_large or answer.broken is not None) and is_taken(answer.status):
                result = take_unread(operation)
            else:
                result = decode_result(operation, answer.status, body, answer.retry_after)
        except RemoteProtocolError as error:
            if answer.broken is not None:
                raise answer.broken from answer.broken.__cause__
            self._tell_unreadable(operation, answer)
            what = "it was answered, but the answer can't be read; it may have taken effect"
            raise DeliveryUnknownError(operation.path, what) from error
        if isinstance(result, Sent) and result.id is None:
            self._tell_unreadable(operation, answer)
        return result

    def _tell_unreadable(self, operation: Operation[object], answer: Reply) -> None:
        if self._on_unreadable is not None:
            if answer.broken is not None:
                shape = "broken off"
            else:
                shape = f"more than {LARGEST_ANSWER} bytes" if answer.too_large else shape_of(answer.body)
            if answer.status != 200:
                shape = f"{shape}, with status {answer.status}"
            self._on_unreadable(operation.path, shape)

    def _carried(self) -> Carrier:
        opened = self._check_open()
        if self._carrier is None:
            self._carrier = self._make_carrier()
            for one in self._carrier.closes:
                opened.push_async_exit(one)  # triobot's own transports need no opening
        return self._carrier

    def _check_open(self) -> AsyncExitStack:
        if self._open is None:
            raise trio.ClosedResourceError("use a PlatformClient inside its `async with`")
        return self._open


def _check_token(token: str | Secret) -> Secret:
    secret = token if isinstance(token, Secret) else Secret(token)
    if not _fits_header(secret.reveal()):
        raise ConfigError(
            "token must be printable ASCII without spaces or line ends, as the developer portal shows it"
        )
    return secret


def _fits_header(token: object) -> bool:
    # The value of an unset environment variable is None, in spite of the parameter's type.
    return isinstance(token, str) and _HEADER_SAFE.fullmatch(token) is not None
