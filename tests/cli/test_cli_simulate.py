"""``triobot simulate``: what it says, and how it ends."""

from __future__ import annotations

from pathlib import Path

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
