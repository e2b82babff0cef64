"""The platform's HTTP interface: the operations of interface section 4, and the uploaded files.

A request is checked in this order: the token, the size, the path, the fields. The body of an error is
``{"error": text, "trace_id": reference}``.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import BinaryIO, Final, cast, final
from urllib.parse import parse_qsl

import trio
from quart import Blueprint, Response, request
from werkzeug.exceptions import RequestEntityTooLarge

from ..errors import ProtocolError, RemoteProtocolError
from ..wire.content import MEDIA, MediaKind
from ..wire.ids import as_message_id, as_recipient
from ..wire.operations import EditMessage
from ..wire.platform_side import encode_error, encode_result
from .blobs import FileTooLargeError
from .door import AsgiApp, Message, Receive, Send, send_json
from .exchange import CALL, Exchange
from .performing import Refusal, invalid, kind_of
from .requests import decode_keyboards, decode_operation
from .strictness import liberties
from .traffic import RecordedCall

# A form with keyboards and text is far smaller than this limit. Uploads have another limit.
LONGEST_FORM: Final = 1024 * 1024
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"

# The real platform answered 500 to an upload that is too big or of the wrong kind.
_TOO_LARGE: Final = Refusal(500, "the file is too large")
_STRANGER: Final = Refusal(403, "token is not valid")

Fields = list[tuple[str, str]]
Answer = tuple[int, bytes]
"""HTTP status and JSON body."""


def operations_app(exchange: Exchange, token: str) -> AsgiApp:
    """Return an ASGI application for all operations except uploads; a request needs the bot's `token`.

    This application has no router, because a router would slow down tests: a test sends several operations in
    each turn. `platform_blueprint` has the other HTTP routes.
    """
    expected = token.encode()

    async def perform(scope: Message, receive: Receive, send: Send) -> None:
        asked = _Serving(exchange, str(scope["path"]), scope.get(CALL))
        headers = dict(cast("list[tuple[bytes, bytes]]", scope["headers"]))
        if not hmac.compare_digest(headers.get(b"token", b""), expected):
            answer = asked.refuse(_STRANGER)
        else:
            try:
                kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
                fields = await _fields(exchange, kind, receive)
            except RemoteProtocolError as error:
                answer = asked.refuse(invalid(error.field))
            else:
                answer = _perform(asked, fields, as_json=kind == _JSON)
        await send_json(send, *answer)

    return perform


def platform_blueprint(exchange: Exchange, token: str) -> Blueprint:
    """Return the HTTP routes that `operations_app` lacks: uploads (with `token`), files, and top-up pages."""
    blueprint = Blueprint("platform", __name__)
    expected = token.encode()

    async def upload(operation: str) -> Response:
        scope = cast("Mapping[str, object]", request.scope or {})
        asked = _Serving(exchange, operation, cast("RecordedCall | None", scope.get(CALL)))
        if hmac.compare_digest(request.headers.get("token", "").encode(), expected):
            status, body = await _upload(asked)
        else:
            status, body = asked.refuse(_STRANGER)
        return Response(body, status, content_type=_JSON)

    async def file(file_id: str, name: str) -> Response:
        return _file(exchange, file_id)

    async def charge(user_id: int) -> Response:
        await trio.lowlevel.checkpoint()
        return Response("Top up this wallet in the emulator.\n", 200, content_type="text/plain")

    blueprint.add_url_rule("/charge/<int:user_id>", view_func=charge, methods=["GET"])
    blueprint.add_url_rule("/<path:operation>", view_func=upload, methods=["POST"])
    blueprint.add_url_rule("/files/<file_id>/<path:name>", view_func=file, methods=["GET"])
    return blueprint


@final
class _Serving:
    """A request in progress."""

    def __init__(self, exchange: Exchange, path: str, call: RecordedCall | None) -> None:
        self.exchange = exchange
        self.path = path
        self._call = call

    def look(self, fields: Fields, *, as_json: bool = False) -> Refusal | None:
        """Record the request's liberties. If the platform is strict, return a refusal of the first one."""
        world = self.exchange.world
        found = liberties(self.path, fields, world.uploads, as_json=as_json)
        self.exchange.note_liberties(self.path.strip("/"), found, self._call)
        if not (found and world.switches.strict):
            return None
        return Refusal(400, f"{found[0].field} is not valid: {found[0].rule}")

    def refuse(self, refusal: Refusal) -> Answer:
        return refusal.status, encode_error(refusal.reason, self.exchange.world.letters())


