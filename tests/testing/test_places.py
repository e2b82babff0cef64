"""What is kept under a name: without a room that would run there."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from triobot import Bot, Chat, ChatId, Key, Room
from triobot.errors import ConfigError, LocalProtocolError
from triobot.filters import command, join, signal
from triobot.testing import drive

TAKEN = Key("taken", dict[int, ChatId], default={})


def seat(taken: dict[int, ChatId], number: int, who: ChatId) -> dict[int, ChatId]:
    return taken if number in taken else {**taken, number: who}


def a_clinic() -> Bot:
    bot = Bot()

    @bot.conversation(join())
    async def book(chat: Chat) -> None:
        day = await chat.ask("Which day?")
        taken = await chat.place("clinic", day).update(TAKEN, seat, 9, chat.id)
        await chat.send("Yours." if taken[9] == chat.id else "Taken.")
        await chat.ask("Well?")

    @bot.aside(command("tell"))
    async def tell(chat: Chat) -> None:
        try:
            await chat.place("clinic").signal("Open!")
        except LocalProtocolError as error:
            await chat.send(str(error))

    return bot


async def test_it_is_booked_once_whatever_dies(autojump_clock: MockClock) -> None:
    """Each name and key has its own; from outside it is the same."""
    bot = a_clinic()
    async with drive(bot) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        for person, day, heard in ((ali, "Monday", "Yours."), (sara, "Monday", "Taken.")):
            await person.joins()
            await person.says(day)
            await person.sees(heard)
        await world.crashes()
        await ali.says("fine")
        assert await bot.place("clinic", "Monday").get(TAKEN) == {9: ali.chat_id}
        assert await bot.place("clinic", "Tuesday").get(TAKEN) == {}
        assert await bot.place("clinic").get(TAKEN) == {}
        await bot.place("clinic", 7).set(TAKEN, {1: ChatId(1)})
        assert await bot.place("clinic", "7").get(TAKEN) == {1: ChatId(1)}


async def test_nothing_hears_there(autojump_clock: MockClock) -> None:
    async with drive(a_clinic()) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("/tell")
        await ali.sees("place: keeps data, and hears nothing: tell a chat or a room")


async def test_with_a_room_s_name_it_is_what_the_room_keeps(autojump_clock: MockClock) -> None:
    bot = a_clinic()

    @bot.room(signal(str), name="lobby")
    async def lobby(room: Room[str]) -> None:
        room.data[TAKEN] = {1: ChatId(5)}

    async with drive(bot) as world:
        await bot.to(lobby, "north").signal("Open!")
        await world.waits(seconds=1)
        assert await bot.place("lobby", "north").get(TAKEN) == {1: ChatId(5)}


@pytest.mark.parametrize(
    "wrong", [("",), ("x" * 129,), ("a\0b",), (5.0,), ("clinic", "x" * 129), ("clinic", None)]
)
async def test_what_is_no_name_is_refused(autojump_clock: MockClock, wrong: tuple[Any, ...]) -> None:
    bot = a_clinic()
    async with drive(bot):
        with pytest.raises(ConfigError, match=r"test_places.py:\d+: place\(\) takes a place's name and key"):
            bot.place(*wrong)
