"""The README's code runs, and its commands are commands."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
from scene import playing

from triobot.cli import build_parser
from triobot.cli.loading import load_bot

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"(?m)^ {4}(?:\S+/)?triobot (.*)$|^ExecStart=\S+/triobot (.*)$", README)


async def test_the_readme_s_bot_plays(tmp_path: Path) -> None:
    """A search by halves finds the number in seven guesses at most."""
    [program] = [block for block in BLOCKS if "randint" in block]
    (tmp_path / "guess_game.py").write_text(program, encoding="utf-8")
    low, high = 1, 100
    async with playing(load_bot("guess_game.py:bot")) as app:
        sara = await app.user("Sara")
        await sara.joins()
        await sara.sees("I think of a number from 1 to 100. /stop gives up.")
        for _ in range(7):
            await sara.sees("Your guess?")
            middle = (low + high) // 2
            await sara.says(str(middle))
            answer = (await sara.sees()).text
            if answer == "That's it!":
                break
            low, high = (middle + 1, high) if answer == "Higher!" else (low, middle - 1)
        await sara.says("/stop")
        await sara.sees("We aren't playing.")

    assert answer == "That's it!"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[0])
def test_the_readme_s_code_is_python(block: str) -> None:
    compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("line", [first or second for first, second in COMMANDS])
def test_the_readme_s_commands_parse(line: str) -> None:
    build_parser().parse_args(shlex.split(line))


def test_the_readme_s_commands_are_found() -> None:
    """Nothing parsed would prove nothing."""
    assert len(COMMANDS) >= 3
    assert ".venv/bin/pip install -e '.[dev]' && .venv/bin/triobot demo\n" in README
    assert ".venv/bin/pip install -e '.[dev,test]' && .venv/bin/python -m pytest\n" in README


def test_the_readme_s_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)

    assert links
    assert [link for link in links if not (Path(__file__).parents[2] / link).exists()] == []
