"""The assistant streams, is interrupted by a button or the next question, and remembers what was seen."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from triobot.testing import drive

Example = Callable[[str], ModuleType]


async def test_an_answer_grows_in_one_message(example: Example, autojump_clock: object) -> None:
    async with drive(example("assistant").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("What is a run?")
        await sara.sees("…")
        await world.waits(seconds=15)
        [answer] = [seen for seen in await sara.history() if seen.from_bot]
        assert answer.text.split()[0] == "word0"
        assert "word19" in answer.text
        assert answer.buttons == ()


async def test_a_button_and_the_next_question_interrupt_it(example: Example, autojump_clock: object) -> None:
    """Each answer knows the lines before it: what the user has seen of them."""
    assistant = example("assistant")
    async with drive(assistant.bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("One?")
        await world.waits(seconds=1.2)
        await sara.presses("Stop")
        await world.waits(seconds=2)
        await sara.says("Two?")
        await world.waits(seconds=1.2)
        await sara.says("Three?")
        await world.waits(seconds=15)
        one, two, three = [seen.text for seen in await sara.history() if seen.from_bot]
        assert "word3 of 1" in one
        assert "word9" not in one
        assert "of 3" in two
        assert "word9" not in two
        assert "word19 of 5" in three

        await sara.says("/new")
        await sara.sees("A new talk. What is it?")
        await sara.says("Four?")
        await world.waits(seconds=15)
        assert "word19 of 1" in (await sara.history())[-1].text


async def test_what_was_seen_outlives_a_crash(example: Example, autojump_clock: object) -> None:
    """An answer that a crash cuts begins anew, in the same message."""
    async with drive(example("assistant").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("One?")
        await world.waits(seconds=1.2)
        await world.crashes()
        await world.waits(seconds=1.2)
        await sara.presses("Stop")
        await world.waits(seconds=1)
        await world.crashes()
        await sara.says("Two?")
        await world.waits(seconds=15)
        one, two = [seen.text for seen in await sara.history() if seen.from_bot]
        assert "word3 of 1" in one
        assert "word9" not in one
        assert "word19 of 3" in two


async def test_a_person_has_a_quota_over_all_chats(example: Example, autojump_clock: object) -> None:
    assistant = example("assistant")
    assistant.QUOTA = 1
    async with drive(assistant.bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("One?")
        await world.waits(seconds=15)
        group = await world.group(sara)
        await sara.at(group).says("Two?")
        await sara.at(group).sees("That was enough for today.")
