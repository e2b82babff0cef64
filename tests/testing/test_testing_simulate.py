"""The simulation: it repeats itself, and it finds what is wrong."""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from triobot import Bot, Buttons, Chat, Room, Router
from triobot.cli.loading import load_bot
from triobot.filters import command, pressed, signal, text
from triobot.testing import Plan, SimulationResult, run, simulate
from triobot.testing.promises import PROMISES
from triobot.testing.simulating import FirstBroken, simulate_until, words_of


def simulated(bot: Bot, plan: Plan) -> SimulationResult:
    return run(partial(simulate, bot, plan))


def plans(plan: Plan) -> Iterator[Plan]:
    """The same with one seed after the other: what a single one does is no promise."""
    return (attrs.evolve(plan, seed=seed) for seed in range(1, 100))


def talkative() -> Bot:
    bot = Bot()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        name = await chat.ask("Your name?")
        with chat.move_on_after(3600):
            size = await chat.choose(f"Hello, {name}.", {"s": "Small", "l": "Large"})
            await chat.answer("Thank you.")
            await chat.send(size)

    @bot.aside(command("help"))
    async def help_(chat: Chat) -> None:
        await chat.send("Say your name.")

    return bot


@pytest.fixture
def pizza(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bot]:
    """The example; no later test finds its module, or others in its folder."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield load_bot(f"{Path(__file__).parents[2] / 'examples' / 'pizza.py'}:bot")
    del sys.modules["pizza"]


@pytest.mark.slow
def test_a_crowd_comes_to_what_is_paid_for(pizza: Bot) -> None:
    """Behind a place, a form with a number, and money: who cancelled at half of all texts never got there."""
    found = [simulated(pizza, Plan(seed=seed, chats=20, hours=12, crashes=0, faults=0)) for seed in range(3)]
    routes = Counter[str]()
    for one in found:
        routes.update({name.rpartition(".")[2]: count for name, count in one.routes.items()})
    assert routes["deliver"] > routes["pizza"] / 4
    assert routes["cancel"] < routes["pizza"]


def test_a_seed_gives_the_same_run_and_another_one_another() -> None:
    plan = Plan(seed=3, chats=5, hours=6, crashes=2, faults=5)
    first, second = simulated(talkative(), plan), simulated(talkative(), plan)
    assert first == second
    assert first.broken == []
    assert min(first.acts, first.events, first.messages, sum(first.faults.values())) > 20
    assert all(first.routes.values())
    assert first.kept == list(PROMISES.values())
    assert simulated(talkative(), Plan(seed=4, chats=5, hours=6, crashes=2)).digest != first.digest


@pytest.mark.slow
def test_how_fast_a_thread_is_decides_nothing() -> None:
    """Two chats work in threads at the same time; which of them is done first is no business of the seed."""

    def run_once(slow: int) -> SimulationResult:
        bot, number = Bot(), itertools.count()

        def work() -> int:
            time.sleep(0.002 if next(number) % 2 == slow else 0)
            return next(order)

        order = itertools.count()

        async def step() -> int:
            return await trio.to_thread.run_sync(work)

        @bot.conversation
        async def busy(chat: Chat) -> None:
            async with chat.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(one, chat)

        async def one(chat: Chat) -> None:
            await chat.send(f"worked as number {await chat.step(step)}")

        return simulated(bot, Plan(seed=1, chats=2, hours=1, crashes=0, faults=0))

    first = run_once(0)
    assert first.messages > 5
    assert first == run_once(1)


def quizzing() -> tuple[Bot, list[tuple[int, int]]]:
    """A bot that nobody gets to by chance, and who pressed what in which chat."""
    bot, pressed_by = Bot(), list[tuple[int, int]]()

    @bot.conversation(command("quiz"))
    async def quiz(chat: Chat) -> None:
        buttons = Buttons({"n": "Nile", "k": "Karun"})
        asked = await chat.send("Which one?", buttons=buttons)
        with chat.move_on_after(600):
            while True:
                press = await chat.receive(buttons.pressed(asked))
                await chat.answer("Noted.")
                assert press.sender is not None
                pressed_by.append((chat.id, press.sender.id))

    return bot, pressed_by


def test_a_crowd_writes_what_the_bot_waits_for() -> None:
    bot, pressed_by = quizzing()
    assert words_of(bot) == ["/quiz"]
    outcome = simulated(bot, Plan(chats=4, hours=6, crashes=2))
    assert outcome.broken == []
    assert pressed_by  # nobody comes upon the word by chance


@pytest.mark.slow
def test_a_crowd_meets_in_groups() -> None:
    for plan in plans(Plan(chats=8, groups=3, hours=6, crashes=2)):
        (first_bot, pressed_by), (second_bot, _) = quizzing(), quizzing()
        first = simulated(first_bot, plan)
        assert first.broken == []
        assert simulated(second_bot, plan) == first
        by_chat = {chat: {who for at, who in pressed_by if at == chat} for chat, _ in pressed_by}
        if max(map(len, by_chat.values()), default=0) > 1:
            return
    pytest.fail("nobody met anybody")


def test_a_router_waits_for_what_its_routes_do() -> None:
    bot, router = Bot(), Router(when=text("please") | command("/Admin"))

    @router.aside(command("ban") & text())
    async def ban(chat: Chat) -> None: ...

    @bot.conversation
    async def rest(chat: Chat) -> None: ...

    bot.include(router)
    assert words_of(bot) == ["/admin", "/ban", "please"]


@pytest.mark.slow
def test_a_conversation_that_fails_is_found() -> None:
    bot = Bot()

    @bot.conversation
    async def fragile(chat: Chat) -> None:
        if await chat.ask("How many?") == "2":
            raise ZeroDivisionError

    runs = (simulated(bot, plan) for plan in plans(Plan(chats=3, hours=6, crashes=0)))
    found, *_ = next(one.broken for one in runs if one.broken)
    assert found.startswith("alarm conversation_crashed: conversation ")
    assert "ZeroDivisionError" in found


@pytest.mark.slow
def test_a_crowd_stops_soon_after_the_first_broken_promise() -> None:
    """Where it broke is known by its journal; and the whole run breaks it, too."""
    bot = Bot()

    @bot.conversation
    async def fragile(chat: Chat) -> None:
        if await chat.ask("How many?") == "2":
            raise ZeroDivisionError

    for plan in plans(Plan(chats=4, hours=12, crashes=4)):
        found = FirstBroken()
        stopped = run(partial(simulate_until, found, bot, plan))
        if found.promise is not None:
            break
    whole = simulated(bot, plan)
    assert found.promise is not None
    assert found.promise.text in stopped.broken
    assert set(stopped.broken) <= set(whole.broken)
    assert stopped.acts < whole.acts
    row, *records = found.journals[0]
    assert str(row["route"]).endswith(".fragile")
    assert row["error"] is not None
    assert records
    assert found.person.startswith("Person ")


def test_events_that_nobody_handles_are_found() -> None:
    bot = Bot()

    @bot.conversation
    async def deaf(chat: Chat) -> None:
        await trio.sleep_forever()

    found = FirstBroken()
    [words] = run(partial(simulate_until, found, bot, Plan(chats=3, hours=6, crashes=0))).broken
    assert "events were accepted and never handled" in words
    # Nothing is written of one that has done nothing, unless its row is stored with the event.
    assert all(row["ended_at"] is None for row, *_ in found.journals)


def test_a_press_that_nobody_answers_is_found() -> None:
    bot = talkative()

    @bot.aside(pressed(int))
    async def never(chat: Chat) -> None:
        """Only there so that this is not the same bot."""

    answers = "triobot.outbox.answers.Answers.answer_soon"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, lambda *_: None)
        found = simulated(bot, Plan(chats=3, hours=6, crashes=0)).broken
    assert any("presses in chat" in one and "were never answered" in one for one in found)


@attrs.frozen
class Knock:
    """What a room is told."""


@pytest.mark.slow
async def test_what_a_running_room_has_not_asked_for_is_not_forgotten(autojump_clock: object) -> None:
    bot = Bot()

    @bot.room(signal(Knock))
    async def deaf(room: Room[Knock]) -> None:
        await room.sleep(30 * 24 * 3600)

    @bot.aside(text())
    async def knocks(chat: Chat) -> None:
        await chat.to(deaf).signal(Knock())

    result = await simulate(bot, Plan(seed=1, chats=5, hours=1))
    assert result.broken == []
