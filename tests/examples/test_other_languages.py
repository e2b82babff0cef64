"""The bots in other languages run as they stand, each with its own interpreter, against the emulator."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.loopback import PATIENCE, free_port
from triobot.emulator.person import connect
from triobot.emulator.server import Emulator, serve_emulator

BOTS = Path(__file__).parents[2] / "examples" / "other-languages"
TOKEN, SECRET = "a" * 64, "s" * 24

COMMANDS = {
    "echo.mjs": ("node", "echo.mjs"),
    "echo.php": ("php", "-S", "127.0.0.1:{port}", "echo.php"),
    "echo.go": ("go", "run", "echo.go"),
}


def needs(name: str) -> pytest.MarkDecorator:
    """By a mark: what an async test says when it skips itself is lost."""
    program = COMMANDS[name][0]
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


async def listens(port: int) -> None:
    """Wait until it does: a compiler may come first."""
    with trio.fail_after(PATIENCE):
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
            except OSError:
                await trio.sleep(0.1)
            else:
                await stream.aclose()
                return


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    "name", [pytest.param(path.name, marks=needs(path.name)) for path in sorted(BOTS.iterdir())]
)
async def test_it_welcomes_echoes_and_answers_a_press(name: str, tmp_path: Path) -> None:
    """Each of its requests is one that the interface promises to take."""
    program, *arguments = COMMANDS[name]
    shutil.copy(BOTS / name, tmp_path)
    port = free_port()
    async with trio.open_nursery() as nursery:
        serve = partial(
            serve_emulator,
            port=0,
            bot_url=f"http://127.0.0.1:{port}/{SECRET}",
            token=TOKEN,
            control_token="control",
        )
        platform: Emulator = await nursery.start(serve)
        settings = {"TOKEN": TOKEN, "SECRET": SECRET, "PORT": str(port), "BASE_URL": platform.base_url}
        run = partial(
            trio.run_process,
            [program, *(one.format(port=port) for one in arguments)],
            cwd=tmp_path,
            env={**os.environ, **settings},
            # A compiler's own child is the bot.
            start_new_session=True,
            deliver_cancel=kill_all,
            check=False,
            capture_stdout=True,
            capture_stderr=True,
        )
        nursery.start_soon(run)
        await listens(port)
        async with connect(platform.control_url, platform.control_token) as app:
            sara = await app.user("Sara")
            await sara.joins()
            await sara.sees("Welcome.")
            await sara.says("سلام & 100% + {it}")
            await sara.sees("You said: سلام & 100% + {it}")
            await sara.presses("Press me")
            await sara.sees_answer("Thanks.")
            await sara.sees("It is pressed.")
        assert platform.exchange.liberties == {}
        await platform.exchange.pusher.wait_idle()
        with trio.fail_after(PATIENCE):  # a person sees a message before the bot has the answer
            while statuses(platform) != [200] * 4:
                await trio.sleep(0.01)
        assert [entry.status for entry in platform.exchange.pusher.deliveries.settled()] == [200] * 3
        nursery.cancel_scope.cancel()


def statuses(platform: Emulator) -> list[int | None]:
    return [call.status for call in platform.exchange.traffic.since(0) if call.way == "operation"]


async def kill_all(process: trio.Process) -> None:
    await trio.lowlevel.checkpoint()
    os.killpg(process.pid, 9)
