"""The next process finds in the store which message a parked conversation's user got."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import httpx
import pytest
import trio
from trio.testing import MockClock

from tests.bot.rig import SECRET, Chats, say
from triobot import Bot, Chat, Settings
from triobot.base.secrets import Secret
from triobot.conversations.refusals import TOLD
from triobot.conversations.texts import Texts
from triobot.filters import command
from triobot.runtime.work import Intake
from triobot.testing import drive
from triobot.wire.ids import ChatId

CHAT = 5
TEXTS = Texts.english()
OFFER = TEXTS.afresh.replace("{command}", "/order")


def add_shop(bot: Bot, broken: list[bool]) -> Bot:
    """A bot that asks two questions, and does something else first once it is broken."""

    @bot.conversation(command("order"), name="order")
    async def order(chat: Chat) -> None:
        if broken[0]:
            await chat.step(trio.sleep, 0)
        await chat.ask("Order of what?")
        await chat.ask("How many?", int)

    return bot


@attrs.define
class Wall:
    """A time of day that a test sets."""

    at: int = 1_700_000_000_000

    def now(self) -> int:
        """Wall milliseconds."""
        return self.at


@attrs.define
class Shop:
    """A bot's runs on one file, one after another, two minutes apart."""

    place: Path
    chats: Chats = attrs.Factory(Chats)
    wall: Wall = attrs.Factory(Wall)
    broken: list[bool] = attrs.Factory(lambda: [False])

    @asynccontextmanager
    async def runs(self) -> AsyncGenerator[Intake]:
        """A run, which ends as at a deploy."""
        self.wall.at += 120_000
        settings = Settings(
            token=Secret("rig-token"),
            base_url="http://127.0.0.1:9",
            webhook_secret=Secret(SECRET),
            store=f"sqlite:{self.place / 'bot.db'}",
            port=0,
        )
        transport = httpx.MockTransport(self.chats.take)
        bot = add_shop(Bot(settings=settings, transport=transport, clock=self.wall), self.broken)
        async with bot.running() as intake:
            yield intake

    async def hears(self, *texts: str) -> None:
        """Wait until this is all that the user has seen."""
        await self.chats.wait_for(CHAT, *texts)


async def test_an_offer_to_begin_anew_outlives_the_process(tmp_path: Path) -> None:
    """The command that was asked for begins anew in the next process; nothing is said twice at its start."""
    shop = Shop(tmp_path)
    heard = ["Order of what?"]
    async with shop.runs() as intake:
        await say(intake, CHAT, "/order")
        await shop.hears(*heard)
    shop.broken[0] = True
    async with shop.runs() as intake:
        await say(intake, CHAT, "Pizza")
        heard.append(TEXTS.parked)
        await shop.hears(*heard)
        await say(intake, CHAT, "/order")
        heard.append(OFFER)
        await shop.hears(*heard)
    async with shop.runs() as intake:
        await say(intake, CHAT, "/order")
        heard.append("Order of what?")
        await shop.hears(*heard)
        await say(intake, CHAT, "Salad")
        heard.append("How many?")
        await shop.hears(*heard)
        assert TOLD not in await intake.store.data(ChatId(CHAT)), "it is over"
        assert intake.store.statistics().inbox == 0


@pytest.mark.parametrize("turns", range(0, 60, 6))
@pytest.mark.parametrize("again", [False, True])
async def test_a_clean_stop_neither_repeats_nor_withholds_the_words(
    autojump_clock: MockClock, turns: int, again: bool
) -> None:
    """A message that comes while the bot stops is answered once, by the one process or the next."""
    broken = [False]
    async with drive(add_shop(Bot(), broken), replay_check=False) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("/order")
        await ali.sees("Order of what?")
        broken[0] = True
        await world.restarts()
        if again:
            await ali.says("Pizza")
            await ali.sees(TEXTS.parked)
            await world.waits(seconds=70)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ali.says, "hello?")
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
            await world.restarts()
        await ali.sees(TEXTS.parked)
        await ali.sees_nothing(within=30)
        await world.restarts()
        await ali.sees_nothing(within=30)
        world.alarms.clear()
