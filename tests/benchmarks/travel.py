"""How long it takes until a conversation's past can be looked at, in a warm process beside the bot's.

    python -m tests.benchmarks.travel [ROUNDS]

Two journals: a long one of plain questions, and a heavy one, whose four children stand seven functions deep
and hold tables of 2,000 rows. Each is opened in a twin that has loaded the bot, and its newest 256 notches
are read, as a page does; then a window from the middle, and one notch alone. Times are of the wall, medians;
beside them is the CPU that the twin took.
"""

from __future__ import annotations

import gzip
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import trio

from triobot import Bot
from triobot.cli.loading import load_bot
from triobot.conversations.conversation import Conversation
from triobot.conversations.inspection import checking
from triobot.conversations.inspection.checking import Checked
from triobot.conversations.revival.stored import Stored
from triobot.emulator.views import JsonObject
from triobot.engine import encode_record
from triobot.operator.api import row_fields
from triobot.studio.errors import TravelError
from triobot.studio.stored_journals import StoredJournals
from triobot.studio.travel.twins import Twins
from triobot.testing import drive, run
from triobot.wire.rules import compact_json

LONG = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def talk(chat: Chat) -> None:
    answers = []
    for n in range(2_000):
        answers.append(await chat.ask(f"Question {n}?"))
"""
HEAVY = """\
from triobot import Bot, Chat

bot = Bot()


async def deep(chat: Chat, levels: int, table: list[dict[str, object]]) -> None:
    rows = [dict(row) for row in table]
    if levels:
        await deep(chat, levels - 1, rows)
        return
    for n in range(250):
        await chat.sleep(1 + n % 3)
        rows[n % 2_000]["name"] = f"changed {n}"


@bot.conversation
async def talk(chat: Chat) -> None:
    table = [{"id": n, "name": f"row {n}", "price": n * 1.5} for n in range(2_000)]
    async with chat.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(deep, chat, 6, table)
"""
ENVIRON = {
    **{name: value for name, value in os.environ.items() if not name.startswith("TRIOBOT_")},
    "TRIOBOT_TOKEN": "token",
    "TRIOBOT_BASE_URL": "http://127.0.0.1:9",
    "TRIOBOT_STORE": "memory:",
}


class Journals:
    """One journal."""

    def __init__(self, lines: Sequence[JsonObject]) -> None:
        self.lines = lines

    async def conversations(self, chat_id: int) -> Sequence[JsonObject]:
        await trio.lowlevel.checkpoint()
        return self.lines[:1]

    async def journal(self, conversation: int) -> Sequence[JsonObject]:
        await trio.lowlevel.checkpoint()
        return self.lines

    async def code(self) -> Sequence[JsonObject]:
        await trio.lowlevel.checkpoint()
        return ()

    def marks(self, since: int) -> Sequence[JsonObject]:
        return ()


async def _driven(bot: Bot, answers: int) -> Stored:
    """Let a driven bot write its journal."""
    kept: list[Stored] = []
    compare, checking.compare = checking.compare, _keeping(kept)
    try:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            for n in range(answers):
                await sara.sees(f"Question {n}?")
                await sara.says(f"answer {n}")
            await trio.sleep(2_000)
    finally:
        checking.compare = compare
    return max(kept, key=lambda stored: len(stored.records))


def _keeping(kept: list[Stored]) -> Any:
    async def keep(there: Conversation, checked: Checked) -> None:
        await trio.lowlevel.checkpoint()
        kept.append(checked.stored)

    return keep


def journal_of(file: Path, answers: int) -> list[JsonObject]:
    """Return the journal that this bot writes, as an operator is told it."""
    stored = run(partial(_driven, load_bot(f"{file}:bot"), answers))
    records = [{"n": n, "record": encode_record(record)} for n, record in enumerate(stored.records)]
    return [{**row_fields(stored.row), "conversation": 1}, *records]


async def measure(file: Path, lines: Sequence[JsonObject], rounds: int) -> None:
    """Open a journal again and again, and print how long that took."""
    command = [sys.executable, "-m", "triobot.studio.commands.twin", "dev"]
    twins = Twins(command, ENVIRON, f"{file}:bot", cast(StoredJournals, Journals(lines)), lambda: None)
    took: dict[str, list[float]] = {"open": [], "middle": [], "one": [], "cpu": []}
    size = packed = 0
    head: Any = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(twins.pool.run, trio.lowlevel.checkpoint)
        await trio.sleep(0.1)
        chat_id = int(str(lines[0]["chat_id"]))
        for number in range(rounds + 1):
            before, begun = _cpu(twins), time.perf_counter()
            told: Any = await twins.open(chat_id, 1)
            while "format" not in (head := twins.passed(told["id"])):
                await trio.sleep(0.001)
            newest = max(int(head["notches"]) - 256, 0)
            window = await twins.notches(told["id"], newest, newest + 256)
            took["open"].append(time.perf_counter() - begun)
            took["cpu"].append(_cpu(twins) - before)
            size = len(text := compact_json(window).encode())
            packed = len(gzip.compress(text, 5))
            for name, start, end in (("middle", newest // 2, newest // 2 + 256), ("one", newest, newest + 1)):
                begun = time.perf_counter()
                await twins.notches(told["id"], start, end)
                took[name].append(time.perf_counter() - begun)
            if not number:  # it has loaded the bot only now
                took = {name: [] for name in took}
        nursery.cancel_scope.cancel()
    median = {name: statistics.median(values) * 1000 for name, values in took.items()}
    print(
        f"{head['records']:>6} records {head['notches']:>6} notches:"
        f" open with the newest window {median['open']:>6.0f} ms (CPU {median['cpu']:>5.0f} ms),"
        f" a window from the middle {median['middle']:.0f} ms, one notch {median['one']:.0f} ms;"
        f" a window is {size / 1000:.0f} kB, compressed {packed / 1000:.0f} kB"
    )


def _cpu(twins: Twins) -> float:
    if not twins.pool._loaded:
        return 0.0
    [twin] = twins.pool._loaded.values()
    pid = twin.process.pid
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure both."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        for name, text, answers in (("long", LONG, 2_000), ("heavy", HEAVY, 0)):
            file = Path(folder) / f"{name}.py"
            file.write_text(text, encoding="utf-8")
            lines = journal_of(file, answers)
            print(f"{name:>6}: ", end="", flush=True)
            try:
                trio.run(measure, file, lines, rounds)
            except TravelError as error:
                print(error)


if __name__ == "__main__":
    main()
