"""Calls, CPU and memory of the engine.

    python -m tests.engine.measure

It keeps its records as text in a list, and a commit waits for nothing. "bare" is the driver with a task
that only sleeps and wakes: what Trio takes for one turn. Calls are those of Python and of C functions, as
cProfile counts them, over 1,000 events; CPU is the best of seven rounds, taken in turn.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import trio

from triobot.engine import Host, Record, Run, RunOwner, begun, decode_record, encode_record

from .plain import JSON

LONG = 1_000_000.0
ROUNDS = 7


class NewHost(Host, RunOwner):
    __slots__ = ("lines", "rested")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.rested = False

    def now(self) -> int:
        return 1_000_000

    def append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        self.lines.append(encode_record(record))

    async def commit(self) -> None:
        pass

    def rests(self, wake: int | None) -> None:
        self.rested = True

    async def send(self, text: str) -> int:
        return 7


class New:
    """A run."""

    name = "engine"
    start = begun("main", time=1_000_000, seed="seed", codec=JSON)

    def __init__(self, records: list[Record] | None = None) -> None:
        self.host = NewHost()
        self.run = Run(self.host, records or [self.start], JSON, self.host, fresh=records is None)

    def begin(self, nursery: trio.Nursery, code: Callable[..., Any]) -> None:
        nursery.start_soon(self.run.run, code)

    def give(self, number: int, text: str) -> None:
        self.host.rested = False
        self.run.deliver(number, 1_000_000, text)

    async def echo(self, run: Run) -> None:
        await run.effect("send", self.host.send, "hello", print="", lane="chat")
        self.host.rested = True

    async def ask(self, run: Run) -> None:
        text = "hello"
        while True:
            await run.effect("send", self.host.send, text, print="", lane="chat")
            text = await run.wait()

    async def outer(self, run: Run) -> None:
        with run.scope(LONG), run.scope(LONG / 2):
            await self.ask(run)

    async def inner(self, run: Run) -> None:
        text = "hello"
        while True:
            with run.scope(LONG), run.scope(LONG / 2):
                await run.effect("send", self.host.send, text, print="", lane="chat")
                text = await run.wait()

    async def keeps(self, run: Run) -> None:
        text = "hello"
        while True:
            await run.effect("send", self.host.send, text, print="", lane="chat")
            text = await run.wait()
            run.write("n", run.read("n", 0) + 1)

    async def asks(self, run: Run) -> None:
        for _ in range(500):
            await run.effect("send", self.host.send, "hello", print="", lane="chat")
            await run.wait()
        await run.wait("end")

    async def asks_inside(self, run: Run) -> None:
        with run.scope(LONG), run.scope(LONG / 2):
            await self.asks(run)

    @property
    def rested(self) -> bool:
        return self.host.rested

    @property
    def lines(self) -> list[str]:
        return [encode_record(self.start), *self.host.lines]

    @staticmethod
    def decode(lines: list[str]) -> list[Any]:
        return [decode_record(line) for line in lines]

    def clear(self) -> None:
        self.host.lines.clear()

    def evict(self) -> None:
        self.run.evict()


class Bare:
    """A task that sleeps and wakes."""

    name = "bare"

    def __init__(self, _: object = None) -> None:
        self.rested = False

    def begin(self, nursery: trio.Nursery, code: Callable[..., Any]) -> None:
        nursery.start_soon(code, None)

    def give(self, number: int, text: str) -> None:
        self.rested = False
        trio.lowlevel.reschedule(self.task)

    async def echo(self, _: object) -> None:
        self.rested = True

    async def ask(self, _: object) -> None:
        self.task = trio.lowlevel.current_task()
        while True:
            self.rested = True
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)

    inner = outer = ask

    def clear(self) -> None:
        pass

    def evict(self) -> None:
        pass


Kind = type[New] | type[Bare]
Steps = AsyncGenerator[None]


async def turns(kind: Kind, code: str, many: int) -> Steps:
    """Give events to one run, one after the other."""
    one = kind()
    async with trio.open_nursery() as nursery:
        one.begin(nursery, getattr(one, code))
        while not one.rested:
            await trio.lowlevel.checkpoint()
        yield
        for number in range(many):
            one.give(number, "hello")
            while not one.rested:
                await trio.lowlevel.checkpoint()
        yield
        nursery.cancel_scope.cancel()
        one.evict()


async def echoes(kind: Kind, code: str, many: int) -> Steps:
    """Start runs that end."""
    async with trio.open_nursery() as nursery:
        yield
        for _ in range(many):
            one = kind()
            one.begin(nursery, one.echo)
            while not one.rested:
                await trio.lowlevel.checkpoint()
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        yield


async def calls(drive: Callable[..., Steps], kind: Kind, code: str, many: int = 1000) -> float:
    """Count the calls of one event."""
    counts = Counter[str]()

    def profile(frame: object, event: str, arg: object) -> None:
        counts[event] += 1

    steps = drive(kind, code, many)
    await anext(steps)
    gc.disable()  # others may count its rounds, by calls
    sys.setprofile(profile)
    await anext(steps)
    sys.setprofile(None)
    gc.enable()
    async for _ in steps:
        pass
    return (counts["call"] + counts["c_call"]) / many


async def cpu(drive: Callable[..., Steps], kind: Kind, code: str, many: int = 2000) -> float:
    """Return microseconds of one event."""
    steps = drive(kind, code, many)
    await anext(steps)
    gc.collect()
    gc.disable()
    begun_at = time.thread_time()
    await anext(steps)
    spent = time.thread_time() - begun_at
    gc.enable()
    async for _ in steps:
        pass
    return spent / many * 1e6


async def replay(kind: type[New], code: str) -> str:
    """Run a journal of 1,000 operations again."""
    one = kind()
    async with trio.open_nursery() as nursery:
        one.begin(nursery, getattr(one, code))
        for number in range(500):
            while not one.rested:
                await trio.lowlevel.checkpoint()
            one.give(number, "hello")
        for _ in range(9):
            await trio.lowlevel.checkpoint()
        lines = list(one.lines)
        one.evict()
    many, reading, running = len(lines), list[float](), list[float]()
    for _ in range(9):
        begun_at = time.thread_time()
        records = kind.decode(lines)
        reading.append(time.thread_time() - begun_at)
        async with trio.open_nursery() as nursery:
            begun_at = time.thread_time()
            await _again(kind, records, code, nursery)
            running.append(time.thread_time() - begun_at)
    counts = Counter[str]()

    def profile(frame: object, event: str, arg: object) -> None:
        counts[event] += 1

    records = kind.decode(lines)
    async with trio.open_nursery() as nursery:
        sys.setprofile(profile)
        await _again(kind, records, code, nursery)
        sys.setprofile(None)
    each = (counts["call"] + counts["c_call"]) / many
    size = sum(map(len, lines)) / many
    read, run = min(reading) / many * 1e6, min(running) / many * 1e6
    return f"read {read:.2f} us + run {run:.2f} us, {each:.0f} calls, {size:.0f} bytes a record"


async def _again(kind: Any, records: list[Any], code: str, nursery: trio.Nursery) -> None:
    one = kind(records)
    one.begin(nursery, getattr(one, code))
    while not one.rested:
        await trio.lowlevel.checkpoint()
    one.evict()


async def memory(kind: Kind, code: str, many: int = 1000) -> str:
    """Weigh runs that wait, with their tasks."""
    kept: list[Any] = []
    before = 0
    async with trio.open_nursery() as nursery:
        for count in (20, many):
            gc.collect()
            if count == many:
                tracemalloc.start()
                before = tracemalloc.get_traced_memory()[0]
            new: list[Any] = [kind() for _ in range(count)]
            kept += new
            for one in new:
                one.begin(nursery, getattr(one, code))
            for _ in range(6):
                await trio.lowlevel.checkpoint()
            for one in new:
                one.give(1, "hello")
            for _ in range(6):
                await trio.lowlevel.checkpoint()
            for one in new:
                one.clear()
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        nursery.cancel_scope.cancel()
        for one in kept:
            one.evict()
    return f"{used // many} bytes"


async def main() -> None:
    everything: tuple[tuple[str, Any, str, tuple[Kind, ...]], ...] = (
        ("an echo, a fresh run", echoes, "echo", (Bare, New)),
        ("a turn of ask", turns, "ask", (Bare, New)),
        ("a turn of ask that reads and writes a key", turns, "keeps", (New,)),
        ("a turn of ask inside two open deadlines", turns, "outer", (Bare, New)),
        ("a turn of ask that opens two deadlines", turns, "inner", (Bare, New)),
    )
    for title, drive, code, kinds in everything:
        print(title)
        spent: dict[Kind, list[float]] = {kind: [] for kind in kinds}
        for _ in range(ROUNDS):
            for kind in kinds:
                spent[kind].append(await cpu(drive, kind, code))
        for kind in kinds:
            print(f"  {kind.name:12} {await calls(drive, kind, code):5.0f} calls {min(spent[kind]):6.1f} us")
    for code in ("asks", "asks_inside"):
        print(f"replay, an operation ({code})")
        print(f"  {New.name:12} {await replay(New, code)}")
    for code in ("ask", "outer"):
        print(f"a run that waits ({code})")
        for kind in (Bare, New):
            print(f"  {kind.name:12} {await memory(kind, code)}")


if __name__ == "__main__":
    trio.run(main)
