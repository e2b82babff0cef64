"""Incoming files, fetched from addresses in events.

Anyone who knows the webhook's address can forge an event. So this module checks a file's address and size,
and uses at most the ending of the file's name. The token is never sent. `media_address` has the rules for
domains and IP addresses.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, final

import httpx
import trio

from ..base.authorities import client_context
from ..errors import NotDeliveredError, RefusedError, RemoteProtocolError
from ..wire.content import Media
from ..wire.rules import is_digits
from .address import is_host
from .exchange import FAILURES, Patience, RequestProgress, reading, send
from .media_address import allowed_domains, check_addresses
from .terms import USER_AGENT, DownloadProgress, Terms, cause_of

OPERATION: Final = "download"

_AT_ONCE: Final = 4
_ADDRESSES: Final = 4
# Time limit for connecting to one address of a host. If the address is unreachable, time is left for the
# next address.
_CONNECT_SECONDS: Final = 5
# A download may take an hour. A longer download must average `_SLOWEST` bytes a second since its start.
_LONGEST: Final = 3600
_SLOWEST: Final = 16 * 1024
# Endings of files that a desktop opens in a viewer or a player. Any other ending is removed from a saved
# file's name, so a click on a sender's "invoice.exe" or "report.html" doesn't run the file.
_SUFFIXES: Final = frozenset(
    {".jpg", ".jpeg", ".png", ".gif", ".webp", ".heic"}
    | {".mp4", ".m4v", ".mov", ".webm", ".mkv", ".3gp"}
    | {".mp3", ".m4a", ".aac", ".ogg", ".oga", ".opus", ".wav", ".flac", ".amr"}
    | {".pdf", ".txt", ".zip"}
)


@final
class MediaFetcher:
    """Fetches files from allowed addresses, over a transport of its own."""

    def __init__(self, terms: Terms, transport: httpx.AsyncBaseTransport | None) -> None:
        self._domains = allowed_domains(terms.base, terms.hosts)
        self._trusted_network = terms.base.trusted_network
        self._resolves = transport is None
        # No keep-alive: the pool identifies these connections only by IP address. A connection that was made
        # for one host name must not be used for another host name with the same address.
        limits = httpx.Limits(max_connections=_AT_ONCE, max_keepalive_connections=0)
        self.transport = transport or httpx.AsyncHTTPTransport(verify=client_context(), limits=limits)
        self._slots = trio.CapacityLimiter(_AT_ONCE)
        self._headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
        self._patience = terms.patience

    async def fetch(
        self, source: Media | str, to: Path, *, limit: int, on_progress: DownloadProgress | None
    ) -> Path:
        """See `PlatformClient.download`."""
        address = source if isinstance(source, str) else source.url
        url = check_media_url(address, domains=self._domains, trusted_network=self._trusted_network)
        name = url.path if isinstance(source, str) else source.filename
        async with self._slots:
            place = await place_for(to, name)
            patience = Patience(self._patience)
            patience.renew()
            began, done = trio.current_time(), 0
            with patience.scope:
                response = await self._open(url)
                async with reading(response) as pieces:
                    total = announced_size(response, limit=limit)
                    patience.pause()
                    async with new_file(place) as file:
                        patience.renew()
                        async for piece in _Named(pieces):
                            done += len(piece)
                            if done > limit:
                                raise _too_large(limit)
                            patience.pause()
                            await trio.to_thread.run_sync(file.write, piece)
                            patience.renew(began + max(_LONGEST, done / _SLOWEST))
                            if on_progress is not None:
                                on_progress(done, total)
                        patience.pause()
                return place
        took = trio.current_time() - began
        if took >= _LONGEST:
            raise NotDeliveredError(OPERATION, f"{done} bytes in {took:.0f} seconds, which is too slow")
        raise NotDeliveredError(OPERATION, f"no progress for {self._patience:g} seconds")

    async def _open(self, url: httpx.URL) -> httpx.Response:
        """Return the head of the answer, from the first address that accepts a connection."""
        try:
            if not self._resolves:
                return await self._send(httpx.Request("GET", url, headers=self._headers))
            found = await _resolve(url)
            addresses = check_addresses(found, trusted_network=self._trusted_network)[:_ADDRESSES]
            for address in addresses[:-1]:
                try:
                    return await self._send(self._pinned(url, address))
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    continue
            return await self._send(self._pinned(url, addresses[-1]))
        except (httpx.ConnectError, httpx.ConnectTimeout, socket.gaierror) as error:
            raise NotDeliveredError(OPERATION, f"could not connect: {cause_of(error)}") from error
        except FAILURES as error:
            raise NotDeliveredError(OPERATION, f"the connection failed ({type(error).__name__})") from error

    async def _send(self, request: httpx.Request) -> httpx.Response:
        return await send(self.transport, request, RequestProgress(may_have_left=True))

    def _pinned(self, url: httpx.URL, address: str) -> httpx.Request:
        """Build a request to the checked IP address: a second look-up could return another address.

        The host name still goes into the Host header, and into the check of the certificate.
        """
        headers = {"Host": url.netloc.decode("ascii"), **self._headers}
        extensions = {"sni_hostname": host_of(url), "timeout": {"connect": _CONNECT_SECONDS}}
        return httpx.Request("GET", url.copy_with(host=address), headers=headers, extensions=extensions)


def check_media_url(text: str, *, domains: Collection[str], trusted_network: bool) -> httpx.URL:
    """Check a file's address before any look-up, more strictly than httpx does.

    Raises:
        RemoteProtocolError: the address is not allowed. The sender of the event is at fault; a repetition
            never helps.
    """
    try:
        url = httpx.URL(text)
        host = host_of(url)
    except (httpx.InvalidURL, TypeError, ValueError):
        url, host = httpx.URL(), ""
    if not is_host(host) or not 1 <= (url.port or 443) <= 65535:
        raise RemoteProtocolError("path", "must be a URL")
    if url.scheme != "https" and not (url.scheme == "http" and trusted_network):
        raise RemoteProtocolError("path", "must be an https URL")
    if url.userinfo:
        raise RemoteProtocolError("path", "must hold no user name or password")
    if not any(host == domain or host.endswith("." + domain) for domain in domains):
        raise RemoteProtocolError(
            "path", "must be on the platform's own domain, or on one that media_hosts names"
        )
    return url.copy_with(fragment=None)


def host_of(url: httpx.URL) -> str:
    """Return the host in the form used for look-ups: lower-case ASCII, without a dot at the end."""
    return url.raw_host.decode("ascii").lower().rstrip(".")


async def _resolve(url: httpx.URL) -> tuple[str, ...]:
    port = url.port or {"https": 443, "http": 80}[url.scheme]
    found = await trio.socket.getaddrinfo(host_of(url), port, type=socket.SOCK_STREAM)
    return tuple(str(entry[4][0]) for entry in found)


def announced_size(response: httpx.Response, *, limit: int) -> int | None:
    """Return the file's size from the answer's head; None if the head has no size.

    Raises:
        RefusedError: the status is not 200. A redirect counts as a refusal, since its target is not checked.
        RemoteProtocolError: the file is too large, or compressed, which makes the announced size useless.
    """
    if response.status_code != 200:
        reason = "redirects are not followed" if response.has_redirect_location else ""
        raise RefusedError(OPERATION, response.status_code, reason)
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise RemoteProtocolError("body", "must not be compressed")
    announced = response.headers.get("content-length", "")
    if not is_digits(announced):
        return None
    if int(announced) > limit:
        raise _too_large(limit)
    return int(announced)


def _too_large(limit: int) -> RemoteProtocolError:
    return RemoteProtocolError("body", f"must be at most {limit} bytes")


class _Named:
    """Iterator over a body's pieces. The iterator raises a connection's failure as NotDeliveredError."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._pieces)
        except FAILURES as error:
            raise NotDeliveredError(OPERATION, f"the connection failed ({type(error).__name__})") from error