def _perform(asked: _Serving, fields: Fields, *, as_json: bool) -> Answer:
    exchange, path = asked.exchange, asked.path.strip("/")
    try:
        operation = decode_operation(path, fields, edited_type=_edited(exchange, path, fields))
    except RemoteProtocolError as error:
        return asked.refuse(Refusal(404, "not found") if error.field == "path" else invalid(error.field))
    if (refusal := asked.look(fields, as_json=as_json)) is not None:
        return asked.refuse(refusal)
    answer = exchange.perform(operation)
    if isinstance(answer, Refusal):
        return asked.refuse(answer)
    return 200, encode_result(operation, answer)


def _edited(exchange: Exchange, path: str, fields: Fields) -> str:
    if path != EditMessage.path:
        return "text"
    given = dict(fields)
    try:
        recipient = as_recipient(given.get("chat_id", ""))
        return kind_of(exchange.world, recipient, as_message_id(given.get("message_id", "")))
    except ProtocolError:
        return "text"


async def _fields(exchange: Exchange, kind: str, receive: Receive) -> Fields:
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += cast("bytes", message.get("body", b""))
        more = bool(message.get("more_body", False))
        if len(body) > LONGEST_FORM:
            raise RemoteProtocolError("body", f"must be at most {LONGEST_FORM} bytes")
    try:
        if kind == _JSON and exchange.world.switches.json_operations:
            return _from_json(body.decode())
        if kind == _FORM:
            return parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=100)
    except (ValueError, RecursionError):
        raise RemoteProtocolError("body", "must be readable") from None
    raise RemoteProtocolError("body", "must be a form")


def _from_json(text: str) -> Fields:
    value: object = json.loads(text)
    if not isinstance(value, dict):
        raise RemoteProtocolError("body", "must be a JSON object")
    fields = cast("dict[str, object]", value)
    return [(name, _as_text(given)) for name, given in fields.items() if given is not None]


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


async def _upload(asked: _Serving) -> Answer:
    try:
        files = await request.files
        form = await request.form  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    except RequestEntityTooLarge:
        return asked.refuse(_TOO_LARGE)
    given = [(name, part) for name, part in files.items(multi=True) if name in MEDIA]
    if len(given) != 1:
        return asked.refuse(invalid("file"))
    name, part = given[0]
    texts = cast("Fields", list(form.items(multi=True)))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    texts += [(other, "") for other in files if other != name]
    try:
        # An upload names no chat (gap 38). So an upload's keyboards are checked, but shown nowhere.
        decode_keyboards(texts)
        if (refusal := asked.look([(name, part.filename or ""), *texts])) is not None:
            return asked.refuse(refusal)
        descriptor = await asked.exchange.upload(
            cast("MediaKind", name), part.filename or name, cast("BinaryIO", part.stream)
        )
    except FileTooLargeError:
        return asked.refuse(_TOO_LARGE)
    except RemoteProtocolError as error:
        return asked.refuse(invalid(error.field))
    finally:
        part.close()
    return 200, descriptor.json.encode()


def _file(exchange: Exchange, file_id: str) -> Response:
    stored = exchange.blobs.get(file_id)
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    if stored is None:
        return Response(encode_error("not found"), 404, headers, content_type=_JSON)
    if stored.raster is None:
        headers["Content-Disposition"] = "attachment"
    kind = stored.raster or stored.played or "application/octet-stream"
    headers["Accept-Ranges"] = "bytes"
    span = None if request.range is None else request.range.range_for_length(stored.size)
    first, end = span or (0, stored.size)
    headers["Content-Length"] = str(end - first)
    if span is not None:
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{stored.size}"
    body = exchange.blobs.read(stored, first, end)
    return Response(body, 200 if span is None else 206, headers, content_type=kind)
