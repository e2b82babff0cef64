"""Every example, with the public test kit alone: a kill between two acts changes nothing its user sees."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from triobot.testing import drive

Example = Callable[[str], ModuleType]

EXAMPLES = sorted(path.stem for path in (Path(__file__).parents[2] / "examples").glob("*.py"))
# Written as a bot's author would write them. The others look at the machinery, or use real sockets.
PUBLIC = (
    "test_examples.py",
    "test_examples_waiting.py",
    "test_newsletter.py",
    "test_assistant.py",
    "test_faq.py",
    Path(__file__).name,
)
SURFACE = {"triobot", "triobot.filters", "triobot.errors", "triobot.testing"}


async def a_day(module: ModuleType, *, killed: bool) -> list[tuple[str, str]]:
    """What somebody sees who says a little, in a day; perhaps the process dies between any two acts."""
    async with drive(module.bot) as world:
        sara = world.user("Sara", wallet=1_000_000)

        async def later(hours: float) -> None:
            await world.waits(seconds=7)
            if killed:
                await world.crashes()
            await world.waits(hours=hours)

        await sara.joins()
        await later(0)
        for words in ("/start", "Sara", "3", "hello again"):
            await sara.says(words)
            await later(0)
        await later(24)
        return [(seen.type, seen.text) for seen in await sara.history()]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
async def test_a_kill_between_two_acts_is_not_noticed(
    name: str, example: Example, autojump_clock: object
) -> None:
    module = example(name)
    alive, killed = await a_day(module, killed=False), await a_day(module, killed=True)

    assert killed == alive
    assert len(alive) >= 4  # what was said, at least


@pytest.mark.parametrize("file", PUBLIC)
def test_an_example_is_tested_with_what_is_public(file: str) -> None:
    """Else an author could not write such a test."""
    tree = ast.parse((Path(__file__).parent / file).read_text(encoding="utf-8"))
    named = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    named += [one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names]

    assert {name for name in named if name.partition(".")[0] == "triobot"} <= SURFACE
    assert "triobot.testing" in named
    private = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert not [name for name in private if name.startswith("_") and not name.startswith("__")]
