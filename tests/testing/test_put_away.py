"""Cleanup that raises while a conversation is put away is one warning; where it ends, it is a failure."""

from __future__ import annotations

import pytest
from test_ended_blocks import evicts

from triobot import Bot, Chat, Failure
from triobot.filters import command, text
from triobot.testing import drive

SAID = "cleanup raised while it was put away; it lives on"


class Shop:
    """A bot whose cleanup raises, and what its code and its operators were told."""

    def __init__(self, shape: str) -> None:
        self.bot = bot = Bot()
        self.failures = list[str]()
        self.replaying = list[bool]()

        @bot.interrupt(command("cancel"))
        async def cancel(chat: Chat) -> None:
            await chat.send("Cancelled.")

        @bot.conversation(text("go"))
        async def order(chat: Chat) -> None:
            if shape == "children":
                async with chat.open_nursery() as nursery:
                    nursery.start_soon(self.asks, chat, "Name?")
                    nursery.start_soon(self.asks, chat, "Where to?")
            elif shape == "shield":
                with chat.shield():
                    await self.asks(chat, "Name?")
            else:
                await self.asks(chat, "Name?")
            await chat.send("Thanks.")

        @bot.on_error
        async def tell(failure: Failure) -> None:
            self.failures.append(type(failure.error).__name__)

    async def asks(self, chat: Chat, question: str) -> None:
        answered = False
        try:
            await chat.ask(question)
            answered = True
        finally:
            if not answered:
                self.replaying.append(chat.replaying)
                raise KeyError(question)


@pytest.mark.parametrize("shape", ["straight", "shield", "children"])
@pytest.mark.parametrize("how", ["restart", "evict", "check"])
async def test_cleanup_that_raises_when_it_is_put_away_is_one_warning(
    how: str, shape: str, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(shape)
    async with drive(shop.bot, replay_check=how == "check") as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("go")
        await world.waits(seconds=3)
        shop.replaying.clear()
        if how == "restart":
            await world.restarts()
        elif how == "evict":
            await evicts(shop.bot, sara.chat_id)
        await world.waits(seconds=3)
        told = [record for record in caplog.records if SAID in record.getMessage()]
        if how != "check":  # its own runs are nobody's business
            assert [record.levelname for record in told] == ["WARNING"]
            assert told[0].getMessage().count("KeyError at ") == (2 if shape == "children" else 1)
            assert "test_put_away.py:" in told[0].getMessage()
            assert shop.replaying and all(shop.replaying)
        assert [alarm.kind for alarm in world.alarms] == []
        assert shop.failures == []
        for _ in range(2):
            await sara.says("Sara")
        await sara.sees("Thanks.")


async def test_cleanup_that_raises_at_the_end_is_a_failure(autojump_clock: object) -> None:
    shop = Shop("straight")
    async with drive(shop.bot, replay_check=False) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("go")
        await sara.sees("Name?")
        shop.replaying.clear()
        await sara.says("/cancel")
        await sara.sees("Cancelled.")
        await world.waits(seconds=3)
        assert shop.replaying[0] is False
        assert shop.failures == ["KeyError"]
        world.takes_alarm("conversation_crashed")


async def test_what_cleanup_raised_is_named_as_it_was_raised(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """No Exception, and in a group whose members were never raised themselves."""
    bot = Bot()

    @bot.conversation
    async def order(chat: Chat) -> None:
        try:
            await chat.ask("Name?")
        finally:
            raise BaseExceptionGroup("two", [SystemExit(0), KeyError()])

    async with drive(bot, replay_check=False) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Name?")
        await world.restarts()
        (told,) = [record.getMessage() for record in caplog.records if SAID in record.getMessage()]
        assert told.count(" at /") == 2
        assert "SystemExit at " in told and "KeyError at " in told
