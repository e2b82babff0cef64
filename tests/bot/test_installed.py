"""Routes and widgets that other packages register by entry points."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from trio.testing import MockClock

from triobot import Bot, installed
from triobot.errors import ConfigError
from triobot.testing import drive

MODULE = """\
from triobot import Chat, Router
from triobot.filters import command

routes = Router()


@routes.aside(command("feedback"))
async def feedback(chat: Chat) -> None:
    await chat.send(f"Thank you for {await stars(chat)}.")


async def stars(chat: Chat) -> int:
    return await chat.choose("How was it?", {n: "*" * n for n in range(1, 6)})
"""
ENTRIES = """\
[triobot.routes]
feedback = feedback_of_others:routes
broken = feedback_of_others:nothing
absent = nowhere_at_all:routes

[triobot.widgets]
stars = feedback_of_others:stars
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution that is installed in a folder of its own."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "feedback_of_others", raising=False)
    (tmp_path / "feedback_of_others.py").write_text(MODULE)
    told = tmp_path / "feedback_of_others-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: feedback-of-others\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(ENTRIES)
    return told


async def test_its_routes_run_in_the_bot(autojump_clock: MockClock) -> None:
    bot = Bot()
    bot.include(installed("routes", "feedback"))
    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("/feedback")
        await ali.presses("*****")
        await ali.sees("Thank you for 5.")


def test_its_widget_is_a_function() -> None:
    assert installed("widgets", "stars").__name__ == "stars"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "no package offers triobot.routes named 'nothing'; those that are installed: .*feedback"),
        ("stars", "no package offers triobot.routes named 'stars'"),
        ("broken", "feedback_of_others:nothing, of triobot.routes, can't be imported"),
        ("absent", "nowhere_at_all:routes, of triobot.routes, can't be imported: No module named"),
    ],
)
def test_what_is_not_offered_is_said(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        installed("routes", name)


def test_two_that_offer_the_same_are_not_chosen_from(package: Path) -> None:
    other = package.with_name("others-1.0.dist-info")
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[triobot.routes]\nfeedback = other:routes\n")
    with pytest.raises(ConfigError, match="several packages offer"):
        installed("routes", "feedback")
