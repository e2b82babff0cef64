"""A loop that stands still is told of, with the line; and systemd hears that it doesn't."""

from __future__ import annotations

import logging
import re
import socket
import sys
import threading
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.bot.rig import Chats, make_bot
from tests.loopback import PATIENCE
from triobot import Chat
from triobot.watchdog import _why, watched_loop

HERE = Path(__file__).name


class Told(logging.Handler):
    """Lets a thread wait until the log says something."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words
        self.said = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.words in record.getMessage():
            self.said.set()


@pytest.fixture
def told(request: pytest.FixtureRequest) -> Told:
    handler = Told("every chat has waited")
    logger = logging.getLogger("triobot.watchdog")
    logger.addHandler(handler)
    request.addfinalizer(lambda: logger.removeHandler(handler))
    return handler


def stand_still(told: Told) -> None:
    """What no bot should do; it goes on as soon as somebody has complained."""
    assert told.said.wait(PATIENCE)


async def test_the_line_at_which_the_loop_stands_still_is_named(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    told.words = HERE  # a busy machine may have kept the loop somewhere else before
    async with watched_loop(still_after=0.04):
        stand_still(told)
        with trio.fail_after(PATIENCE):
            while "goes on" not in caplog.text:  # a log is what we wait for
                await trio.sleep(0.01)
    assert re.search(rf"the code at .*{HERE}:\d+ neither returns nor awaits", caplog.text)


async def test_a_line_that_awaits_is_not_accused(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    """What stands still is Trio's own code, for which it waits."""
    place = str(Path(trio.__file__).parent / "_nowhere.py")
    exec(compile(f"async def stand(still): still({PATIENCE})", place, "exec"), theirs := dict[str, Any]())
    async with watched_loop(still_after=0.5):
        await theirs["stand"](told.said.wait)
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


async def test_a_loop_that_moves_is_not_talked_about(caplog: pytest.LogCaptureFixture) -> None:
    async with watched_loop(still_after=5):
        for _ in range(1000):
            await trio.lowlevel.checkpoint()
    assert caplog.text == ""


async def test_systemd_is_told_what_it_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(place))
        systemd.settimeout(PATIENCE)
        watched = watched_loop(environ={"NOTIFY_SOCKET": str(place), "WATCHDOG_USEC": "30000000"})
        async with watched as tell_ready:
            assert await trio.to_thread.run_sync(systemd.recv, 100) == b"WATCHDOG=1"
            tell_ready()
            while (told := await trio.to_thread.run_sync(systemd.recv, 100)) == b"WATCHDOG=1":
                pass
            assert told == b"READY=1"
        systemd.setblocking(False)
        while (last := systemd.recv(100)) == b"WATCHDOG=1":
            pass
        assert last == b"STOPPING=1"


async def silent(chat: Chat) -> None:
    """Says nothing."""


async def test_a_bot_whose_resource_is_not_open_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd would start what needs it, and call a start that failed a success."""
    place = tmp_path / "notify"
    bot = make_bot(Chats())
    bot.conversation(silent)
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(place))
        systemd.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(place))

        def listen() -> list[bytes]:
            with suppress(BlockingIOError):
                while True:
                    heard.append(systemd.recv(100))
            return heard

        @bot.resource
        @asynccontextmanager
        async def pool() -> AsyncGenerator[None]:
            await trio.testing.wait_all_tasks_blocked()
            assert b"READY=1" not in listen()
            yield

        async with bot.running():
            assert b"READY=1" in listen()


async def test_a_supervisor_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    async with watched_loop(environ={"NOTIFY_SOCKET": str(tmp_path / "nobody"), "WATCHDOG_USEC": "1"}):
        await trio.lowlevel.checkpoint()
