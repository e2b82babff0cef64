"""``triobot jobs``: with a bot that runs, and without one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
import trio
from cli_rig import Command, Ended

from tests.bot.rig import Chats, make_bot
from triobot import Bot, Room, Tick

STORE = "sqlite:bot.db"


@pytest.fixture
def command(triobot: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command of the operator of the bot that `rig` makes."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "rig-token")
    monkeypatch.setenv("TRIOBOT_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("TRIOBOT_STORE", STORE)
    return triobot


class Ran:
    """What ran, and when that may end."""

    def __init__(self) -> None:
        self.ticks: list[Tick] = []
        self.began = trio.Event()
        self.may_end = trio.Event()


def working(ran: Ran, *, weekly: bool = True) -> Bot:
    bot = make_bot(Chats(), store=STORE)

    async def hold() -> None:
        ran.began.set()
        await ran.may_end.wait()

    if weekly:

        @bot.every("0 9 * * SAT", tz=ZoneInfo("Asia/Tehran"), name="weekly")
        async def week(job: Room[Tick]) -> None:
            ran.ticks.append(job.event)
            await job.step(hold)

    @bot.every(timedelta(days=300), name="yearly")
    async def year(job: Room[Tick]) -> None:
        ran.ticks.append(job.event)

    return bot


def beside(bot: Bot, ran: Ran, *commands: Callable[[], Ended]) -> Sequence[Ended]:
    """Run these while the bot runs."""

    async def main() -> Sequence[Ended]:
        async with bot.running():
            found = [await trio.to_thread.run_sync(one) for one in commands]
            ran.may_end.set()
            return found

    return trio.run(main)


@pytest.mark.slow
def test_jobs_are_listed_and_run(command: Command) -> None:
    ran = Ran()
    listed, as_json, begins, second, listed_runs, nobody = beside(
        working(ran),
        ran,
        lambda: command("jobs"),
        lambda: command("jobs", "list", "--json"),
        lambda: command("jobs", "run", "weekly"),
        lambda: command("jobs", "run", "weekly"),
        lambda: command("journal", "list"),
        lambda: command("jobs", "run", "nightly"),
    )
    assert [line.split("  ")[0] for line in listed.out.splitlines()] == ["weekly", "yearly"]
    assert "0 9 * * SAT Asia/Tehran  never ran" in listed.out
    told = [json.loads(line) for line in as_json.out.splitlines()]
    assert [(one["name"], one["due"]) for one in told] == [("weekly", None), ("yearly", None)]
    assert (begins.code, begins.out) == (0, "weekly begins\n")
    assert second.code == 1 and "has not ended" in second.err
    assert nobody.code == 1 and "known are weekly, yearly" in nobody.err
    assert "the bot's own room  job weekly  " in listed_runs.out
    assert [str(tick.due.tzinfo) for tick in ran.ticks] == ["Asia/Tehran"]

    # Without a bot.
    after = command("jobs")
    assert "weekly  due" in after.out and "last 20" in after.out
    assert command("jobs", "run", "yearly").out == "yearly begins\n"
    assert command("jobs", "run", "yearly").code == 1
    later = Ran()

    async def once() -> None:
        async with working(later, weekly=False).running():
            with trio.fail_after(5):
                while not later.ticks:
                    await trio.sleep(0.01)

    trio.run(once)
    assert len(later.ticks) == 1
    assert "weekly" not in command("jobs").out
    assert command("jobs", "run", "weekly").code == 1
