"""Runs the platform on a loopback port: operations, files, the control API, and the posting of events."""

from __future__ import annotations

import gzip
import ipaddress
import random
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Final, cast, final

import attrs
import httpx
import trio
from hypercorn.config import Config
from hypercorn.trio import serve  # pyright: ignore[reportUnknownVariableType]
from hypercorn.typing import ASGIFramework
from quart import Blueprint, Response, redirect, request
from quart_trio import QuartTrio
from werkzeug.wrappers import Response as Redirect

from ..base.frozen import guarded
from ..errors import ConfigError
from ..wire.operations import Upload
from ..wire.platform_side import encode_error
from .api import operations_app, platform_blueprint
from .blobs import Blobs
from .control import LONGEST_BODY, control_blueprint
from .door import LOOPBACK_NAMES, MAY_CONTROL, AsgiApp, Message, Receive, RequestGuard, Send
from .exchange import Beside, Exchange, ShiftedClock
from .faults import Outage, Switches
from .follower import stream_blueprint
from .pages import FILES, TYPES, page_of, script_of_page, sheet_of
from .pusher import BotAddress, Post, PushSettings
from .world import World

# Around 2020 the platform accepted uploads of at least this size. No limit is published.
LARGEST_UPLOAD: Final = 500 * 1024 * 1024
# Seconds for which requests in progress continue after an outage begins; then the requests are cut.
_GRACE: Final = 0.2
_POST_SECONDS: Final = 30.0
# Scripts and styles are files of the emulator. A bot's texts become text nodes. With
# `require-trusted-types-for`, the browser prevents scripts from turning text into markup.
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
    "Permissions-Policy": "microphone=(), camera=(), geolocation=(self), payment=()",
    # A cached page of an older version would fail in confusing ways against a newer emulator.
    "Cache-Control": "no-store",
}


@final
class Tickets:
    """One-time tickets: each ticket opens the page once, in place of the control token."""

    def __init__(self) -> None:
        self._issued: set[str] = set()

    def issue(self) -> str:
        ticket = secrets.token_urlsafe(24)
        self._issued.add(ticket)
        return ticket

    def take(self, ticket: str) -> bool:
        """Use up a ticket. Return whether the ticket was valid: issued, and not used before."""
        known = ticket in self._issued
        self._issued.discard(ticket)
        return known


@guarded
class ServedPage:
    """A served page, with the control API behind it.

    Attributes:
        page_url: address of the page, without the control token. The page asks the user for the token.
    """

    page_url: str
    control_token: str = attrs.field(repr=False)
    tickets: Tickets = attrs.field(repr=False)

    @property
    def page_address(self) -> str:
        """Address to open in a browser. The token comes after ``#``; browsers never send this part."""
        return f"{self.page_url}/#{self.control_token}"

    def one_time_address(self) -> str:
        """Return an address that opens the page only once.

        The address contains no control token: other users of the machine can see a browser's command
        line.
        """
        return f"{self.page_url}/open/{self.tickets.issue()}"


@final
@guarded
class Emulator(ServedPage):
    """A running platform.

    Attributes:
        base_url: base URL for the bot's client, which also needs `token`.
        control_url: address for `triobot.emulator.person.connect`, which also needs `control_token`.
        exchange: the platform's objects, including the `world`, for code in the same process.
    """

    base_url: str
    control_url: str
    token: str = attrs.field(repr=False)
    exchange: Exchange = attrs.field(repr=False)

    @property
    def world(self) -> World:
        return self.exchange.world


def make_exchange(
    folder: Path,
    post: Post,
    *,
    base_url: str,
    switches: Switches | None = None,
    chance: random.Random | None = None,
    clock: ShiftedClock | None = None,
    push: PushSettings | None = None,
    largest_upload: int = LARGEST_UPLOAD,
) -> Exchange:
    """Create a platform without its HTTP interfaces. Uploads go to `folder`, and events go to `post`."""
    world = World(chance=chance or random.SystemRandom(), switches=switches, base_url=base_url)
    return Exchange(world, Blobs(folder, limit=largest_upload), clock or ShiftedClock(), post, push)


