"""Two chats play against each other and the clock, and the lobby finds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from triobot.emulator.person import Person
from triobot.testing import DrivenWorld, drive

Example = Callable[[str], ModuleType]


async def two_at_a_board(world: DrivenWorld) -> tuple[Person, Person]:
    ali, sara = world.user("Ali"), world.user("Sara")
    await ali.joins()
    await ali.sees("Looking for an opponent... /resign gives up.")
    await sara.joins()
    await ali.sees("X to move, 60 s")
    await sara.sees("X to move, 60 s")
    return ali, sara


async def plays(world: DrivenWorld, moves: Sequence[tuple[Person, int]]) -> None:
    """Press the cells of the newest board, one a second."""
    for person, cell in moves:
        await person.presses("·", row=cell // 3, column=cell % 3)
        await world.waits(seconds=1)


async def test_who_has_three_in_a_row_wins(example: Example, autojump_clock: object) -> None:
    duel = example("duel")
    async with drive(duel.bot) as world:
        ali, sara = await two_at_a_board(world)
        await plays(world, [(ali, 0), (sara, 3), (ali, 1)])
        await world.crashes()
        await plays(world, [(sara, 4), (ali, 2)])
        await ali.sees("You won. Wins so far: 1. /play again?")
        await sara.sees("No luck. Wins so far: 0. /play again?")
        assert await duel.bot.to(ali.chat_id).get(duel.WINS) == 1


async def test_who_takes_too_long_loses_also_over_a_crash(example: Example, autojump_clock: object) -> None:
    async with drive(example("duel").bot) as world:
        ali, sara = await two_at_a_board(world)
        await world.waits(seconds=40)
        await plays(world, [(ali, 4)])
        await world.waits(seconds=30)
        await world.crashes()
        await plays(world, [(sara, 0)])
        await ali.sees("X to move, 20 s")
        await world.waits(seconds=21)
        await sara.sees("You won. Wins so far: 1. /play again?")


async def test_moves_out_of_turn_and_a_resignation_of_before_count_nothing(
    example: Example, autojump_clock: object
) -> None:
    async with drive(example("duel").bot) as world:
        ali, sara = await two_at_a_board(world)
        await plays(world, [(sara, 8), (ali, 0)])
        await sara.sees("O to move, 60 s")
        await sara.says("/resign")
        await ali.sees("You won. Wins so far: 1. /play again?")
        await ali.says("/resign")  # it is over: this must not end the next one
        await world.waits(hours=1)
        await ali.says("/play")
        await sara.says("/play")
        await ali.sees("X to move, 60 s")
        await world.waits(seconds=2)
        assert "Wins so far: 2" not in str([seen.text for seen in await ali.history()])


async def test_who_gives_up_waiting_is_not_matched(example: Example, autojump_clock: object) -> None:
    async with drive(example("duel").bot) as world:
        ali, sara, reza = (world.user(name) for name in ("Ali", "Sara", "Reza"))
        await ali.joins()
        await ali.sees("Looking for an opponent... /resign gives up.")
        await world.waits(seconds=1)
        await ali.says("/resign")
        await sara.joins()
        await world.waits(seconds=5)
        await reza.joins()
        await sara.sees("Against Reza")
        assert len([seen for seen in await ali.history() if seen.from_bot]) == 1
