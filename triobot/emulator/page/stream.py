"""The page's view of all that happens, behind the control token: over a WebSocket, or as server-sent events.

A page uses the WebSocket. A browser has six connections to one host for all of its tabs together, and an
answer that never ends holds one: from the seventh tab on nothing would be shown, and none could
act. WebSockets are counted by themselves, in hundreds. The events are for programs, and for ``curl -N``.

The browser's own `EventSource` is of no use here: it can't send a header, and a token in an address would end
up in logs and histories.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import trio
from quart import Blueprint, Response, websocket

from ...wire.rules import compact_json
from ..door import PROTOCOL
from ..exchange import Exchange
from .follower import Follower

# A chatty bot makes hundreds of changes a second; a screen shows sixty pictures.
_TOGETHER: Final = 0.02
# Refunds fall due by themselves; and a page that hears nothing for longer believes that the line is cut.
_BEAT: Final = 1.0


def stream_blueprint(exchange: Exchange) -> Blueprint:
    """Return the routes of the stream."""
    blueprint = Blueprint("stream", __name__, url_prefix="/control")

    async def stream() -> Response:
        await trio.lowlevel.checkpoint()
        response = Response(events(exchange), 200, content_type="text/event-stream")
        response.headers["Cache-Control"] = "no-store"
        response.timeout = None
        return response

    async def line() -> None:
        await websocket.accept(subprotocol=PROTOCOL)  # pyright: ignore[reportUnknownMemberType]
        async with trio.open_nursery() as nursery:

            async def hear() -> None:
                # A page says nothing here; but only a listener notices that it has gone.
                while True:
                    await websocket.receive()

            nursery.start_soon(hear)
            async with aclosing(told(exchange)) as stream:
                async for news in stream:
                    # A surrogate that stands alone can be said in JSON only; no text frame could carry it.
                    await websocket.send(news.encode("utf-8", "replace").decode())

    blueprint.add_url_rule("/stream", view_func=stream, methods=["GET"])
    blueprint.add_websocket("/stream", "line", line)
    return blueprint


async def told(exchange: Exchange) -> AsyncGenerator[str]:
    """Yield the news of one page, for as long as it listens; what it reads too slowly comes together.

    Nothing (an empty text) is a beat.
    """
    follower = Follower(exchange)
    yield compact_json(follower.everything())
    heard = 0
    while True:
        with trio.move_on_after(_BEAT):
            heard = await exchange.wait_news(heard)
        await trio.sleep(_TOGETHER)
        news = follower.news()
        yield "" if news is None else compact_json(news)


async def events(exchange: Exchange) -> AsyncGenerator[bytes]:
    """Yield the same as server-sent events."""
    async with aclosing(told(exchange)) as stream:
        async for news in stream:
            # JSON has no line ends outside its escapes, so one line holds it.
            yield b"data: " + news.encode("utf-8", "replace") + b"\n\n" if news else b":\n\n"
