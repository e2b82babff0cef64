"""Values to bytes: operations to requests, events to the bodies that the platform posts, results to answers."""

from __future__ import annotations

from typing import TypeAlias, final

import attrs

from .content import Blob, LocalFile


@final
@attrs.frozen
class FilePart:
    """The file of an upload: `name` is the part's field name, which is the file's kind."""

    name: str
    source: LocalFile | Blob


@final
@attrs.frozen
class Request:
    """An operation, ready to be sent: a form body, or a multipart body when there is a file."""

    path: str
    fields: tuple[tuple[str, str], ...] = attrs.field(repr=False)
    file: FilePart | None = None


@final
@attrs.frozen
class Body:
    """Bytes with their content type."""

    content_type: str
    data: bytes = attrs.field(repr=False)


Fields: TypeAlias = tuple[tuple[str, str], ...]
