"""Random conversations as an author would write them with `Chat`, and random acts of people."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from tests.everything import OPERATIONS, Routes, Things
from triobot import Bot, Chat, Key
from triobot.errors import PaymentHandedOverError, StepError
from triobot.filters import command, message, paid, signal, text, when
from triobot.wire.events import Event, Message

Node: TypeAlias = tuple[Any, ...]
Body: TypeAlias = list[Node]
GoesOn: TypeAlias = Callable[[], Awaitable[None]]

COUNT: Final = Key("fuzz-count", int, default=0)
PRICE: Final = 1_000

LEAVES: Final = (
    "send",
    "send",
    "send",
    "ask",
    "ask",
    "receive",
    "choose",
    "sleep",
    "step",
    "step",
    "data",
    "random",
    "answer",
    "plain",
)
BLOCKS: Final = (
    "loop",
    "move_on",
    "move_on",
    "fail",
    "when",
    "when",
    "branches",
    "branches",
    "cancel",
    "finally",
    "shield",
    "event",
)
# Only for runs whose texts aren't compared, because these outcomes depend on which task is faster.
WILD_LEAVES: Final = ("drain", "charge", "charge", "continue", "continue", "start", "stop")


@attrs.frozen
class Ping:
    """A signal from another program."""

    number: int


@attrs.frozen
class Goods:
    """What is bought."""

    name: str


@final
class Maker:
    """Makes programs of a seed; each node has a number of its own."""

    def __init__(self, seed: str, *, wild: bool, every: bool = False) -> None:
        self.random = random.Random(seed)
        self.leaves = LEAVES + WILD_LEAVES if wild else LEAVES
        # A separate list, so that each seed still gives the same program.
        self.every = sorted(OPERATIONS) if every else ()
        self.count = 0

    def seconds(self) -> float:
        return self.random.randrange(1, 3_000_000) / 1000

    def body(self, depth: int, size: int | None = None) -> Body:
        return [self.node(depth) for _ in range(size or self.random.randint(1, 4))]

    def node(self, depth: int) -> Node:
        self.count += 1
        number, r = self.count, self.random
        if self.every and r.random() < 0.4:
            return ("every", number, self.seconds(), r.choice(self.every))
        if depth <= 0 or r.random() < 0.6:
            return (r.choice(self.leaves), number, self.seconds(), r.choice("ab"))
        kind, body = r.choice(BLOCKS), self.body(depth - 1)
        bodies = [self.body(depth - 1) for _ in range(r.randint(1, 2))]
        return (kind, number, self.seconds(), r.choice("ab"), body, bodies, r.random() < 0.3)


def begins_with(letter: str) -> Callable[[Event], bool]:
    """Tell texts that begin so from everything else."""

    def look(event: Event) -> bool:
        match event:
            case Message(content=str() as said):
                return said.startswith(letter)
            case _:
                return False

    return look


@final
class Talk:
    """One run of a program: what its branches share."""

    def __init__(
        self,
        chat: Chat[Any],
        tag: str,
        goes_on: GoesOn | None,
        aside: Callable[[Chat[Any]], Awaitable[None]],
        *,
        wild: bool,
        routes: Routes | None = None,
    ) -> None:
        self.chat = chat
        self.routes = routes
        self.things: Things | None = None
        self.tag = tag
        self.goes_on = goes_on
        self.aside = aside
        self.wild = wild
        self.log = 0

    async def main(self, program: Body) -> None:
        branch, chat = _Branch(self, ""), self.chat
        if self.routes is None:
            await branch.run(program)
        else:
            sent = await chat.send(branch.words("a message"))
            async with chat.live(branch.words("0 %")) as over:
                pass
            async with chat.live(branch.words("0 %")) as live:
                self.things = Things(chat, sent, live, over, self.routes)
                await branch.run(program)
        await branch.say("the end")


@final
class _Branch:
    """One task: what it says has its own numbers, so that two texts for one operation would be seen."""

    def __init__(self, talk: Talk, path: str) -> None:
        self.talk = talk
        self.chat = talk.chat
        self.path = path
        self.said = 0
        self.children = 0
        self.nurseries = 0
        self.log = 0

    @property
    def steps(self) -> int:
        """How far it has come; with all its siblings, where nothing hangs on which of them was faster."""
        return self.talk.log if self.talk.wild else self.log

    def count(self, more: int) -> None:
        self.log += more
        self.talk.log += more

    def words(self, what: str) -> str:
        self.said += 1
        return f"{self.talk.tag}{self.path}#{self.said}: {what} {self.steps}"

    async def say(self, what: str) -> None:
        await self.chat.send(self.words(what))

    def child(self) -> _Branch:
        self.children += 1
        return _Branch(self.talk, f"{self.path}/{self.children}")

    async def run(self, body: Body) -> None:
        for node in body:
            await self.one(node)
            self.count(1)

    async def within(self, body: Body) -> None:
        self.nurseries += 1
        try:
            await self.run(body)
        finally:
            self.nurseries -= 1

    async def one(self, node: Node) -> None:
        chat = self.chat
        match node:
            case ("send", number, *_):
                await self.say(f"text {number}")
            case ("ask", number, *_):
                answer = await chat.ask(self.words(f"ask {number}"))
                await self.say(f"heard {answer}")
            case ("receive", _, _, letter):
                await chat.receive(message(str) & when(begins_with(letter)))
            case ("choose", number, *_):
                question = self.words(f"choose {number}")
                await self.say(f"chose {await chat.choose(question, {1: 'Yes', 2: 'No'})}")
            case ("answer", number, *_):
                await chat.answer(f"answer {number}")
            case ("sleep", _, seconds, _):
                await chat.sleep(seconds)
            case ("step", number, *_):
                await self.step(number)
            case ("data", *_):
                chat.data[COUNT] += 1
                await self.say(f"count {chat.data[COUNT]}")
            case ("random", *_):
                chat.random().random()
            case ("drain", *_):
                await self.say(f"drained {len(chat.drain())}")
            case ("plain", *_):
                for _ in range(10):
                    await trio.lowlevel.checkpoint()
            case ("charge", _, seconds, _):
                await self.charge(seconds)
            case ("continue", *_):
                # Inside a nursery, triobot refuses `continue_as` as an author's mistake.
                if self.talk.goes_on is not None and not (self.path or self.nurseries):
                    await self.talk.goes_on()
            case ("start", *_):
                await chat.start(self.talk.aside, key=self.path or "main")
            case ("every", _, seconds, name):
                await self.every(name, seconds)
            case ("stop", *_):
                await chat.stop(self.talk.aside, key=self.path or "main")
            case _:
                await self.block(node)

    async def step(self, number: int) -> None:
        async def body(number: int) -> int:
            await trio.lowlevel.checkpoint()
            if number % 3 == 0:
                raise KeyError(number)
            return number

        try:
            self.count(await self.chat.step(body, number))
        except StepError:
            self.count(1)

    async def charge(self, seconds: float) -> None:
        name = self.chat.uuid().hex
        with self.chat.move_on_after(seconds):
            try:
                await self.chat.charge(PRICE, self.words("pay"), item=Goods(name))
            except PaymentHandedOverError:
                return
            await self.say(f"thank you for {name}")

    async def every(self, name: str, seconds: float) -> None:
        """Do what the table has, for a while; also as the first thing in a block that has ended."""
        assert self.talk.things is not None
        with self.chat.move_on_after(seconds if seconds > 1_000 else 0):
            try:
                await OPERATIONS[name](self.talk.things)
            except Exception:
                self.count(1)

    async def block(self, node: Node) -> None:
        chat = self.chat
        kind, number, seconds, letter, body, bodies, flag = node
        match kind:
            case "loop":
                for _ in range(2):
                    await self.run(body)
            case "move_on":
                with chat.move_on_after(seconds) as limit:
                    await self.run(body)
                await self.say(f"over {limit.cancelled_caught}")
            case "fail":
                try:
                    with chat.fail_after(seconds):
                        await self.run(body)
                except trio.TooSlowError:
                    await self.say("too slow")
            case "when":
                stops = signal(Ping) if flag else text(f"{letter}{number % 12}")
                with chat.move_on_when(stops) as scope:
                    await self.run(body)
                await self.say(f"stopped {scope.cancelled_caught}")
            case "branches" | "cancel":
                async with chat.open_nursery() as nursery:
                    for each in bodies:
                        nursery.start_soon(self.child().run, each)
                    await self.within(body)
                    if kind == "cancel":
                        nursery.cancel()
            case "finally":
                try:
                    await self.run(body)
                finally:
                    if flag:
                        with chat.shield(), chat.move_on_after(100):
                            await self.say(f"bye {number}")
                    else:
                        await self.say(f"bye {number}")
            case "shield":
                with chat.shield(), chat.move_on_after(seconds):
                    await self.run(body)
            case "event":
                event = chat.open_event()
                async with chat.open_nursery() as nursery:
                    nursery.start_soon(self.child().after, event, bodies[0])
                    await self.within(body)
                    event.set()
            case _:
                raise AssertionError(node)

    async def after(self, event: Any, body: Body) -> None:
        await event.wait()
        await self.run(body)


def make_bot(seed: int, given: set[str], *, wild: bool, every: bool = False) -> Bot:
    """A bot whose routes are random programs.

    Args:
        given: gets the names of the goods that were handed out.
        every: the programs have everything that an author's code can call.
    """
    maker = Maker(f"talk {seed}", wild=wild, every=every)
    talks = {name: maker.body(3, size) for name, size in (("main", 5), ("x", 2), ("y", 3), ("z", 3))}
    bot = Bot()

    async def give(name: str) -> None:
        await trio.lowlevel.checkpoint()
        given.add(name)

    routes = Routes(bot, give) if every else None

    def tag(chat: Chat[Any], name: str) -> str:
        return f"{name} {chat.uuid().hex[:8]} " if wild else f"{name} "

    async def talk(chat: Chat[Any], name: str, goes_on: GoesOn | None) -> None:
        await Talk(chat, tag(chat, name), goes_on, beside, wild=wild, routes=routes).main(talks[name])

    @bot.conversation
    async def main(chat: Chat[Any], rounds: int = 0) -> None:
        async def goes_on() -> None:
            await chat.continue_as(main, rounds + 1)

        await talk(chat, "main", None if rounds > 3 else goes_on)

    @bot.interrupt(command("x"))
    async def interrupt(chat: Chat[Any]) -> None:
        await talk(chat, "x", None)

    @bot.interrupt(command("clear"))
    async def clear(chat: Chat[Any]) -> None:
        await chat.send("cleared")

    @bot.aside(command("y"))
    async def beside(chat: Chat[Any]) -> None:
        await talk(chat, "y", None)

    @bot.aside(signal(Ping))
    async def pinged(chat: Chat[Any]) -> None:
        await talk(chat, "z", None)

    @bot.aside(paid(Goods))
    async def deliver(chat: Chat[Any]) -> None:
        await chat.step(give, chat.event.item.name)

    return bot
