"""The bot that the nodes run, and the people who talk to it: what each must have heard in the end."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Final, Protocol

import attrs
import trio

from tests.loopback import text_event
from triobot import Bot, Chat, Key
from triobot.filters import text

COUNTED: Final = Key("simulation.counted", int, default=0)
QUESTIONS: Final = 3
TEXTS: Final = 6


class Acts(Protocol):
    """Is told that a conversation acts on the world."""

    def __call__(self, chat: int) -> None: ...


def make_bot(acts: Acts) -> Bot:
    """Return a bot whose conversations ask, hear many texts, run steps, and count in another shard."""
    bot = Bot()

    @bot.conversation(text(), name="talk")
    async def talk(chat: Chat) -> None:
        what, _, number = chat.event.content.partition(" ")
        if what == "ask":
            answers = [await chat.ask(f"{number}.{one}?") for one in range(QUESTIONS)]
            await chat.step(act, chat.id)
            await chat.shared.update(COUNTED, add, 1)
            await chat.send(f"{number} done: {' '.join(answers)}")
        elif what == "hear":
            heard = [(await chat.receive(text())).content for _ in range(TEXTS)]
            await chat.send(f"{number} heard: {' '.join(heard)}")
        else:
            await chat.send(f"odd: {chat.event.content}")

    async def act(chat_id: int) -> None:
        await trio.sleep(0.01)
        acts(chat_id)

    return bot


def add(old: int, more: int) -> int:
    """Return the sum."""
    return old + more


@attrs.frozen
class Taken:
    """Which node has taken a text.

    Attributes:
        at: when it came to it, which is late if it stood still.
        first: it is the one that was asked first.
    """

    node: str
    at: float
    first: bool


class Door(Protocol):
    """Where people's texts go: a proxy before all nodes."""

    async def post(self, body: bytes, *, node: str | None = None) -> Taken | None:
        """Bring a text to a node, or to the next one; return which took it; None: none has."""
        ...

    def any_node(self) -> str:
        """Return one that takes events now."""
        ...


@attrs.define(eq=False)
class Screen:
    """What a chat has shown so far, in the order in which the platform got it."""

    texts: list[str] = attrs.Factory(list[str])
    news: trio.Event = attrs.Factory(trio.Event)

    def show(self, said: str) -> None:
        """Show a text."""
        self.texts.append(said)
        news, self.news = self.news, trio.Event()
        news.set()

    async def wait_for(self, seen: Callable[[str], bool]) -> str:
        """Wait until there is such a text."""
        while True:
            for said in self.texts:
                if seen(said):
                    return said
            await self.news.wait()


@attrs.define(eq=False)
class Person:
    """Somebody who talks to the bot, round after round.

    Attributes:
        waits_for: what they wait for now.
    """

    chat: int
    door: Door
    screen: Screen
    chance: random.Random
    rounds: int
    waits_for: str = "nothing"

    async def say(self, said: str) -> None:
        """Post a text as the platform does, until it is answered with 200."""
        self.waits_for = f"a 200 for {said}"
        while await self.door.post(text_event(self.chat, said)) is None:
            await trio.sleep(self.chance.uniform(0.05, 0.5))

    async def see(self, said: str) -> str:
        """Wait for a text that begins so."""
        self.waits_for = said
        return await self.screen.wait_for(lambda shown: shown.startswith(said))

    async def pause(self) -> None:
        """Think."""
        await trio.sleep(self.chance.expovariate(1.0))


async def answers(person: Person) -> None:
    """Begin a round, answer its questions, and see that the answers have come in their order."""
    for number in range(person.rounds):
        await person.pause()
        await person.say(f"ask {number}")
        for one in range(QUESTIONS):
            await person.see(f"{number}.{one}?")
            await person.pause()
            await person.say(f"a{number}.{one}")
        said = await person.see(f"{number} done:")
        wanted = " ".join(f"a{number}.{one}" for one in range(QUESTIONS))
        assert said == f"{number} done: {wanted}", f"chat {person.chat} heard {said!r}, and not {wanted}"
    person.waits_for = "nothing"


@attrs.frozen
class _Posted:
    """A text that was taken at the first attempt.

    Attributes:
        at: when it was posted.
        by: which node has taken it.
        taken: when it was answered.
    """

    text: str
    at: float
    by: Taken
    taken: float


async def talks_fast(person: Person) -> None:
    """Begin a round, say many texts one soon after the other, and see that they came in order, once each."""
    for number in range(person.rounds):
        await person.pause()
        await person.say(f"hear {number}")
        posted: list[_Posted] = []
        async with trio.open_nursery() as nursery:
            for one in range(TEXTS):
                # Those that come one after the other to one node have an order.
                if not one % 3:
                    node = person.door.any_node()
                nursery.start_soon(_say_once, person, f"t{number}.{one}", node, posted)
                await trio.sleep(person.chance.choice((0.001, 0.02, 0.3, 1.0)))
        said = await person.see(f"{number} heard:")
        _check_order(person, said.partition(": ")[2].split(), number, posted)
    person.waits_for = "nothing"


async def _say_once(person: Person, said: str, node: str, posted: list[_Posted]) -> None:
    at = trio.current_time()
    taken = await person.door.post(text_event(person.chat, said), node=node)
    if taken is None:
        await trio.sleep(person.chance.uniform(0.05, 0.5))
        await person.say(said)
    elif taken.first:
        posted.append(_Posted(said, at, taken, trio.current_time()))


def _check_order(person: Person, heard: Sequence[str], number: int, posted: Sequence[_Posted]) -> None:
    wanted = [f"t{number}.{one}" for one in range(TEXTS)]
    assert sorted(heard) == wanted, f"chat {person.chat} said {wanted}, and what was heard is {heard}"
    place = {said: at for at, said in enumerate(heard)}
    for one in posted:
        for other in posted:
            same = one.by.node == other.by.node
            before = one.taken < other.at or (same and one.by.at < other.by.at)
            assert not before or place[one.text] < place[other.text], (
                f"chat {person.chat}: {one.text} was overtaken by {other.text}: {heard}; {posted}"
            )


def check_screen(person: Person, life: Callable[[Person], Awaitable[None]]) -> None:
    """See that the chat has shown everything in order; what was shown twice may have come late."""
    first = list(dict.fromkeys(said for said, _ in groupby(person.screen.texts)))
    wanted: list[str] = []
    for number in range(person.rounds):
        if life is answers:
            wanted += [f"{number}.{one}?" for one in range(QUESTIONS)]
            wanted.append(f"{number} done:")
        else:
            wanted.append(f"{number} heard:")
    shown = [said.partition(":")[0] + ":" if ": " in said else said for said in first]
    assert shown == wanted, f"chat {person.chat} saw {person.screen.texts}"
