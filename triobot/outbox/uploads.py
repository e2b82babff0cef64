"""Uploads files before the messages that show them, and remembers the uploaded files' descriptors.

A descriptor may be sent again without another upload (interface section 4.4). So descriptors are cached. The
cache key is the file's kind and name, with its path, inode, size and time; for bytes in memory, with their
SHA-256. The least recently used descriptor is dropped first. A file that several chats need at once is
uploaded once. If a file changes during its upload, its cache key changes too, so the old descriptor isn't
used again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias, final

import attrs
import trio

from ..base.frozen import guarded
from ..wire.content import Blob, Descriptor, LocalFile, Media, MediaKind
from ..wire.operations import Upload
from .retry import copy_for

_AT_ONCE: Final = 1 << 18

_Identity: TypeAlias = "bytes | tuple[Path, int, int, int]"
"""The digest of bytes; or the path, inode, size and time of a file."""


@final
@guarded
class UploadKey:
    """Cache key of an upload. The file's name is a part of the key, because the receiver sees the name."""

    kind: MediaKind
    filename: str = attrs.field(repr=False)
    identity: _Identity = attrs.field(repr=False)


@final
@guarded
class UploadedMedia:
    """A media value with its descriptor.

    Attributes:
        cached: cache key if the descriptor came from the cache, else None. The platform may have forgotten a
            cached descriptor.
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
        key = UploadKey(media.kind, source.filename, await self._identity(source))
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
        self._descriptors[key] = descriptor
        if len(self._descriptors) > self._remembered:
            self._descriptors.popitem(last=False)
        return UploadedMedia(attrs.evolve(media, source=descriptor), None)

    def forget(self, key: UploadKey) -> None:
        """Remove a descriptor that the platform no longer accepts."""
        self._descriptors.pop(key, None)

    async def _identity(self, source: LocalFile | Blob) -> _Identity:
        if isinstance(source, LocalFile):
            facts = await trio.to_thread.run_sync(source.path.stat, limiter=self._threads)
            return source.path, facts.st_ino, facts.st_size, facts.st_mtime_ns
        if len(source.data) <= _AT_ONCE:
            return _digest(source.data)
        return await trio.to_thread.run_sync(_digest, source.data, limiter=self._threads)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
