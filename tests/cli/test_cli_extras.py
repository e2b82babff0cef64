"""Without the extras: the bot runs, and what needs one says in one line which."""

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
        if name in ("quart", "quart_trio", "hypercorn", "PIL", "watchfiles", "psycopg", "pytest"):
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
def test_a_bot_runs_without_them(tmp_path: Path) -> None:
    """It listens and comes to rest, by the command as well."""
    (tmp_path / "greeter.py").write_text(BOT)
    done = ended("from triobot.cli import main; main(['run', 'greeter.py:bot', '--port', '0'])", tmp_path)

    assert done.returncode == 0, done.stderr
    assert "listening on" in done.stderr


@pytest.mark.slow
@pytest.mark.processes
def test_another_server_names_its_extra(tmp_path: Path) -> None:
    """Before a store is made."""
    (tmp_path / "greeter.py").write_text(BOT.replace("memory:", "sqlite:bot.db"))
    done = ended(
        "from triobot.cli import main; main(['run', 'greeter.py:bot', '--server', 'hypercorn'])", tmp_path
    )

    assert done.returncode == 1
    line = "triobot: --server hypercorn needs the extra 'asgi': pip install 'triobot-runtime[asgi]'"
    assert done.stderr.splitlines() == [line]
    assert not (tmp_path / "bot.db").exists()


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


COMMANDS = """
from triobot.cli import main

for command in ("demo", "dev", "talk", "simulate", "emulate"):
    try:
        main([command, "greeter.py:bot"])
    except SystemExit as end:
        assert end.code == 1, command
"""


@pytest.mark.slow
@pytest.mark.processes
def test_each_command_names_its_extra(tmp_path: Path) -> None:
    done = ended(COMMANDS, tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        f"triobot: triobot {command} needs the extra 'dev': pip install 'triobot-runtime[dev]'"
        for command in ("demo", "dev", "talk", "simulate", "emulate")
    ]


NAMES = """
from triobot import Bot

def name_asgi(): Bot().asgi
def mount(): Bot().mount(object(), "/bot")
def import_testing(): import triobot.testing

for use in (name_asgi, mount, import_testing):
    try:
        use()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.slow
@pytest.mark.processes
def test_each_name_names_its_extra(tmp_path: Path) -> None:
    done = ended(NAMES, tmp_path)

    assert done.returncode == 0, done.stderr
    used = [("bot.asgi", "asgi"), ("bot.mount()", "asgi"), ("triobot.testing", "test")]
    for line, (what, extra) in zip(done.stdout.splitlines(), used, strict=True):
        assert line.endswith(
            f"Error: {what} needs the extra {extra!r}: pip install 'triobot-runtime[{extra}]'"
        )
