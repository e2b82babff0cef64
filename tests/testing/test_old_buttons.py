"""Taking old buttons away is nobody's wait: no answer comes later for it, and they go in the end."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from triobot import Bot, Buttons, Chat, Key, Paid
from triobot.emulator.faults import Fault
from triobot.filters import command, paid, text
from triobot.testing import drive

GIVEN = Key("given", int, default=0)


@attrs.frozen
class Pizza:
    """What is sold."""


def asking() -> Bot:
    bot = Bot()

    @bot.conversation(text("go"))
    async def ask(chat: Chat) -> None:
        for number in range(5):
            said = await chat.choose(f"Question {number}?", {"yes": "Yes", "no": "No"})
            await chat.send(f"You said {said} to {number}.")

    @bot.conversation(text("buy"))
    async def buy(chat: Chat) -> None:
        await chat.charge(200_000, "Pizza", item=Pizza(), late="refund")

    @bot.aside(paid(Pizza))
    async def deliver(chat: Chat[Paid[Pizza]]) -> None:
        chat.data[GIVEN] += 1

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    return bot


@pytest.mark.parametrize("how", [{"status": 500}, {"status": 429}, {"latency": 1000}], ids=str)
async def test_an_answer_never_waits_for_old_buttons_to_go(how: Any, autojump_clock: object) -> None:
    async with drive(asking()) as world:
        ali = world.user("Ali")
        await ali.joins()
        world.faults.add(Fault(operation="editMessage", **how))
        await ali.says("go")
        for number in range(5):
            await ali.sees(f"Question {number}?", within=2)
            await ali.presses("Yes")
            await ali.sees(f"You said yes to {number}.", within=2)
        world.faults.clear()
        await world.waits(seconds=300)
        asked = [seen for seen in await ali.history() if seen.text.startswith("Question")]
        assert [seen.buttons for seen in asked] == [()] * 5


async def test_nor_for_a_paid_button(autojump_clock: object) -> None:
    async with drive(asking()) as world:
        ali = world.user("Ali")
        await ali.joins()
        world.faults.add(Fault(operation="editMessage", status=500))
        for _ in range(3):
            await ali.says("buy")
            await ali.sees("Pizza", within=2)
            await ali.says("/cancel")
            await ali.sees("Cancelled.", within=2)
            await world.waits(seconds=5)
        world.faults.clear()
        await world.waits(seconds=300)
        assert [seen.buttons for seen in await ali.history() if seen.text == "Pizza"] == [()] * 3


async def test_new_buttons_right_behind_a_live_block_keep_its_last_text(autojump_clock: object) -> None:
    """That text goes beside what the chat is told; an edit of the buttons only brings none."""
    bot = Bot()

    @bot.conversation(text("go"))
    async def work(chat: Chat) -> None:
        async with chat.live("Working") as live:
            await chat.sleep(5)
            live.show("Done: 42")
        await chat.edit(live.sent, buttons=Buttons({"again": "Again"}))
        await chat.send("Bye.")

    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("go")
        await sara.sees("Bye.", within=20)
        await world.waits(seconds=5)
        (shown,) = [seen for seen in await sara.history() if seen.text in ("Working", "Done: 42")]
        assert shown.text == "Done: 42"
        assert shown.buttons == (("Again",),)
