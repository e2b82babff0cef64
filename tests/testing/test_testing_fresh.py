"""A process that starts anew knows no class that the one before has only met."""

from __future__ import annotations

from enum import Enum

import attrs

from triobot import Bot, Buttons, Chat, Command, Press
from triobot.filters import command, pressed, text
from triobot.testing import drive


class Kind(Enum):
    CHEAP = 1


@attrs.frozen
class Offer:
    price: int
    kind: Kind


@attrs.frozen
class Take:
    number: int


async def price() -> Offer:
    return Offer(5, Kind.CHEAP)


def bot_of_classes() -> Bot:
    bot = Bot()

    @bot.aside
    async def later(chat: Chat, offer: Offer) -> None:
        await chat.sleep(3600)
        await chat.send(f"later {offer.price}")

    @bot.conversation(command("order"))
    async def order(chat: Chat[Command]) -> None:
        offer = await chat.step(price)
        await chat.start(later, offer)
        with chat.move_on_when(command("back")) as back:
            await chat.ask("Now?")
        await chat.ask("And?")
        assert back.event is not None
        await chat.send(f"{chat.event.rest} {offer} {back.event.rest}")

    @bot.conversation(text("buttons"))
    async def buttons(chat: Chat) -> None:
        await chat.send("Here.", buttons=Buttons({Take(7): "Take"}))

    @bot.conversation(pressed(Take))
    async def take(chat: Chat[Press[Take]]) -> None:
        await chat.ask("Sure?")
        await chat.send(f"{chat.event.value}")

    return bot


async def test_recorded_classes_are_found_again(autojump_clock: object) -> None:
    """Of what started a conversation, of a step, of a block's end, of arguments, of a button."""
    async with drive(bot_of_classes()) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        await ali.joins()
        await ali.says("/order a pizza")
        await ali.sees("Now?")
        await ali.says("/back to you")
        await ali.sees("And?")
        await sara.joins()
        await sara.says("buttons")
        await sara.sees("Here.")
        await sara.presses("Take")
        await sara.sees("Sure?")
        await world.crashes()
        await ali.says("yes")
        await ali.sees("a pizza Offer(price=5, kind=<Kind.CHEAP: 1>) to you")
        await sara.says("yes")
        await sara.sees("Take(number=7)")
        await world.waits(hours=1)
        await ali.sees("later 5")


async def test_a_class_inside_a_function_is_lost_loudly(autojump_clock: object) -> None:
    """The conversation is parked with the reason, and the bot goes on."""

    @attrs.frozen
    class Local:
        number: int

    async def local() -> Local:
        return Local(1)

    bot = Bot()

    @bot.conversation(text("step"))
    async def stepping(chat: Chat) -> None:
        found = await chat.step(local)
        await chat.ask("And?")
        await chat.send(f"{found.number}")

    @bot.conversation(text("block"))
    async def blocked(chat: Chat) -> None:
        buttons = Buttons({Local(7): "Take"})
        with chat.move_on_when(buttons.pressed(await chat.send("Here.", buttons=buttons))):
            await chat.sleep(60)
        await chat.ask("And?")

    async with drive(bot) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        await ali.joins()
        await ali.says("step")
        await ali.sees("And?")
        await sara.joins()
        await sara.says("block")
        await sara.sees("Here.")
        await sara.presses("Take")
        await sara.sees("And?")
        await world.crashes()
        for person in (ali, sara):
            await person.says("yes")
            await person.sees("I can't go on just now. What you told me is kept.")
            assert "Local'; define it at the top of a module" in world.takes_alarm("conversation_parked").text
