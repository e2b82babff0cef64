"""How a bot ends when it is told to, and when it can't begin."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.loopback import PATIENCE, Users, open_platform
from tests.processes.process import (
    BOTS,
    SECRET,
    Stack,
    environment,
    listen,
    on_both_stacks_when_long,
    start_bot,
)
from triobot.store.lock import take_lock

pytestmark = pytest.mark.processes


@pytest.mark.slow
@on_both_stacks_when_long
async def test_a_stop_while_the_platform_is_dead_ends_in_time_and_keeps_the_events(
    tmp_path: Path, stack: Stack
) -> None:
    """Nothing can be said any more: exit code 0 at the end of the grace period, and all is said later."""
    store = tmp_path / "bot.db"
    async with open_platform() as platform:
        platform.dead = True
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            process = await start_bot(
                "bot", stack=stack, platform=platform.url, store=store, sock=sock, arguments=["--grace", "1"]
            )
            async with users.connect() as line:
                for chat in range(1, 6):
                    for number in range(3):
                        assert await users.say(line, chat, str(number)) == 200
            assert await process.stop() == 0

            platform.dead = False
            process = await start_bot("bot", stack=stack, platform=platform.url, store=store, sock=sock)
            await platform.wait_until(lambda: platform.total >= 15)
            assert await process.stop() == 0
        assert dict(platform.texts) == dict(users.accepted)


@on_both_stacks_when_long
async def test_a_stop_while_the_platform_doesn_t_answer_ends_in_time(tmp_path: Path, stack: Stack) -> None:
    """A request that nobody answers is cut at the end of the grace period; its event is kept."""
    store = tmp_path / "bot.db"
    async with open_platform() as platform:
        platform.held = {1}
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            process = await start_bot(
                "bot", stack=stack, platform=platform.url, store=store, sock=sock, arguments=["--grace", "1"]
            )
            async with users.connect() as line:
                assert await users.say(line, 1, "one") == 200
            await platform.wait_held()
            assert await process.stop() == 0

            platform.held = set()
            process = await start_bot("bot", stack=stack, platform=platform.url, store=store, sock=sock)
            await platform.wait_until(lambda: platform.texts[1] == ["one"])
            assert await process.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "stack"), [(signal.SIGINT, "ours"), (signal.SIGTERM, "ours"), (signal.SIGINT, "stock")]
)
async def test_a_second_signal_stops_at_once(tmp_path: Path, second: signal.Signals, stack: Stack) -> None:
    """Neither the grace period nor a request that nobody answers holds it up; its event is kept."""
    store = tmp_path / "bot.db"
    async with open_platform() as platform:
        platform.held = {1}
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            process = await start_bot(
                "bot",
                stack=stack,
                platform=platform.url,
                store=store,
                sock=sock,
                arguments=["--grace", "10000"],
            )
            async with users.connect() as line:
                assert await users.say(line, 1, "one") == 200
            await platform.wait_held()
            process.popen.send_signal(signal.SIGTERM)
            await trio.sleep(0.5)
            assert process.popen.poll() is None
            process.popen.send_signal(second)
            await process.wait()

            platform.held = set()
            process = await start_bot("bot", stack=stack, platform=platform.url, store=store, sock=sock)
            await platform.wait_until(lambda: platform.texts[1] == ["one"])
            assert await process.stop() == 0


COMPUTES = """\
from pathlib import Path

from tests.processes.lane import TRANSPORT
from triobot import Bot, Chat
from triobot.filters import command

bot = Bot(transport=TRANSPORT)

def compute() -> None:
    while not Path(__file__).with_name("enough").exists():
        pass

@bot.conversation
async def pizza(chat: Chat) -> None:
    try:
        await chat.ask("Size?")
    finally:
        compute()

