"""The bot under somebody else's server: real hypercorn processes."""

from __future__ import annotations

import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.loopback import PATIENCE, Platform, Users, open_platform
from tests.processes.process import (
    SECRET,
    TOKEN,
    BotProcess,
    environment,
    get,
    listen,
    start_process,
)

pytestmark = pytest.mark.processes

HYPERCORN = (sys.executable, "-m", "hypercorn")
SERVER = (*HYPERCORN, "--worker-class", "trio", "--access-logfile", "-")


async def start(
    app: str,
    folder: Path,
    platform: Platform,
    sock: socket.socket,
    *arguments: str,
    path: str = "/readyz",
    ready: bytes = b" 200 ",
) -> BotProcess:
    """Start hypercorn on an inherited socket, and wait until the bot in it is ready."""
    return await start_process(
        [*SERVER, *arguments, "--bind", f"fd://{sock.fileno()}", app],
        sock=sock,
        environ=environment(TRIOBOT_BASE_URL=platform.url, TRIOBOT_STORE=f"sqlite:{folder / 'bot.db'}"),
        log=folder / "log",
        path=path,
        ready=ready,
    )


@asynccontextmanager
async def answering_later(platform: Platform, seconds: float) -> AsyncGenerator[None]:
    """While the block runs, the platform's answers are held; then they come."""
    platform.held = {7}
    async with trio.open_nursery() as nursery:

        async def let_go() -> None:
            await trio.sleep(seconds)
            platform.release()

        nursery.start_soon(let_go)
        yield


async def test_hypercorn_serves_drains_and_keeps_the_secret(tmp_path: Path) -> None:
    """SIGTERM in the middle of a send: it is finished, exactly once, and the end is clean."""
    async with open_platform() as platform:
        with listen() as sock:
            process = await start("tests.processes.bots:bot.asgi", tmp_path, platform, sock)
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            try:
                async with users.connect() as line:
                    for chat in range(1, 4):
                        assert await users.say(line, chat, "hello") == 200
                await platform.wait_until(lambda: platform.total == 3)
                async with answering_later(platform, 1):
                    async with users.connect() as line:
                        assert await users.say(line, 7, "slow") == 200
                    await platform.wait_held()
                    assert await process.stop() == 0
            finally:
                process.popen.kill()
        assert dict(platform.texts) == dict(users.accepted)

    assert '"POST /***' in process.output
    assert "Traceback" not in process.output
    for hidden in (SECRET, TOKEN, "hello", "slow"):
        assert hidden not in process.output


@pytest.mark.slow
async def test_a_site_that_gets_sigterm_in_the_middle_of_a_send_finishes_it(tmp_path: Path) -> None:
    """The site's deadlines for its own tasks are shorter than the send; the bot's grace period counts."""
    async with open_platform() as platform:
        with listen() as sock:
            port = sock.getsockname()[1]
            process = await start("tests.processes.site:app", tmp_path, platform, sock, path="/bot/readyz")
            users = Users(port, f"/bot/{SECRET}")
            try:
                assert b" 200 " in await get(port, "/")
                assert b" 404 " in await get(port, "/bot/other")
                async with answering_later(platform, 1):
                    async with users.connect() as line:
                        assert await users.say(line, 7, "slow") == 200
                    await platform.wait_held()
                    assert await process.stop() == 0
            finally:
                process.popen.kill()
        assert platform.texts == {7: ["slow"]}

    assert SECRET not in process.output
    assert "Traceback" not in process.output


@pytest.mark.slow
async def test_two_workers_on_one_store_say_what_is_wrong_and_end(tmp_path: Path) -> None:
    """Each would be a bot of its own: one line says so, and nothing starts again and again."""
    async with open_platform() as platform:
        with listen() as sock, trio.fail_after(PATIENCE):
            # Whether the first worker was ready before the second one gave up is a matter of luck.
            try:
                process = await start("tests.processes.bots:bot.asgi", tmp_path, platform, sock, "-w", "2")
                await process.wait()
            except RuntimeError as error:
                assert "did not start" in str(error)

    output = (tmp_path / "log").read_text()
    said = [line for line in output.splitlines() if line.startswith("the bot was not started:")]
    assert len(said) == 1
    assert "open in another process" in said[0]
    assert "one worker" in said[0]


