"""Payments that were written down and never shown: nobody can pay them, so nobody watches them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
import trio

from triobot import Bot, Chat, Key, Paid
from triobot.conversations.charges.charging import RunningCharge
from triobot.errors import LocalProtocolError
from triobot.filters import command, paid, text
from triobot.store import Store
from triobot.testing import DrivenWorld, drive

GIVEN = Key("given", int, default=0)


@attrs.frozen
class Pizza:
    size: int


def shop(words: str) -> Bot:
    bot = Bot()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    @bot.conversation(text("buy"))
    async def buy(chat: Chat) -> None:
        try:
            await chat.charge(1_000, words, item=Pizza(1))
        except LocalProtocolError:
            await chat.send("What?")

    @bot.aside(paid(Pizza))
    async def deliver(chat: Chat[Paid[Pizza]]) -> None:
        chat.data[GIVEN] += 1
        await chat.send("Here it is.")

    return bot


async def counts(world: DrivenWorld) -> Mapping[str, int]:
    intake = world._process.intake
    assert intake is not None
    store: Store = intake.store
    return await store.payments.counts()


async def test_what_can_t_be_shown_is_not_watched(autojump_clock: object) -> None:
    """The payment's text is the platform's to refuse, and ours: after the number was drawn."""
    async with drive(shop("")) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("buy")
        await ali.sees("What?")
        assert await counts(world) == {"void": 1}


async def test_what_was_cancelled_before_it_was_sent_is_not_watched(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be asked about for ever, and its chat could not be forgotten."""
    there = trio.Event()

    async def hangs(opened: RunningCharge, operation: object, own: object) -> None:
        there.set()
        await trio.sleep_forever()

    monkeypatch.setattr(RunningCharge, "_send", hangs)
    async with drive(shop("Pizza"), replay_check=False) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("buy")
        await there.wait()
        assert await counts(world) == {"sending": 1}
        await ali.says("/cancel")
        await ali.sees("Cancelled.")
        assert await counts(world) == {"void": 1}
