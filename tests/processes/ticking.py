"""A bot with two jobs that are due twice a second: what is killed in the middle of a run."""

from __future__ import annotations

import uuid
from datetime import timedelta
from unittest.mock import patch

from tests.processes.lane import TRANSPORT
from triobot import Bot, Key, Room, Tick
from triobot.conversations.routes import schedules

LENGTH = timedelta(milliseconds=500)
LISTENERS = {"once": 1, "all": 2}
"""The chat that hears a job, by what becomes of the due times that it misses."""

COUNTED = {policy: Key(f"runs {policy}", int, default=0) for policy in LISTENERS}

bot = Bot(transport=TRANSPORT)


async def draw() -> str:
    """A code that is another one at each call."""
    return uuid.uuid4().hex


async def run(job: Room[Tick], policy: str) -> None:
    """Count itself, and say twice which run it is, with the code that it drew before."""
    job.data[COUNTED[policy]] += 1
    code = await job.step(draw)
    due = round(job.event.due.timestamp() * 1000)
    words = f"{job.data[COUNTED[policy]]} {due} {job.event.missed} {code}"
    await job.to(LISTENERS[policy]).send(f"begun {words}")
    await job.sleep(0.05)
    await job.to(LISTENERS[policy]).send(f"ended {words}")


async def once(job: Room[Tick]) -> None:
    await run(job, "once")


async def every(job: Room[Tick]) -> None:
    await run(job, "all")


# For these two alone: what ten seconds protect is of no account here.
with patch.object(schedules, "SHORTEST", LENGTH):
    bot.every(LENGTH)(once)
    bot.every(LENGTH, missed="all")(every)
