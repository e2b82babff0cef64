"""A message's content: the same classes for sent and received messages.

`Content` is text or one of the classes here. A media value's source is a `Descriptor` if the file was
received or uploaded before. Otherwise the source is a local file or bytes in memory, and the outbox uploads
the source before it sends the message. Descriptors are stored with all keys and sent back unchanged
(interface section 2.8).

On the wire, content is a ``type`` and a ``data`` text, in the same format in both directions (interface
sections 2.6 to 2.8 and 4.3). So received content can be sent to another chat unchanged. On the wire, a media
caption is the descriptor's key ``desc``; in these classes, the caption is a separate field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, TypeGuard, assert_never, cast, final

import attrs

from ..base.frozen import guarded
from ..errors import LocalProtocolError, RemoteProtocolError
from .json_text import read_object
from .rules import JsonValue, check_text, compact_json, is_a, is_text, their_fault

MediaKind: TypeAlias = Literal["image", "video", "audio", "voice", "file"]

_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,4}(\.[0-9]{1,32})?", re.ASCII)
_PHONE: Final = re.compile(r"\+?[0-9]{3,20}", re.ASCII)


def _is_descriptor(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    try:
        path = read_object(check_text("descriptor", value)).get("path")
    except ValueError:
        raise LocalProtocolError("descriptor", "must be a JSON object") from None
    if not isinstance(path, str) or not path:
        raise LocalProtocolError("descriptor", "must be a JSON object with the key 'path'")


@final
@guarded
class Descriptor:
    """The platform's JSON object for an uploaded file, without the key ``desc``.

    A descriptor may be stored and sent again without another upload. Unknown keys of the object are kept.
    Descriptors must be made with `from_object`, so that equal objects give equal descriptors.
    """

    json: str = attrs.field(validator=_is_descriptor, repr=False)

    @classmethod
    def from_object(cls, fields: Mapping[str, JsonValue]) -> Self:
        """Build a descriptor from a decoded object. The key ``desc``, the caption, is left out."""
        try:
            return cls(compact_json({key: value for key, value in fields.items() if key != "desc"}))
        except (TypeError, ValueError, RecursionError):
            raise LocalProtocolError("descriptor", "must be a JSON object") from None

    @property
    def fields(self) -> Mapping[str, JsonValue]:
        """The descriptor's keys and values; each access returns a new copy."""
        fields: dict[str, JsonValue] = json.loads(self.json)
        return fields


def _as_path(value: str | Path) -> Path:
    try:
        return Path(value)
    except TypeError:
        raise LocalProtocolError("path", "must be a path") from None


@final
@guarded
class LocalFile:
    """A file on this computer to be uploaded. Its bytes are read during the upload."""

    path: Path = attrs.field(converter=_as_path, repr=False)
    filename: str = attrs.field(validator=is_text())


@final
@guarded
class Blob:
    """Bytes in memory to be uploaded."""

    data: bytes = attrs.field(validator=is_a(bytes), repr=False)
    filename: str = attrs.field(validator=is_text())


Source: TypeAlias = Descriptor | LocalFile | Blob


def _is_source(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, Descriptor | LocalFile | Blob):
        raise LocalProtocolError("source", "must be a Descriptor, a LocalFile or a Blob; see open()")


@guarded
class Media:
    """A file of one kind with an optional caption; use one of the five subclasses.

    Attributes:
        source: a `Descriptor` if the platform has the bytes; else the local file or the bytes to upload.
        caption: text shown under the file; empty for none.
    """

    kind: ClassVar[MediaKind]

    source: Source = attrs.field(validator=_is_source)
    caption: str = attrs.field(default="", validator=is_text(empty=True), repr=False)

    @classmethod
    def open(cls, path: str | Path, caption: str = "", *, filename: str | None = None) -> Self:
        """Return a media value for a file on disk. The file is opened only for the upload, and read in
        pieces.
        """
        place = Path(path)
        return cls(LocalFile(place, filename or place.name), caption)

    @classmethod
    def from_bytes(cls, data: bytes, filename: str, caption: str = "") -> Self:
        """Return a media value for bytes in memory; `filename` is the name that the receiver sees."""
        return cls(Blob(data, filename), caption)

    @property
    def descriptor(self) -> Descriptor:
        """The platform's descriptor.

        Raises:
            LocalProtocolError: the file has not been uploaded yet.
        """
        if not isinstance(self.source, Descriptor):
            raise LocalProtocolError("source", "has not been uploaded yet")
        return self.source

    @property
    def url(self) -> str:
        """Address from which the platform serves the bytes."""
        return str(self.descriptor.fields["path"])

    @property
    def filename(self) -> str:
        """File name from the sender's device: for display only, never a path to write to."""
        if isinstance(self.source, Descriptor):
            return str(self.source.fields.get("filename") or "")
        return self.source.filename

    @property
    def filesize(self) -> int | None:
        """Size in bytes according to the platform, or None."""
        return _integer(self.descriptor.fields.get("filesize"))

    @property
    def duration(self) -> float | None:
        """Length in seconds of a video, audio or voice, or None."""
        value = self.descriptor.fields.get("duration")
        return float(value) if isinstance(value, int | float) else None

    @property
    def width(self) -> int | None:
        """Width in pixels of an image or video, or None."""
        return _integer(self.descriptor.fields.get("width"))

    @property
    def height(self) -> int | None:
        """Height in pixels of an image or video, or None."""
        return _integer(self.descriptor.fields.get("height"))

    @property
    def screenshots(self) -> Mapping[str, str]:
        """Addresses of the resized images by size: ``"64"``, ``"128"``, ``"256"``, ``"512"``."""
        value = self.descriptor.fields.get("screenshots")
        if not isinstance(value, dict):
            return {}
        return {size: address for size, address in value.items() if isinstance(address, str)}


