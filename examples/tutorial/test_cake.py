"""The shop's tests. Each starts the bot on an emulated platform, in virtual time."""

from cake import bot

from triobot.testing import drive


async def test_an_order() -> None:
    async with drive(bot) as world:
        sara = world.user("Sara", wallet=500_000)
        await sara.joins()
        await sara.sees("Welcome! What is your name?")
        await sara.says("Sara")
        await sara.presses("Honey cake")
        await sara.submits({"street": "Rose street 7", "floor": "2"})
        await sara.sees("Honey cake for Sara: Rose street 7, floor 2.")


async def test_a_customer_who_goes_away() -> None:
    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("Sara")
        await sara.sees_buttons("Honey cake", "Lemon cake")
        await world.waits(minutes=11)
        await sara.sees("Ten minutes are over. Write to us when you are hungry.")


async def test_a_crash() -> None:
    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("Sara")
        await sara.presses("Lemon cake")
        await world.crashes()  # as by kill -9; then it starts again
        await sara.submits({"street": "Rose street 7", "floor": "2"})
        await sara.sees("Lemon cake for Sara: Rose street 7, floor 2.")
