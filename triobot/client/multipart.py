"""A multipart body's frame (RFC 7578): what goes before a file's bytes, and what after.

Pure. httpx can build multipart bodies too, but reads the file in the event loop's own thread while it
sends, and would hold up every chat for as long as the disk takes.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable
from typing import Final, final

import attrs

# The table that comes with Python, and nothing of the machine's own: the same file has the same type
# everywhere, and nothing is read from disk.
_TYPES: Final = mimetypes.MimeTypes(filenames=())
for _type, _suffix in (
    ("audio/ogg", ".ogg"),
    ("audio/ogg", ".oga"),
    ("audio/mp4", ".m4a"),
    ("audio/wav", ".wav"),
    ("video/x-matroska", ".mkv"),
    ("video/3gpp", ".3gp"),
):
    _TYPES.add_type(_type, _suffix)

_PACKED: Final = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}

# What browsers do (HTML, "multipart/form-data encoding algorithm") for the quote and the line ends; the
# other control signs are treated alike, since no server needs to see them.
_ESCAPES: Final = {code: f"%{code:02X}" for code in (*range(0x20), 0x22, 0x7F)}


@final
@attrs.frozen
class Frame:
    """The bytes around a file, and the content type that announces them."""

    content_type: str
    head: bytes = attrs.field(repr=False)
    tail: bytes = attrs.field(repr=False)


def frame(*, boundary: str, fields: Iterable[tuple[str, str]], name: str, filename: str) -> Frame:
    """Frame one file after some text fields.

    Args:
        boundary: random, so that it is not in the file; letters and digits.
        fields: names and values of the text fields, in order.
        name: the file's field name.
        filename: what the receiver sees; any text.
    """
    line = f"--{boundary}\r\n"
    texts = "".join(
        f'{line}Content-Disposition: form-data; name="{escape(field)}"\r\n\r\n{value}\r\n'
        for field, value in fields
    )
    head = (
        f"{texts}{line}"
        f'Content-Disposition: form-data; name="{escape(name)}"; filename="{escape(filename)}"\r\n'
        f"Content-Type: {media_type(filename)}\r\n\r\n"
    )
    return Frame(
        f"multipart/form-data; boundary={boundary}", head.encode(), f"\r\n--{boundary}--\r\n".encode()
    )


def escape(text: str) -> str:
    """Escape what may not stand between the quotes of a part's header; other signs stay as they are."""
    return text.translate(_ESCAPES)


def media_type(filename: str) -> str:
    """Return the media type that a file's name suggests; ``application/octet-stream`` if it suggests none."""
    # Only the ending: guess_type reads what it is given as a URL.
    stem, dot, ending = filename.rpartition(".")
    if not (stem and dot):
        return "application/octet-stream"
    guess, packed = _TYPES.guess_type(f"file.{ending}", strict=False)
    if packed is not None:
        return _PACKED.get(packed, "application/octet-stream")
    return guess or "application/octet-stream"
