"""The FAQ leads by its buttons, and its admins edit it from their chats while others read."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from triobot.testing import DrivenWorld, Person, drive

Example = Callable[[str], ModuleType]


async def admin(world: DrivenWorld, name: str) -> Person:
    """Have somebody sign in."""
    boss = world.user(name)
    await boss.joins()
    await boss.says("/admin let me in")
    await boss.sees("/edit edits.")
    return boss


async def add(boss: Person, title: str, answer: str) -> None:
    """Write a page below the first."""
    await boss.says("/edit")
    await boss.presses("This one")
    await boss.presses("Add below")
    await boss.sees("The title?")
    await boss.says(title)
    await boss.sees("The answer?")
    await boss.says(answer)
    await boss.sees("Saved.")


async def test_an_admin_writes_a_page_and_everybody_reads_it(
    example: Example, autojump_clock: object
) -> None:
    async with drive(example("faq").bot) as world:
        boss = await admin(world, "Boss")
        await add(boss, "Opening hours", "From nine to five.")
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees_buttons("Opening hours")
        await world.crashes()
        await sara.presses("Opening hours")
        await sara.sees("From nine to five.")
        await sara.presses("« Back")
        await sara.sees_buttons("Opening hours")


async def test_two_admins_at_once_lose_nothing(example: Example, autojump_clock: object) -> None:
    async with drive(example("faq").bot) as world:
        one, two = await admin(world, "One"), await admin(world, "Two")
        for boss in (one, two):
            await boss.says("/edit")
            await boss.presses("This one")
            await boss.presses("Add below")
        for boss, title in ((one, "Prices"), (two, "Places")):
            await boss.sees("The title?")
            await boss.says(title)
        await world.crashes()
        for boss in (one, two):
            await boss.sees("The answer?")
            await boss.says("Soon.")
            await boss.sees("Saved.")
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees_buttons("Prices", "Places")


async def test_a_page_is_reworded_and_deleted(example: Example, autojump_clock: object) -> None:
    async with drive(example("faq").bot) as world:
        boss = await admin(world, "Boss")
        await add(boss, "Prices", "Free.")
        await boss.says("/edit")
        await boss.presses("Prices")
        await boss.sees_buttons("This one", "« Back")
        await boss.presses("This one")
        await boss.presses("New answer")
        await boss.says("A fortune.")
        await boss.sees("Saved.")
        sara = world.user("Sara")
        await sara.joins()
        await sara.presses("Prices")
        await sara.sees("A fortune.")

        await boss.says("/edit")
        await boss.presses("Prices")
        await boss.sees_buttons("This one", "« Back")
        await boss.presses("This one")
        await boss.presses("Delete")
        await boss.sees("Saved.")
        await sara.presses("« Back")
        await sara.sees_buttons()


async def test_who_has_not_signed_in_edits_nothing(example: Example, autojump_clock: object) -> None:
    async with drive(example("faq").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("/admin guess")
        await sara.sees("No.")
        await sara.says("/edit")
        await world.waits(seconds=2)
        await sara.sees_buttons()
