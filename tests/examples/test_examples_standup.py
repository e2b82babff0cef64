"""The example in which the members of a group have conversations of their own."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from triobot.testing import drive

Example = Callable[[str], ModuleType]


async def test_members_answer_for_themselves(example: Example, autojump_clock: object) -> None:
    """Whoever speaks answers their own question, whichever was asked last; also after a crash."""
    async with drive(example("standup").bot) as world:
        ali, sara, reza = world.user("Ali"), world.user("Sara"), world.user("Reza")
        group = await world.group(ali, sara, reza)
        ali, sara, reza = ali.at(group), sara.at(group), reza.at(group)
        await reza.says("/board")
        await reza.sees("Nobody yet: /me begins.")
        for person in (ali, sara, reza):
            await person.says("/me")
            await person.sees(f"{person.name}, what did you do?")
        await world.waits(seconds=2)
        await world.crashes()
        await ali.says("Slept")
        await ali.sees("Ali, and today?")
        await sara.says("Wrote")
        await sara.sees("Sara, and today?")
        await ali.sees("Sara, and today?")
        await ali.presses("Something else")  # the newest buttons, which are Sara's
        await ali.sees_nothing(within=3)
        await sara.presses("More of it")
        await sara.sees("Thank you, Sara. That makes 1.")
        await ali.presses("Something else")
        await ali.sees("Ali, what is it?")
        await ali.says("Rest")
        await ali.sees("Thank you, Ali. That makes 2.")
        await world.waits(minutes=10)
        await ali.sees("Reza has nothing to say today.")
        await ali.says("/board")
        await ali.sees("Sara: Wrote; same\nAli: Slept; Rest")
