"""A bot whose package has lost a part that is there for speed alone: it serves, and goes on after a kill."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import FAST_WAYS
from tests.loopback import Users, open_platform
from tests.processes.process import BOTS, ROOT, SECRET, BotProcess, environment, listen, start_process

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("way", FAST_WAYS)
async def test_a_bot_runs_without(way: str, tmp_path: Path) -> None:
    package = tmp_path / "triobot"
    shutil.copytree(ROOT / "triobot", package, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    part = package.joinpath(*way.split("."))
    shutil.rmtree(part) if part.is_dir() else part.with_suffix(".py").unlink()

    async with open_platform() as platform:

        async def start() -> BotProcess:
            # With an option of the interpreter's, so that it is forked from none that has the whole package.
            run = [sys.executable, "-P", "-m", "triobot", "run", f"{BOTS}:bot", "--fd", str(sock.fileno())]
            where = f"{tmp_path}:{ROOT}"
            store = f"sqlite:{tmp_path / 'bot.db'}"
            more = {"TRIOBOT_BASE_URL": platform.url, "TRIOBOT_STORE": store, "PYTHONPATH": where}
            return await start_process(run, sock=sock, environ=environment(**more), log=tmp_path / "log")

        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            for number in range(2):
                process = await start()
                async with users.connect() as line:
                    assert await users.say(line, 7, f"text {number}") == 200
                    await platform.wait_until(lambda: f"text {number}" in platform.texts[7])  # noqa: B023
                await process.kill()
            process = await start()
            assert await process.stop() == 0

    # What was on its way at a kill may be said twice.
    assert list(dict.fromkeys(platform.texts[7])) == ["text 0", "text 1"]
    assert (b"triobot.http isn't here" in process.output.encode()) == (way == "http")
