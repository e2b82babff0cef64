"""Serves what conversations were, to be looked at: the page's view, and nothing that does anything.

There is no platform and no bot behind it, so no route can send, end or forget. Who may look is decided at
the same door as the emulator's, with a key of its own.

``GET /control/travel?after=`` lists conversations, oldest first, with the ``after`` of the next, or null;
``about`` says what is looked at. The other routes are those of `past` that only look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol, cast, final

import attrs
import trio
from hypercorn.trio import serve  # pyright: ignore[reportUnknownVariableType]
from hypercorn.typing import ASGIFramework
from quart import Blueprint, Response, request
from quart_trio import QuartTrio

from ..base.frozen import guarded
from ..wire.rules import JsonValue
from .control import LONGEST_BODY, Asked, as_number
from .door import LOOPBACK_NAMES, MAY_CONTROL, AsgiApp, Message, Receive, RequestGuard, Send
from .exchange import Looks
from .faults import FaultPlan
from .past import add_looking, told
from .server import Tickets, behind_the_door, hypercorn_config, page_blueprint

IDLE: Final = 30 * 60.0
"""Seconds after which nobody seems to look any more."""


class Listed(Protocol):
    """Lists what can be looked at."""

    async def __call__(self, after: int) -> Mapping[str, JsonValue]:
        """Return some conversations behind this one, as the route tells them."""
        ...


@final
@guarded
class Inspector:
    """A server that is up.

    Attributes:
        page_url: where the page is, without the key that it asks for.
    """

    page_url: str
    key: str = attrs.field(repr=False)
    tickets: Tickets = attrs.field(factory=Tickets, repr=False)

    @property
    def page_address(self) -> str:
        """Return what to open in a browser. The key is behind the ``#``, which browsers send nowhere."""
        return f"{self.page_url}/#{self.key}"

    def one_time_address(self) -> str:
        """Return an address that leads to the page once, for a command line that others can read."""
        return f"{self.page_url}/open/{self.tickets.issue()}"


async def serve_inspector(
    looks: Looks,
    listed: Listed,
    *,
    key: str,
    port: int = 0,
    idle: float = IDLE,
    task_status: trio.TaskStatus[Inspector] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on a loopback port until nobody has looked for a while; the started value is the `Inspector`.

    Args:
        key: what each request needs; make a new one each time.
        port: 0 takes a free one.
        idle: seconds without a request that looks, after which this returns.

    Cancellation: *forceful*: open requests are cut.
    """
    tickets = Tickets()
    with trio.CancelScope() as looking:

        def looked() -> None:
            looking.deadline = trio.current_time() + idle

        door = make_inspector_app(looks, listed, key=key, tickets=tickets, looked=looked)
        looked()
        config = hypercorn_config(f"{LOOPBACK_NAMES[0]}:{port}")
        async with trio.open_nursery() as nursery:
            [bound] = await nursery.start(partial(serve, cast("ASGIFramework", door), config, mode="asgi"))
            bound_port = bound.rpartition(":")[2]
            door.authorities = frozenset(f"{name}:{bound_port}" for name in LOOPBACK_NAMES)
            task_status.started(Inspector(f"http://{LOOPBACK_NAMES[0]}:{bound_port}", key, tickets))


def make_inspector_app(
    looks: Looks, listed: Listed, *, key: str, tickets: Tickets, looked: Callable[[], None]
) -> RequestGuard:
    """Make the server as an ASGI application, behind its door.

    Args:
        looked: called for each request that was let in to look.
    """
    blueprint = Blueprint("travel", __name__, url_prefix="/control/travel")

    async def everything() -> Response:
        async def some() -> JsonValue:
            Asked({**request.args}).only(("after",))
            return dict(await listed(as_number("after", request.args.get("after", "0"))))

        return await told(some)

    blueprint.add_url_rule("", "GET everything", everything, methods=["GET"])
    add_looking(blueprint, lambda: looks)
    app = QuartTrio(__name__)
    app.config["MAX_CONTENT_LENGTH"] = LONGEST_BODY
    app.register_blueprint(behind_the_door(blueprint))
    app.register_blueprint(page_blueprint(key, tickets, first="inspect.html"))
    routed = cast("AsgiApp", app.asgi_app)

    async def front(scope: Message, receive: Receive, send: Send) -> None:
        if scope.get(MAY_CONTROL):
            looked()
        await routed(scope, receive, send)

    app.asgi_app = front  # type: ignore[assignment]  # Quart's documented place for a middleware
    return RequestGuard(cast("AsgiApp", app), plan=FaultPlan(), control_token=key, authorities=())
