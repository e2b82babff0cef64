"""A chat that becomes a group in the middle of a question: no restart says again what was said before."""

from __future__ import annotations

from functools import partial

import pytest

from triobot import Bot, Chat
from triobot.filters import command
from triobot.testing import NotSeenError, Plan, drive, run, simulate


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


async def test_what_was_seen_in_a_group_stays_seen(autojump_clock: object) -> None:
    """A person who is named anew has read the group; each reads for themselves."""
    bot = Bot()

    @bot.aside(command("hi"))
    async def greet(chat: Chat) -> None:
        await chat.send("Hello!")

    async with drive(bot) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        group = await world.group(ali, sara)
        await ali.at(group).says("/hi")
        await ali.at(group).sees("Hello!")
        with pytest.raises(NotSeenError, match="did not come"):
            await ali.at(group).sees("Hello!", within=2)
        with pytest.raises(NotSeenError, match=r"Sara .*'bot #2 Hello!'"):
            await sara.at(group).sees_nothing(within=2)
        assert ali.at(group).at(ali.chat_id) is ali


@pytest.mark.slow
def test_a_crowd_in_groups_keeps_the_one_rule() -> None:
    outcome = run(partial(simulate, asking(), Plan(seed=5, chats=8, groups=3, hours=6, crashes=4)))
    assert outcome.broken == []
