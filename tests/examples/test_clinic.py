"""The clinic books, reminds, and hands a freed hour to those who wait; also through crashes."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from triobot.testing import DrivenWorld, Person, drive

Example = Callable[[str], ModuleType]


async def books(person: Person, hour: str | None = None) -> None:
    """Come for the first time, and ask for a day, and for an hour if one is given."""
    await person.joins()
    await person.sees("Which day?")
    await person.presses("28")
    if hour is not None:
        await person.sees("When?")
        await person.presses(hour)


async def full(world: DrivenWorld, names: str = "Ali Ava Amir") -> list[Person]:
    """Have a day with three hours that are taken."""
    people = [world.user(name) for name in names.split()]
    for person, hour in zip(people, ("9:00", "10:00", "11:00"), strict=True):
        await books(person, hour)
        await person.sees(f"Booked: 28 January, {hour}.")
    return people


@pytest.mark.parametrize("crashing", [False, True])
async def test_a_booking_is_reminded_of_the_day_before(
    example: Example, autojump_clock: object, crashing: bool
) -> None:
    async with drive(example("clinic").bot) as world:
        sara = world.user("Sara")
        await books(sara, "10:00")
        await sara.sees("Booked: 28 January, 10:00.")
        if crashing:
            await world.crashes()
        await world.waits(days=30)
        await sara.sees("Tomorrow: 28 January, 10:00.")


async def test_an_hour_that_two_want_has_one(example: Example, autojump_clock: object) -> None:
    async with drive(example("clinic").bot) as world:
        sara, omid = world.user("Sara"), world.user("Omid")
        await books(sara)
        await books(omid)
        await sara.presses("9:00")
        await sara.sees("Booked: 28 January, 9:00.")
        await omid.presses("9:00")
        await omid.sees("Somebody was faster.")


@pytest.mark.slow
@pytest.mark.parametrize("crashing", [False, True])
async def test_a_freed_hour_goes_to_the_first_who_takes_it(
    example: Example, autojump_clock: object, crashing: bool
) -> None:
    """One says no, one says nothing for half an hour, the third takes it."""
    async with drive(example("clinic").bot) as world:
        ali, *_ = await full(world)
        waiting = [world.user(name) for name in ("Bita", "Babak", "Bahar")]
        for person in waiting:
            await books(person)
            await person.sees("That day is full. Shall I tell you if an hour gets free?")
            await person.presses("Yes")
            await person.sees("You are on the waiting list.")
        bita, babak, bahar = waiting

        await ali.presses("Cancel it")
        await ali.sees("Cancelled.")
        await bita.sees("28 January, 9:00 got free. Do you take it?")
        if crashing:
            await world.crashes()
        await bita.presses("No")
        await babak.sees("28 January, 9:00 got free. Do you take it?")
        if crashing:
            await world.crashes()
        await world.waits(seconds=31 * 60)
        await babak.sees("Too late, it goes to the next one.")
        await bahar.sees("28 January, 9:00 got free. Do you take it?")
        await bahar.presses("Yes")
        await bahar.sees("Booked: 28 January, 9:00.")

        late = world.user("Late")
        await books(late)
        await late.sees("That day is full. Shall I tell you if an hour gets free?")


async def test_a_freed_hour_that_nobody_wants_is_free(example: Example, autojump_clock: object) -> None:
    async with drive(example("clinic").bot) as world:
        ali, *_ = await full(world)
        await ali.presses("Cancel it")
        await ali.sees("Cancelled.")
        sara = world.user("Sara")
        await books(sara, "9:00")
        await sara.sees("Booked: 28 January, 9:00.")
