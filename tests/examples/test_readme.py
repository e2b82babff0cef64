"""The README's code runs, and its commands and those of the docs are commands."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
from scene import playing

from triobot.cli import parse
from triobot.cli.loading import load_bot
from triobot.testing import drive

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXT = "\n".join(
    (README, *(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))))
)
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
TEST = """
from pizza import bot
from triobot.testing import drive


async def test_an_order() -> None:
    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Your name?")
        await sara.says("Sara")
        await sara.sees_buttons("Small", "Large")
        await world.crashes()  # as by kill -9; it starts again
        await world.waits(days=3)
        await sara.presses("Small", times=2)  # a double click
"""
COMMANDS = re.findall(r"(?m)(?:^|[ =`])\.?\S*bin/triobot ([^`\n]*)", TEXT)


@pytest.mark.slow
async def test_the_readme_s_bot_takes_orders(tmp_path: Path) -> None:
    """Saved as the README says, it does what the README's code says."""
    [program] = [block for block in BLOCKS if "@bot.conversation" in block]
    (tmp_path / "readme_bot.py").write_text(program, encoding="utf-8")
    async with playing(load_bot("readme_bot.py:bot")) as app:
        sara = await app.user("Sara")
        await sara.joins()
        await sara.sees("Your name?")
        await sara.says("Sara")
        await sara.sees("Which size?")
        await sara.presses("Small")
        await sara.sees("How many?")
        await sara.says("two")
        await sara.sees("Please answer with a number.")
        await sara.says("۲")
        await sara.sees("2 pizzas (s) for Sara. Thank you!")
        await sara.says("/cancel")
        await sara.sees("Cancelled.")


async def test_the_readme_s_shop_gives_once(tmp_path: Path, autojump_clock: object) -> None:
    """And is short: no more is needed than two functions."""
    [program] = [block for block in BLOCKS if "chat.charge" in block]
    assert len([line for line in program.splitlines() if line]) <= 10
    (tmp_path / "readme_shop.py").write_text(program, encoding="utf-8")
    async with drive(load_bot(f"{tmp_path}/readme_shop.py:shop")) as world:
        for after in ("stays", "/cancel"):
            sara = world.user(after, wallet=500_000)
            await sara.joins()
            await sara.sees_buttons("Pay")
            await sara.pays()
            await sara.sees("You have 100 coins.")
        await world.waits(days=2)


def test_a_test_of_the_readme_s_bot_passes_in_a_folder_of_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a setting, and with no plugin but triobot's own, which imports pytest alone."""
    [program] = [block for block in BLOCKS if "@bot.conversation" in block]
    pytester.makepyfile(pizza=program, test_pizza=TEST)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.runpytest_subprocess("-p", "triobot_pytest").assert_outcomes(passed=1)
    pytester.makepyfile(
        test_pizza="""
        import sys

        def test_of_something_else():
            assert "triobot_pytest" in sys.modules
            assert not {"trio", "triobot", "httpx"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess("-p", "triobot_pytest").assert_outcomes(passed=1)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[0])
def test_the_readme_s_code_is_python(block: str) -> None:
    compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("line", COMMANDS)
def test_the_readme_s_commands_parse(line: str) -> None:
    parse(shlex.split(line))


def test_the_readme_s_commands_are_found() -> None:
    """Nothing parsed would prove nothing."""
    assert len(COMMANDS) >= 3
    assert ".venv/bin/pip install -e '.[dev,test]' && .venv/bin/triobot demo\n" in README
    assert ".venv/bin/pip install -e '.[dev,suite]' && .venv/bin/python -m tests\n" in README


def test_the_readme_s_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
