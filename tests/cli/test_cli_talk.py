"""``triobot talk``: one's own bot, from the terminal, with nothing set up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import child_environment

from tests.loopback import PATIENCE

BOT = """
from enum import Enum
import attrs
from triobot import Bot, Chat, File, Location
bot = Bot()

@attrs.frozen
class Details:
    floor: int

@bot.conversation
async def shop(chat: Chat) -> None:
    await chat.choose("Size?", {"s": "Small", "l": "Large"})
    await chat.ask("Where?", Location)
    details = await chat.fill(Details, "How?")
    label = await chat.ask("Label?", File)
    paid = await chat.charge(500, "All of it", item="all", late="refund")
    await chat.send(f"floor {details.floor}, {label.filename}, {paid.amount} rials")
"""


@pytest.mark.processes
def test_a_whole_order_can_be_typed(tmp_path: Path) -> None:
    """Buttons by their label, a place, a form, a file and money; a typing error ends nothing."""
    (tmp_path / "shop.py").write_text(BOT)
    (tmp_path / "label.txt").write_text("label")
    typed = ["Large", "!location", "!submit floor=3", "!fly", "!file nowhere", "!file label.txt", "!pay"]

    ran = subprocess.run(
        [sys.executable, "-m", "triobot.cli", "talk", "shop.py:bot"],
        cwd=tmp_path,
        env=child_environment(),
        input="\n".join([*typed, "!quit"]) + "\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "! nobody knows !fly" in ran.stdout
    assert "! the file can't be read" in ran.stdout
    assert "floor 3, label.txt, 500 rials" in ran.stdout
