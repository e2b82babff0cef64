"""An author's condition is asked once about an event, whoever takes that, and on whatever way it comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import attrs
import pytest
import trio
from doubles import FakeStore
from town import open_town
from trio.testing import MockClock

from triobot import Chat, Key, Otherwise, Router
from triobot.conversations.routes.filters import Filter
from triobot.filters import flooding, kept, matches, text, when
from triobot.wire.events import Event

WORDS = Key("filters_once_words", str, default="yes")


class Question:
    """Counts how often it is asked about each text."""

    def __init__(self) -> None:
        self.times = Counter[object]()

    def about(self, said: object) -> bool:
        self.times[said] += 1
        return str(said).startswith("take")

    def asks(self, event: Event) -> bool:
        return self.about(getattr(event, "content", None))


@attrs.frozen
class Words:
    """Any words."""

    words: str


MAKERS: dict[str, Callable[[Question], Filter[object]]] = {
    "when": lambda question: when(question.asks),
    "not": lambda question: ~~when(question.asks),
    "or": lambda question: text("nothing like it") | when(question.asks),
    "and": lambda question: text() & when(question.asks),
    "where": lambda question: text().where(question.asks),
    "where of a value": lambda question: matches(r"(?P<words>.*)", Words).where(
        lambda match: question.about(match.content)
    ),
    "beside one that counts": lambda question: when(question.asks) & ~flooding(per_minute=1_000),
    "fails": lambda question: when(lambda event: question.asks(event) and 1 // 0 > 0),
}
ROUTES = [(kind, made) for kind in ("aside", "conversation") for made in MAKERS]
ROUTES += [(kind, "when") for kind in ("ignore", "interrupt", "router")]


def one_route(kind: str, taken: Filter[object]) -> Router:
    """A bot of one route with this filter; others take what begins with `begin` or `busy`."""
    bot = Router()
    own = Router(when=taken) if kind == "router" else Router()  # type: ignore[arg-type]

    async def takes(chat: Chat) -> None:
        await chat.send("taken")

    match kind:
        case "ignore":
            bot.ignore(taken)  # type: ignore[arg-type]
        case "interrupt":
            bot.interrupt(taken)(takes)
        case "aside":
            bot.aside(taken)(takes)
        case "conversation":
            bot.conversation(taken)(takes)
        case _:
            own.aside(text())(takes)
            bot.include(own)

    @bot.conversation(text("begin"))
    async def rests(chat: Chat) -> None:
        await chat.receive(text("go on"))
        await chat.send("went on")

    @bot.conversation(text("busy"))
    async def busy(chat: Chat) -> None:
        await chat.sleep(60)

    return bot


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("before", ["", "begin", "busy", "restart"])
@pytest.mark.parametrize(("kind", "made"), ROUTES)
async def test_a_route_asks_once(
    kind: str, made: str, before: str, at_once: bool, autojump_clock: MockClock
) -> None:
    """Before an event is stored, when it comes, when its turn comes: the first answer counts."""
    question, store = Question(), FakeStore()
    bot = one_route(kind, MAKERS[made](question))
    if before == "restart":
        async with open_town(bot, store=store) as town:
            await town.says("begin")
            await town.dispatcher.drain()
    async with open_town(bot, store=store) as town:
        town.at_once = at_once
        await town.rest()
        if before in ("begin", "busy"):
            await town.says(before)
        for n in range(3):
            await town.says(f"take {n}")
            await town.says(f"leave {n}")
        await town.says("go on")
        await trio.sleep(100)
        assert set(question.times.values()) == {1}, question.times
        assert town.dispatcher.commits.asked.said == {}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("otherwise", [Otherwise.DROP, Otherwise.KEEP, "no"])
async def test_a_wait_and_a_block_ask_once(
    otherwise: Otherwise | str, at_once: bool, autojump_clock: MockClock
) -> None:
    """One filter in two waits is two questions: what it goes by may have changed meanwhile."""
    waits, ends = Question(), Question()
    takes, ending = when(waits.asks), when(ends.asks)
    bot = Router()

    @bot.conversation(text("begin"))
    async def rests(chat: Chat) -> None:
        await chat.receive(takes, otherwise=otherwise)
        await chat.send("first")
        with chat.move_on_when(ending):
            await chat.sleep(1_000)
        await chat.send("ended")

    async with open_town(bot) as town:
        town.at_once = at_once
        await town.says("begin")
        await town.says("leave 1")
        await town.says("leave 2")
        await town.says("take 3")
        await town.says("leave 4")
        await town.says("take 5")
        assert town.sent()[-1] == "ended"
        assert set(waits.times.values()) | set(ends.times.values()) == {1}, (waits.times, ends.times)


async def test_one_filter_in_two_waits_is_asked_by_each(autojump_clock: MockClock) -> None:
    """Whose turn it is may have changed: what was kept for later is looked at anew."""
    turn = ["nobody"]
    its_turn, bot = when(lambda event: getattr(event, "content", "") == turn[0]), Router()

    @bot.conversation(text("begin"))
    async def plays(chat: Chat) -> None:
        for name in ("ali", "sara"):
            turn[0] = name
            await chat.receive(its_turn, otherwise=Otherwise.KEEP)
            await chat.send(name)

    async with open_town(bot) as town:
        for word in ("begin", "sara", "ali"):
            await town.says(word)
        assert town.sent() == ["ali", "sara"]


async def test_what_is_kept_is_looked_at_when_the_event_comes(autojump_clock: MockClock) -> None:
    """An event that waits for its turn is for whom it was for when it came."""
    bot, seen = Router(), list[str]()

    @bot.aside(kept(WORDS, lambda words: not seen.append(words) and words == "yes") & text("now?"))
    async def takes(chat: Chat) -> None:
        await chat.send("taken")

    @bot.conversation(text("begin"))
    async def changes(chat: Chat) -> None:
        chat.data[WORDS] = "no"
        await chat.sleep(10)
        chat.data[WORDS] = "yes"

    async with open_town(bot) as town:
        await town.says("begin")
        await town.says("now?")
        await trio.sleep(20)
        assert town.sent() == []
        await town.says("now?")
        assert town.sent() == ["taken"]


async def test_a_flooded_chat_asks_once(autojump_clock: MockClock) -> None:
    """What waits in the inbox, and is read from there when there is room, was asked about when it came."""
    question, ends = Question(), Question()
    bot = one_route("aside", when(question.asks))

    @bot.conversation(text("works"))
    async def works(chat: Chat) -> None:
        with chat.move_on_when(when(ends.asks)):
            await chat.sleep(60)
        while True:
            with chat.move_on_after(1):
                await chat.receive(text())
                continue
            break

    async with open_town(bot) as town:
        await town.says("works")
        for n in range(40):
            await town.says(f"leave {n}", wait=False)
        await trio.sleep(200)
        assert set(question.times.values()) == {1}
        assert set(ends.times.values()) == {1}
