"""Content to its ``type`` and ``data`` and back (interface sections 2.6 to 2.8 and 4.3).

The same text travels in both directions: what a user sent may be sent on unchanged. The caption of media
is the key ``desc`` of its descriptor; in our values the two are apart.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeGuard, assert_never

from ..errors import LocalProtocolError, RemoteProtocolError
from .content import (
    MEDIA,
    Audio,
    Contact,
    Content,
    Descriptor,
    File,
    Image,
    Location,
    MediaKind,
    Video,
    Voice,
)
from .json_text import read_object
from .rules import JsonValue, check_text, compact_json, their_fault

ContentType: TypeAlias = MediaKind | Literal["text", "contact", "location"]


def is_content_type(type: str) -> TypeGuard[ContentType]:
    """Return whether a ``type`` is that of some content."""
    return type in MEDIA or type in ("text", "contact", "location")


def encode_content(content: Content) -> tuple[str, str]:
    """Return the ``type`` and ``data`` of some content.

    Raises:
        LocalProtocolError: media that has not been uploaded, or text that UTF-8 can't carry.
    """
    match content:
        case str():
            return "text", check_text("data", content, empty=True)
        case Contact():
            return "contact", compact_json({"phone": content.phone, "name": content.name})
        case Location():
            return "location", compact_json({"lat": content.lat, "long": content.long, "desc": content.desc})
        case Image() | Video() | Audio() | Voice() | File():
            descriptor = content.descriptor
            if not content.caption:
                return content.kind, descriptor.json
            return content.kind, compact_json({**descriptor.fields, "desc": content.caption})
        case _:
            assert_never(content)


def decode_content(type: str, data: str) -> Content:
    """Return the content that a ``type`` and its ``data`` stand for; ``data`` of ``text`` is never decoded.

    Raises:
        RemoteProtocolError: the type is no content's, or the data is not what the type asks for.
    """
    if not is_content_type(type):
        raise RemoteProtocolError("type", "must be a type of content")
    if type == "text":
        if data.isascii():
            return data
        with their_fault("data"):
            return check_text("data", data, empty=True)
    try:
        fields = read_object(data)
    except ValueError:
        raise RemoteProtocolError("data", "must be a JSON object") from None
    with their_fault("data"):
        if type == "contact":
            return Contact(_text(fields, "phone"), _text(fields, "name"))
        desc = _text(fields, "desc")
        if type == "location":
            return Location(_degrees(fields, "lat"), _degrees(fields, "long"), desc)
        return MEDIA[type](Descriptor.from_object(fields), desc)


def _text(fields: dict[str, JsonValue], key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise LocalProtocolError(key, "must be text")
    return value


def _degrees(fields: dict[str, JsonValue], key: str) -> str | int | float:
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise LocalProtocolError(key, "must be decimal degrees")
    return value
