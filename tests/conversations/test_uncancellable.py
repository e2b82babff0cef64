"""Code that catches every cancellation and goes on: it loses its chat, and takes no processor for ever."""

from __future__ import annotations

from contextlib import suppress

from triobot import Bot, Chat
from triobot.filters import command
from triobot.testing import drive


def heedless_bot(seconds: float) -> Bot:
    bot = Bot()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        with chat.move_on_after(seconds):
            while True:
                with suppress(BaseException):
                    await chat.ask("Name?")

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    return bot


async def test_an_interrupt_ends_it_for_its_chat(autojump_clock: object) -> None:
    """Nothing of it comes back after a crash."""
    async with drive(heedless_bot(10_000)) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Name?")
        await ali.says("/cancel")
        await ali.sees("Cancelled.")
        await world.waits(seconds=1)
        await world.crashes()
        await ali.sees_nothing(within=60)
        await ali.says("hi")
        await ali.sees("Name?")


async def test_a_block_that_has_ended_parks_it(autojump_clock: object) -> None:
    """An operator is told; an interrupt still ends it."""
    async with drive(heedless_bot(10)) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Name?")
        await world.waits(seconds=20)
        assert "BaseException" in world.takes_alarm("conversation_parked").text
        await ali.says("/cancel")
        await ali.sees("Cancelled.")


async def test_a_stop_takes_nothing_from_it(autojump_clock: object) -> None:
    """It is left where it is, and goes on from its journal in the next run."""
    bot = Bot()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        while True:
            with suppress(BaseException):
                await chat.send(f"Hello {await chat.ask('Name?')}.")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Name?")
        for name in "Sara", "Bita":
            await world.restarts()
            await ali.says(name)
            await ali.sees(f"Hello {name}.")
            await ali.sees("Name?")
        said = [seen.text for seen in await ali.history() if seen.from_bot]
        assert said == ["Name?", "Hello Sara.", "Name?", "Hello Bita.", "Name?"]


async def test_cleanup_may_begin_many_operations(autojump_clock: object) -> None:
    """Each is cancelled at once, which is no reason to give it up."""
    bot = Bot()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        with chat.move_on_after(10):
            try:
                await chat.ask("Name?")
            finally:
                for number in range(300):
                    with suppress(BaseException):
                        await chat.send(f"Bye {number}.")
        await chat.send("Too slow.")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Name?")
        await ali.sees("Too slow.", within=20)
