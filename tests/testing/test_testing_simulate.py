"""The simulation: it repeats itself, and it finds what is wrong."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from triobot import Bot, Chat
from triobot.filters import command, pressed
from triobot.testing import Outcome, Plan, run, simulate


def simulated(bot: Bot, plan: Plan) -> Outcome:
    return run(partial(simulate, bot, plan))


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


def test_a_seed_gives_the_same_run_and_another_one_another() -> None:
    plan = Plan(seed=3, chats=5, hours=6, crashes=2, faults=2)
    first, second = simulated(talkative(), plan), simulated(talkative(), plan)
    assert first == second
    assert first.broken == []
    assert min(first.acts, first.events, first.messages, first.faults) > 20
    assert simulated(talkative(), Plan(seed=4, chats=5, hours=6, crashes=2)).digest != first.digest


def test_a_conversation_that_fails_is_found() -> None:
    bot = Bot()

    @bot.conversation
    async def fragile(chat: Chat) -> None:
        if await chat.ask("How many?") == "2":
            raise ZeroDivisionError

    [found] = simulated(bot, Plan(chats=3, hours=6, crashes=0)).broken
    assert found.startswith("alarm conversation_crashed: conversation ")
    assert "ZeroDivisionError" in found


def test_events_that_nobody_handles_are_found() -> None:
    bot = Bot()

    @bot.conversation
    async def deaf(chat: Chat) -> None:
        await trio.sleep_forever()

    [found] = simulated(bot, Plan(chats=3, hours=6, crashes=0)).broken
    assert "events were accepted and never handled" in found


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