def make_app(
    exchange: Exchange,
    *,
    token: str,
    control_token: str | None,
    authorities: Collection[str],
    tickets: Tickets | None = None,
) -> RequestGuard:
    """Return an ASGI application with all HTTP interfaces behind a `RequestGuard`.

    Args:
        control_token: token of the control API; None: the application has no control API, because code in the
            same process calls `ControlApi` directly.
        authorities: accepted values of `Host`, with their port.
        tickets: one-time tickets for the page.
    """
    perform = operations_app(exchange, token)

    @cache
    def routed(beside: Beside | None) -> AsgiApp:
        # This application is created on first use. The creation takes longer than a whole test, and a test's
        # bot only sends operations.
        return cast("AsgiApp", make_routed_app(exchange, token, control_token, tickets))

    async def front(scope: Message, receive: Receive, send: Send) -> None:
        asks = scope["type"] == "http" and scope["method"] == "POST" and not scope.get(MAY_CONTROL)
        face = perform if asks and str(scope["path"]).strip("/") != Upload.path else routed(exchange.beside)
        await face(scope, receive, send)

    return RequestGuard(
        front,
        plan=exchange.plan,
        control_token=control_token or "",
        authorities=authorities,
        record=exchange.record,
    )


def make_routed_app(
    exchange: Exchange,
    token: str,
    control_token: str | None,
    tickets: Tickets | None = None,
) -> QuartTrio:
    """Return the application for files; with a control token, also for the control API and the page."""
    app = QuartTrio(__name__)
    app.config["MAX_CONTENT_LENGTH"] = exchange.blobs.limit + LONGEST_BODY
    if control_token is not None:
        beside = () if exchange.beside is None else exchange.beside.blueprints
        for blueprint in (*beside, control_blueprint(exchange), stream_blueprint(exchange)):
            app.register_blueprint(behind_the_door(blueprint))
        app.register_blueprint(page_blueprint(control_token, tickets or Tickets()))
    app.register_blueprint(platform_blueprint(exchange, token))
    return app


def behind_the_door(blueprint: Blueprint) -> Blueprint:
    """Make the blueprint's HTTP routes serve only requests that the guard has marked."""

    async def refuse() -> Response | None:
        await trio.lowlevel.checkpoint()
        if cast("Mapping[str, object]", request.scope or {}).get(MAY_CONTROL):
            return None
        return Response(encode_error("not found"), 404, content_type="application/json")

    blueprint.before_request(refuse)
    return blueprint


