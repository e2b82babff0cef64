"""Serves the page's files, to anyone who reaches the port: they hold nothing but code."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import trio
from quart import Blueprint, Response, redirect
from werkzeug.wrappers import Response as Redirect

_ASSETS: Final = Path(__file__).with_name("assets")
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

# Scripts and styles are files of ours. A bot's texts become text nodes; should one of our scripts ever try to
# make markup of text, `require-trusted-types-for` has the browser refuse.
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "media-src 'self' blob:",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=(self), payment=()",
    # A page of an older version against a newer emulator would be a riddle.
    "Cache-Control": "no-store",
}


def page_blueprint() -> Blueprint:
    """Return the routes of the page's files."""
    blueprint = Blueprint("page", __name__)
    # Named once, at the start: what is asked for can't lead out of the folder.
    files = {path.name: path for path in _ASSETS.iterdir() if path.suffix in _TYPES}

    async def asset(name: str) -> Response:
        path = files.get(name)
        if path is None:
            return Response("there is no such file\n", 404, _HEADERS, content_type="text/plain")
        return Response(await trio.Path(path).read_bytes(), 200, _HEADERS, content_type=_TYPES[path.suffix])

    async def index() -> Response:
        return await asset("index.html")

    async def icon() -> Redirect:
        await trio.lowlevel.checkpoint()
        return redirect("/page/icon.svg")

    blueprint.add_url_rule("/", view_func=index, methods=["GET"])
    blueprint.add_url_rule("/favicon.ico", view_func=icon, methods=["GET"])
    blueprint.add_url_rule("/page/<name>", view_func=asset, methods=["GET"])
    return blueprint
