"""The tutorial's programs: each step does what its page says, and the next one adds lines to it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests.docs.writing import SHOWN
from triobot.cli.loading import load_bot
from triobot.errors import ConfigError
from triobot.testing import drive, run

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "examples" / "tutorial"
Example = Callable[[str], ModuleType]

PROGRAMS: Final = (
    "step_01",
    "step_02",
    "step_03",
    "step_04",
    "step_06",
    "step_07",
    "step_08",
    "step_09",
    "cake",
)
TESTED: Final = PROGRAMS[3:]  # by the test that the fifth step writes
HOME: Final = {"street": "Rose street 7", "floor": "2"}


async def test_the_first_step_asks_for_a_name(example: Example, autojump_clock: object) -> None:
    async with drive(example("tutorial/step_01").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Welcome! What is your name?")
        await sara.says("Sara")
        await sara.sees("Hello, Sara.")


async def test_the_second_step_shows_buttons(example: Example, autojump_clock: object) -> None:
    async with drive(example("tutorial/step_02").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("Sara")
        await sara.sees_buttons("Honey cake", "Lemon cake")
        await sara.says("Chocolate, please")
        await sara.sees("Please press one of the buttons.")
        await sara.presses("Lemon cake")
        await sara.sees("Lemon cake for Sara.")


async def test_the_third_step_shows_a_form(example: Example, autojump_clock: object) -> None:
    async with drive(example("tutorial/step_03").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("Sara")
        await sara.presses("Honey cake")
        await sara.submits({**HOME, "floor": "second"})
        await sara.sees(re.compile("Floor"))
        await sara.submits(HOME)
        await sara.sees("Honey cake for Sara: Rose street 7, floor 2.")


async def test_the_fourth_step_can_be_cancelled(example: Example, autojump_clock: object) -> None:
    async with drive(example("tutorial/step_04").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("Sara")
        await sara.sees("Which cake?")
        await sara.says("/cancel")
        await sara.sees("Your order is cancelled.")


@pytest.mark.parametrize("name", TESTED)
def test_the_fifth_step_s_tests_pass(example: Example, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """With the program of its own step, and with all that follow."""
    monkeypatch.setitem(sys.modules, "cake", example(f"tutorial/{name}"))
    tests: dict[str, object] = {}
    exec((FOLDER / "test_cake.py").read_text(encoding="utf-8"), tests)

    found = [value for key, value in tests.items() if key.startswith("test_")]
    assert len(found) == 3
    for test in found:
        run(test)  # type: ignore[arg-type]


async def test_the_sixth_step_tells_the_kitchen_once(example: Example, autojump_clock: object) -> None:
    async with drive(example("tutorial/step_06").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("Sara")
        await sara.presses("Honey cake")
        await sara.submits(HOME)
        await sara.sees("How did you find us?")
        await world.crashes()
        await sara.says("By a friend")
        await sara.sees("Thank you!")

    assert Path("kitchen.txt").read_text() == "honey for Sara\n"


async def test_the_seventh_step_bakes_what_is_paid(example: Example, autojump_clock: object) -> None:
    async with drive(example("tutorial/step_07").bot) as world:
        sara = world.user("Sara", wallet=500_000)
        await sara.joins()
        await sara.says("Sara")
        await sara.presses("Honey cake")
        await sara.submits(HOME)
        await sara.pays()
        await world.crashes()
        await sara.sees("It is paid, and ready in 40 minutes.")

        assert (await sara.wallet())["IRR"] == 200_000
    assert Path("kitchen.txt").read_text().endswith(": honey for Sara\n")


@pytest.mark.parametrize("mended", [False, True], ids=["as first written", "mended"])
async def test_the_eighth_step_s_crash_is_mended(
    tmp_path: Path, autojump_clock: object, mended: bool
) -> None:
    program = (FOLDER / "step_08.py").read_text(encoding="utf-8")
    if not mended:
        program, lines = re.subn(r"guests: int = .*", "guests: int = 8", program)
        assert lines == 1
    file = tmp_path / f"cake_{mended}.py"  # each is a module of its own
    file.write_text(program, encoding="utf-8")
    async with drive(load_bot(f"{file}:bot")) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("Sara")
        await sara.presses("Honey cake")
        await sara.submits({**HOME, "guests": "0"})
        if mended:
            await sara.sees(re.compile(">= 1"))
            await sara.submits({**HOME, "guests": "4"})
            await sara.sees("Each guest gets 4 slices.")
        else:
            await sara.sees(re.compile("start again"))
            world.takes_alarm("conversation_crashed")


def test_the_ninth_step_runs_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (FOLDER / "step_09.py").read_text(encoding="utf-8")
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    with pytest.raises(ConfigError, match="no token: set TRIOBOT_TOKEN"):
        exec(compile(program, "cake.py", "exec"), {"__name__": "__main__"})


async def test_the_tenth_step_calls_for_help(example: Example, autojump_clock: object) -> None:
    """The kitchen can't be told: the owner is called, and once it can, the cake is baked."""
    kitchen = Path("kitchen.txt")
    kitchen.mkdir()
    async with drive(example("tutorial/cake").bot) as world:
        sara = world.user("Sara", wallet=500_000)
        await sara.joins()
        await sara.says("Sara")
        await sara.presses("Honey cake")
        await sara.submits(HOME)
        await sara.pays()
        await world.waits(seconds=20)
        assert Path("alarms.txt").read_text().startswith("conversation_crashed: ")
        world.takes_alarm("conversation_crashed")
        kitchen.rmdir()
        await sara.sees("It is paid, and ready in 40 minutes.", within=3600)


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "tutorial").glob("[01]*.md")), ids=lambda page: page.stem
)
def test_the_lines_that_a_page_marks_are_the_new_ones(page: Path) -> None:
    """Those that the program of the step before doesn't have."""
    for shown in SHOWN.finditer(page.read_text(encoding="utf-8")):
        name, marked = Path(shown["file"]).stem, shown["new"]
        if name not in PROGRAMS[1:]:
            continue
        before, now = (
            (FOLDER / f"{one}.py").read_text(encoding="utf-8").splitlines()
            for one in (PROGRAMS[PROGRAMS.index(name) - 1], name)
        )
        new = [
            number for number, line in enumerate(now, 1) if line.strip() and number > 1 and line not in before
        ]
        spans = [
            (first, last or first) for first, _, last in (part.partition("-") for part in marked.split(","))
        ]
        told = {number for first, last in spans for number in range(int(first), int(last) + 1)}
        assert {number for number in told if now[number - 1].strip()} == set(new), (page.name, new)
