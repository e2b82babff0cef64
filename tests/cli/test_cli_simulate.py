"""``triobot simulate``: what it says, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_rig import Command

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
def test_each_run_is_a_line_and_a_sentence(triobot: Command) -> None:
    ended = triobot("simulate", *small_echo())
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["seed 0", "  What held", "seed 1", "  What held"]
    words = lines[1]
    assert "each accepted event was handled, each press was answered" in words
    assert "Of 1 routes 1 began: echo.echo " in words
    assert words.endswith("and 1 kill of the process.")
    told = [json.loads(line) for line in triobot("simulate", *small_echo(), "--json").out.splitlines()]
    assert [one["plan"]["seed"] for one in told] == [0, 1]
    assert told[0]["broken"] == []
    shown = [f"seed {seed}: {tenths}0 %" for seed in (0, 1) for tenths in range(1, 11)]
    assert ended.err.splitlines() == [line for line in shown if line in ended.err]
    assert {"seed 0: 100 %", "seed 1: 100 %"} <= {*ended.err.splitlines()}


def small_echo() -> list[str]:
    return [f"{EXAMPLES / 'echo.py'}:bot", "--chats", "2", "--hours", "2", "--crashes", "1", "--runs", "2"]


@pytest.mark.slow
def test_what_nobody_came_to_is_told(triobot: Command) -> None:
    Path("hidden.py").write_text(
        "from triobot import Bot, Chat\n"
        "from triobot.filters import by\n"
        "bot = Bot()\n"
        "@bot.conversation\n"
        "async def hello(chat: Chat) -> None:\n"
        "    await chat.send('Hello.')\n"
        "@bot.aside(by(1))\n"
        "async def hidden(chat: Chat) -> None:\n"
        "    await chat.send('You here?')\n"
    )
    ended = triobot("simulate", "hidden.py:bot", "--chats", "2", "--hours", "2")
    assert "; never hidden.hidden (begins with by(" in ended.out


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
    assert "without reason" not in ended.out
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
