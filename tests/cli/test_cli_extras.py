"""Without the extras: all runs but what one brings, and that says in one line which."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import child_environment

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ("PIL", "watchfiles", "psycopg", "opentelemetry", "pytest", "shtab"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""

BOT = """
from triobot import Bot, Chat

bot = Bot("0123456789abcdefghij", store="memory:")


@bot.conversation
async def greet(chat: Chat) -> None:
    await chat.send("Hello.")


@bot.background
async def stop() -> None:
    bot.stop()
"""


def ended(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code],
        check=False,
        cwd=folder,
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("server", ["triobot", "hypercorn"])
def test_a_bot_runs_without_them(tmp_path: Path, server: str) -> None:
    """It listens and comes to rest, by the command as well."""
    (tmp_path / "greeter.py").write_text(BOT)
    command = ["run", "greeter.py:bot", "--port", "0", "--server", server]
    done = ended(f"from triobot.cli import main; main({command})", tmp_path)

    assert done.returncode == 0, done.stderr
    assert "listening on" in done.stderr


@pytest.mark.slow
@pytest.mark.processes
def test_a_store_in_postgresql_names_its_extra(tmp_path: Path) -> None:
    (tmp_path / "greeter.py").write_text(BOT.replace("memory:", "postgresql://u@localhost/d"))
    done = ended("from triobot.cli import main; main(['run', 'greeter.py:bot', '--port', '0'])", tmp_path)

    assert done.returncode == 1
    line = (
        "triobot: a store in PostgreSQL needs the extra 'postgres': pip install 'triobot-runtime[postgres]'"
    )
    assert done.stderr.splitlines()[-1] == line


@pytest.mark.slow
@pytest.mark.processes
def test_completion_names_its_extra(tmp_path: Path) -> None:
    done = ended("from triobot.cli import main; main(['completion', 'bash'])", tmp_path)

    assert done.returncode == 1
    line = (
        "triobot: `triobot completion` needs the extra 'completion':"
        " pip install 'triobot-runtime[completion]'"
    )
    assert done.stderr.splitlines()[-1] == line


USES = """
import triobot.testing
from triobot import Bot
from triobot.cli import COMMANDS, parse

Bot().asgi
for command in COMMANDS:
    try:
        parse([command, "--help"])
    except SystemExit as end:
        assert end.code == 0, command
"""


@pytest.mark.slow
@pytest.mark.processes
def test_nothing_else_needs_one(tmp_path: Path) -> None:
    """Each command is loaded, and a bot's tests can be; the emulator makes no thumbnails then."""
    done = ended(USES, tmp_path)

    assert done.returncode == 0, done.stderr
