"""Signals from outside, through a whole bot."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from tests.bot.rig import Chats, make_bot, say
from triobot import Bot, Chat
from triobot.conversations.calls.signals import SIGNAL
from triobot.errors import ForeignTaskError, LocalProtocolError
from triobot.filters import signal


@attrs.frozen
class Shipped:
    order: int


def shop(chats: Chats, store: str = "memory:") -> Bot:
    """Tells people that their order is on its way."""
    bot = make_bot(chats, store=store)

    @bot.aside(signal(Shipped))
    async def parcel(chat: Chat[Shipped]) -> None:
        await chat.send(f"Order {chat.event.order} is on its way.")

    @bot.conversation
    async def other(chat: Chat) -> None:
        with pytest.raises(ForeignTaskError):
            bot.to(chat.id)
        await chat.send("Hello.")

    return bot


async def test_the_same_key_counts_once(tmp_path: Path) -> None:
    """Also after a restart; another chat's key is another one."""
    chats = Chats()
    bot = shop(chats, f"sqlite:{tmp_path / 'bot.db'}")
    for run in (1, 2):
        async with bot.running():
            for _ in range(2):
                await bot.to(7).signal(Shipped(7), key="shipped-7")
                await bot.to(8).signal(Shipped(7), key="shipped-7")
            await chats.wait_for(7, "Order 7 is on its way.")
            await chats.wait_for(8, "Order 7 is on its way.")
            for _ in range(2):
                await bot.to(9).signal(Shipped(1))
            await chats.wait_for(9, *["Order 1 is on its way."] * 2 * run)


async def test_a_signal_is_for_a_chat_that_has_an_id() -> None:
    bot = shop(Chats())
    async with bot.running():
        with pytest.raises(LocalProtocolError, match="chat_id"):
            await bot.to("+989120000000").signal(Shipped(1))


async def test_nothing_from_the_web_passes_for_a_signal() -> None:
    """A request's content type can't be a signal's, and without the line feed it is no signal's."""
    chats = Chats()
    bot = shop(chats)
    async with bot.running() as intake:
        body = b'[1,"x"]'
        assert await intake.inbox.accept(SIGNAL.strip(), body) == "unread"
        await say(intake, 7, "hello")
        await chats.wait_for(7, "Hello.")
        assert "started" in bot.statistics().counts
