"""A chat that was played by hand becomes a test, and the test passes."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from types import ModuleType

import pytest
import trio
from scene import playing

from triobot import Bot
from triobot.emulator.person import App, AppError
from triobot.testing import run
from triobot.wire.content import Location

Written = Callable[[object], Awaitable[None]]


async def play_pizza(bot: Bot) -> str:
    async with playing(bot) as app:
        sara = await app.user("Sara", irr=100_000)
        await sara.joins()
        await sara.sees("Your name?")
        await sara.says('Sara "quotes" and\nlines \u202e')
        await sara.sees("Size?")
        await sara.presses("Large")
        await sara.sees("Where to?")
        await sara.says(Location("35.7", "51.3", "home"))
        await sara.sees("How do we find you?")
        await sara.submits({"floor": "3", "doorbell": "Ahmadi"})
        await sara.sees("A large pizza")
        await sara.pays(code=1000)
        await sara.sees("Your wallet's balance is too low. Top it up and press the button again.")
        await sara.tops_up(irr=200_000)
        await sara.pays("Pay")
        await sara.sees()
        return await script(app, sara.chat_id)


async def play_quiz(bot: Bot) -> str:
    async with playing(bot) as app:
        ali = await app.user("علی")
        await ali.joins()
        for label in ("Jupiter", "Four", "Potato"):
            await ali.sees()
            await ali.presses(label)
            await ali.sees_answer()
        await ali.sees("2 of 3 right.")
        return await script(app, ali.chat_id)


async def script(app: App, chat_id: int) -> str:
    answer = await app.get("script", {"chat": chat_id})
    assert isinstance(answer, dict)
    return str(answer["text"])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "play"), [("pizza", play_pizza), ("quiz", play_quiz)])
def test_what_was_played_passes_as_a_test(
    example: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    play: Callable[[Bot], Awaitable[str]],
) -> None:
    module = example(name)
    text = trio.run(play, module.bot)

    assert "from bot import bot" in text
    monkeypatch.setitem(sys.modules, "bot", module)
    written: dict[str, Written] = {}
    exec(compile(text, "written.py", "exec"), written)
    [test] = [value for key, value in written.items() if key.startswith("test_")]
    run(partial(test, None))


@pytest.mark.slow
def test_a_written_test_can_fail(
    example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = example("quiz")
    text = trio.run(play_quiz, module.bot).replace("2 of 3", "3 of 3")

    monkeypatch.setitem(sys.modules, "bot", module)
    written: dict[str, Written] = {}
    exec(compile(text, "written.py", "exec"), written)
    with pytest.raises(BaseException, match="3 of 3"):
        run(partial(written["test_person"], None))


async def test_what_nobody_did_or_all_did_is_not_written_down(example: Callable[[str], ModuleType]) -> None:
    async with playing(example("quiz").bot) as app:
        sara = await app.user("Sara")
        with pytest.raises(AppError, match="nothing was done"):
            await script(app, sara.chat_id)
        team = await app.group("team", sara)
        with pytest.raises(AppError, match="private"):
            await script(app, team)
