"""Parses a request's path and fields as an operation, as the platform does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, cast

import attrs
from typing_extensions import TypeVar

from ..errors import LocalProtocolError, RemoteProtocolError
from ..wire.content import Image, decode_content
from ..wire.markup import Currency, InlineKeyboard, ReplyKeyboard
from ..wire.operations import (
    OPERATIONS,
    CreateInvoice,
    EditMessage,
    Operation,
    SendAction,
    SendMessage,
    Upload,
)
from ..wire.platform_side import decode_form_fields, decode_inline_keyboard, decode_reply_keyboard
from ..wire.rules import is_digits, their_fault
from ..wire.traits import names_of
from ..wire.undocumented import UNDOCUMENTED, GetLeaderBoard, PutGameData

V = TypeVar("V")

# Field names of an invoice's expiry (a number of seconds). Older clients use ``expire_date``.
_EXPIRY: Final = ("expire_time", "expire_date")
_Reader: TypeAlias = "Callable[[_RequestFields, str], Operation[object]]"


def decode_operation(
    path: str, fields: Sequence[tuple[str, str]], *, edited_type: str = "text"
) -> Operation[object]:
    """Parse a request as the platform does. Unknown fields are ignored; known fields must not be repeated.

    Args:
        path: path after the base URL, with or without slashes around it.
        fields: the form's pairs.
        edited_type: for an edit, the edited message's type; the request doesn't contain this type (gap 20).

    Raises:
        RemoteProtocolError: the request is invalid; `field` is the interface's name of the parameter, or
            ``path``.

    Platform: interface section 4. Uploads have multipart bodies: see `decode_keyboards`.
    """
    read = _READERS.get(path.strip("/"))
    if read is None:
        raise RemoteProtocolError("path", "must be an operation with a form body")
    with their_fault():
        return read(_RequestFields(fields), edited_type)


def decode_keyboards(fields: Sequence[tuple[str, str]]) -> tuple[ReplyKeyboard | None, InlineKeyboard | None]:
    """Parse the keyboards of an upload.

    Args:
        fields: the fields of the multipart form, without the files.

    Raises: as `decode_operation`.

    Platform: interface section 4.4.
    """
    with their_fault():
        return _keyboards(_RequestFields(fields))


class _RequestFields:
    """The fields of one request."""

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        self._values: dict[str, str] = {}
        self._repeated: set[str] = set()
        for name, value in fields:
            if name in self._values:
                self._repeated.add(name)
            self._values[name] = value

    def optional(self, name: str) -> str | None:
        if name in self._repeated:
            raise RemoteProtocolError(name, "must be given once")
        return self._values.get(name)

    def text(self, name: str) -> str:
        value = self.optional(name)
        if value is None:
            raise RemoteProtocolError(name, "must be given")
        return value

    def integer(self, name: str) -> int:
        value = self.text(name)
        if not is_digits(value):
            raise RemoteProtocolError(name, "must be an integer")
        return int(value)

    def boolean(self, name: str) -> bool:
        """Return a boolean field. A missing field is False: a client in use omits boolean fields."""
        value = self.optional(name)
        if value not in (None, "true", "false"):
            raise RemoteProtocolError(name, "must be true or false")
        return value == "true"

    def decoded(self, name: str, decode: Callable[[str], V]) -> V | None:
        value = self.optional(name)
        return None if value is None else decode(value)


def _send_message(form: _RequestFields, edited_type: str) -> Operation[object]:
    return SendMessage(
        form.text("chat_id"),
        # Capitalised types are accepted, because a client's tests against the real platform send such types.
        decode_content(form.text("type").lower(), form.text("data")),
        *_keyboards(form),
        form.decoded("form", decode_form_fields),
    )


def _keyboards(form: _RequestFields) -> tuple[ReplyKeyboard | None, InlineKeyboard | None]:
    return (
        form.decoded("reply_keyboard", decode_reply_keyboard),
        form.decoded("inline_keyboard", decode_inline_keyboard),
    )


def _edit_message(form: _RequestFields, edited_type: str) -> Operation[object]:
    return EditMessage(
        form.text("chat_id"),
        form.text("message_id"),
        form.decoded("data", partial(decode_content, edited_type)),
        form.decoded("inline_keyboard", decode_inline_keyboard),
    )


def _send_action(form: _RequestFields, edited_type: str) -> Operation[object]:
    if form.text("type").lower() != "typing":
        raise RemoteProtocolError("type", "must be typing")
    return SendAction(form.text("chat_id"))


def _create_invoice(form: _RequestFields, edited_type: str) -> Operation[object]:
    return CreateInvoice(
        form.text("chat_id"),
        form.integer("amount"),
        _description(form),
        cast("Currency | None", form.optional("currency")),
        next((form.integer(name) for name in _EXPIRY if form.optional(name) is not None), None),
    )


def _description(form: _RequestFields) -> str:
    """Return an invoice's description, or the caption if the invoice has a picture and no description."""
    if form.optional("description") is None and form.optional("type") == "image":
        content = form.decoded("image", partial(decode_content, "image"))
        if isinstance(content, Image):
            return content.caption
    return form.text("description")


def _of_texts(kind: Callable[..., Operation[object]]) -> _Reader:
    """Return a reader for an operation with only text and boolean fields."""
    names = {field: name for field, (name,) in names_of(cast("Any", kind))}
    flags = {names[field.name] for field in attrs.fields(cast("Any", kind)) if field.type in ("bool", bool)}

    def read(form: _RequestFields, edited_type: str) -> Operation[object]:
        values = [form.boolean(name) if name in flags else form.text(name) for name in names.values()]
        try:
            return kind(*values)
        except LocalProtocolError as error:
            raise RemoteProtocolError(names.get(error.field, error.field), error.rule) from None

    return read


def _put_game_data(form: _RequestFields, edited_type: str) -> Operation[object]:
    # The PHP client sends ``force`` as a digit.
    digit = {"1": True, "0": False}.get(form.optional("force") or "")
    force = form.boolean("force") if digit is None else digit
    return PutGameData(form.text("chat_id"), form.text("type"), form.text("data"), force)


def _get_leader_board(form: _RequestFields, edited_type: str) -> Operation[object]:
    # Some public clients call this field ``type``, others ``time`` (gap 14).
    either = form.optional("type") if form.optional("time") is None else form.optional("time")
    period: Any = either or form.text("time")
    return GetLeaderBoard(form.text("chat_id"), period)


_NOT_ONLY_TEXTS: Final[Mapping[str, _Reader]] = {
    SendMessage.path: _send_message,
    EditMessage.path: _edit_message,
    SendAction.path: _send_action,
    CreateInvoice.path: _create_invoice,
    PutGameData.path: _put_game_data,
    GetLeaderBoard.path: _get_leader_board,
}
_READERS: Final[Mapping[str, _Reader]] = {
    kind.path: _NOT_ONLY_TEXTS.get(kind.path) or _of_texts(kind)
    for kind in (*OPERATIONS, *UNDOCUMENTED)
    if kind is not Upload
}
