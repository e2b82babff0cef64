"""The webhook in a quart-trio application: in one of its own, or in an existing one.

The webhook answers in front of Quart rather than as one of its views. A view runs after Quart has begun to
buffer the body by rules of its own (16 MB, 500 kB in forms, 60 s), cannot see whether its answer was
written, and is cancelled when the sender leaves, in the middle of a commit. In front of Quart there is one
limit for every format, and a site's ``before_request`` hooks can't turn the platform away.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope
from quart_trio import QuartTrio

from ..errors import ConfigError
from .answers import Readiness, TrafficCounters, try_later
from .endpoint import Endpoint, hide_path, is_below
from .exchange import AsgiExchange
from .inbox import Inbox
from .limits import Limits
from .secrets import Secrets

_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)+", re.ASCII)


def build_app(
    inbox: Inbox,
    secrets: Secrets,
    *,
    limits: Limits | None = None,
    readiness: Callable[[], Readiness],
    traffic: TrafficCounters | None = None,
) -> QuartTrio:
    """Make an application that is the webhook and nothing else.

    It answers ``POST /<secret>``, ``GET /healthz`` and ``GET /readyz``; whatever else gets the same 404. Its
    lifespan is Quart's own: attach ``before_serving`` and ``after_serving`` to it as to any other.

    Args:
        inbox: takes the events.
        secrets: the accepted ones.
        limits: of a request; the defaults if None.
        readiness: asked for each ``/readyz``; quick, must not raise, and holds no secrets.
        traffic: counts what is refused before the inbox sees it.
    """
    app = QuartTrio("triobot", static_folder=None)
    endpoint = Endpoint(inbox, secrets, limits=limits or Limits(), readiness=readiness, traffic=traffic)
    behind = app.asgi_app

    async def front(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "http" and endpoint.owns(scope):
            await endpoint(scope, receive, send)
        elif scope["type"] == "websocket" and endpoint.owns(scope):
            await endpoint.refuse_websocket(scope, receive, send)
        else:
            await behind(scope, receive, send)

    app.asgi_app = front  # type: ignore[method-assign]  # Quart's documented place for a middleware
    return app


def mount_endpoint(app: QuartTrio, prefix: str, find: Callable[[], Endpoint | None]) -> None:
    """Put a webhook that comes and goes into an existing application, under a prefix of its own.

    While there is none, whatever is below the prefix is answered 503: it was not accepted.

    Args:
        find: the endpoint of this prefix, or None.

    Raises:
        ConfigError: the prefix is empty, or not made of plain segments.
    """
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError("the webhook's prefix must look like /bot: it can't share a site's root")
    behind = app.asgi_app

    async def front(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "http" and is_below(scope, prefix):
            if (endpoint := find()) is not None:
                await endpoint(scope, receive, send)
            else:
                hide_path(scope)
                exchange = AsgiExchange(receive, send, closable=scope["http_version"].startswith("1"))
                await exchange.refuse(try_later(1), unread=True, linger=0)
        elif scope["type"] == "websocket" and is_below(scope, prefix):
            if (endpoint := find()) is not None:
                await endpoint.refuse_websocket(scope, receive, send)
            else:
                hide_path(scope)
                await receive()
                await send({"type": "websocket.close", "code": 1013, "reason": None})
        else:
            await behind(scope, receive, send)

    app.asgi_app = front  # type: ignore[method-assign]  # Quart's documented place for a middleware
