"""The second look of replay-check: what differs only in another process fails the test, too."""

from __future__ import annotations

from pathlib import Path

import pytest
import unordered_bot
from unordered_bot import ordered, unordered

from triobot import Bot, Chat
from triobot.errors import NondeterminismError
from triobot.testing import drive, twins
from triobot.twin import home_of


def line(mark: str) -> str:
    lines = Path(unordered_bot.__file__).read_text(encoding="utf-8").splitlines()
    return f"{unordered_bot.__file__}:{next(n for n, text in enumerate(lines, 1) if text.endswith(mark))}"


async def choose(bot: Bot, *, replay_check: bool = True, press: bool = True) -> None:
    async with drive(bot, replay_check=replay_check) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Size?")
        if press:
            await ali.presses("Large")
            await ali.sees("large, thank you.")


async def test_buttons_in_the_order_of_a_set(autojump_clock: object) -> None:
    """The conversation repeats itself here, and not after a restart; while it waits and when it has ended."""
    for press in (True, False):
        with pytest.raises(NondeterminismError, match="other arguments") as caught:
            await choose(unordered, press=press)
        assert line("# in any order") in str(caught.value)
        assert "unordered_bot.order at" in str(caught.value)
        assert "sets have other orders" in str(caught.value)
    await choose(unordered, replay_check=False)


async def test_what_sorts_its_sets_passes(autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the test has changed what the other processes have as it is written."""
    await choose(ordered)
    monkeypatch.setattr(unordered_bot, "SIZES", ["large", "tiny"])
    monkeypatch.setattr(twins, "_seen", set[object]())
    await choose(ordered)


def test_only_a_bot_of_a_module_is_found() -> None:
    """One that a function made can't be made again by another process."""
    found = home_of(unordered)

    assert found is not None
    assert (found.module, found.name) == ("unordered_bot", "unordered")
    assert home_of(Bot()) is None


def test_who_mentions_no_set_starts_no_process(tmp_path: Path) -> None:
    """A test of such a bot is as fast as before."""
    plain, dependent = tmp_path / "plain.py", tmp_path / "dependent.py"
    plain.write_text("def count(those: dict[str, int]) -> int:\n    return sum(those.values())\n")
    dependent.write_text("def new(now: dict, before: dict) -> list:\n    return list(now.keys() - before)\n")

    assert not twins._mentions_order(plain)
    assert twins._mentions_order(dependent)


async def test_a_bot_that_can_not_be_imported_again_is_done_without(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A second look is a convenience: nothing fails for want of it."""
    bot = Bot()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.ask("Size?")

    file = tmp_path / "gone.py"
    file.write_text("raise SystemExit(set())\n")
    monkeypatch.setattr(twins, "home_of", lambda bot: twins.Home("gone", str(file), "bot"))
    await choose(bot, press=False)
