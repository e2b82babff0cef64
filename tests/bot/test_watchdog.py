"""The watchdog logs the line at which the loop is stuck, and one task sends systemd signs of life."""

from __future__ import annotations

import logging
import re
import sys
import threading
import traceback
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.bot.rig import Chats, make_bot
from tests.loopback import PATIENCE
from tests.processes.process import Heard
from triobot import Bot, Chat, Settings
from triobot.runtime.serve import _run_until_signal
from triobot.runtime.watchdog import Systemd, _is_at_rest, _why, telling_systemd, watched_loop

HERE = Path(__file__).name


class Told(logging.Handler):
    """Lets a thread wait until the log says something."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words
        self.heard = ""
        self.said = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.words in record.getMessage():
            self.heard = record.getMessage()
            self.said.set()


@pytest.fixture
def told(request: pytest.FixtureRequest) -> Told:
    handler = Told("every chat has waited")
    logger = logging.getLogger("triobot.watchdog")
    logger.addHandler(handler)
    request.addfinalizer(lambda: logger.removeHandler(handler))
    return handler


@pytest.fixture(autouse=True)
def no_watch_goes_on() -> Iterator[None]:
    """What the thread of one test says at its end is not in the log of the next."""
    yield
    for thread in threading.enumerate():
        if thread.name == "triobot watchdog":
            thread.join(PATIENCE)


def stand_still(told: Told) -> None:
    """What no bot should do; it goes on as soon as somebody has complained."""
    assert told.said.wait(PATIENCE)


async def test_the_line_at_which_the_loop_stands_still_is_named(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    told.words = HERE  # on a busy machine, the loop may have been stuck elsewhere before
    async with watched_loop(still_after=0.04):
        stand_still(told)
        with trio.fail_after(PATIENCE):
            while "goes on" not in caplog.text:  # the log is the test's only sign
                await trio.sleep(0.01)
    assert re.search(rf"the code at .*{HERE}:\d+ neither returns nor awaits", caplog.text)


async def test_a_line_that_awaits_is_not_accused(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    """What stands still is Trio's own code, for which it waits."""
    place = str(Path(trio.__file__).parent / "_nowhere.py")
    exec(compile(f"async def stand(still): still({PATIENCE})", place, "exec"), theirs := dict[str, Any]())
    async with watched_loop(still_after=0.5):
        await theirs["stand"](told.said.wait)
        with trio.fail_after(PATIENCE):
            while not caplog.text:  # this handler gets the line a moment later
                await trio.sleep(0.01)
    assert "none of the bot's own code is at work" in caplog.text
    assert HERE not in caplog.text


def test_a_process_that_stood_still_accuses_no_line() -> None:
    """Its loop waits for something to happen, and is called by the line that runs the whole program."""
    main, found = threading.get_ident(), list[str]()

    async def wait_until_seen() -> None:
        seen, token = trio.Event(), trio.lowlevel.current_trio_token()

        def look() -> None:
            while not found:
                frame = sys._current_frames()[main]
                names = {one.f_code.co_name for one, _ in traceback.walk_stack(frame)}
                found.extend([_why(frame)] * ("get_events" in names))
            token.run_sync_soon(seen.set)

        threading.Thread(target=look).start()
        await seen.wait()

    trio.run(wait_until_seen)
    assert "none of the bot's own code is at work" in found[0]


async def test_a_loop_at_rest_is_not_woken(caplog: pytest.LogCaptureFixture) -> None:
    """Each question of the watch woke it, four times a second, whatever else was parked."""
    woken = 0

    class Woken(trio.abc.Instrument):
        def after_io_wait(self, timeout: float) -> None:
            nonlocal woken
            woken += 1

    async with watched_loop(still_after=0.02):
        await trio.sleep(0)
        trio.lowlevel.add_instrument(counting := Woken())
        try:
            await trio.sleep(0.2)  # the loop must rest in real time
        finally:
            trio.lowlevel.remove_instrument(counting)
    assert woken <= 3
    assert caplog.text == ""


async def test_a_line_is_named_after_a_rest_too(told: Told) -> None:
    told.words = HERE
    async with watched_loop(still_after=0.04):
        await trio.sleep(0.1)
        stand_still(told)
    assert re.search(rf"the code at .*{HERE}:\d+ neither returns nor awaits", told.heard)


