"""People walk through the pages, and an admin edits them meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from triobot.emulator.person import Person
from triobot.testing import DrivenWorld, drive

Example = Callable[[str], ModuleType]


async def signs_in(world: DrivenWorld, name: str = "Boss") -> Person:
    boss = world.user(name)
    await boss.joins()
    await boss.says("/admin let me in")
    await boss.sees("/edit edits.")
    return boss


async def adds(boss: Person, title: str, answer: str) -> None:
    await boss.says("/edit")
    await boss.presses("This one")
    await boss.presses("Add below")
    await boss.sees("The title?")
    await boss.says(title)
    await boss.sees("The answer?")
    await boss.says(answer)
    await boss.sees("Saved.")


async def test_what_an_admin_adds_is_there_for_everybody(example: Example, autojump_clock: object) -> None:
    async with drive(example("faq").bot) as world:
        boss = await signs_in(world)
        await adds(boss, "Prices", "It is free.")
        await world.crashes()
        ali = world.user("Ali")
        await ali.joins()
        await ali.presses("Prices")
        await ali.sees("It is free.")
        await ali.presses("« Back")
        await ali.sees("What do you want to know?")


async def test_who_has_not_signed_in_edits_nothing(example: Example, autojump_clock: object) -> None:
    async with drive(example("faq").bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("/admin let me out")
        await ali.sees("No.")
        await ali.says("/edit")
        await world.waits(seconds=2)
        assert not any(seen.buttons for seen in await ali.history())


async def test_two_admins_at_once_lose_nothing(example: Example, autojump_clock: object) -> None:
    faq = example("faq")
    async with drive(faq.bot) as world:
        bosses = [await signs_in(world, name) for name in ("Boss", "Chief")]
        for boss in bosses:
            await boss.says("/edit")
            await boss.presses("This one")
            await boss.presses("Add below")
            await boss.sees("The title?")
        for boss, title in zip(bosses, ("Prices", "Hours"), strict=True):
            await boss.says(title)
            await boss.sees("The answer?")
        for boss in bosses:
            await boss.says("Ask us.")
        for boss in bosses:
            await boss.sees("Saved.")
        pages = await faq.bot.shared.get(faq.PAGES)
        assert [pages[child].title for child in pages["home"].children] == ["Prices", "Hours"]
