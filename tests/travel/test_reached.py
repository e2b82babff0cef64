"""Reached lines: what a probe notes of code that runs, and what a real one says of journals."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing
from test_travel_twins import ENVIRON, journal

from triobot.cli.loading import load_bot
from triobot.emulator.exchange import TravelError
from triobot.emulator.views import JsonObject
from triobot.engine import Record, encode_record
from triobot.travel import probes as module
from triobot.travel.probes import Probes
from triobot.travel.reached import probing

COMMAND = [sys.executable, "-m", "triobot.cli.dev_probe"]
CODE = '''\
"""Words."""
from __future__ import annotations
from typing import TYPE_CHECKING
from triobot import Bot, Chat
if TYPE_CHECKING:
    import decimal
bot = Bot()

@bot.conversation
async def talk(
    chat: Chat,
) -> None:
    """More words."""
    global number
    number = 1

class Sums:
    def add(self, *numbers: int) -> int:
        try:
            match numbers:
                case ():
                    return 0
                case (one,):
                    return one
                case (one, *others):
                    return (
                        one +
                        self.add(*others)
                    )
        except TypeError:
            raise
        else:
            return -1

    def both(self): return [1]; return 2

if __name__ == "__main__":
    bot.run()
'''


def states(told: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The first line of each statement, and its state."""
    written = told["text"].splitlines()
    return [(written[first - 1].strip(), state) for first, _, state, *_ in told["lines"]]


def test_each_statement_that_runs_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "sums.py").write_text(CODE)
    with probing() as reached:
        load_bot(f"{tmp_path / 'sums.py'}:bot")
        sums = sys.modules.pop("sums").Sums()
        [told] = cast("list[dict[str, Any]]", reached.told())
        assert [line for line, state in states(told) if state] == [
            "from typing import TYPE_CHECKING",
            "from triobot import Bot, Chat",
            "if TYPE_CHECKING:",
            "bot = Bot()",
            "@bot.conversation",
            "class Sums:",
            "def add(self, *numbers: int) -> int:",
            "def both(self): return [1]; return 2",
            'if __name__ == "__main__":',
        ]
        # Words, declarations, and what runs only elsewhere are no statements of which anything is asked.
        unasked = {'"""Words."""', '"""More words."""', "import decimal", "global number", "bot.run()"}
        assert not unasked & dict(states(told)).keys()
        assert [9, 12, 1] in told["lines"]
        before = set(reached.noted)
        assert sums.add(1, 2) == 3
        [told] = cast("list[dict[str, Any]]", reached.told({"Sums.both"}))
        assert {line for line, state in states(told) if state == 0} == {
            "number = 1",
            "return 0",
            "raise",
            "return -1",
        }
        # Three of one line, each for itself; the inner ones are a step's.
        assert [state for line, state in states(told) if line.startswith("def both")] == [1, 2, 2]
        reached.forget_since(before)
        assert reached.noted == before


class ThisRun:
    """The journals of a run."""

    def __init__(self, *journals: Sequence[JsonObject]) -> None:
        self.journals = journals

    async def of_this_run(self) -> Sequence[Sequence[JsonObject]]:
        await trio.lowlevel.checkpoint()
        return self.journals


def _nothing() -> None:
    """Hear nothing."""


ASKS = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def talk(chat: Chat) -> None:
    try:
        while await chat.ask("More?") != "00001":
            await chat.step(bake)
        await chat.ask("Really?")
        await chat.ask("Never came here.")
    finally:
        tidied = True


