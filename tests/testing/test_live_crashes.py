"""What a live message showed last is the same after a restart, however its block ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from triobot import Bot, Buttons, Chat
from triobot.filters import text
from triobot.testing import drive

STOP = Buttons({"stop": "Stop"})


def streaming() -> Bot:
    """Make a bot that streams for ten seconds, and then waits for a word before it says what it showed."""
    bot = Bot()

    async def stream(show: Callable[[str], None]) -> None:
        for n in range(10):
            await trio.sleep(1)
            show(f"{n}")

    @bot.conversation
    async def talk(chat: Chat) -> None:
        async with chat.live("…", buttons=STOP) as live:
            with chat.move_on_when(STOP.pressed(live.sent) | text()):
                await chat.step(stream, live.show)
        await chat.ask("And?")
        await chat.send(f"It was {live.text}.")

    return bot


@pytest.mark.parametrize("how", ["crashes", "restarts"])
@pytest.mark.parametrize("end", ["by itself", "button", "word"])
async def test_what_was_shown_last_outlives_the_process(end: str, how: str, autojump_clock: object) -> None:
    async with drive(streaming()) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("…")
        await world.waits(seconds=4.5 if end != "by itself" else 20)
        if end == "button":
            await sara.presses("Stop")
        elif end == "word":
            await sara.says("Enough!")
        await sara.sees("And?")
        last = "3" if end != "by itself" else "9"
        for _ in range(2):
            await (world.crashes() if how == "crashes" else world.restarts())
        await sara.says("well")
        await sara.sees(f"It was {last}.")
        assert next(seen.text for seen in await sara.history() if seen.from_bot) == last


async def test_a_step_that_a_crash_cuts_runs_again_and_shows_anew(autojump_clock: object) -> None:
    async with drive(streaming()) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("…")
        await world.waits(seconds=4.5)
        await world.crashes()
        await world.waits(seconds=2.5)
        await sara.presses("Stop")
        await sara.says("well")
        await sara.sees("It was 1.")