def _integer(value: JsonValue | None) -> int | None:
    return value if type(value) is int else None


@final
@guarded
class Image(Media):
    """A picture; the platform adds four resized images (`screenshots`)."""

    kind: ClassVar[MediaKind] = "image"


@final
@guarded
class Video(Media):
    """A video with preview images."""

    kind: ClassVar[MediaKind] = "video"


@final
@guarded
class Audio(Media):
    """A piece of music; its tags are in ``descriptor.fields["tags"]``."""

    kind: ClassVar[MediaKind] = "audio"


@final
@guarded
class Voice(Media):
    """A recorded voice message."""

    kind: ClassVar[MediaKind] = "voice"


@final
@guarded
class File(Media):
    """A file that is no image, video, audio or voice."""

    kind: ClassVar[MediaKind] = "file"


MEDIA: Final[Mapping[MediaKind, type[Image | Video | Audio | Voice | File]]] = {
    "image": Image,
    "video": Video,
    "audio": Audio,
    "voice": Voice,
    "file": File,
}


def _is_phone(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not _PHONE.fullmatch(check_text("phone", value)):
        raise LocalProtocolError("phone", "must be an international number with a leading plus sign")


@final
@guarded
class Contact:
    """A shared phone number (interface section 2.6)."""

    phone: str = attrs.field(validator=_is_phone, repr=False)
    name: str = attrs.field(default="", validator=is_text(empty=True), repr=False)


def _degrees(value: float | int | str) -> str:
    if isinstance(value, float):
        return f"{value:.12f}".rstrip("0").rstrip(".")
    # Only floats and small integers are converted. The validator refuses every other value that is not text.
    # Large integers aren't converted, because Python raises an error for the text of a very large integer.
    return str(value) if isinstance(value, int) and abs(value) < 1_000 else cast("str", value)


def _is_latitude(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    _check_degrees("lat", value, 90)


def _is_longitude(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    _check_degrees("long", value, 180)


@final
@guarded
class Location:
    """A geographic position (interface section 2.7).

    Attributes:
        lat, long: degrees as decimal text, exactly as on the wire; numbers are converted.
        desc: description; may be empty.
    """

    lat: str = attrs.field(converter=_degrees, validator=_is_latitude, repr=False)
    long: str = attrs.field(converter=_degrees, validator=_is_longitude, repr=False)
    desc: str = attrs.field(default="", validator=is_text(empty=True), repr=False)

    @property
    def latitude(self) -> float:
        """Degrees north."""
        return float(self.lat)

    @property
    def longitude(self) -> float:
        """Degrees east."""
        return float(self.long)


def _check_degrees(field: str, value: object, most: int) -> None:
    degrees = check_text(field, value)
    if not _DECIMAL.fullmatch(degrees) or abs(float(degrees)) > most:
        raise LocalProtocolError(field, f"must be decimal degrees from -{most} to {most}")


Content: TypeAlias = str | Image | Video | Audio | Voice | File | Contact | Location
CONTENT_CLASSES: Final = (str, Image, Video, Audio, Voice, File, Contact, Location)


ContentType: TypeAlias = MediaKind | Literal["text", "contact", "location"]


def is_content_type(type: str) -> TypeGuard[ContentType]:
    """Return whether an event's ``type`` is a type of content."""
    return type in MEDIA or type in ("text", "contact", "location")


def encode_content(content: Content) -> tuple[str, str]:
    """Return the ``type`` and ``data`` of a content.

    Raises:
        LocalProtocolError: the media has not been uploaded, or UTF-8 can't encode the text.
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
    """Decode a content from ``type`` and ``data``. For ``text``, ``data`` is the text itself.

    Raises:
        RemoteProtocolError: `type` is no type of content, or `data` is invalid for the type.
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
    return content_of(type, fields)


def content_of(type: ContentType, fields: dict[str, JsonValue]) -> Content:
    """Build the content of any type but ``text`` from its decoded ``data``.

    Raises:
        RemoteProtocolError: `fields` are invalid for the type.
    """
    with their_fault("data"):
        if type == "contact":
            return Contact(_text(fields, "phone"), _text(fields, "name"))
        desc = _text(fields, "desc")
        if type == "location":
            return Location(_read_degrees(fields, "lat"), _read_degrees(fields, "long"), desc)
        return MEDIA[cast("MediaKind", type)](Descriptor.from_object(fields), desc)


def _text(fields: dict[str, JsonValue], key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise LocalProtocolError(key, "must be text")
    return value


def _read_degrees(fields: dict[str, JsonValue], key: str) -> str | int | float:
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise LocalProtocolError(key, "must be decimal degrees")
    return value
