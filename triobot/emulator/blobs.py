"""The bytes of uploaded files, stored in a temporary folder under the ids in the files' descriptors.

With Pillow (the extra ``dev``), images get their sizes and resized copies. Pillow is optional.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final, final
from urllib.parse import quote

import attrs
import trio

from ..base.frozen import guarded
from ..wire.content import Descriptor, MediaKind, Source
from ..wire.rules import JsonValue

_CHUNK: Final = 64 * 1024

# The media type follows from a file's first bytes, never from its name. Only raster images are listed: vector
# drawings and HTML pages may contain scripts, which would run with the emulator page's rights.
_RASTER: Final = {
    rb"\x89PNG\r\n\x1a\n": "image/png",
    rb"\xff\xd8\xff": "image/jpeg",
    rb"GIF8[79]a": "image/gif",
    rb"RIFF....WEBP": "image/webp",
}
# Sound and video files can't contain scripts. A browser plays such a file only with the right media type.
PLAYED: Final = {
    rb"\x1aE\xdf\xa3": "video/webm",
    rb"OggS": "audio/ogg",
    rb"ID3|\xff[\xfb\xf3]": "audio/mpeg",
    rb"fLaC": "audio/flac",
    rb"RIFF....WAVE": "audio/wav",
    rb"....ftyp": "video/mp4",
}

# Maximum number of pixels of a decoded image, about the size of a large camera's images. A small file can
# declare far more pixels, and decoding such an image would exhaust the memory.
_MOST_PIXELS: Final = 60_000_000
# A name with a line end would make an address that no HTTP route matches.
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
SIZES: Final = (64, 128, 256, 512)


@final
@guarded
class StoredFile:
    """An uploaded file.

    Attributes:
        raster: media type of a raster image, from the first bytes; None for other files.
        played: media type of a sound or video, from the first bytes; None for other files.
    """

    path: Path = attrs.field(repr=False)
    size: int
    raster: str | None
    played: str | None = None


@final
class FileTooLargeError(Exception):
    """The file is larger than the platform accepts."""


def type_of(head: bytes, types: Mapping[bytes, str]) -> str | None:
    """Return the media type of a file that begins with `head`; None if none of `types` matches."""
    return next((kind for begin, kind in types.items() if re.match(begin, head, re.DOTALL)), None)


@final
class Blobs:
    """Files by id, including files that an earlier process stored. All files are kept until the folder is
    deleted.

    Args:
        limit: maximum size of a file, in bytes.
    """

    def __init__(self, folder: Path, *, limit: int) -> None:
        self._folder = folder
        self.limit = limit
        self._stored = {path.name: self._look(path) for path in folder.iterdir()}

    def get(self, file_id: str) -> StoredFile | None:
        return self._stored.get(file_id)

    async def keep(
        self, file_id: str, source: BinaryIO, *, shrink: bool
    ) -> tuple[StoredFile, Measured | None]:
        """Copy a file in a thread, piece by piece; with `shrink`, also make resized images.

        Raises:
            FileTooLargeError: the file was too large; nothing was kept.

        Cancellation: *ambiguous*: the copy continues in its thread, and its result is lost.
        """
        return await trio.to_thread.run_sync(self._keep, file_id, source, shrink)

    def _keep(self, file_id: str, source: BinaryIO, shrink: bool) -> tuple[StoredFile, Measured | None]:
        path = self._folder / file_id
        with path.open("xb") as target:
            shutil.copyfileobj(source, target, _CHUNK)
        stored = self._look(path)
        if stored.size > self.limit:
            path.unlink()
            raise FileTooLargeError("the file is too large")
        self._stored[file_id] = stored
        measured = measure(path, self._folder) if shrink and stored.raster is not None else None
        for preview in measured.previews.values() if measured is not None else ():
            self._stored[preview] = self._look(self._folder / preview)
        return stored, measured

    def _look(self, path: Path) -> StoredFile:
        with path.open("rb") as file:
            head = file.read(16)
        return StoredFile(path, path.stat().st_size, type_of(head, _RASTER), type_of(head, PLAYED))

    async def read(self, stored: StoredFile, first: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield the file's bytes from `first` to `end` (exclusive; default: the file's end), in pieces."""
        left = (stored.size if end is None else end) - first
        async with await trio.open_file(stored.path, "rb") as file:
            await file.seek(first)
            while left > 0 and (chunk := await file.read(min(_CHUNK, left))):
                left -= len(chunk)
                yield chunk


