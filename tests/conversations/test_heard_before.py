"""What was said for a question that is on its way is for that question, after a kill as without one."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from triobot import Bot, Chat
from triobot.emulator.faults import Fault
from triobot.filters import text, when
from triobot.testing import drive


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
async def test_a_kill_gives_no_text_to_another_wait(
    at_once: bool, dies: bool, autojump_clock: object
) -> None:
    """`bea` fits what is open when she comes, and is gone: so `anna` must stay what the question heard.

    Args:
        at_once: both texts come in the millisecond in which the turn begins that opens both waits, and wait
            in its chat; else the second wait opens between the texts.
    """
    bot, goes_on = Bot(), trio.Event()

    async def hear_code(chat: Chat) -> None:
        if not at_once:
            await chat.sleep(1)
        heard = await chat.receive(text() & when(lambda event: str(event.content).startswith("a")))
        await chat.send(f"Code {heard.content}.")

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.step(goes_on.wait)
        async with chat.open_nursery() as nursery:
            nursery.start_soon(hear_code, chat)
            await chat.send(f"Hello {await chat.ask('Name?')}.")

    async with drive(bot) as world:
        world.faults.add(Fault(latency=5, times=1))
        sara = world.user("Sara")
        await sara.joins()
        if at_once:
            await world.waits(seconds=1)
            await sara.says("anna")
            await sara.says("bea")
            await wait_all_tasks_blocked()
        goes_on.set()
        if not at_once:
            await world.waits(seconds=0.5)
            await sara.says("anna")
            await world.waits(seconds=1)
            await sara.says("bea")
        await world.waits(seconds=1)
        if dies:
            await world.crashes()
        await sara.sees("Hello anna.", within=20)
        await sara.says("a7")
        await sara.sees("Code a7.")