@bot.conversation(command("bake"))
async def bake(chat: Chat) -> None:
    await chat.send("Size?")
    compute()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("hello", r"the stop has lasted .* waits for route \S*pizza at {}:\d+, which neither"),
        ("/bake", r"every chat has waited .* the code at {}:\d+ neither .*; the stop waits, too"),
    ],
)
async def test_a_stop_that_code_without_an_await_holds_up_says_which(
    tmp_path: Path, word: str, says: str
) -> None:
    """The loop, which would say it, has no turn; nor to hear of the signal, if the code was there before."""
    program, log = tmp_path / "bakery.py", tmp_path / "log"
    program.write_text(COMPUTES)
    async with open_platform() as platform:
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            process = await start_bot(
                "bot",
                module=program,
                platform=platform.url,
                store=tmp_path / "bot.db",
                sock=sock,
                arguments=["--grace", "0"],
                log=log,
            )
            try:
                async with users.connect() as line:
                    assert await users.say(line, 1, word) == 200
                await platform.wait_until(lambda: platform.texts[1] == ["Size?"])
                process.popen.send_signal(signal.SIGTERM)
                with trio.fail_after(PATIENCE):
                    while not re.search(says.format(re.escape(str(program))), process.output):
                        await trio.sleep(0.05)
                (tmp_path / "enough").touch()
                assert await process.wait() == 0
            finally:
                process.kill_now()


PROGRAM = """\
from triobot import Bot, Chat

bot = Bot()

@bot.conversation
async def hello(chat: Chat) -> None:
    await chat.send("Hello.")

bot.run()
"""


@pytest.mark.slow
@pytest.mark.cold
async def test_ctrl_c_ends_a_program_that_runs_its_bot_itself(tmp_path: Path) -> None:
    """`python bot.py` comes to rest like `triobot run`, without a traceback."""
    program = tmp_path / "bot.py"
    program.write_text(PROGRAM)
    with listen() as sock:
        port = sock.getsockname()[1]
    async with open_platform() as platform:
        with listen() as unused:
            store = f"sqlite:{tmp_path / 'bot.db'}"
            environ = environment(TRIOBOT_BASE_URL=platform.url, TRIOBOT_STORE=store, TRIOBOT_PORT=str(port))
            with (tmp_path / "log").open("wb") as log:
                popen = subprocess.Popen([sys.executable, str(program)], env=environ, stdout=log, stderr=log)
            try:
                users = Users(port, f"/{SECRET}")
                with trio.fail_after(PATIENCE):
                    while True:
                        try:
                            async with users.connect() as line:
                                assert await users.say(line, 1, "hello") == 200
                            break
                        except OSError:
                            await trio.sleep(0.05)
                await platform.wait_until(lambda: platform.texts[1] == ["Hello."])
                popen.send_signal(signal.SIGINT)
                assert await trio.to_thread.run_sync(lambda: popen.wait(PATIENCE)) == 0
            finally:
                popen.kill()
                popen.wait()
            del unused
    assert "Traceback" not in (tmp_path / "log").read_text()


def _run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "triobot", "run", f"{BOTS}:bot", *arguments]
    return subprocess.run(
        command,
        env=environment(TRIOBOT_BASE_URL="http://127.0.0.1:9", **environ),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    """And the store that it had opened already is closed again."""
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        ended = _run("--port", str(busy.getsockname()[1]), "--store", f"sqlite:{tmp_path / 'bot.db'}")
    assert ended.returncode == 1
    assert "another program is listening there" in ended.stderr
    assert ended.stderr.count("\n") == 1
    take_lock(tmp_path / "bot.db").release()


def test_a_locked_store_is_one_line(tmp_path: Path) -> None:
    """Another process has it."""
    lock = take_lock(tmp_path / "bot.db")
    ended = _run("--port", "0", "--store", f"sqlite:{tmp_path / 'bot.db'}")
    lock.release()
    assert ended.returncode == 1
    assert "open in another process" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_token_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    """The name of the variable and of the file; nothing was started."""
    ended = _run("--port", "0", TRIOBOT_TOKEN="", TRIOBOT_TOKEN_FILE=str(tmp_path / "nothing"))
    assert ended.returncode == 1
    assert "TRIOBOT_TOKEN_FILE" in ended.stderr
    assert ended.stderr.count("\n") == 1