def test_only_trio_s_own_wait_is_a_rest() -> None:
    """An author's function may have the same name, and stand still."""
    frames: list[FrameType] = []

    def get_events() -> None:
        frames.append(sys._getframe())

    get_events()
    assert not _is_at_rest(frames[0]) and not _is_at_rest(None)


async def test_a_loop_that_moves_is_not_talked_about(caplog: pytest.LogCaptureFixture) -> None:
    async with watched_loop(still_after=5):
        for _ in range(1000):
            await trio.lowlevel.checkpoint()
    assert caplog.text == ""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    """systemd has started this process, and wants a sign of life every half minute."""
    heard = Heard(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    yield heard
    heard.close()


async def test_systemd_is_told_what_it_asked_for(systemd: Heard) -> None:
    async with telling_systemd() as voice:
        await trio.testing.wait_all_tasks_blocked()
        assert systemd.said() == []
        assert systemd.all == [b"WATCHDOG=1"]
        voice.tell("READY=1")
        voice.tell_stopping()
    assert systemd.said() == [b"READY=1", b"STOPPING=1"]


@pytest.mark.parametrize(("expected", "every"), [("2000000", 2.0), ("0", None), ("soon", None), ("", None)])
def test_signs_of_life_are_as_frequent_as_asked(expected: str, every: float | None) -> None:
    """systemd's own limit is what counts, not a constant of ours."""
    assert Systemd({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": expected}).expects_signs == every
    assert Systemd({"WATCHDOG_USEC": expected, "WATCHDOG_PID": "1"}).expects_signs is None


async def silent(chat: Chat) -> None:
    """Says nothing."""


def quiet_bot(number: int, folder: Path) -> tuple[Bot, Settings]:
    bot = make_bot(Chats(), store=f"sqlite:{folder / str(number)}.db")
    bot.conversation(silent)
    secret = f"a-secret-of-its-own-{number:020}"
    return bot, attrs.evolve(bot.settings(), webhook_secret=secret, token=f"token-{number}")


async def test_a_bot_in_another_program_says_nothing_to_systemd(systemd: Heard, tmp_path: Path) -> None:
    """Its host may not be ready, and goes on when one of its bots has stopped."""
    bot, _ = quiet_bot(1, tmp_path)
    async with bot.running():
        await trio.testing.wait_all_tasks_blocked()
    async with trio.open_nursery() as nursery:
        await nursery.start(bot.serve)
        bot.stop()
    systemd.said()
    assert systemd.all == []


async def test_two_bots_in_one_process_have_one_voice(systemd: Heard, tmp_path: Path) -> None:
    """It is ready when the last of them serves, and stops before the first of them rests."""
    bots = [quiet_bot(number, tmp_path) for number in (1, 2)]
    before: list[list[bytes]] = []
    threads: list[int] = []

    @bots[1][0].resource
    @asynccontextmanager
    async def pool() -> AsyncGenerator[None]:
        await trio.testing.wait_all_tasks_blocked()
        before.append(systemd.said())
        yield
        before.append(systemd.said())

    @bots[0][0].background
    async def see() -> None:
        with trio.fail_after(PATIENCE):
            while not systemd.said():
                await trio.sleep(0.01)
        threads.append(sum(one.name == "triobot watchdog" for one in threading.enumerate()))
        bots[1][0].stop()

    await _run_until_signal(bots, "triobot")

    assert before == [[], [b"READY=1", b"STOPPING=1"]]
    assert systemd.said() == [b"READY=1", b"STOPPING=1"]
    assert b"WATCHDOG=1" in systemd.all
    assert threads == [1]


async def test_a_loop_is_watched_until_the_last_bot_is_gone() -> None:
    def watches() -> int:
        return sum(one.name == "triobot watchdog" for one in threading.enumerate())

    before = watches()

    async def second(over: trio.Event, *, task_status: trio.TaskStatus[None]) -> None:
        async with watched_loop():
            task_status.started()
            await over.wait()

    async with trio.open_nursery() as nursery:
        async with watched_loop(still_after=0.04):
            await nursery.start(second, over := trio.Event())
            assert watches() == before + 1
        assert watches() == before + 1
        over.set()
    with trio.fail_after(PATIENCE):
        while watches() > before:  # the watchdog's thread checks only now and then
            await trio.sleep(0.01)


async def test_a_supervisor_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    async with telling_systemd(
        {"NOTIFY_SOCKET": str(tmp_path / "nobody"), "WATCHDOG_USEC": "1000000"}
    ) as voice:
        voice.tell("READY=1")
        await trio.lowlevel.checkpoint()
