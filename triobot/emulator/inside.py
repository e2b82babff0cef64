"""The emulator's two faces without HTTP in between, for what runs in the same process.

`InsideControl` is the control API as function calls; `InsideTransport` carries a bot's requests to the very
application that the HTTP server serves, so that faults, limits and answers are the same ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import final
from urllib.parse import urlsplit

import httpx
import trio

from ..errors import LocalProtocolError
from ..wire.ids import SenderId
from ..wire.rules import JsonValue
from .blobs import FileTooLargeError
from .control import Asked, BadAskError, Given, PersonControl, PlatformControl
from .door import AsgiApp, Message, Receive, Send
from .exchange import Exchange
from .faults import Outage
from .person import AppError
from .pusher import PushQueueFullError
from .views import JsonObject
from .world import ImpossibleActError


@final
class InsideControl:
    """The control API as function calls; see `control` for what there is."""

    def __init__(self, exchange: Exchange) -> None:
        self._people = exchange.world.people
        self._blobs = exchange.blobs
        self._person, self._platform = PersonControl(exchange), PlatformControl(exchange)
        self._changes, self._looks = self._platform.changes(), self._platform.looks()
        self._acts = {**self._person.routes(), "chat": self._person.chat}

    async def get(self, path: str, query: Mapping[str, int] | None = None) -> JsonValue:
        """Look at something."""
        return await self._ask(self._looks, path, dict(query or {}))

    async def post(self, path: str, given: JsonObject) -> JsonValue:
        """Do something."""
        return await self._ask(self._changes, path, given)

    async def fetch(self, address: str) -> bytes:
        """Return the bytes of a file that was uploaded."""
        file_id = urlsplit(address).path.split("/")[2]
        stored = self._blobs.get(file_id)
        if stored is None:
            raise AppError("the file is not there")
        return b"".join([chunk async for chunk in self._blobs.read(stored)])

    async def _ask(
        self, whole: Mapping[str, Callable[[Asked], Given]], path: str, given: Mapping[str, object]
    ) -> JsonValue:
        await trio.lowlevel.checkpoint()
        asked = Asked(given)
        try:
            value = self._asked_of_one(path, asked) if path.startswith("users/") else whole[path](asked)
            return await value if inspect.isawaitable(value) else value
        except (ImpossibleActError, BadAskError, LocalProtocolError, PushQueueFullError) as error:
            raise AppError(str(error)) from None
        except FileTooLargeError:
            raise AppError("the file is too large") from None

    def _asked_of_one(self, path: str, asked: Asked) -> Given:
        _, number, name = path.split("/")
        return self._acts[name](self._people.get(SenderId(int(number))), asked)


@final
class InsideTransport(httpx.AsyncBaseTransport):
    """Carries requests to an ASGI application in the same process.

    An answer that the application does not finish is a connection that broke, and while there is an outage
    none can be made: the client sees what it would see over a network.
    """

    def __init__(self, app: AsgiApp, outage: Outage) -> None:
        self._app = app
        self._outage = outage
        self._refusing = False
        self._inner = httpx.ASGITransport(self._whole)  # pyright: ignore[reportArgumentType]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry one request."""
        if self._refusing:
            await trio.lowlevel.checkpoint()
            raise httpx.ConnectError("nobody listens: the emulator refuses connections", request=request)
        return await self._inner.handle_async_request(request)

    async def keep_refusing(self) -> None:
        """Refuse connections while there is an outage, until cancelled."""
        while True:
            await self._outage.wait_begin()
            self._refusing = True
            await trio.sleep(self._outage.take())
            self._refusing = False

    async def _whole(self, scope: Message, receive: Receive, send: Send) -> None:
        finished = False

        async def watched(message: Message) -> None:
            nonlocal finished
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                finished = True
            await send(message)

        await self._app(scope, receive, watched)
        if not finished:
            raise httpx.RemoteProtocolError("the connection ended in the middle of the answer")