@pytest.mark.slow
async def test_hypercorn_s_usual_worker_is_told_the_right_one_in_one_line(tmp_path: Path) -> None:
    """With no traceback of hypercorn's behind it, which ends by the signal that says that it failed."""
    ended = await trio.run_process(
        [*HYPERCORN, "--bind", "127.0.0.1:0", "tests.processes.bots:bot.asgi"],
        env=environment(TRIOBOT_STORE=f"sqlite:{tmp_path / 'bot.db'}"),
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    said = (ended.stdout + ended.stderr).decode()
    assert said.startswith(
        "the bot was not started: a bot runs on Trio: give hypercorn --worker-class trio\n"
    )
    assert "Traceback" not in said
    assert ended.returncode == -signal.SIGUSR1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("app", ["bot.asgi", "site"])
@pytest.mark.parametrize("fails", ["start", "run"])
async def test_a_bot_that_fails_ends_hypercorn_with_a_failure(tmp_path: Path, app: str, fails: str) -> None:
    """Alone and in a site: hypercorn itself ends with 0 when its only worker has failed.

    What the bot's code said stays out of the traceback that hypercorn prints.
    """
    ended = await trio.run_process(
        [*HYPERCORN, "-k", "trio", "--bind", "127.0.0.1:0", f"tests.processes.failing:{app}"],
        env=environment(TRIOBOT_STORE=f"sqlite:{tmp_path / 'bot.db'}", FAILS=fails),
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    said = (ended.stdout + ended.stderr).decode()

    assert ended.returncode == -signal.SIGUSR1
    [line] = [line for line in said.splitlines() if line.startswith("the bot ")]
    why = "the bot stopped: ValueError"
    if fails == "start":
        why = "the bot was not started: can't open the resource database: ConnectionRefusedError"
    assert re.fullmatch(rf"{why} at failing\.py:\d+", line)
    for hidden in ("the database is away", "what a person wrote", "triobot/runtime/work.py"):
        assert hidden not in said


@pytest.mark.slow
async def test_two_bots_of_a_site_with_one_store_say_so(tmp_path: Path) -> None:
    """Once, with no word of workers; and hypercorn is ended once."""
    ended = await trio.run_process(
        [*HYPERCORN, "-k", "trio", "--bind", "127.0.0.1:0", "tests.processes.failing:twins"],
        env=environment(TRIOBOT_STORE=f"sqlite:{tmp_path / 'bot.db'}", FAILS="never"),
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    said = (ended.stdout + ended.stderr).decode()

    assert ended.returncode == -signal.SIGUSR1
    [line] = [line for line in said.splitlines() if line.startswith("the bot ")]
    assert line.endswith("is open in this process already; close it there first")
    assert "atexit" not in said


@pytest.mark.slow
async def test_hypercorn_s_own_failure_is_one_to_a_supervisor(tmp_path: Path) -> None:
    """The bot is cut, and hypercorn itself would end with 0."""
    ended = await trio.run_process(
        [*HYPERCORN, "-k", "trio", "--bind", "127.0.0.1:0", "tests.processes.failing:bot.asgi"],
        env=environment(TRIOBOT_STORE=f"sqlite:{tmp_path / 'bot.db'}", FAILS="server"),
        capture_stderr=True,
        check=False,
    )

    assert ended.returncode == -signal.SIGUSR1, ended.stderr.decode()


@pytest.mark.slow
@pytest.mark.parametrize("server", ["triobot", "hypercorn"])
async def test_a_start_that_fails_names_the_resource(tmp_path: Path, server: str) -> None:
    ended = await trio.run_process(
        [
            sys.executable,
            "-m",
            "triobot",
            "run",
            "--server",
            server,
            "--port",
            "0",
            "tests.processes.failing:bot",
        ],
        env=environment(TRIOBOT_STORE=f"sqlite:{tmp_path / 'bot.db'}", FAILS="start"),
        capture_stderr=True,
        check=False,
    )

    assert ended.returncode == 1
    *_, last = ended.stderr.decode().splitlines()
    assert last == "triobot: can't open the resource database: the database is away"
