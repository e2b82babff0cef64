"""`PlatformClient`: operations in, results out, over HTTP."""

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
from ..seams.own_http import connections_of, new_connections
from ..wire.content import Media
from ..wire.decode import decode_result, is_taken, shape_of, take_unread
from ..wire.operations import Operation, Upload
from ..wire.results import Sent
from .address import checked_hosts, parse_base_url
from .terms import LARGEST_ANSWER, Answer, DownloadProgress, Terms, Uploaded, UploadProgress

if TYPE_CHECKING:
    from .carried import Carrier
    from .posted import Forms, PostedForm
    from .successor import AnyTransport

R = TypeVar("R")

_HEADER_SAFE: Final = re.compile(r"[\x21-\x7e]+", re.ASCII)

_CLOSING_SECONDS: Final = 2


@asynccontextmanager
async def opened_transports(*transports: AnyTransport | None) -> AsyncGenerator[None]:
    """Open transports that several clients are lent; close them at the end of the block."""
    async with AsyncExitStack() as opening:
        for one in transports:
            if one is not None:
                from .successor import adapted

                await opening.enter_async_context(adapted(one))
        stack = opening.pop_all()
    try:
        yield
    finally:
        await _close(stack)


async def _close(transports: AsyncExitStack) -> None:
    # Shielded, so that sockets are closed on the way out of a cancelled program; with a deadline, because a
    # transport is somebody else's code.
    with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSING_SECONDS):
        await transports.aclose()


