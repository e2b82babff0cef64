"""How long a bot stores the keys of starts and signals."""

from __future__ import annotations

import attrs
import httpx
import pytest
import trio.testing

from tests.bot.rig import Chats, make_bot, say
from triobot import Bot, Chat
from triobot.filters import signal, text
from triobot.testing.virtual import VirtualWallClock

HOUR = 3600


@attrs.frozen
class Ping:
    n: int


@pytest.mark.parametrize(("kept", "known"), [(None, 7), (0, 1), (2, 2), (30, 30)])
async def test_a_key_is_known_for_the_days_of_retention(
    autojump_clock: trio.testing.MockClock, kept: int | None, known: int
) -> None:
    """A day at least, since what a crash cut short is done again."""
    chats = Chats()
    settings = make_bot(chats).settings()
    if kept is not None:
        settings = attrs.evolve(settings, retention_days=kept)
    transport = httpx.MockTransport(chats.take)
    bot = Bot(settings=settings, transport=transport, clock=VirtualWallClock(1_800_000_000_000))

    @bot.conversation(text())
    async def listen(chat: Chat) -> None:
        while True:
            await chat.send(f"ping {(await chat.receive(signal(Ping))).n}")

    @bot.aside
    async def remind(chat: Chat, n: int) -> None:
        await chat.send(f"remind {n}")

    async with bot.running() as intake:
        await say(intake, 7, "go")
        for number, hours in enumerate((0, 24 * known - 1, 2)):
            await trio.sleep(hours * HOUR)
            await bot.to(7).signal(Ping(number), key="order-7")
            await bot.to(7).start(remind, number, key="order-7")
        await trio.sleep(HOUR)
    assert sorted(chats.texts[7]) == ["ping 0", "ping 2", "remind 0", "remind 2"]
