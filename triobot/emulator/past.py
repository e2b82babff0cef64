"""The routes of what conversations were: under ``/control/travel/``, and so behind the same door.

====================================  ===================================================================
``GET  CHAT``                         the chat's conversations: those that live, are parked, crashed, ended
``POST CHAT/CONVERSATION/open``       run its journal again; 202 with the pass's ``id``; the stream's
                                      ``travel`` tells how far that is
``GET  pass/ID``                      its head; while it runs, how far it is
``GET  pass/ID/notches``              ``?from=&to=``: at most 256 of them, and 1 MB; the first is whole
``GET  pass/ID/source/NUMBER``        a source as this pass ran it, as text
``GET  pass/ID/value``                ``?notch=&branch=&frame=&name=``: one variable, up to 64 kB of it
``DELETE pass/ID``                    forget it
====================================  ===================================================================

`docs/travel.md` says what is in them. Errors are ``{"error": words}``: 400 for what can't be read, 404 where
nothing can be told, 410 for a pass that is gone.
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from typing import Final

import trio
from quart import Blueprint, Response, request

from ..errors import TriobotError
from ..wire.encode import encode_error
from ..wire.rules import JsonValue, compact_json
from .control import BadAskError, as_number
from .exchange import Exchange, TravelError, Travels

_JSON: Final = "application/json"
_NEWEST: Final = 256


def past_blueprint(exchange: Exchange) -> Blueprint:
    """Return the routes."""
    blueprint = Blueprint("travel", __name__, url_prefix="/control/travel")

    def there() -> Travels:
        if exchange.travels is None:
            raise TravelError("nothing is known of conversations here: only `triobot dev` runs the bot")
        return exchange.travels

    async def conversations(chat: str) -> Response:
        return await _told(lambda: there().conversations(as_number("chat", chat)))

    async def begin(chat: str, conversation: str) -> Response:
        async def opened() -> JsonValue:
            return await there().open(as_number("chat", chat), as_number("conversation", conversation))

        return await _told(opened, 202)

    async def passed(id: str) -> Response:
        async def head() -> JsonValue:
            await trio.lowlevel.checkpoint()
            return there().passed(id)

        return await _told(head)

    async def notches(id: str) -> Response:
        async def some() -> bytes:
            start = as_number("from", request.args.get("from", "0"))
            return await there().notches(id, start, as_number("to", request.args.get("to", start + _NEWEST)))

        return await _told(some)

    async def source(id: str, number: int) -> Response:
        return await _told(lambda: there().source(id, number), kind="text/plain; charset=utf-8")

    async def value(id: str) -> Response:
        async def one() -> JsonValue:
            asked = request.args
            notch, frame = (as_number(name, asked.get(name, "0")) for name in ("notch", "frame"))
            return await there().value(id, notch, asked.get("branch", ""), frame, asked.get("name", ""))

        return await _told(one)

    async def close(id: str) -> Response:
        return await _told(lambda: there().close(id))

    for rule, method, view in (
        ("/<chat>", "GET", conversations),
        ("/<chat>/<conversation>/open", "POST", begin),
        ("/pass/<id>", "GET", passed),
        ("/pass/<id>", "DELETE", close),
        ("/pass/<id>/notches", "GET", notches),
        ("/pass/<id>/source/<int:number>", "GET", source),
        ("/pass/<id>/value", "GET", value),
    ):
        blueprint.add_url_rule(rule, f"{method} {rule}", view, methods=[method])
    return blueprint


async def _told(
    ask: Callable[[], Awaitable[JsonValue | bytes]], status: int = 200, *, kind: str = _JSON
) -> Response:
    try:
        value = await ask()
    except BadAskError as error:
        return _refused(400, str(error))
    except TravelError as error:
        return _refused(410 if error.gone else 404, str(error))
    except (TriobotError, OSError) as error:
        return _refused(503, str(error))
    if not isinstance(value, bytes):
        return _packed(gzip.compress(compact_json(value).encode("utf-8", "replace"), 5), status, kind)
    return _packed(value, status, kind)


def _packed(body: bytes, status: int, kind: str) -> Response:
    takes = "gzip" in request.headers.get("Accept-Encoding", "")
    response = Response(body if takes else gzip.decompress(body), status, content_type=kind)
    if takes:
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Cache-Control"] = "no-store"
    return response


def _refused(status: int, reason: str) -> Response:
    return Response(encode_error(reason), status, content_type=_JSON)
