"""Random conversations: trees of what authors do, and an interpreter that does it through an incarnation."""

from __future__ import annotations

import random
from typing import Any

import trio

from triobot.journal.incarnation import Incarnation

from .listworld import Dead, ListWorld

Node = tuple[Any, ...]

LEAVES = (
    "send",
    "send",
    "send",
    "wait",
    "wait",
    "sleep",
    "step",
    "step",
    "data",
    "random",
    "now",
    "note",
    "if",
    "plain",
)
BLOCKS = (
    "loop",
    "move_on",
    "move_on",
    "fail",
    "branches",
    "branches",
    "nested",
    "finally",
    "except",
    "cancel",
    "shield",
    "event",
    "channel",
    "crowd",
)


class Maker:
    """Makes programs of a seed; each node has a number of its own."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def length(self) -> int:
        # Long and odd, so that nothing happens at the same millisecond by chance.
        return self.random.randrange(1, 4_000_000)

    def body(self, depth: int, size: int | None = None) -> list[Node]:
        return [self.node(depth) for _ in range(size or self.random.randint(1, 4))]

    def node(self, depth: int) -> Node:
        self.count += 1
        number, r = self.count, self.random
        if depth <= 0 or r.random() < 0.55:
            kind = r.choice(LEAVES)
            if kind == "wait":
                return ("wait", number, r.choice(["", "", "a", "b"]))
            if kind == "sleep":
                return ("sleep", number, self.length())
            if kind == "if":
                return ("if", number, self.body(0, 1), self.body(0, 1))
            if kind == "step":
                return ("step", number, r.choice(["value", "value", "error", "odd"]))
            return (kind, number)
        kind, body = r.choice(BLOCKS), self.body(depth - 1)
        match kind:
            case "loop":
                return (kind, number, r.randint(2, 3), body)
            case "move_on" | "fail":
                return (kind, number, self.length(), body)
            case "branches" | "nested" | "crowd":
                bodies = [self.body(depth - 1) for _ in range(r.randint(2, 3))]
                return (kind, number, bodies, r.random() < 0.2, self.length())
            case "finally":
                return (kind, number, body, r.random() < 0.6)
            case "cancel":
                return (kind, number, body, self.body(depth - 1, 1))
            case "shield":
                return (kind, number, self.length(), body)
            case "event" | "channel":
                return (kind, number, self.body(depth - 1, 1), self.body(depth - 1, 1))
            case _:
                return (kind, number, body)


class Runner:
    """Runs a program."""

    def __init__(self, incarnation: Incarnation, world: ListWorld, program: list[Node], lane: bool) -> None:
        self.chat = incarnation
        self.world = world
        self.program = program
        self.lane = "chat" if lane else None
        self.log: list[object] = []

    async def main(self) -> None:
        await self.run(self.program)
        await self.send("the end")

    async def send(self, text: str) -> None:
        branch = self.chat.current()
        id = f"{branch.path}{branch.count + 1}"
        said = f"{text} {len(self.log)}"

        async def body() -> int:
            return await self.world.send(id, said)

        length = await self.chat.effect("send", body, said, lane="chat")
        self.log.append(("sent", length))

    async def run(self, body: list[Node]) -> None:
        for node in body:
            await self.one(node)

    async def one(self, node: Node) -> None:
        match node:
            case ("send", number):
                await self.send(f"text {number}")
            case ("wait", number, letter):
                self.log.append((number, await self.chat.wait("receive", letter)))
            case ("sleep", number, length):
                await self.chat.sleep(length / 1000)
                self.log.append((number, "slept"))
            case ("step", number, kind):
                await self.step(number, kind)
            case ("data", number):
                held = int(self.chat.data.get("n", "0"))
                if self.chat.put_data("n", str(held + 1), self.world.kept):
                    self.world.memory["n"] = str(held + 1)
            case ("random", number):
                self.log.append((number, self.chat.random().random(), self.chat.uuid().hex))
            case ("now", number):
                self.log.append((number, self.chat.now()))
            case ("note", number):
                self.log.append(number)
            case ("plain", number):
                # Long enough for what is written behind, and for a crash in it.
                for _ in range(20):
                    await trio.lowlevel.checkpoint()
                self.log.append((number, "plain"))
            case ("if", _, one, other):
                await self.run(one if len(self.log) % 2 else other)
            case _:
                await self.block(node)

    async def step(self, number: int, kind: str) -> None:
        world, branch = self.world, self.chat.current()
        key = f"{branch.path}{branch.count}"

        async def body() -> object:
            world.action()
            if world.dead:
                raise Dead
            if world.race is not None:
                if world.race.random() < 0.5:
                    await trio.sleep(world.race.randrange(2000))
                drawn = world.race.randrange(100)
            else:
                await trio.lowlevel.checkpoint()
                drawn = sum(map(ord, key)) % 100
            if kind == "error":
                raise KeyError(drawn)
            if kind == "odd":
                raise _OddError(drawn)
            return {"drawn": (drawn,), "list": [drawn]}

        try:
            value = await self.chat.effect("step", body, kind, lane=self.lane)
        except KeyError as error:
            self.log.append((number, "KeyError", error.args))
        except Exception as error:
            self.log.append((number, type(error).__name__, str(error)))
        else:
            self.log.append((number, value))

    async def block(self, node: Node) -> None:
        chat = self.chat
        match node:
            case ("loop", _, times, body):
                for _ in range(times):
                    await self.run(body)
            case ("move_on", number, length, body):
                with chat.scope(seconds=length / 1000) as limit:
                    await self.run(body)
                self.log.append((number, limit.cancelled_caught))
            case ("fail", number, length, body):
                try:
                    with chat.scope(seconds=length / 1000) as limit:
                        await self.run(body)
                    if limit.cancelled_caught:
                        raise trio.TooSlowError
                except trio.TooSlowError:
                    self.log.append((number, "too slow"))
            case ("branches", number, bodies, fails, length):
                await self.branches(number, bodies, fails)
            case ("nested", number, bodies, fails, length):
                with chat.scope(seconds=length / 1000) as limit:
                    async with chat.open_nursery() as outer:
                        outer.start_soon(self.inner, number, bodies[1:], fails)
                        await self.run(bodies[0])
                self.log.append((number, limit.cancelled_caught))
            case ("crowd", number, bodies, fails, length):
                with chat.scope(seconds=length / 1000):
                    async with chat.open_nursery() as nursery:
                        for branch in range(4):
                            nursery.start_soon(self.waiter, (number, branch))
                        await self.run(bodies[0])
                        if fails:
                            nursery.cancel()
            case ("finally", number, body, shielded):
                try:
                    await self.run(body)
                finally:
                    self.log.append((number, "finally"))
                    if shielded:
                        with chat.scope(shield=True), chat.scope(seconds=100_000):
                            await self.send(f"bye {number}")
                    else:
                        await self.send(f"bye {number}")
            case ("except", number, body):
                try:
                    await self.run(body)
                    raise ValueError(number)
                except* ValueError as group:
                    self.log.append((number, len(group.exceptions)))
            case ("cancel", number, body, before):
                with chat.scope() as scope:
                    async with chat.open_nursery() as nursery:
                        nursery.start_soon(self.run, body)
                        await self.run(before)
                        scope.cancel()
                self.log.append((number, "cancelled", scope.cancelled_caught))
            case ("shield", number, length, body):
                with chat.scope(shield=True), chat.scope(seconds=length / 1000):
                    await self.run(body)
                self.log.append((number, "shielded"))
            case ("event", number, before, after):
                event = chat.open_event()
                async with chat.open_nursery() as nursery:
                    nursery.start_soon(self.after_event, event, after)
                    nursery.start_soon(self.after_event, event, [("note", number)])
                    await self.run(before)
                    event.set()
            case ("channel", number, before, after):
                channel = chat.open_channel(1)
                async with chat.open_nursery() as nursery:
                    nursery.start_soon(self.receive_all, channel)
                    for value in range(3):
                        await channel.send((number, value))
                    await self.run(before)
                    channel.close()
                await self.run(after)
            case _:
                raise AssertionError(node)

    async def branches(self, number: int, bodies: list[list[Node]], fails: bool) -> None:
        try:
            async with self.chat.open_nursery() as nursery:
                for body in bodies:
                    nursery.start_soon(self.run, body)
                if fails:
                    nursery.start_soon(self.failing, number)
        except* ValueError as group:
            self.log.append((number, [str(error) for error in group.exceptions]))

    async def inner(self, number: int, bodies: list[list[Node]], fails: bool) -> None:
        async with self.chat.open_nursery() as first:
            async with self.chat.open_nursery() as second:
                for body in bodies:
                    second.start_soon(self.run, body)
                first.start_soon(self.waiter, (number, "first"))
            if fails:
                first.cancel()

    async def waiter(self, name: object) -> None:
        try:
            self.log.append((name, await self.chat.wait("receive", "b")))
        finally:
            self.log.append((name, "left"))

    async def failing(self, number: int) -> None:
        await self.chat.sleep(number)
        raise ValueError(number)

    async def after_event(self, event: Any, body: list[Node]) -> None:
        await event.wait()
        await self.run(body)

    async def receive_all(self, channel: Any) -> None:
        try:
            while True:
                self.log.append(await channel.receive())
        except trio.EndOfChannel:
            self.log.append("closed")


class _OddError(Exception):
    """No record holds it as itself."""
