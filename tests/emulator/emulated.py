"""The emulator's HTTP faces in process: no sockets, so that virtual time passes through them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast
from urllib.parse import urlencode

import attrs
import httpx

from triobot.emulator.door import CONTROL_HEADER, RequestGuard
from triobot.emulator.exchange import Exchange
from triobot.emulator.faults import Switches
from triobot.emulator.person import App, connect
from triobot.emulator.server import make_app, make_exchange
from triobot.wire.platform_side import Body

BASE = "http://127.0.0.1:8081"
TOKEN = "a" * 64
CONTROL = "control-token"


@attrs.define
class Emulated:
    """A platform whose bot is a list of bodies."""

    exchange: Exchange
    door: RequestGuard
    platform: httpx.AsyncClient
    control: httpx.AsyncClient
    app: App
    posted: list[Body]

    async def perform(self, path: str, **fields: object) -> httpx.Response:
        body = urlencode({name: str(value) for name, value in fields.items()})
        return await self.platform.post(
            f"/{path}", content=body, headers={"content-type": "application/x-www-form-urlencoded"}
        )


@asynccontextmanager
async def emulated(
    folder: Path, switches: Switches | None = None, *, largest_upload: int = 10**7
) -> AsyncIterator[Emulated]:
    posted: list[Body] = []

    async def post(body: Body) -> int:
        posted.append(body)
        return 200

    exchange = make_exchange(folder, post, base_url=BASE, switches=switches, largest_upload=largest_upload)
    door = make_app(
        exchange,
        token=TOKEN,
        control_token=CONTROL,
        authorities=("127.0.0.1:8081", "localhost:8081"),
    )
    transport = httpx.ASGITransport(app=cast("httpx.ASGITransport", door))  # type: ignore[arg-type]
    headers = {CONTROL_HEADER: CONTROL}
    async with (
        httpx.AsyncClient(transport=transport, base_url=BASE, headers={"token": TOKEN}) as platform,
        httpx.AsyncClient(transport=transport, base_url=BASE + "/control/", headers=headers) as control,
        connect(BASE + "/control", CONTROL, transport=transport) as app,
    ):
        yield Emulated(exchange, door, platform, control, app, posted)