async def bake() -> int:
    return 5
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.virtual_time(False)
@pytest.mark.cold
async def test_a_probe_tells_what_journals_reach(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(ASKS)
    baked: Record = ["D", 1700000001000, 3, "step", "bake", 5]
    lines = [*journal(1), {"n": 3, "record": encode_record(baked)}]
    probes = Probes(COMMAND, ENVIRON, f"{tmp_path / 'bot.py'}:bot", ThisRun(lines).of_this_run, _nothing)
    assert probes.files() == {"conversations": None, "files": []}
    await probes.look()
    path = str(tmp_path / "bot.py")
    assert probes.files() == {
        "conversations": 1,
        "files": [
            {"file": 0, "name": "bot.py", "path": path, "run": {"reached": 7, "of": 10}, "crowd": None}
        ],
    }
    found = dict(states(cast("dict[str, Any]", probes.file(0))))
    assert [line for line, state in found.items() if state == 0] == [
        'await chat.ask("Really?")',
        'await chat.ask("Never came here.")',
        # It stands there, and was told to go: nothing of that happened.
        "tidied = True",
    ]
    assert [line for line, state in found.items() if state == 2] == ["return 5"]
    with pytest.raises(TravelError, match="no such file"):
        probes.file(1)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.virtual_time(False)
async def test_a_probe_that_comes_to_nothing_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = tmp_path / "bot.py"
    probes = Probes(COMMAND, ENVIRON, f"{bot}:bot", ThisRun().of_this_run, _nothing)
    bot.write_text("bot = 5\n")
    with pytest.raises(TravelError, match="is a int, not a triobot"):
        await probes.look()
    bot.write_text("import os\nos._exit(0)\n")
    with pytest.raises(TravelError, match="ended, or didn't come to its end"):
        await probes.look()
    bot.write_text("while True:\n    pass\n")
    monkeypatch.setattr(module, "SILENCE", 2.0)
    with pytest.raises(TravelError, match="ended, or didn't come to its end"):
        await probes.look()


FRAGILE = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def fragile(chat: Chat) -> None:
    if await chat.ask("Yes or no?") == "yes":
        raise ZeroDivisionError
    if await chat.ask("Really?") == "no":
        never = 1
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.virtual_time(False)
async def test_a_crowd_ends_where_a_promise_breaks(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(FRAGILE)
    told, news = list[JsonObject](), trio.Event()

    def tell() -> None:
        told.append(probes.crowd())
        if told[-1]["state"] != "runs":
            news.set()

    probes = Probes(COMMAND, ENVIRON, f"{tmp_path / 'bot.py'}:bot", ThisRun().of_this_run, tell)
    with pytest.raises(TravelError, match="nothing is kept"):
        probes.failing()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(probes.run)
        await trio.testing.wait_all_tasks_blocked()
        # What a seed does is no promise: the first that breaks one will do.
        for seed in range(1, 100):
            plan: JsonObject = {"seed": seed, "chats": 3, "hours": 24, "crashes": 2, "faults": 2}
            news = trio.Event()
            told.clear()
            probes.let_in(plan)
            with pytest.raises(TravelError, match="send it home"):
                probes.let_in(plan)
            await news.wait()
            crowd = cast("dict[str, Any]", probes.crowd())
            if crowd["state"] == "broke":
                break
        assert crowd["first"]["text"] in crowd["broken"]
        assert crowd["again"].endswith(
            f"bot.py:bot --seed {seed} --chats 3 --hours 24 --crashes 2 --faults 2"
        )
        parts = [cast("float", one["part"]) for one in told if one["state"] == "runs"]
        assert parts == sorted(parts)
        assert parts[-1] < 0.99  # it didn't run to its end
        [journal, *_], marks = probes.failing()
        assert (journal[0]["route"], journal[0]["ended_at"] is None) == ("bot.fragile", False)
        assert len(marks) == 2 * len(crowd["first"]["kills"])
        await probes.look()
        [much] = cast("list[dict[str, Any]]", probes.files()["files"])
        assert (much["run"]["reached"], much["crowd"]["reached"] > much["run"]["reached"]) == (3, True)
        lines = cast("dict[str, Any]", probes.file(0))["lines"]
        assert [9, 9, 0, 1] in lines

        # Of other code, what the crowd has reached says nothing.
        (tmp_path / "bot.py").write_text(f"{FRAGILE}\n")
        await probes.look()
        newer = cast("dict[str, Any]", probes.file(0))
        assert newer["older_crowd"]
        assert [9, 9, 0, None] in newer["lines"]

        news = trio.Event()
        probes.let_in({**plan, "hours": 10_000})
        probes.send_home()
        await news.wait()
        assert probes.crowd()["state"] == "stopped"
        nursery.cancel_scope.cancel()
