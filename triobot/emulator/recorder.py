"""Notes the requests of both directions in the traffic, as they pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast, final

import trio

from ..wire.encode import Body
from .door import AsgiApp, Message, Receive, Send
from .exchange import Exchange
from .faults import EventFault, in_words
from .traffic import LONGEST

# Uploads stream past: their bytes are the files', which can be looked at on their own.
_UNKEPT: Final = "multipart/form-data"


@final
class Recorder:
    """Sees operations come in and events go out."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def record(self, scope: Message, receive: Receive, send: Send, app: AsgiApp, note: str) -> None:
        """Serve an operation, and note it; `note` is what is made to go wrong."""
        headers = cast("list[tuple[bytes, bytes]]", scope["headers"])
        kind = next((value for name, value in headers if name.lower() == b"content-type"), b"").decode(
            "latin-1"
        )
        traffic, started = self._exchange.traffic, trio.current_time()
        name = str(scope["path"]).strip("/")
        call = traffic.begin("operation", name, self._exchange.clock.now(), content_type=kind, note=note)
        self._exchange.tell()
        answer = bytearray()
        status: int | None = None

        async def received() -> Message:
            message = await receive()
            chunk = cast("bytes", message.get("body", b""))
            call.size += len(chunk)
            if not kind.startswith(_UNKEPT):
                call.body = (call.body + chunk)[:LONGEST]
            return message

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = cast("int", message["status"])
            elif len(answer) < LONGEST:
                answer.extend(cast("bytes", message.get("body", b"")))
            await send(message)

        try:
            await app(scope, received, sent)
        finally:
            traffic.end(call, trio.current_time() - started, status, bytes(answer))
            self._exchange.tell()

    def post(self, kind: str, body: Body, fault: EventFault) -> Callable[[int | None], None]:
        """Note that an event is on its way; call what comes back with its answer."""
        traffic, started = self._exchange.traffic, trio.current_time()
        call = traffic.begin(
            "event",
            kind,
            self._exchange.clock.now(),
            content_type=body.content_type,
            body=body.data,
            note=in_words(fault),
        )
        self._exchange.tell()

        def answered(status: int | None) -> None:
            traffic.end(call, trio.current_time() - started, status)
            self._exchange.tell()

        return answered
