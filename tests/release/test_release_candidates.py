"""Conversations that are open under one release go on under the next: both are installed as wheels."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Awaitable, Callable
from itertools import groupby
from pathlib import Path

import pytest
import trio

from tests.loopback import Users, open_platform, pay_event, press_event, text_event
from tests.processes.process import SECRET, BotProcess, environment, listen, start_process
from tests.release.building import ROOT, built, copied, numbered, of_commit

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ASLEEP = 90


def last_release() -> str | None:
    """Return the newest tag of a release before this commit."""
    asked = ["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip() or None


def installed(source: Path, to: Path) -> Path:
    """Build a wheel and install it without a network: what it needs is the suite's; returns the programs."""
    wheel = built(source, "wheel")
    venv.create(to, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(to / "bin" / "python"), "install", "-q"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    (packages,) = to.glob("lib/python*/site-packages")
    (packages / "suite.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return to / "bin"


async def test_what_is_open_under_one_release_goes_on_under_the_next(tmp_path: Path) -> None:
    """A chat waits at each place, half of them with an event that was answered 200 right before a kill.

    The older one is the last release; before there is one, today's files as another candidate.
    """
    tag, before = last_release(), tmp_path / "before"
    source = numbered(copied(before), "0.1.0rc1") if tag is None else of_commit(tag, before)
    older = installed(source, tmp_path / "older")
    newer = installed(numbered(copied(tmp_path / "now"), "0.1.0rc999"), tmp_path / "newer")
    bot = tmp_path / "waiting.py"
    shutil.copyfile(Path(__file__).parent / "waiting.py", bot)
    versions: list[str] = []
    kept = {name: text for name, text in environment().items() if name != "PYTHONPATH"}

    async with open_platform() as platform:
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            own = {"TRIOBOT_BASE_URL": platform.url, "TRIOBOT_STORE": f"sqlite:{tmp_path}/bot.db"}

            async def start(programs: Path) -> BotProcess:
                said = await trio.run_process(
                    [programs / "triobot", "--version"], capture_stdout=True, env=kept
                )
                versions.append(said.stdout.decode().split()[1])
                command = [str(programs / "triobot"), "run", f"{bot}:bot", "--fd", str(sock.fileno())]
                return await start_process(command, sock=sock, environ={**kept, **own})

            async def post(body: bytes) -> None:
                async with users.connect() as line:
                    assert await users.post(line, body, close=True) == 200

            async def sees(chat: int, beginning: str) -> None:
                texts = platform.texts[chat]
                await platform.wait_until(lambda: bool(texts) and texts[-1].startswith(beginning))

            async def name(chat: int) -> None:
                await sees(chat, "Name?")
                await post(text_event(chat, f"Sara {chat}"))

            async def hurry(chat: int) -> None:
                await sees(chat, "Hurry?")
                await post(text_event(chat, "yes"))

            async def size(chat: int) -> None:
                await sees(chat, "Size?")
                await post(press_event(chat, platform.buttons[chat]["Large"], f"press{chat}"))

            async def pay(chat: int) -> None:
                await platform.wait_until(lambda: bool(platform.bills[chat]))
                ((reference, bill),) = platform.bills[chat].items()
                bill.paid = True
                await post(pay_event(chat, reference, bill.message_id))

            async def more(chat: int) -> None:
                await sees(chat, "You have 100 coins.")
                await post(text_event(chat, "3"))

            acts: list[Callable[[int], Awaitable[None]]] = [name, hurry, size, pay, more]
            waits = ["Name?", "Hurry?", "Size?", "100 coins", "You have 100 coins."]

            async def live(chat: int, first: int, last: int) -> None:
                for act in acts[first:last]:
                    await act(chat)

            process = await start(older)
            try:
                await post(text_event(ASLEEP, "sleep"))
                await sees(ASLEEP, "Asleep?")
                async with trio.open_nursery() as nursery:
                    for chat in range(2 * len(acts)):
                        await post(text_event(chat + 1, "order"))
                        nursery.start_soon(live, chat + 1, 0, chat // 2)
                for chat in range(2 * len(acts)):
                    await sees(chat + 1, waits[chat // 2])
                for chat in range(1, 2 * len(acts), 2):
                    await acts[chat // 2](chat + 1)
                await process.kill()
                process = await start(newer)
                async with trio.open_nursery() as nursery:
                    for chat in range(2 * len(acts)):
                        nursery.start_soon(live, chat + 1, chat // 2 + chat % 2, len(acts))
                for chat in range(2 * len(acts)):
                    await sees(chat + 1, f"Sara {chat + 1}, yes, L, 3, ")
                await sees(ASLEEP, "Woke: True")
                assert await process.stop() == 0
            finally:
                process.kill_now()
                process.popen.wait()

    assert versions[0] != versions[1] == "0.1.0rc999"
    for chat in range(1, 2 * len(acts) + 1):
        # What was on its way at the kill may have come twice.
        heard = [text for text, _ in groupby(platform.texts[chat])]
        code = heard[1].removeprefix("Your code: ")
        assert heard == [
            "Name?",
            f"Your code: {code}",
            "Hurry?",
            "Size?",
            "100 coins",
            "You have 100 coins. How many more?",
            f"Sara {chat}, yes, L, 3, {code}.",
        ]
        ((_, bill),) = platform.bills[chat].items()
        assert bill.verified
