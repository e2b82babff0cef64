"""A platform that answers as a test says, and remembers what reached it."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import outcome
import trio

from triobot.base.alarm_kinds import Alarm
from triobot.errors import (
    BadRequestError,
    DeliveryUnknownError,
    ForbiddenError,
    NotDeliveredError,
    RefusedError,
    RemoteProtocolError,
)
from triobot.wire.content import Descriptor, Media
from triobot.wire.operations import InquirePayment, Operation, SendMessage, Upload, VerifyPayment
from triobot.wire.results import PaymentState, Sent

Script = Callable[[Operation[Any]], Awaitable[None]]


class ScriptedPlatform:
    """Every request takes `delay` seconds; `script` may raise, sleep longer, or never return.

    `begins` says whether a caller's own task may carry a request; else couriers do.
    `seen` holds what arrived, with its time; `took_effect` what the platform did.
    """

    begins = True

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

    def begin(self, operation: Operation[Any], /, *, fresh: bool = False) -> ScriptedRequest | None:
        """Write out what has no file, as the platform's client does."""
        assert not isinstance(operation, Upload)
        content = getattr(operation, "content", None)
        assert not isinstance(content, Media) or isinstance(content.source, Descriptor)
        return ScriptedRequest(self, operation) if self.begins else None

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


class ScriptedRequest:
    """A request that goes on by itself, so that any task may wait for its result."""

    within = 60.0

    def __init__(self, platform: ScriptedPlatform, operation: Operation[Any]) -> None:
        self._platform = platform
        self._operation = operation
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._outcome: outcome.Outcome[Any] | None = None
        self._seconds = 0.0
        self.may_have_left = False

    async def result(self) -> Any:
        if not self.may_have_left:
            self.may_have_left = True
            trio.lowlevel.spawn_system_task(self._perform)
        await self._ended.wait()
        assert self._outcome is not None
        return self._outcome.unwrap()

    async def _perform(self) -> None:
        with self._scope:
            self._outcome = await outcome.acapture(self._platform.perform, self._operation)
        if self._scope.cancelled_caught or isinstance(getattr(self._outcome, "error", None), trio.Cancelled):
            what = f"no answer within {self._seconds:g} seconds"
            self._outcome = outcome.Error(DeliveryUnknownError(self._operation.path, what))
        self._ended.set()

    def expire(self, seconds: float) -> None:
        self._seconds = seconds
        self._scope.cancel()

    def close(self) -> None:
        self._scope.cancel()


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
