"""An event and a channel for the branches of one run. Both work without records.

Trio's own classes would wake a branch in the middle of another branch's turn, in an order that no journal
has. The classes here go through the machine, in an order that replay repeats.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Generic, TypeVar, cast

import trio

from .core import Operation
from .machine import Machine

T = TypeVar("T")


class Channel(Generic[T]):
    """A bounded queue between branches. If the queue is full, `send` waits."""

    __slots__ = ("_capacity", "_closed", "_receivers", "_run", "_senders", "_values")

    def __init__(self, run: Machine, capacity: float = 0) -> None:
        self._run = run
        self._capacity = capacity
        self._closed = False
        self._values: deque[T] = deque()
        self._senders: deque[tuple[Operation, T]] = deque()
        self._receivers: deque[Operation] = deque()

    async def send(self, value: T) -> None:
        """Send a value to the next branch that receives; wait while the queue is full.

        Raises:
            trio.ClosedResourceError: the channel was closed.
        """
        op = await self._run.within()
        if self._put(value):
            return
        self._senders.append((op, value))
        if await self._run.outcome(op) is None:
            raise trio.ClosedResourceError

    def send_nowait(self, value: T) -> None:
        """Send a value to the next branch that receives, without waiting.

        Raises:
            trio.ClosedResourceError: the channel was closed.
            trio.WouldBlock: no branch receives, and the queue is full.
        """
        self._run.current()
        if not self._put(value):
            raise trio.WouldBlock

    def _put(self, value: T) -> bool:
        if self._closed:
            raise trio.ClosedResourceError
        while self._receivers:
            if self._run.pass_to(self._receivers.popleft(), (value,)):
                return True
        if len(self._values) < self._capacity:
            self._values.append(value)
            return True
        return False

    async def receive(self) -> T:
        """Wait for the next value; values come in the order in which they were sent.

        Raises:
            trio.EndOfChannel: the channel was closed, and is empty.
        """
        op = await self._run.within()
        if self._values:
            value = self._values.popleft()
            if (more := self._next_sent()) is not None:
                self._values.append(more[0])
            return value
        if (sent := self._next_sent()) is not None:
            return sent[0]
        if self._closed:
            raise trio.EndOfChannel
        self._receivers.append(op)
        given = cast("tuple[T] | None", await self._run.outcome(op))
        if given is None:
            raise trio.EndOfChannel
        return given[0]

    def _next_sent(self) -> tuple[T] | None:
        """Return the value of the sender that has waited longest; this sender goes on after this turn."""
        while self._senders:
            op, value = self._senders.popleft()
            if self._run.pass_to(op, ()):
                return (value,)
        return None

    def close(self) -> None:
        """Close the channel. Sends that wait now, and later sends, raise `trio.ClosedResourceError`. Once the
        channel is empty, receives raise `trio.EndOfChannel`.
        """
        self._run.current()
        self._closed = True
        waiting = [*self._receivers, *(op for op, _ in self._senders)]
        self._receivers.clear()
        self._senders.clear()
        for op in waiting:
            self._run.pass_to(op, None)


class Event:
    """An event that is set once, and that branches may wait for: a channel that `set` closes."""

    __slots__ = ("_channel", "_happened")

    def __init__(self, run: Machine) -> None:
        self._channel = Channel[None](run)
        self._happened = False

    def is_set(self) -> bool:
        """Return whether the event has happened."""
        return self._happened

    def set(self) -> None:
        """Set the event: the waiting branches go on, one by one, after this turn."""
        self._channel.close()
        self._happened = True

    async def wait(self) -> None:
        """Wait until the event has happened."""
        with suppress(trio.EndOfChannel):
            await self._channel.receive()
