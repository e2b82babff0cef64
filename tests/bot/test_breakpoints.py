"""While a person debugs a conversation, the watchdog doesn't complain."""

from __future__ import annotations

import io
import logging
import os
import pdb
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest
import trio

from tests.loopback import PATIENCE
from triobot import Bot, Chat
from triobot.conversations.inspection import rerun
from triobot.filters import text
from triobot.runtime import watchdog
from triobot.runtime.watchdog import is_at_breakpoint, watched_loop
from triobot.testing import drive


class Terminal:
    """A real pdb behind two pipes, which a person reads and writes."""

    def __init__(self) -> None:
        (given, ours), (read, theirs) = os.pipe(), os.pipe()
        self._writes, self._reads = os.fdopen(ours, "w"), os.fdopen(read)
        self._stdin, self._stdout = os.fdopen(given), os.fdopen(theirs, "w")
        self.shown = ""

    def stop(self) -> None:
        """Stop in the caller, as ``breakpoint()`` does."""
        debugger = pdb.Pdb(stdin=self._stdin, stdout=self._stdout, nosigint=True)
        debugger.set_trace(sys._getframe(1))

    def read(self) -> None:
        """Read up to the next prompt."""
        while not self.shown.endswith("(Pdb) "):
            self.shown += self._reads.read(1)

    def write(self, line: str) -> None:
        self.shown = ""
        self._writes.write(f"{line}\n")
        self._writes.flush()

    def close(self) -> None:
        for file in (self._writes, self._reads, self._stdin, self._stdout):
            file.close()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    terminal = Terminal()
    monkeypatch.setattr(sys, "breakpointhook", terminal.stop)
    before = sys.gettrace()
    yield terminal
    sys.settrace(before)
    terminal.close()


async def test_the_watchdog_says_nothing_of_a_breakpoint(
    terminal: Terminal, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = threading.Semaphore(0)

    def look(frame: FrameType | None) -> bool:
        found = is_at_breakpoint(frame)
        if found:
            looks.release()
        return found

    def sit_there() -> None:
        terminal.read()
        for _ in range(40):  # so long that the watchdog would complain ten times
            assert looks.acquire(timeout=PATIENCE)
        terminal.write("p name")
        terminal.read()
        seen.append(terminal.shown)
        terminal.write("c")

    monkeypatch.setattr(watchdog, "is_at_breakpoint", look)
    caplog.set_level(logging.WARNING, "triobot.watchdog")
    seen: list[str] = []
    person = threading.Thread(target=sit_there)
    async with watched_loop(still_after=0.04):
        person.start()
        name = "Sara"
        breakpoint()
        del name
        await trio.sleep(0.1)
    person.join(PATIENCE)
    assert "'Sara'" in seen[0]
    assert "code at" not in caplog.text


@pytest.mark.parametrize("looks", ["in no time", "for longer than a dry run may take"])
async def test_a_breakpoint_is_met_once_and_the_replay_check_goes_by(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, looks: str
) -> None:
    """The journal is run again after each answer: not to stop there again, nor to be called hung for it."""
    if looks != "in no time":
        monkeypatch.setattr(rerun, "SECONDS", 0.0005)
    bot, stops = Bot(), list[str]()
    wake = threading.Event()

    def stop() -> None:
        name = sys._getframe(1).f_locals["name"]
        debugger = pdb.Pdb(stdin=io.StringIO("p name\nn\nc\n"), stdout=(out := io.StringIO()), nosigint=True)
        debugger.set_trace(sys._getframe(1))
        wake.wait(0.001)
        stops.append(name)
        shown.append(out)

    shown: list[io.StringIO] = []
    monkeypatch.setattr(sys, "breakpointhook", stop)
    before = sys.gettrace()

    @bot.conversation(text("go"))
    async def talk(chat: Chat) -> None:
        while True:
            name = await chat.ask("Name?")
            breakpoint()
            await chat.send(f"{name}.")

    @bot.aside(text("else"))
    async def beside(chat: Chat) -> None:
        await chat.send("Else.")

    async with drive(bot) as world:
        sara, ali = world.user("Sara"), world.user("Ali")
        for person in (sara, ali):
            await person.joins()
            await person.says("go")
        for name in ("one", "two"):
            await sara.says(name)
            await ali.says(f"ali's {name}")
            await sara.says("else")
            await sara.sees(f"{name}.")
            await ali.sees(f"ali's {name}.")
    sys.settrace(before)
    assert sorted(stops) == ["ali's one", "ali's two", "one", "two"]
    assert all("(Pdb) " in out.getvalue() for out in shown)
