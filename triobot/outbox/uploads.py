"""Uploads files before the messages that show them, and remembers the uploaded files' descriptors.

A descriptor may be sent again without another upload (interface section 4.4). So descriptors are cached by
kind, name and SHA-256 of the bytes, and the least recently used descriptor is dropped first. A file that
several chats need at once is uploaded once. A file that changed during the upload is sent, but its descriptor
is not cached.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias, final

import attrs
import trio
from typing_extensions import TypeVar

from ..base.frozen import guarded
from ..wire.content import Blob, Descriptor, LocalFile, Media, MediaKind
from ..wire.operations import Upload
from .retry import copy_for

K = TypeVar("K")
V = TypeVar("V")

_PIECE: Final = 1 << 20
_AT_ONCE: Final = 1 << 18

_Look: TypeAlias = tuple[Path, int, int, int]


@final
@guarded
class UploadKey:
    """Cache key of an upload. The name is a part of the key, because the receiver sees the name."""

    kind: MediaKind
    filename: str = attrs.field(repr=False)
    digest: bytes = attrs.field(repr=False)


@final
@guarded
class UploadedMedia:
    """A media value with its descriptor.

    Attributes:
        cached: cache key if the descriptor came from the cache: the platform may have forgotten the
            descriptor.
    """

    media: Media
    cached: UploadKey | None


@final
@attrs.define(eq=False)
class _UnderWay:
    done: trio.Event = attrs.field(factory=trio.Event)
    error: Exception | None = None


@final
class Uploads:
    """The cache of descriptors, and the uploads in progress, one per file."""

    def __init__(self, upload: Callable[[Upload], Awaitable[Descriptor]], *, remembered: int = 1024) -> None:
        self._upload = upload
        self._remembered = remembered
        self._descriptors: OrderedDict[UploadKey, Descriptor] = OrderedDict()
        self._digests: OrderedDict[_Look, bytes] = OrderedDict()
        self._under_way: dict[UploadKey, _UnderWay] = {}
        self._threads = trio.CapacityLimiter(4)

    async def resolve(self, media: Media) -> UploadedMedia:
        """Return a media value with its descriptor; upload the file unless the cache has its descriptor.

        Raises:
            OSError: the file can't be read.
            RefusedError, TransportError: as `Platform.perform`; an upload may always be repeated.

        Cancellation: *atomic* for other callers that want the same file: another caller then uploads the
        file.
        """
        source = media.source
        if isinstance(source, Descriptor):
            return UploadedMedia(media, None)
        before = await self._look(source)
        key = UploadKey(media.kind, source.filename, await self._digest(source, before))
        while True:
            known = self._descriptors.get(key)
            if known is not None:
                self._descriptors.move_to_end(key)
                return UploadedMedia(attrs.evolve(media, source=known), key)
            other = self._under_way.get(key)
            if other is None:
                break
            await other.done.wait()
            if other.error is not None:
                raise copy_for(other.error)
        mine = self._under_way[key] = _UnderWay()
        try:
            descriptor = await self._upload(Upload.of(media))
        except Exception as error:
            mine.error = error
            raise
        finally:
            del self._under_way[key]
            mine.done.set()
        if await self._look(source) == before:
            _remember(self._descriptors, key, descriptor, self._remembered)
        return UploadedMedia(attrs.evolve(media, source=descriptor), None)

    def forget(self, key: UploadKey) -> None:
        """Remove a descriptor that the platform no longer accepts."""
        self._descriptors.pop(key, None)

    async def _look(self, source: LocalFile | Blob) -> _Look | None:
        if isinstance(source, Blob):
            return None
        facts = await trio.to_thread.run_sync(source.path.stat, limiter=self._threads)
        return (source.path, facts.st_ino, facts.st_size, facts.st_mtime_ns)

    async def _digest(self, source: LocalFile | Blob, look: _Look | None) -> bytes:
        if isinstance(source, Blob):
            if len(source.data) <= _AT_ONCE:
                return hashlib.sha256(source.data).digest()
            return await trio.to_thread.run_sync(_digest_bytes, source.data, limiter=self._threads)
        assert look is not None
        digest = self._digests.get(look)
        if digest is None:
            digest = await trio.to_thread.run_sync(
                _digest_file, source.path, limiter=self._threads, abandon_on_cancel=True
            )
            _remember(self._digests, look, digest, self._remembered)
        return digest


def _remember(known: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > most:
        known.popitem(last=False)


def _digest_bytes(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _digest_file(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.digest()
