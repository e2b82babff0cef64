"""Jobs by the clock, of a real process that is killed again and again."""

from __future__ import annotations

import random
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Self

import attrs
import pytest
import trio

from tests.loopback import Platform, open_platform
from tests.processes.process import Stack, listen, on_both_stacks_when_long, start_bot
from tests.processes.ticking import LENGTH, LISTENERS

pytestmark = pytest.mark.processes

MODULE = Path(__file__).with_name("ticking.py")
KILLS, FEW = 10, 4  # each a start of the whole program


@attrs.frozen
class Run:
    """A run of a job, as it says itself: its number among them, its due time, what it drew."""

    number: int
    due: int
    missed: int
    code: str

    @classmethod
    def of(cls, text: str) -> Self:
        _, number, due, missed, code = text.split()
        return cls(int(number), int(due), int(missed), code)


def told(platform: Platform, chat: int, what: str) -> list[Run]:
    """The runs that have said this, each once: a kill between a message and its answer repeats it."""
    return [Run.of(text) for text in dict.fromkeys(platform.texts[chat]) if text.startswith(what)]


async def wait_for_more(platform: Platform, *, runs: int) -> None:
    """Wait until so many more runs of each job have ended."""
    before = {chat: len(told(platform, chat, "ended")) for chat in LISTENERS.values()}
    await platform.wait_until(
        lambda: all(len(told(platform, chat, "ended")) >= count + runs for chat, count in before.items())
    )


@pytest.mark.slow
@on_both_stacks_when_long
async def test_a_due_time_begins_one_run_which_is_ended(tmp_path: Path, stack: Stack, long: bool) -> None:
    """Whatever is killed: every second kill comes in the middle of a run, the others at any moment."""
    chance = random.Random(5)
    async with open_platform() as platform:
        with listen() as sock:
            start = partial(
                start_bot,
                "bot",
                module=MODULE,
                stack=stack,
                platform=platform.url,
                store=tmp_path / "bot.db",
                sock=sock,
            )
            process = await start()
            try:
                for number in range(KILLS if long else FEW):
                    if number % 2:
                        # A run that is at work at three kills in a row would be parked.
                        await wait_for_more(platform, runs=1)
                        platform.held = {chance.choice([*LISTENERS.values()])}
                        await platform.wait_held()
                    await trio.sleep(chance.uniform(0, 0.4))
                    await process.kill()
                    platform.release()
                    process = await start()
                await wait_for_more(platform, runs=2)
                assert await process.stop() == 0
            finally:
                process.popen.kill()
                process.popen.wait()
    for policy, chat in LISTENERS.items():
        begun, ended = (told(platform, chat, what) for what in ("begun", "ended"))
        in_order = [text.split()[0] for text in dict.fromkeys(platform.texts[chat])]
        assert in_order == (["begun", "ended"] * len(begun))[: len(in_order)]  # never two at once
        # A due time that began twice, and a run that began anew, would be there with two codes.
        assert [run.number for run in begun] == list(range(1, len(begun) + 1))
        assert ended == begun[: len(ended)]
        # Of a run that was lost the next one would know nothing.
        for run, later in pairwise(begun):
            assert later.due - run.due == (later.missed + 1) * (LENGTH // timedelta(milliseconds=1))
        assert policy == "once" or not any(run.missed for run in begun)