@final
@guarded
class Measured:
    """Pillow's results for an image.

    Attributes:
        size: width and height in pixels, after the rotation that the camera recorded. A huge image isn't
            rotated.
        previews: file names of the resized images, by the maximum length of an edge, in pixels.
    """

    size: tuple[int, int]
    previews: Mapping[int, str]


def measure(path: Path, folder: Path) -> Measured | None:
    """Return an image's size, and write the image's resized copies to `folder`.

    Returns None without Pillow, and for an image that Pillow can't read. Blocks: run this function in a
    thread. A copy is never larger than the original image.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError:
        return None
    try:
        with Image.open(path) as image:
            if image.width * image.height > _MOST_PIXELS:
                return Measured(image.size, {})
            kind = "JPEG" if image.format == "JPEG" else "PNG"
            upright = ImageOps.exif_transpose(image)
            if kind == "PNG":
                upright = upright.convert("RGBA")
            previews: dict[int, str] = {}
            for edge in SIZES:
                small = upright.copy()
                small.thumbnail((edge, edge))
                previews[edge] = f"{path.name}-{edge}"
                small.save(folder / previews[edge], kind)
            return Measured(upright.size, previews)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        # A broken image is still accepted, without resized copies.
        return None


@final
class UploadedFiles:
    """Descriptors of the uploaded files that the platform still has.

    Attributes:
        base_url: beginning of the addresses of uploads and of top-up pages.
        known: descriptors of all files, by id.
    """

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.known: dict[str, Descriptor] = {}

    def add(
        self,
        file_id: str,
        kind: MediaKind,
        filename: str,
        filesize: int,
        *,
        measured: Measured | None = None,
        duration: float = 0,
    ) -> Descriptor:
        """Add an uploaded file, and return its descriptor.

        Args:
            measured: the image's size and resized copies, if known. In place of a missing copy, the
                descriptor names the original file.
            duration: seconds, for sounds and videos.
        """
        path = self.url(file_id, filename)
        fields: dict[str, JsonValue] = {
            "type": kind,
            "path": path,
            "filesize": filesize,
            "filename": filename,
        }
        if kind in ("image", "video"):
            made: Mapping[int, str] = {} if measured is None else measured.previews
            fields["screenshots"] = {
                str(edge): self.url(made[edge], filename) if edge in made else path for edge in SIZES
            }
            fields["width"], fields["height"] = measured.size if measured is not None else (0, 0)
        if kind in ("video", "audio", "voice"):
            fields["duration"] = duration
        if kind == "audio":
            tags: dict[str, JsonValue] = dict.fromkeys(("genre", "album", "artist", "title", "cover"), "")
            fields["tags"] = {**tags, "filename": filename}
        descriptor = Descriptor.from_object(fields)
        self.known[file_id] = descriptor
        return descriptor

    def url(self, file_id: str, filename: str) -> str:
        """Return the address at which a file is served."""
        return f"{self.base_url}/files/{file_id}/{quote(_UNPRINTABLE.sub('_', filename), safe='')}"

    def knows(self, source: Source) -> bool:
        """Whether `source` is a descriptor of a file that the platform still has.

        Descriptors with other servers' addresses also count: the platform's answer to such descriptors has
        never been observed.
        """
        if not isinstance(source, Descriptor):
            return False
        head, ours, rest = str(source.fields["path"]).partition(f"{self.base_url}/files/")
        return bool(head) or not ours or rest.partition("/")[0] in self.known

    def describes(self, descriptor: Descriptor) -> bool:
        """Whether `descriptor` equals the descriptor that the platform returned for the same file."""
        _, ours, rest = str(descriptor.fields["path"]).partition(f"{self.base_url}/files/")
        known = self.known.get(rest.partition("/")[0]) if ours else None
        return known is not None and known.fields == descriptor.fields

    def forget(self) -> None:
        """Delete all descriptors, as after a retention period. Later messages with them are refused."""
        self.known.clear()
