"""Habits that hurt later: each names the author's line, once, and only while developing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import pytest
import trio
from town import CHAT, open_town
from trio.testing import MockClock

from triobot import Bot
from triobot.conversations import data as data_module
from triobot.conversations.chat import Chat, Room
from triobot.conversations.data import Key
from triobot.conversations.questions.keys import LASTING, encode_key
from triobot.conversations.routes.filters import command, join, pressed, text, when
from triobot.conversations.routes.router import Router
from triobot.testing import drive
from triobot.wire.events import Event, Press

SCORES: Key[dict[str, int]] = Key("scores", dict, default={})
Work = Callable[[Chat], Awaitable[object]]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "triobot.development")
    return lambda: [r.getMessage() for r in caplog.records if r.name == "triobot.development"]


async def run(work: Work, *, aside: bool = False) -> None:
    """Let a conversation do this twice."""
    router = Router()
    declare = router.aside(text()) if aside else router.conversation(text())

    @declare
    async def route(chat: Chat) -> None:
        for _ in range(2):
            await work(chat)

    async with open_town(router, advised=True) as town:
        await town.says("go")
        await trio.sleep(100_000)


async def long_sleep(chat: Chat) -> None:
    await chat.sleep(600)


async def foreign_sleep(chat: Chat) -> None:
    await trio.sleep(5)


async def foreign_children(chat: Chat) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 5)


async def many(chat: Chat) -> None:
    for _ in range(600):
        await chat.sleep(0)


async def changed_copy(chat: Chat) -> None:
    scores = chat.data[SCORES]
    scores["ali"] = 1
    await chat.sleep(1)


@pytest.mark.parametrize(
    ("work", "words", "offset"),
    [
        (long_sleep, "is deaf meanwhile", 1),
        (foreign_sleep, "not a chat operation", 1),
        (foreign_children, "not a chat operation", 1),
        (many, "chat.continue_as()", 2),
        (changed_copy, "assign it back", 1),
    ],
)
async def test_a_habit_is_told_once_with_its_line(
    work: Work,
    words: str,
    offset: int,
    said: Callable[[], list[str]],
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(data_module, "_declared", {"scores"})
    await run(work)
    [told] = said()
    assert words in told
    line = work.__code__.co_firstlineno + offset  # type: ignore[attr-defined]
    assert f"test_advice.py:{line}: " in told


async def test_a_foreign_await_inside_of_a_hook_is_told(
    said: Callable[[], list[str]], autojump_clock: MockClock
) -> None:
    router = Router()

    @router.around
    async def hook(room: Room, call: Callable[[], Awaitable[None]]) -> None:
        await call()

    @router.conversation
    async def route(chat: Chat) -> None:
        await trio.sleep(5)

    async with open_town(router, advised=True) as town:
        await town.says("go")
        await trio.sleep(10)
    (told,) = said()
    assert f"test_advice.py:{route.__code__.co_firstlineno + 2}: " in told  # type: ignore[attr-defined]


async def in_a_block(chat: Chat) -> None:
    with chat.move_on_when(text("stop")):
        await chat.sleep(600)


async def in_a_step(chat: Chat) -> None:
    await chat.step(trio.sleep, 600)
    await trio.lowlevel.checkpoint()


async def with_children(chat: Chat) -> None:
    async with chat.open_nursery() as nursery:
        nursery.start_soon(chat.sleep, 5)
    with chat.move_on_after(5):
        await chat.receive(text("never"))
    async with chat.typing():
        await chat.send("hm")


async def assigned(chat: Chat) -> None:
    scores = chat.data[SCORES]
    scores["ali"] = 1
    chat.data[SCORES] = scores
    _ = chat.data[SCORES]
    await chat.sleep(1)


@pytest.mark.parametrize("work", [in_a_block, in_a_step, with_children, assigned])
async def test_what_is_right_is_not_told(
    work: Work,
    said: Callable[[], list[str]],
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(data_module, "_declared", {"scores"})
    await run(work)
    assert said() == []


async def test_an_aside_may_sleep(said: Callable[[], list[str]], autojump_clock: MockClock) -> None:
    await run(long_sleep, aside=True)
    assert said() == []


async def test_a_bot_in_earnest_is_told_nothing(
    said: Callable[[], list[str]], autojump_clock: MockClock
) -> None:
    router = Router()

    @router.conversation
    async def route(chat: Chat) -> None:
        await trio.sleep(5)
        await chat.sleep(600)

    async with open_town(router) as town:
        await town.says("go")
        await trio.sleep(1000)
    assert said() == []


@attrs.frozen
class Take:
    order: int


async def test_what_no_route_takes_is_told_with_what_was_asked(
    said: Callable[[], list[str]], autojump_clock: MockClock
) -> None:
    """The nearest word, another bot's command, a button whose route has gone; what is taken is not told."""
    router = Router()

    @router.conversation(command("start"))
    async def begin(chat: Chat) -> None: ...

    @router.aside(pressed(Take))
    async def take(chat: Chat) -> None: ...

    async with open_town(router, advised=True) as town:
        await town.says("/start")
        assert said() == []
        await town.says("/strat")
        await town.says("/start@other now")
        await town.presses_data("gone", 7)
        await town.joins()
        await trio.testing.wait_all_tasks_blocked()
    asked = "asked: pressed(Take), command(start)"
    words = said()
    assert [line.partition(" (")[0] for line in words] == [
        "nobody took '/strat'",
        "nobody took '/start@other now'",
        "nobody took a press of 'gone'",
        "nobody took a join",
    ]
    assert all("(Ali, sender 71, chat 5)" in line for line in words)
    assert words[0].endswith("nearest is command(start); also asked: pressed(Take)")
    assert "/start@other is for the bot of that name, and this one's is pizzabot" in words[1]
    assert all(line.endswith(asked) for line in words[1:])


