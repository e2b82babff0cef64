"""One durable coroutine through as many processes as a test likes, on a host of lists."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from triobot.engine import (
    ABSENT,
    Codec,
    End,
    Host,
    Put,
    Record,
    Run,
    RunOwner,
    begun,
    decode_record,
    encode_record,
)
from triobot.errors import NondeterminismError

from .plain import JSON

EPOCH = 1_000_000

Main = Callable[..., Awaitable[object]]


class Lives(Host, RunOwner):
    """The host: what it was given is in lists, and durable with each commit and at the end.

    Attributes:
        lines: the journal.
        sent: what effects did.
        data: what is shared.
        told: what it was told besides, as text.
        run: the present incarnation.
        end: how the last one came to its end.
    """

    run: Run

    def __init__(self, *args: object, codec: Codec = JSON) -> None:
        self.lines = [encode_record(begun("main", *args, time=EPOCH, seed="seed", codec=codec))]
        self.sent: list[Any] = []
        self.data: dict[str, Any] = {}
        self.rows: list[int] = []
        self.told: list[str] = []
        self.codec = codec
        self.end: End | None = None
        self.offset = EPOCH
        self.by = 0
        self.commits = True
        self._pending: list[tuple[str, Sequence[int], object]] = []
        self._nursery: trio.Nursery | None = None
        self._timer = trio.CancelScope()
        self._number = 0

    # --- the protocol

    def now(self) -> int:
        return self.offset + round(trio.current_time() * 1000)

    def append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        self._pending.append((encode_record(record), rows, write))

    async def commit(self) -> None:
        await trio.lowlevel.checkpoint()
        if not self.commits:
            raise OSError("the disk is full")
        self.flush()

    def rests(self, wake: int | None) -> None:
        self._timer.cancel()
        if wake is not None and self._nursery is not None:
            self._timer = trio.CancelScope()
            self._nursery.start_soon(self._wait, self._timer, wake)

    async def _wait(self, scope: trio.CancelScope, wake: int) -> None:
        with scope:
            await trio.sleep(max(0, wake - self.now()) / 1000)
            self.run.tick()

    def read(self, key: str) -> Any:
        written = [write for _, _, write in self._pending if isinstance(write, Put) and write.key == key]
        return written[-1].node if written else self.data.get(key, ABSENT)

    def jumped(self) -> int:
        return self.by

    def repeated(self, id: Any, kind: str) -> None:
        self.told.append(f"repeated {kind} {id}")

    def diverged(self, error: NondeterminismError, task: trio.lowlevel.Task | None) -> None:
        self.told.append(f"stuck at {error.id}")

    def swallowed(self, id: Any) -> None:
        self.told.append(f"swallowed at {id}")

    # --- for tests

    def is_set(self, by: int) -> None:
        """Have the clock set forward by this."""
        self.offset += by
        self.by += by

    def flush(self) -> None:
        """Make durable what was appended."""
        for line, rows, write in self._pending:
            self.lines.append(line)
            self.rows += rows
            if isinstance(write, Put):
                if write.node is ABSENT:
                    self.data.pop(write.key, None)
                else:
                    self.data[write.key] = write.node
        self._pending.clear()

    def lose(self) -> None:
        """Forget what was appended, as a kill does."""
        self._pending.clear()

    @property
    def records(self) -> list[Record]:
        return [decode_record(line) for line in self.lines]

    @property
    def tags(self) -> str:
        """The tags of the journal, without its start."""
        return "".join(record[0] for record in self.records[1:])

    async def send(self, text: str) -> int:
        await trio.lowlevel.checkpoint()
        self.sent.append(text)
        return len(self.sent)

    async def say(self, run: Run, text: str, **options: Any) -> int:
        """An effect of the code."""
        return await run.effect("send", self.send, text, print=text, lane="chat", **options)  # type: ignore[no-any-return]

    async def give(self, *events: object) -> None:
        """Bring events, each when everything rests."""
        for event in events:
            self._number += 1
            self.run.deliver(self._number, self.now(), event)
            await wait_all_tasks_blocked()

    @asynccontextmanager
    async def living(self, main: Main, *, killed: bool = False, **options: Any) -> AsyncGenerator[Run]:
        """Let it live while the block lasts; then it is evicted, or its process is killed."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self.run = Run(self, self.records, codec=self.codec, owner=self, **options)

            async def lives() -> None:
                self.end = await self.run.run(main)

            async with trio.open_nursery() as own:
                own.start_soon(lives)
                await wait_all_tasks_blocked()
                yield self.run
                if killed:
                    self.lose()
                self.run.evict()
                await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        if not killed:
            self.flush()

    async def live(self, main: Main, *events: object, **options: Any) -> End | None:
        """Let it live with some events; returns how it came to its end."""
        async with self.living(main, **options):
            await self.give(*events)
        return self.end
