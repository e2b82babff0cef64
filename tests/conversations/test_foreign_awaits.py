"""Code that awaits what isn't the chat's: blocks around it end, interrupts end it, and it holds up nobody."""

from __future__ import annotations

import pytest
import trio

from triobot import Bot, Chat
from triobot.filters import command, text
from triobot.testing import drive
from triobot.testing.driving import DrivenWorld


def bot_with_cancel() -> Bot:
    bot = Bot()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    return bot


async def dies(world: DrivenWorld, *, when: bool) -> None:
    await world.waits(seconds=1)
    if when:
        await world.crashes()


@pytest.mark.parametrize("crash", [False, True])
async def test_a_timeout_is_felt_after_a_foreign_await(crash: bool, autojump_clock: object) -> None:
    """At the next operation of the chat; and an outer one after an inner one."""
    bot = bot_with_cancel()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        with chat.move_on_after(3) as outer:
            with chat.move_on_after(1) as inner:
                await trio.sleep(2)
                await chat.sleep(3600)
            await trio.sleep(2)
            await chat.sleep(3600)
        await chat.send(f"{inner.cancelled_caught} {outer.cancelled_caught}")
        with chat.move_on_after(1):
            await trio.sleep(2)
            await chat.sleep(3600)
        await chat.send("Done.")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("hi")
        await dies(world, when=crash)
        await ali.sees("True True", within=30)
        await dies(world, when=crash)
        await ali.sees("Done.", within=30)
        assert [seen.text for seen in await ali.history() if seen.from_bot] == ["True True", "Done."]


@pytest.mark.parametrize("crash", [False, True])
async def test_an_interrupt_ends_a_foreign_await(crash: bool, autojump_clock: object) -> None:
    """In the conversation's very first line, too: or the user would be locked out."""
    bot = bot_with_cancel()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await trio.sleep_forever()

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("hi")
        await dies(world, when=crash)
        await ali.says("/cancel")
        await ali.sees("Cancelled.")


async def test_who_does_not_come_back_holds_up_nobody(autojump_clock: object) -> None:
    """Others are revived beside it; it is parked after a minute, with its line, and can be interrupted."""
    bot, heard = bot_with_cancel(), trio.Event()

    @bot.conversation(text())
    async def hello(chat: Chat) -> None:
        name = await chat.ask("Name?")
        if name == "Ali":
            await heard.wait()  # somebody told it, while that process lived
        await chat.ask("More?")
        await chat.send(f"Hello, {name}.")

    async with drive(bot, replay_check=False) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        heard.set()
        for person in (ali, sara):
            await person.joins()
            await person.says("hi")
            await person.sees("Name?")
            await person.says(person.name)
            await person.sees("More?")
        heard = trio.Event()
        await world.crashes()
        await ali.says("no")
        await sara.says("no")
        await sara.sees("Hello, Sara.", within=10)
        await world.waits(minutes=2)
        assert f"{__file__}:" in world.takes_alarm("conversation_parked").text
        await ali.says("/cancel")
        await ali.sees("Cancelled.")


async def test_who_takes_long_to_come_back_is_waited_for(autojump_clock: object) -> None:
    """What came meanwhile is answered in its order."""
    bot = bot_with_cancel()

    @bot.conversation(text())
    async def hello(chat: Chat) -> None:
        await chat.ask("Name?")
        await trio.sleep(8)  # a service, without a step
        await chat.send(await chat.ask("More?"))

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("hi")
        await ali.sees("Name?")
        await ali.says("Ali")
        await ali.sees("More?", within=20)
        await world.crashes()
        await ali.says("one")
        await ali.sees("one", within=20)
