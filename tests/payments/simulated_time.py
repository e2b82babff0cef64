"""Virtual time for coroutines that wait for nothing else: a heap of who goes on when.

Deterministic: one seed, one run. A task belongs to an owner; stopping an owner drops its tasks wherever they
are, as a crash does.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Coroutine, Generator
from typing import Any


class Pause:
    """Awaited: go on after so many milliseconds, or when `Signal` says so."""

    def __init__(self, time: float, signal: Signal | None = None) -> None:
        self.time = time
        self.signal = signal

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


class Signal:
    """Wakes whoever pauses on it; a signal that nobody waits for is kept."""

    def __init__(self) -> None:
        self.set = False
        self.waiter: Callable[[], None] | None = None

    def send(self) -> None:
        self.set = True
        if self.waiter is not None:
            wake, self.waiter = self.waiter, None
            wake()


class Task:
    def __init__(self, coroutine: Coroutine[Any, Any, None], owner: object) -> None:
        self.coroutine = coroutine
        self.owner = owner
        self.turn = 0


class Simulator:
    """Runs tasks in the order of their moments; equal moments in an order of the seed's."""

    def __init__(self, chance: random.Random, start: int) -> None:
        self.chance = chance
        self.time = start
        self._heap: list[tuple[int, float, int, Task, int]] = []
        self._count = 0
        self._tasks: set[Task] = set()
        self._running: Task | None = None
        self.steps = 0

    def now(self) -> int:
        return self.time

    def spawn(self, coroutine: Coroutine[Any, Any, None], owner: object, after: int = 0) -> None:
        task = Task(coroutine, owner)
        self._tasks.add(task)
        self._push(task, self.time + after)

    def stop(self, owner: object) -> None:
        """Drop every task of this owner, as a crash does: nothing of it runs any more."""
        for task in [task for task in self._tasks if task.owner is owner]:
            self._tasks.discard(task)
            if task is not self._running:
                task.coroutine.close()

    def run(self, until: int) -> None:
        while self._heap and self._heap[0][0] <= until:
            at, _, _, task, turn = heapq.heappop(self._heap)
            if task not in self._tasks or turn != task.turn:
                continue
            self.time = max(self.time, at)
            self.steps += 1
            self._step(task)
        self.time = max(self.time, until)

    def _step(self, task: Task) -> None:
        task.turn += 1
        self._running = task
        try:
            pause = task.coroutine.send(None)
        except StopIteration:
            self._tasks.discard(task)
            return
        finally:
            self._running = None
        if task not in self._tasks:  # it stopped its own owner
            task.coroutine.close()
            return
        signal = pause.signal
        if signal is not None and signal.set:
            signal.set = False
            self._push(task, self.time)
            return
        if signal is not None:
            turn = task.turn

            def wake() -> None:
                if task in self._tasks and task.turn == turn:
                    signal.set = False
                    task.turn += 1
                    self._push(task, self.time)

            signal.waiter = wake
        if pause.time < float("inf"):
            self._push(task, self.time + max(0, int(pause.time)))

    def _push(self, task: Task, at: int) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at, self.chance.random(), self._count, task, task.turn))
