"""Descriptors of uploaded files (interface section 2.8); the bytes are kept elsewhere, under the same id."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, final
from urllib.parse import quote

from ..wire.content import Descriptor, MediaKind, Source
from ..wire.rules import JsonValue

# A name with a line end in it would make an address that no route leads to.
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
SIZES: Final = (64, 128, 256, 512)


@final
class UploadedFiles:
    """Which files the platform has.

    Attributes:
        base_url: what descriptors' addresses begin with.
    """

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self._known: dict[str, Descriptor] = {}

    def add(
        self,
        file_id: str,
        kind: MediaKind,
        filename: str,
        filesize: int,
        *,
        size: tuple[int, int] | None = None,
        previews: Mapping[int, str] | None = None,
        duration: float = 0,
    ) -> Descriptor:
        """Describe a file that has come.

        Args:
            size: width and height in pixels, where they could be read.
            previews: the ids of the resized images by their size; without them, the original stands in.
            duration: seconds, for what plays.
        """
        path = self.url(file_id, filename)
        fields: dict[str, JsonValue] = {
            "type": kind,
            "path": path,
            "filesize": filesize,
            "filename": filename,
        }
        if kind in ("image", "video"):
            made = previews or {}
            fields["screenshots"] = {
                str(edge): self.url(made[edge], filename) if edge in made else path for edge in SIZES
            }
            fields["width"], fields["height"] = size or (0, 0)
        if kind in ("video", "audio", "voice"):
            fields["duration"] = duration
        if kind == "audio":
            tags: dict[str, JsonValue] = dict.fromkeys(("genre", "album", "artist", "title", "cover"), "")
            fields["tags"] = {**tags, "filename": filename}
        descriptor = Descriptor.from_object(fields)
        self._known[file_id] = descriptor
        return descriptor

    def url(self, file_id: str, filename: str) -> str:
        """Return the address at which a file is served."""
        return f"{self.base_url}/files/{file_id}/{quote(_UNPRINTABLE.sub('_', filename), safe='')}"

    def knows(self, source: Source) -> bool:
        """Return whether a media value can be shown: a descriptor of ours that is forgotten can't.

        Descriptors that point elsewhere pass: what the platform says to them was never seen.
        """
        if not isinstance(source, Descriptor):
            return False
        head, ours, rest = str(source.fields["path"]).partition(f"{self.base_url}/files/")
        return bool(head) or not ours or rest.partition("/")[0] in self._known

    def known(self) -> Iterator[tuple[str, str]]:
        """Yield every file's id, with its descriptor as JSON."""
        return ((file_id, descriptor.json) for file_id, descriptor in self._known.items())

    def restore(self, file_id: str, descriptor: Descriptor) -> None:
        """Put back a file of another run."""
        self._known[file_id] = descriptor

    def forget(self) -> None:
        """Lose every file, as after a retention period: sending one again is refused."""
        self._known.clear()
