"""A platform that answers as a test says, and remembers what reached it."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from triobot.errors import (
    BadRequestError,
    DeliveryUnknownError,
    ForbiddenError,
    NotDeliveredError,
    RefusedError,
    RemoteProtocolError,
)
from triobot.seams import Alarm
from triobot.wire.content import Descriptor
from triobot.wire.operations import InquirePayment, Operation, SendMessage, Upload, VerifyPayment
from triobot.wire.results import PaymentState, Sent

Script = Callable[[Operation[Any]], Awaitable[None]]


class ScriptedPlatform:
    """Every request takes `delay` seconds; `script` may raise, sleep longer, or never return.

    `seen` holds what arrived, with its time; `took_effect` what the platform did.
    """

    def __init__(self, script: Script | None = None, *, delay: float = 0.1) -> None:
        self.script = script
        self.delay = delay
        self.seen: list[tuple[float, Operation[Any]]] = []
        self.took_effect: list[Operation[Any]] = []
        self.in_flight: dict[Any, int] = {}
        self.most_in_flight = 0
        self._ids = itertools.count(1)

    async def perform(self, operation: Operation[Any], /) -> Any:
        self.seen.append((trio.current_time(), operation))
        chat = getattr(operation, "chat_id", None)
        key = (chat, type(operation).__name__)
        self.in_flight[key] = self.in_flight.get(key, 0) + 1
        self.most_in_flight = max(self.most_in_flight, sum(self.in_flight.values()))
        if isinstance(operation, SendMessage):
            assert self.in_flight[key] == 1, "two sends of one chat at once"
        try:
            await trio.sleep(self.delay)
            if self.script is not None:
                await self.script(operation)
        finally:
            self.in_flight[key] -= 1
        self.took_effect.append(operation)
        match operation:
            case SendMessage():
                return Sent(operation.chat_id, next(self._ids))
            case Upload():
                return Descriptor.from_object({"path": f"/files/{next(self._ids)}"})
            case VerifyPayment() | InquirePayment():
                return PaymentState(True, 1)
            case _:
                return None

    def texts(self, chat: int | None = None) -> list[Any]:
        """The contents that took effect, in order."""
        return [
            operation.content
            for operation in self.took_effect
            if isinstance(operation, SendMessage) and chat in (None, operation.chat_id)
        ]

    def count(self, kind: type) -> int:
        """How many requests of this class arrived."""
        return sum(isinstance(operation, kind) for _, operation in self.seen)


class Alarms(list[Alarm]):
    """Takes alarms."""

    def __call__(self, alarm: Alarm) -> None:
        self.append(alarm)

    @property
    def kinds(self) -> list[str]:
        return [alarm.kind for alarm in self]


def forbidden(operation: Operation[Any]) -> ForbiddenError:
    return ForbiddenError(operation.path, 403)


def bad_request(operation: Operation[Any]) -> BadRequestError:
    return BadRequestError(operation.path, 400, "data")


def too_many(operation: Operation[Any]) -> RefusedError:
    return RefusedError(operation.path, 429)


def broken(operation: Operation[Any]) -> RefusedError:
    return RefusedError(operation.path, 503)


def unreachable(operation: Operation[Any]) -> NotDeliveredError:
    return NotDeliveredError(operation.path, "connection refused")


def unreadable(operation: Operation[Any]) -> DeliveryUnknownError:
    error = DeliveryUnknownError(operation.path, "the answer can't be read")
    error.__cause__ = RemoteProtocolError("body", "must be JSON")
    return error


def unknown(operation: Operation[Any]) -> DeliveryUnknownError:
    return DeliveryUnknownError(operation.path, "the answer was lost")
