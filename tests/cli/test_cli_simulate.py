"""``triobot simulate``: what it says, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_rig import Command

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_each_run_is_one_line(triobot: Command) -> None:
    small = ("--chats", "2", "--hours", "2", "--crashes", "1", "--runs", "2")
    ended = triobot("simulate", f"{EXAMPLES / 'echo.py'}:bot", *small)
    assert ended.code == 0
    assert [line.partition(":")[0] for line in ended.out.splitlines()] == ["seed 0", "seed 1"]


def test_a_broken_promise_is_told_with_how_to_have_it_again(triobot: Command) -> None:
    Path("fragile.py").write_text(
        "from triobot import Bot, Chat\n"
        "bot = Bot()\n"
        "@bot.conversation\n"
        "async def fragile(chat: Chat) -> None:\n"
        "    raise ValueError\n"
    )
    ended = triobot("simulate", "fragile.py:bot", "--chats", "2", "--hours", "2", "--crashes", "0")
    assert ended.code == 1
    assert "BROKEN: alarm conversation_crashed" in ended.out
    assert "again: triobot simulate fragile.py:bot --seed 0 --chats 2 --hours 2 --crashes 0" in ended.out


@pytest.mark.parametrize(
    "wrong",
    [
        ("--chats", "0"),
        ("--chats", "-3"),
        ("--runs", "0"),
        ("--hours", "0"),
        ("--hours", "nan"),
        ("--hours", "inf"),
        ("--crashes", "-1"),
        ("--faults", "nan"),
        ("--faults", "-1"),
    ],
    ids="".join,
)
def test_a_simulation_of_nothing_is_refused(triobot: Command, wrong: tuple[str, str]) -> None:
    """It would end well, or with a traceback."""
    ended = triobot("simulate", "nobody.py:bot", *wrong)
    assert ended.code == 2
    assert f"argument {wrong[0]}: must be a number" in ended.err
