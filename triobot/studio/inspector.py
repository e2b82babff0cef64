"""A read-only web server for past conversations: no HTTP route changes anything.

There is no platform and no bot, so no HTTP route can send messages, end conversations or delete data. The
emulator's `RequestGuard` checks the requests, with this server's key in place of the control token.

``GET /control/travel?after=`` returns a page of conversations, oldest first. In the answer, ``after`` is the
argument for the next page, or null; ``about`` describes the inspected bot, store or export. The other HTTP
routes are the read-only routes of `travel.routes`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias, cast

import trio
from hypercorn.trio import serve  # pyright: ignore[reportUnknownVariableType]
from hypercorn.typing import ASGIFramework
from quart_trio import QuartTrio

from ..emulator.control import LONGEST_BODY, Asked, as_number
from ..emulator.door import LOOPBACK_NAMES, AsgiApp, RequestGuard
from ..emulator.faults import FaultPlan
from ..emulator.server import ServedPage, Tickets, behind_the_door, hypercorn_config, page_blueprint
from ..wire.rules import JsonValue
from .travel.routes import Place, Routes, add_looking
from .travel.twins import Twins

Listed: TypeAlias = Callable[[int], Awaitable[Mapping[str, JsonValue]]]
"""Function from the argument ``after`` to the answer of ``GET /control/travel``."""


async def serve_inspector(
    looks: Twins,
    listed: Listed,
    *,
    key: str,
    port: int = 0,
    task_status: trio.TaskStatus[ServedPage] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on a loopback port until cancelled; the started value is the `ServedPage`.

    Args:
        key: key that each request needs; use a new key for each server.
        port: port to bind; 0 for a free port.

    Cancellation: *forceful*: open requests are cut.
    """
    tickets = Tickets()
    routes = Routes("travel", "/control/travel")

    async def everything(asked: Asked, _: Place) -> JsonValue:
        return dict(await listed(as_number("after", asked.values().get("after", "0"))))

    routes.add("GET", "", everything, "after")
    add_looking(routes, looks)
    app = QuartTrio(__name__)
    app.config["MAX_CONTENT_LENGTH"] = LONGEST_BODY
    app.register_blueprint(behind_the_door(routes.blueprint))
    app.register_blueprint(page_blueprint(key, tickets, first="inspect.html"))
    door = RequestGuard(cast("AsgiApp", app), plan=FaultPlan(), control_token=key, authorities=())
    config = hypercorn_config(f"{LOOPBACK_NAMES[0]}:{port}")
    async with trio.open_nursery() as nursery:
        [bound] = await nursery.start(partial(serve, cast("ASGIFramework", door), config, mode="asgi"))
        bound_port = bound.rpartition(":")[2]
        door.authorities = frozenset(f"{name}:{bound_port}" for name in LOOPBACK_NAMES)
        task_status.started(ServedPage(f"http://{LOOPBACK_NAMES[0]}:{bound_port}", key, tickets))
