"""People wait for what they are to press, pay and fill in, and tell equal labels apart."""

from __future__ import annotations

import re

import attrs
import pytest

from triobot import Bot, Buttons, Chat, Key, Paid
from triobot.emulator.person import AppError
from triobot.filters import by, paid, text
from triobot.testing import NotSeenError, drive
from triobot.wire.ids import SenderId

GIVEN = Key("given", int, default=0)


@attrs.frozen
class Order:
    """What is sold."""

    size: str


@attrs.frozen
class Where:
    """A form."""

    street: str


def slow_shop() -> Bot:
    """Make a bot that takes two seconds before each thing that it shows."""
    bot = Bot()

    @bot.aside(paid(Order))
    async def give(chat: Chat[Paid[Order]]) -> None:
        chat.data[GIVEN] += 1
        await chat.send(f"Here is {chat.event.item.size}.")

    @bot.conversation
    async def shop(chat: Chat) -> None:
        await chat.sleep(2)
        size = await chat.choose("Size?", {"s": "Small", "l": "Large"})
        await chat.sleep(2)
        where = await chat.fill(Where, "Where?")
        await chat.sleep(2)
        await chat.charge(100, f"To {where.street}", item=Order(size))

    return bot


async def test_what_takes_a_while_is_pressed_filled_in_and_paid_when_it_is_there(
    autojump_clock: object,
) -> None:
    async with drive(slow_shop()) as world:
        sara = world.user("Sara", wallet=1_000)
        await sara.joins()
        await sara.presses("Small")
        await sara.submits({"street": "Main Road"})
        await sara.pays()
        await sara.sees("Here is s.")


async def test_patience_ends(autojump_clock: object) -> None:
    """The error says what there is instead, and shows the chat."""
    async with drive(slow_shop()) as world:
        sara = world.user("Sara", wallet=1_000)
        await sara.joins()
        with pytest.raises(NotSeenError, match="no button 'Medium'; what there is to press: 'Small',"):
            await sara.presses("Medium")
        with pytest.raises(NotSeenError, match=r"no form to fill in, within 1 s; Sara's chat so far:\nbot"):
            await sara.submits({"street": "Main Road"}, within=1)
        with pytest.raises(NotSeenError, match="nothing to pay, within 5 s"):
            await sara.pays()
        with pytest.raises(AppError, match=r"^there is nothing to pay$"):
            await sara.pays(within=0)
        await sara.presses("Large")
        with pytest.raises(AppError, match="the form has no field 'town'"):
            await sara.submits({"town": "Rasht"})


async def test_equal_labels_are_told_apart(autojump_clock: object) -> None:
    bot = Bot()

    @bot.conversation
    async def board(chat: Chat) -> None:
        while True:
            cells = {row * 3 + column: "-" for row in range(3) for column in range(3)}
            await chat.send(f"cell {await chat.choose('Where?', Buttons(cells, columns=3))}")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        for place, cell in (
            ({}, 0),
            ({"nth": 4}, 4),
            ({"row": 1}, 3),
            ({"column": 2}, 2),
            ({"column": 2, "nth": 1}, 5),
            ({"row": 2, "column": 1}, 7),
        ):
            await ali.sees("Where?")
            await ali.presses("-", **place)
            await ali.sees(f"cell {cell}")
        with pytest.raises(NotSeenError, match="no button '-'"):
            await ali.presses("-", row=3)
        with pytest.raises(AppError, match="'nth' counts from 0"):
            await ali.presses("-", nth=-1)


async def test_ids_can_be_chosen(autojump_clock: object) -> None:
    """A filter that knows the admin by their id is tried with that very id."""
    bot = Bot()

    @bot.conversation(text() & by(SenderId(77)))
    async def admin(chat: Chat) -> None:
        await chat.send(f"Yes, in {chat.id}.")

    async with drive(bot) as world:
        boss = world.user("Boss", id=77, chat_id=5)
        other = world.user("Other")
        await boss.joins()
        await boss.says("now")
        await boss.sees("Yes, in 5.")
        assert other.id != 77
        team = await world.group(boss, other, id=-12)
        await boss.at(team).says("here")
        await boss.at(team).sees("Yes, in -12.")
        for clash in ({"id": 77}, {"chat_id": 5}, {"chat_id": -12}):
            with pytest.raises(AppError, match=re.compile("this id")):
                world.user("Third", **clash)
        with pytest.raises(AppError, match="this id"):
            await world.group(other, name="another", id=-12)


async def test_made_up_ids_keep_out_of_the_way_of_chosen_ones(autojump_clock: object) -> None:
    async with drive(slow_shop()) as world:
        taken = world.user("First", id=1002, chat_id=13_602)
        made_up = [world.user(name) for name in ("Second", "Third", "Fourth")]
        assert len({taken.id, *(one.id for one in made_up)}) == 4
        assert len({taken.chat_id, *(one.chat_id for one in made_up)}) == 4
