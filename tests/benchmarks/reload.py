"""How much longer a save takes to reach the bot because the new code is tried on open chats before.

    python -m tests.benchmarks.reload [ROUNDS]

Three runs of ``triobot dev`` on one bot: one without an open chat, whose code is taken at once, one with an
open chat and one with fifty. In each round each of them is saved once, with a change that breaks nothing.
Times are of the wall, from the save until the new process of the bot answers; medians.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from triobot.emulator.person import App, connect

OPEN: Final = (0, 1, 50)
PATIENCE: Final = 60.0
BOT: Final = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def talk(chat: Chat) -> None:
    for n in range(20):
        await chat.ask(f"Question {n}?")
"""


@asynccontextmanager
async def developing(folder: Path, people: int) -> AsyncGenerator[App]:
    """Run it on this bot, with so many people who are in the middle of a conversation."""
    (folder / "bot.py").write_text(BOT)
    popen = subprocess.Popen(
        [sys.executable, "-m", "triobot", "dev", "bot.py:bot", "--port", "0"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert popen.stdout is not None
        line = ""
        while "/#" not in line:
            line = await trio.to_thread.run_sync(popen.stdout.readline)
            assert line, "it has ended"
        page, _, token = line.strip().partition("/#")
        async with connect(f"{page}/control", token) as app:
            for number in range(people):
                person = await app.user(f"Person {number}")
                await person.joins()
                for n in range(10):
                    await person.sees(f"Question {n}?", within=PATIENCE)
                    await person.says("An answer.")
                await person.sees("Question 10?", within=PATIENCE)
            await trio.sleep(5)  # until a process has loaded what the next is compared with
            yield app
    finally:
        popen.kill()
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(popen.wait)


async def save(app: App, folder: Path, number: int) -> float:
    """Save a change of a comment; return the seconds until the new process runs."""

    async def bot() -> dict[str, Any]:
        told: Any = await app.get("bot")
        return dict(told)

    starts = (await bot())["starts"]
    began = trio.current_time()
    (folder / "bot.py").write_text(f"{BOT}\n# Saved {number} times.\n")
    with trio.fail_after(PATIENCE):
        while (now := await bot())["starts"] == starts or now["phase"] != "running":
            await trio.sleep(0.01)
    took = trio.current_time() - began
    await trio.sleep(3)  # what loads the code for the next save is done by then
    return took


async def main(rounds: int) -> None:
    """Print a line for each."""
    took: dict[int, list[float]] = {people: [] for people in OPEN}
    with tempfile.TemporaryDirectory() as place:
        async with AsyncExitStack() as stack:
            apps = dict[int, tuple[App, Path]]()
            for people in OPEN:
                folder = Path(place) / str(people)
                folder.mkdir()
                apps[people] = await stack.enter_async_context(developing(folder, people)), folder
            for number in range(1, rounds + 1):
                for people, (app, folder) in apps.items():
                    took[people].append(await save(app, folder, number))
    least = statistics.median(took[0])
    for people, each in took.items():
        median = statistics.median(each)
        ends = f"({min(each):.2f} to {max(each):.2f})"
        print(f"{people:3} open chats: {median:5.2f} s, {median - least:+5.2f} s  {ends}")


if __name__ == "__main__":
    trio.run(partial(main, int(sys.argv[1]) if sys.argv[1:] else 9))
