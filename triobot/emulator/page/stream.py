"""The page's view of all that happens: server-sent events, behind the control token.

A page reads them with `fetch`, not with `EventSource`: that one can't send a header, and a token in an
address would end up in logs and histories.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import trio
from quart import Blueprint, Response

from ...wire.rules import compact_json
from ..exchange import Exchange
from .follower import Follower

# A chatty bot makes hundreds of changes a second; a screen shows sixty pictures.
_TOGETHER: Final = 0.02
# Refunds fall due by themselves; and a page that hears nothing for longer believes that the line is cut.
_BEAT: Final = 1.0


def stream_blueprint(exchange: Exchange) -> Blueprint:
    """The route of the stream."""
    blueprint = Blueprint("stream", __name__, url_prefix="/control")

    async def stream() -> Response:
        await trio.lowlevel.checkpoint()
        response = Response(events(exchange), 200, content_type="text/event-stream")
        response.headers["Cache-Control"] = "no-store"
        response.timeout = None
        return response

    blueprint.add_url_rule("/stream", view_func=stream, methods=["GET"])
    return blueprint


async def events(exchange: Exchange) -> AsyncIterator[bytes]:
    """What one page is told, for as long as it listens; what it reads too slowly comes together."""
    follower = Follower(exchange)
    yield _event(compact_json(follower.everything()))
    heard = 0
    while True:
        with trio.move_on_after(_BEAT):
            heard = await exchange.wait_news(heard)
        await trio.sleep(_TOGETHER)
        news = follower.news()
        yield b":\n\n" if news is None else _event(compact_json(news))


def _event(data: str) -> bytes:
    # JSON has no line ends outside its escapes, so one line holds it.
    return b"data: " + data.encode("utf-8", "replace") + b"\n\n"
