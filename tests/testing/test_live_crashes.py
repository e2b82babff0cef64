"""What a live message showed last is the same after a restart, however its block ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from triobot import Bot, Buttons, Chat
from triobot.errors import RefusedError
from triobot.filters import text
from triobot.testing import Fault, drive

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


def telling(heard: list[str], *, buttons: bool = True) -> Bot:
    """Make a bot that shows two texts, and says what came of the last one."""
    bot = Bot()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        live = None
        try:
            async with chat.live("…", buttons=STOP if buttons else None) as live:
                live.show("half")
                await chat.sleep(5)
                live.show("the whole")
        except RefusedError as error:
            assert live is not None
            heard.append(f"{type(error).__name__}, and it shows {live.text}")
        else:
            heard.append(f"it shows {live.text}")
        await chat.ask("And?")
        await chat.send("Good.")

    return bot


@pytest.mark.parametrize("buttons", [True, False])
@pytest.mark.parametrize("how", ["crashes", "restarts", "check"])
@pytest.mark.parametrize(
    ("status", "takes", "told"),
    [
        (None, 0, "it shows the whole"),
        (400, 0, "BadRequestError, and it shows …"),
        (400, 1, "BadRequestError, and it shows half"),
    ],
)
async def test_a_last_text_that_is_refused_is_told(
    status: int | None, takes: int, told: str, how: str, buttons: bool, autojump_clock: object
) -> None:
    """The block raises as `Chat.edit` does, again in each replay; its text is what the message shows."""
    heard = list[str]()
    async with drive(telling(heard, buttons=buttons), replay_check=how == "check") as world:
        if status is not None:
            if takes:
                world.faults.add(Fault(operation="editMessage", latency=0.01, times=takes))
            world.faults.add(Fault(operation="editMessage", status=status, times=1 if takes else 2))
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("And?", within=20)
        await world.waits(seconds=3)
        if how == "crashes":
            await world.crashes()
        elif how == "restarts":
            await world.restarts()
        await sara.says("well")
        await sara.sees("Good.")
        await world.waits(seconds=5)
        assert set(heard) == {told}
        assert len(heard) > 1
        first = next(seen for seen in await sara.history() if seen.from_bot)
        assert first.text == told.partition("shows ")[2]
        assert not first.buttons