@final
class PlatformClient:
    """Perform operations on the platform, each once.

    Use it with ``async with``; it implements `triobot.seams.outbox.Platform`. Nothing is retried, ordered or
    paced here: that is the outbox's work. Redirects are never followed, and the token goes to the base URL's
    origin only.

    HTTP_PROXY and its kin are **not** read, nor SSL_CERT_FILE. Where the platform is behind a proxy, say so:
    ``transport=httpx.AsyncHTTPTransport(proxy="http://proxy:3128")``, and the same as `media_transport`
    for downloads.

    Args:
        base_url: such as ``https://api.example.com``; operations' paths are appended. ``http://`` is for
            this machine only.
        token: the service's, from the developer portal.
        transport: carries the operations; closed with the client: a transport of httpx, or of httpx2. None: a
            `triobot.http.TrioTransport`, or where that package is missing one of httpx's own.
        media_transport: carries downloads, and is then responsible for the addresses it connects to; the
            other rules stay. Never sees the token. None: one that connects to checked addresses only.
        lent: the transports that are given stay open: other clients have them, too.
        allow_insecure: accept ``http://`` to another machine: on a network that you trust.
        media_hosts: domains, with all below them, that files may be downloaded from besides the base URL's
            own registered domain.
        patience: seconds that a request may take, from its connection to the end of its answer. For
            uploads and downloads: seconds without progress.
        connections: requests at once; further ones wait for their turn, outside the patience.
        on_unreadable: told of each answer 2xx that can't be read as it should: the operation's path, and the
            shape of the answer, without its content. It must be quick, and must not raise.
        certain: asked once more when a request has its connection, since a process may have stood still
            while it waited for that: if it returns 0, nothing leaves, and it is a `NotDeliveredError`. A
            transport of your own that reports no steps asks nothing.

    Raises:
        ConfigError: one of these is wrong.

    Examples:
        async with PlatformClient(base_url, token) as platform:
            sent = await platform.perform(SendMessage(chat_id, "hi"))
    """

    def __init__(
        self,
        base_url: str,
        token: str | Secret,
        *,
        transport: AnyTransport | None = None,
        media_transport: AnyTransport | None = None,
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
        # Our own, which files share: httpx's part is made for the first of those, or for a transport given.
        own = self._own = new_connections(connections) if transport is None else None

        def carrier() -> Carrier:
            from .carried import Carrier

            return Carrier(terms, transport, media_transport, connections if own is None else own, lent=lent)

        self._make_carrier = carrier
        self._carrier = carrier() if own is None or media_transport is not None else None
        straight = own if self._carrier is None else connections_of(self._carrier.transport)
        self._forms: Forms | None = None
        if straight is not None:
            from .posted import Forms

            self._forms = Forms(straight, terms, self._result)
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
        """Close all connections. Leaving the ``async with`` does it too; twice is all right.

        Cancellation: *forceful*: they are closed anyway.
        """
        stack, self._open = self._open, None
        self._closed = True
        if stack is not None:
            await _close(stack)
        await trio.lowlevel.checkpoint()

    async def perform(self, operation: Operation[R], /) -> R:
        """Perform one operation, once.

        A send that was answered 200, or any other 2xx, was taken, whatever the answer's body, and whether or
        not that arrives: without an id that can be read, its `Sent` has none. So was any other operation
        whose result isn't in the body. For those whose result is, a 2xx that can't be read counts as unknown:
        the platform may have done what it was asked. An answer that breaks off within its head counts by its
        status if that was read; a transport of your own doesn't tell it, and the outcome is unknown then.

        Raises:
            LocalProtocolError: the operation can't be sent, or its file can't be read or changed while it
                was sent; nothing took effect. Your program's fault.
            RefusedError: the platform answered, and said no: any other status than 2xx, redirects included.
                After 502 and 504 it depends on the machine in between whether it took effect.
            NotDeliveredError: the request never left; safe to repeat.
            DeliveryUnknownError: it may have taken effect.

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
        """Write an operation out for whichever task awaits its result; None if only `perform` can carry it.

        That is so for what has a file, and for a transport that isn't ours. Its time is up to the caller:
        nothing ends it but `seams.Begun.expire`. At most as many as there are connections should be on their
        way at once: the line for one is in their time.

        Args:
            fresh: take no idle connection, which the platform may have closed unseen.

        Raises:
            LocalProtocolError: as `perform`.
        """
        if self._forms is None or isinstance(operation, Upload):
            return None
        self._check_open()
        return self._forms.write_out(operation, fresh=fresh)

    async def upload(self, operation: Upload, on_progress: UploadProgress | None = None) -> Uploaded:
        """Perform an upload and learn what was sent, for those who keep descriptors.

        The file is read in pieces while it is sent; memory holds one of them.

        Args:
            on_progress: called with the bytes sent so far and the file's size, from 0 to the end. It must
                be quick; what it raises ends the upload.

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
        """Fetch a file that the platform serves, without the token.

        Only https, only from the base URL's registered domain and `media_hosts`, only from public
        addresses, no redirects; a base URL on this machine, or one that `allow_insecure` let through, may
        lead to cleartext and to its own network. The file appears at its place whole or not at all, readable
        by its owner only. The sender's filename is never used.

        Args:
            source: media with a descriptor, or one of its `screenshots`.
            to: the file's place, which is replaced; or a directory, where it gets a random name with at
                most a harmless ending.
            limit: the most bytes that it may have.
            on_progress: called with the bytes received so far, and how many there will be if that is known.

        Returns: where the file is.

        Raises:
            LocalProtocolError: the media has no descriptor. Your program's fault.
            RemoteProtocolError: the address or the file breaks these rules. Sender's fault; repeating never
                helps.
            RefusedError: the answer was not 200.
            NotDeliveredError: the connection failed, or stood still. Safe to repeat.
            OSError: your disk refused, as it is.

        Cancellation: *atomic*: nothing is left behind.
        """
        return await self._carried().media.fetch(source, to, limit=limit, on_progress=on_progress)

    def _result(self, operation: Operation[R], answer: Answer) -> R:
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

    def _tell_unreadable(self, operation: Operation[object], answer: Answer) -> None:
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
                opened.push_async_exit(one)  # ours, which need no opening
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
    # An unset environment variable comes as None, whatever the types say.
    return isinstance(token, str) and _HEADER_SAFE.fullmatch(token) is not None