async def test_a_start_with_a_known_key_says_that_it_begins_nothing(
    said: Callable[[], list[str]], autojump_clock: MockClock
) -> None:
    """Once what it began has ended; while that runs, the key does what it is there for."""
    bot = Router()

    @bot.aside
    async def mute(chat: Chat, who: int) -> None:
        await chat.sleep(60)

    @bot.aside(text("mute"))
    async def muted(chat: Chat) -> None:
        await chat.start(mute, 7, key="mute-7")

    async with open_town(bot, advised=True) as town:
        for _ in range(2):
            await town.says("mute")
        assert said() == []
        await trio.sleep(100)
        await town.says("mute")
        (line,) = said()
        assert "test_advice.py:" in line
        assert "mute was started: one was with the key 'mute-7', and has ended" in line


@pytest.mark.parametrize("ended", [True, False])
async def test_a_start_right_behind_the_end_says_that_it_begins_nothing(
    ended: bool, said: Callable[[], list[str]], autojump_clock: MockClock
) -> None:
    """What was stopped doesn't run, even while the stop is on its way to the chat."""
    bot, over = Router(), list[trio.Event]()

    @bot.aside
    async def mute(chat: Chat, who: int) -> None:
        await chat.sleep(3)
        over[-1].set()  # the last thing that it does: its end is not even stored yet

    async with open_town(bot, advised=True) as town:
        chat_calls = town.dispatcher.chat_calls
        name = chat_calls.table.route_of(mute, (7,), "").name
        start = partial(chat_calls.start, CHAT, name, (7,))
        for told, key in enumerate(("mute-7", "mute-8")):
            assert await start(key=key, once=key)
            assert not await start(key=key, once=key)
            assert len(said()) == told
            await trio.testing.wait_all_tasks_blocked()
            over.append(trio.Event())
            if ended:
                await over[-1].wait()
            else:
                assert await chat_calls.stop(CHAT, name, key)
            assert not await start(key=key, once=key)
            *_, line = said()
            assert f"with the key {key!r}, and has ended" in line


async def test_a_press_that_comes_while_another_conversation_is_live(
    said: Callable[[], list[str]], autojump_clock: MockClock
) -> None:
    """The route that would take it is named, what is in its way, and what to write."""
    router, asked = Router(), list[object]()

    def open_order(event: Event) -> bool:
        asked.append(event)
        return isinstance(event, Press) and "1" in str(event.value)

    @router.conversation(pressed(Take) & when(open_order))
    async def serve(chat: Chat) -> None: ...

    @router.conversation(command("start"))
    async def talk(chat: Chat) -> None:
        await chat.ask("What?")

    async with open_town(router, advised=True) as town:
        await town.says("/start")
        await town.presses_data(f"{LASTING}.{encode_key(Take(1))}", 7)
        await town.presses_data(f"{LASTING}.{encode_key(Take(9))}", 7)
        await trio.testing.wait_all_tasks_blocked()
    first, second = said()
    assert first.startswith("nobody took a press of")
    assert "serve, which can't begin while " in first
    assert ".talk is live in the chat: make " in first
    assert "asked: " in second
    assert len(asked) == 2


async def test_a_join_that_comes_while_another_conversation_is_live(
    said: Callable[[], list[str]], autojump_clock: MockClock
) -> None:
    """It was dropped without a word, whatever would have begun with it."""
    router = Router()

    @router.conversation(join())
    async def greet(chat: Chat) -> None: ...

    @router.conversation(command("start"))
    async def talk(chat: Chat) -> None:
        await chat.ask("What?")

    async with open_town(router, advised=True) as town:
        await town.says("/start")
        await town.joins()
        assert town.counts["unasked"] == 1
    (line,) = said()
    assert line.startswith("nobody took a join (Ali, sender 71, chat 5): join() begins ")
    assert "greet, which can't begin while " in line
    assert ".talk is live in the chat: make " in line


async def test_a_start_in_a_chat_that_takes_nothing(
    said: Callable[[], list[str]], autojump_clock: MockClock
) -> None:
    """A person's number is taken for a chat's, and nobody would hear of it: no alarm, and no words."""
    bot = Bot()

    @bot.aside
    async def offer(chat: Chat) -> None:
        await chat.ask("Yes?")

    @bot.aside(command("offer"))
    async def offered(chat: Chat) -> None:
        await chat.to(9000).start(offer)

    async with drive(bot) as world:
        ali = world.user("Ali", id=9000, joined=True)
        await ali.says("/offer")
        await world.waits(minutes=1)
    (line,) = said()
    assert "offer ended: the platform refuses what it sends to chat 9000" in line
    assert "event.sender.id" in line
