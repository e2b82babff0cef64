"""The newsletter reaches everybody who is on its list, and knows who has left."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType

import pytest

from triobot.testing import drive

Example = Callable[[str], ModuleType]


@pytest.mark.slow
async def test_a_newsletter_reaches_its_subscribers(example: Example, autojump_clock: object) -> None:
    """But for who unsubscribed in the middle of a question, or has left."""
    newsletter = example("newsletter")
    async with drive(newsletter.bot) as world:
        readers = [world.user(f"Reader {number}") for number in range(20)]
        for reader in readers:
            await reader.joins()
            await reader.says("/subscribe")
            await reader.sees(re.compile("You are on the list"))
        sara, gone, *others = readers
        await sara.says("/topics")
        await sara.sees("What do you like?")
        await sara.says("/unsubscribe")
        await sara.sees("You are off the list.")
        await sara.presses("Ships")
        await sara.sees_answer("Noted.")
        await sara.sees("What do you like?")
        await sara.presses("That's all")
        await sara.sees("You like ships.")
        await gone.leaves()

        reza = world.user("Reza")
        await reza.joins()
        await reza.says("/send Nothing")
        await reza.sees(re.compile("That is for operators"))
        await reza.says("/operator guess")
        await reza.sees("No.")
        await reza.says("/operator swordfish")
        await reza.sees(re.compile("Write with /send"))
        await reza.says("/send Trains run again.")
        await reza.sees(re.compile("newsletter-.*: 18 of 19 have it, 1 have left"))
        for other in others:
            await other.sees("Trains run again.")
        await reza.says("/send And ships.")
        await reza.sees(re.compile("newsletter-.*: 18 of 18 have it, 0 have left"))

        assert "Trains" not in str(await sara.history())