async def serve_emulator(
    *,
    port: int = 8081,
    host: str = "127.0.0.1",
    bot_url: str | None,
    token: str,
    control_token: str,
    switches: Switches | None = None,
    expose: bool = False,
    names: Collection[str] = (),
    push: PushSettings | None = None,
    chance: random.Random | None = None,
    clock: ShiftedClock | None = None,
    page_port: int | None = None,
    wait_bot: Callable[[], Awaitable[None]] | None = None,
    folder: Path | None = None,
    task_status: trio.TaskStatus[Emulator] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run the platform until cancelled; the started value is the `Emulator`.

    Args:
        port: number of the port; 0 for a free port.
        bot_url: address to which events are posted; None posts nothing.
        token: the token that the bot's client sends in the header ``token``.
        control_token: token of the control API; use a new token for each call.
        expose: allow an address that other machines can reach. A person with the control token can then spend
            all people's play money; nothing else is at risk.
        names: further accepted host names, with a port if the port differs from the bound port.
        push, chance, clock: see `make_exchange`.
        page_port: second port for the page and the control API; 0 for a free one. Faults that people switch
            on in the page, such as refused connections, then don't affect the page itself.
        wait_bot: awaited before each event is posted; None posts whether or not a bot listens.
        folder: folder in which uploads stay after the end; uploads that are already there are available
            again. None deletes uploads at the end.

    Raises:
        ConfigError: `host` is not a loopback address, and `expose` is False.

    Cancellation: *forceful*: open requests are cut. If `folder` is None, uploads are deleted.
    """
    if not (expose or _is_loopback(host)):
        raise ConfigError(f"the emulator serves loopback addresses only, and {host} is none: see expose")
    config = hypercorn_config(f"{_bracketed(host)}:{port}")
    with _uploads(folder) as place:
        async with httpx.AsyncClient(trust_env=False, timeout=_POST_SECONDS) as client:
            clock = clock or ShiftedClock()
            address = BotAddress(client, bot_url, wait_bot, clock.now)
            exchange = make_exchange(
                Path(place),
                address,
                base_url="",
                switches=switches,
                chance=chance,
                clock=clock,
                push=push,
            )
            tickets = Tickets()
            door = make_app(
                exchange, token=token, control_token=control_token, authorities=(), tickets=tickets
            )
            async with trio.open_nursery() as nursery:
                bound = await nursery.start(_listen, door, config, exchange.outage)
                authority = bound.rpartition("//")[2]
                bound_port = authority.rpartition(":")[2]
                shown = authority if _is_loopback(host) else f"{LOOPBACK_NAMES[0]}:{bound_port}"
                exchange.world.uploads.base_url = page_url = f"http://{shown}"
                ports = [bound_port]
                if page_port is not None:
                    second = hypercorn_config(f"{_bracketed(host)}:{page_port}")
                    [page_bound] = await nursery.start(
                        partial(serve, cast("ASGIFramework", door), second, mode="asgi")
                    )
                    ports.append(page_bound.rpartition(":")[2])
                    page_url = f"http://{shown.rpartition(':')[0]}:{ports[1]}"
                door.authorities = frozenset(
                    (name if ":" in name.rpartition("]")[2] else f"{name}:{port}").lower()
                    for port in ports
                    for name in (*LOOPBACK_NAMES, _bracketed(host), *names)
                )
                nursery.start_soon(exchange.pusher.run)
                if wait_bot is None:
                    nursery.start_soon(address.look)
                base_url, control_url = exchange.world.uploads.base_url, f"{page_url}/control"
                task_status.started(
                    Emulator(page_url, control_token, tickets, base_url, control_url, token, exchange)
                )


def _uploads(folder: Path | None) -> AbstractContextManager[str | Path]:
    if folder is None:
        return tempfile.TemporaryDirectory(prefix="triobot-emulator-")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return nullcontext(folder)


def hypercorn_config(bind: str) -> Config:
    config = Config()
    config.bind = [bind]
    config.accesslog = None
    config.loglevel = "WARNING"
    config.graceful_timeout = _GRACE
    config.include_server_header = False
    return config


async def _listen(
    door: RequestGuard,
    config: Config,
    outage: Outage,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve; during an outage, close the port, and open the same port again afterwards."""
    first = True
    while True:
        async with trio.open_nursery() as nursery:
            run = partial(
                serve, cast("ASGIFramework", door), config, shutdown_trigger=outage.wait_begin, mode="asgi"
            )
            [bound] = await nursery.start(run)
            if first:
                first = False
                config.bind = [bound.rpartition("//")[2]]
                task_status.started(bound)
        await trio.sleep(outage.take())


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _file(data: bytes, suffix: str) -> Response:
    takes = "gzip" in request.headers.get("Accept-Encoding", "")
    answer = Response(gzip.compress(data, 6) if takes else data, 200, _HEADERS, content_type=TYPES[suffix])
    if takes:
        answer.headers["Content-Encoding"] = "gzip"
    return answer


def page_blueprint(control_token: str, tickets: Tickets, *, first: str = "index.html") -> Blueprint:
    """Return the HTTP routes of the tickets and of the page's files; ``/`` serves the page `first`."""
    blueprint = Blueprint("page", __name__)

    async def asset(name: str) -> Response:
        path = FILES.get(name)
        if path is None:
            return Response("there is no such file\n", 404, _HEADERS, content_type="text/plain")
        return _file(await trio.Path(path).read_bytes(), path.suffix)

    async def joined(join: Callable[[str], str], suffix: str) -> Response:
        return _file((await trio.to_thread.run_sync(join, first)).encode(), suffix)

    async def enter(ticket: str) -> Response | Redirect:
        await trio.lowlevel.checkpoint()
        if not tickets.take(ticket):
            text = "this address worked once; the command has printed the one that lasts\n"
            return Response(text, 403, _HEADERS, content_type="text/plain")
        led = redirect(f"/#{control_token}", 303)
        led.headers.extend(_HEADERS)
        return led

    blueprint.add_url_rule("/open/<ticket>", view_func=enter, methods=["GET"])
    for rule, join, suffix in (
        ("/", page_of, ".html"),
        ("/page/all.js", script_of_page, ".js"),
        ("/page/all.css", sheet_of, ".css"),
    ):
        blueprint.add_url_rule(rule, join.__name__, partial(joined, join, suffix), methods=["GET"])
    blueprint.add_url_rule("/page/<path:name>", view_func=asset, methods=["GET"])
    return blueprint
