"""A chat that becomes a group in the middle of a question: no restart says again what was said before."""

from __future__ import annotations

from functools import partial

import pytest

from triobot import Bot, Chat
from triobot.testing import Plan, drive, run, simulate


def asking() -> Bot:
    bot = Bot()

    @bot.conversation
    async def ask(chat: Chat) -> None:
        number = await chat.ask("How many?", int)
        size = await chat.choose(f"{number}, of which size?", {"s": "Small", "l": "Large"})
        await chat.send(f"{number} {size}")

    return bot


@pytest.mark.parametrize("crashing", [False, True])
async def test_hints_end_where_a_group_begins(autojump_clock: object, crashing: bool) -> None:
    """The replay-check runs the conversation again in what is a group by then."""
    async with drive(asking()) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        group = await world.group(name="team")
        here, there = ali.at(group), sara.at(group)
        await here.joins()
        await here.sees("How many?")
        await here.says("2")
        await here.sees("2, of which size?")
        # As long as Ali is alone there, whoever doesn't press a button is told to.
        await here.says("Large")
        hint = await here.sees()
        await there.joins()
        await there.says("chatter")
        await here.sees_nothing(within=5)
        if crashing:
            await world.crashes()
        await there.presses("Small")
        await here.sees("2 s")
        texts = [seen.text for seen in await here.history() if seen.from_bot]
        assert texts.count(hint.text) == 1


@pytest.mark.slow
def test_a_crowd_in_groups_keeps_the_one_rule() -> None:
    outcome = run(partial(simulate, asking(), Plan(seed=5, chats=8, groups=3, hours=6, crashes=4)))
    assert outcome.broken == []