async def place_for(to: Path, name: str) -> Path:
    """Return `to`; if `to` is a directory, return a path with a random name in that directory.

    Only a harmless ending of the sender's `name` is kept.
    """
    if await trio.Path(to).is_dir():
        return to / f"{secrets.token_hex(16)}{harmless_suffix(name)}"
    return to


def harmless_suffix(name: str) -> str:
    """Return a name's ending in lower case if the ending is in `_SUFFIXES`; otherwise an empty text."""
    suffix = PurePosixPath(name).suffix.lower()
    return suffix if suffix in _SUFFIXES else ""


@asynccontextmanager
async def new_file(place: Path) -> AsyncGenerator[BinaryIO, None]:
    """Open a temporary file for writing.

    The file replaces `place` if the block succeeds, and is deleted otherwise. Only the owner can read the
    file. A link at `place` is replaced, not followed.

    Raises:
        OSError: the disk's own error, unchanged.
    """
    temporary = place.with_name(f".{secrets.token_hex(12)}.part")
    file = await trio.to_thread.run_sync(_create, temporary)
    try:
        yield file
        await trio.to_thread.run_sync(_finish, file, temporary, place)
    except BaseException:
        # Shielded, because a cancelled download must not leave a partial file; the deletion takes only a
        # local disk's time.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(_discard, file, temporary)
        raise


def _create(temporary: Path) -> BinaryIO:
    # Without O_BINARY, Windows would write two bytes for each line feed.
    binary: int = getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | binary, 0o600), "wb")


def _finish(file: BinaryIO, temporary: Path, place: Path) -> None:
    file.close()
    temporary.replace(place)


def _discard(file: BinaryIO, temporary: Path) -> None:
    # Closing flushes the buffer, which fails again on a full disk.
    with suppress(OSError):
        file.close()
    temporary.unlink(missing_ok=True)
