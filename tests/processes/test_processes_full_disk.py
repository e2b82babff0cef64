"""A real process on a disk that fills up, and gets room again."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.loopback import PATIENCE, Users, open_platform
from tests.processes.process import (
    SECRET,
    Stack,
    family,
    get,
    listen,
    on_all_stacks,
    on_both_stacks_when_long,
    running_bot,
    start_bot,
)

pytestmark = pytest.mark.processes


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Path]:
    """A small filesystem of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("only root may mount a small disk; tests/bot/test_bot_full_disk.py needs none")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Leave no room."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(os.urandom(4096))
    return filler


@pytest.mark.slow
@on_both_stacks_when_long
async def test_a_full_disk_refuses_events_and_loses_none(disk: Path, tmp_path: Path, stack: Stack) -> None:
    """503 while there is no room, one alarm, /readyz tells; with room again all goes on by itself."""
    async with open_platform() as platform:
        log = tmp_path / "log"
        async with running_bot("bot", stack=stack, platform=platform.url, store=disk / "bot.db", log=log) as (
            process,
            port,
        ):
            users = Users(port, f"/{SECRET}")
            async with users.connect() as line:
                for chat in range(1, 6):
                    assert await users.say(line, chat, "before") == 200
                await platform.wait_until(lambda: platform.total == 5)
                assert b" 200 " in await get(port, "/readyz")

                filler = fill(disk)
                statuses = [
                    await users.say(line, chat, f"full {number} " + "x" * 5000)
                    for number in range(20)
                    for chat in range(1, 6)
                ]
                assert set(statuses) <= {200, 503}
                assert statuses[-20:] == [503] * 20
                assert b" 503 " in await get(port, "/readyz")
                assert b" 200 " in await get(port, "/healthz")
                assert process.output.count("ALARM store_unwritable") == 1

                filler.unlink()
                # By itself: whoever heeds the page sends no event before.
                with trio.fail_after(PATIENCE):
                    while b" 200 " not in await get(port, "/readyz"):
                        await trio.sleep(0.1)
            async with users.connect() as line:
                for chat in range(1, 6):
                    assert await users.say(line, chat, "after") == 200
            await platform.wait_until(lambda: platform.total == sum(map(len, users.accepted.values())))
            assert await process.stop() == 0
        assert dict(platform.texts) == dict(users.accepted)


@on_both_stacks_when_long
async def test_a_bot_that_was_killed_on_a_full_disk_comes_back(disk: Path, stack: Stack) -> None:
    """It begins with what it had accepted."""
    async with open_platform() as platform:
        platform.held = {1}
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            process = await start_bot(
                "bot", stack=stack, platform=platform.url, store=disk / "bot.db", sock=sock
            )
            async with users.connect() as line:
                for number in range(5):
                    assert await users.say(line, 1, str(number)) == 200
                filler = fill(disk)
                while await users.say(line, 1, "x" * 3000) == 200:
                    pass
                await process.kill()
            filler.unlink()
            platform.release()
            process = await start_bot(
                "bot", stack=stack, platform=platform.url, store=disk / "bot.db", sock=sock
            )
            await platform.wait_until(lambda: len(platform.texts[1]) >= len(users.accepted[1]))
            assert await process.stop() == 0
        # The dead process's own request was answered, too.
        assert list(dict.fromkeys(platform.texts[1])) == users.accepted[1]


@on_both_stacks_when_long
async def test_stopping_on_a_full_disk_is_clean(disk: Path, stack: Stack) -> None:
    """What was handled but could not be crossed out is said again, and nothing else happens."""
    async with open_platform() as platform:
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            process = await start_bot(
                "bot", stack=stack, platform=platform.url, store=disk / "bot.db", sock=sock
            )
            async with users.connect() as line:
                assert await users.say(line, 1, "one") == 200
                await platform.wait_until(lambda: platform.total == 1)
                filler = fill(disk)
                while await users.say(line, 2, "x" * 3000) == 200:
                    pass
            with trio.fail_after(PATIENCE):
                assert await process.stop() == 0
            filler.unlink()
            process = await start_bot(
                "bot", stack=stack, platform=platform.url, store=disk / "bot.db", sock=sock
            )
            await platform.wait_until(lambda: set(users.accepted[2]) <= set(platform.texts[2]))
            assert await process.stop() == 0


@pytest.mark.slow
@on_all_stacks
async def test_a_disk_that_fails_stops_the_process_with_one_line(tmp_path: Path, stack: Stack) -> None:
    """Nobody knows what a failed commit left behind: an end that a supervisor sees, and nothing lost."""
    store, log = tmp_path / "bot.db", tmp_path / "log"
    async with open_platform() as platform:
        platform.held = {1}
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            start = partial(start_bot, "bot", stack=stack, platform=platform.url, store=store, sock=sock)
            process = await start(log=log, arguments=[] if stack == "hosted" else ["--grace", "1"])
            try:
                async with users.connect() as line:
                    for number in range(5):
                        assert await users.say(line, 1, str(number)) == 200
                    # The log has its size already, and is written from its beginning: no further than this.
                    most = 400_000
                    for pid in family(process.popen.pid):
                        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
                    number = 0
                    with contextlib.suppress(OSError, trio.BrokenResourceError):
                        while await users.say(line, 1, f"{number} " + "x" * 3000) == 200:
                            number += 1
                            assert number < 100
                code = await process.wait()
                # Hypercorn loses its worker's code.
                assert code == 1 or stack == "hosted"
            finally:
                process.popen.kill()
            platform.release()
            process = await start(log=tmp_path / "log of the next one")
            await platform.wait_until(lambda: set(users.accepted[1]) <= set(platform.texts[1]))
            assert await process.stop() == 0

    said = log.read_text()
    if stack == "hosted":
        assert "the bot stopped: the store" in said
    else:
        assert "check the disk and start again" in said.splitlines()[-1]
        assert "Traceback" not in said
