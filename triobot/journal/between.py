"""What branches of one conversation say to one another: an event and a channel, without a record.

Trio's own would wake a branch in the middle of another one's turn, and before it could go on nobody would
know of it: the conversation would hang. These go through the turnstile, in an order that replay repeats.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar, cast, final

import trio

from .branches import Branch, Nature, Parked, Passed
from .operations import enter, park
from .turns import Turns

T = TypeVar("T")


@final
class ChatEvent:
    """Something that happens once; made by `Chat.open_event`."""

    def __init__(self, turns: Turns, current: Callable[[], Branch]) -> None:
        self._turns = turns
        self._current = current
        self._set = False
        self._waiting: list[Parked] = []

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._set

    def set(self) -> None:
        """It happens: who waits goes on, one by one."""
        self._current()
        self._set = True
        for parked in self._waiting:
            _pass(self._turns, parked, None)
        self._waiting.clear()

    async def wait(self) -> None:
        """Wait until it has happened."""
        parked = await enter(self._turns, self._current(), "event", Nature.WITHIN)
        if not self._set:
            self._waiting.append(parked)
            await park(self._turns, parked)


@final
class ChatChannel(Generic[T]):
    """A bounded queue between branches; made by `Chat.open_channel`. A full one makes `send` wait."""

    def __init__(self, turns: Turns, current: Callable[[], Branch], capacity: int) -> None:
        self._turns = turns
        self._current = current
        self._capacity = capacity
        self._values: deque[T] = deque()
        self._senders: deque[tuple[Parked, T]] = deque()
        self._receivers: deque[Parked] = deque()
        self._closed = False

    async def send(self, value: T) -> None:
        """Give a value to the branch that receives next.

        Raises:
            trio.ClosedResourceError: it was closed.
        """
        parked = await enter(self._turns, self._current(), "channel", Nature.WITHIN)
        if self._closed:
            raise trio.ClosedResourceError
        if (receiver := _first(self._turns, self._receivers)) is not None:
            self._receivers.popleft()
            _pass(self._turns, receiver, (value,))
        elif len(self._values) < self._capacity:
            self._values.append(value)
        else:
            self._senders.append((parked, value))
            if await park(self._turns, parked) is None:
                raise trio.ClosedResourceError

    async def receive(self) -> T:
        """The next value, in the order in which they were sent.

        Raises:
            trio.EndOfChannel: it was closed, and is empty.
        """
        parked = await enter(self._turns, self._current(), "channel", Nature.WITHIN)
        while self._senders and not _waits(self._turns, self._senders[0][0]):
            self._senders.popleft()
        if self._values:
            value = self._values.popleft()
            if self._senders:
                sender, more = self._senders.popleft()
                self._values.append(more)
                _pass(self._turns, sender, ())
            return value
        if self._senders:
            sender, value = self._senders.popleft()
            _pass(self._turns, sender, ())
            return value
        if self._closed:
            raise trio.EndOfChannel
        self._receivers.append(parked)
        given = cast("tuple[T] | None", await park(self._turns, parked))
        if given is None:
            raise trio.EndOfChannel
        return given[0]

    def close(self) -> None:
        """Nothing more is sent; who waits for it learns that."""
        self._current()
        self._closed = True
        for parked in (*self._receivers, *(parked for parked, _ in self._senders)):
            _pass(self._turns, parked, None)
        self._receivers.clear()
        self._senders.clear()


def _waits(turns: Turns, parked: Parked) -> bool:
    return turns.parked.get(parked.id) is parked and parked.felt is None and not parked.over


def _first(turns: Turns, waiting: deque[Parked]) -> Parked | None:
    while waiting and not _waits(turns, waiting[0]):
        waiting.popleft()
    return waiting[0] if waiting else None


def _pass(turns: Turns, parked: Parked, value: object) -> None:
    if _waits(turns, parked):
        # It stands: if the same turn ends a block around it, that is felt at its next operation.
        parked.over = True
        turns.later(partial(turns.give, parked, Passed(value)))
