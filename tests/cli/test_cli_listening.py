"""What ``dev`` and ``emulate`` tell of themselves: to people, to scripts, to a browser."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import attrs
import pytest
from cli_rig import BOT, Command, child_environment
from test_cli_dev_time import two_ports
from test_cli_emulate import ask

from tests.loopback import PATIENCE

BROWSER = """\
#!/bin/sh
echo "$1" > opened.new && mv opened.new opened
"""
PRODUCTION = """\
from triobot import Bot, Chat

bot = Bot(token="of the shop", env="SHOP_")


@bot.conversation
async def hello(chat: Chat) -> None:
    await chat.send("Hello.")
"""


@attrs.define
class Told:
    """What a command has told a script, and at its end what it has written."""

    ready: dict[str, str]
    out: str = ""
    err: str = ""


@contextmanager
def listening(folder: Path, *arguments: str, **environ: str) -> Generator[Told]:
    """Run a command until it listens, as a script does; at the end of the block, end it in order."""
    read, write = os.pipe()
    popen = subprocess.Popen(
        [sys.executable, "-m", "triobot", *arguments, "--ready-fd", str(write)],
        cwd=folder,
        env=child_environment(**environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[write],
    )
    os.close(write)
    try:
        with os.fdopen(read) as line:
            told = line.read()  # to its end: nothing else is written there, and it is closed
        ready = cast("dict[str, str]", json.loads(told)) if told else {}
        telling = Told(ready)
        yield telling
        popen.send_signal(signal.SIGINT)
        telling.out, telling.err = popen.communicate(timeout=PATIENCE)
        assert popen.returncode == 0 or not told
    finally:
        popen.kill()
        popen.communicate()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.processes
def test_a_lasting_store_keeps_the_key(tmp_path: Path) -> None:
    """And while one command has it, another is refused, and overwrites nothing."""
    (tmp_path / "bot.py").write_text(PRODUCTION)
    dev = ("dev", "bot.py:bot", "--no-reload", "--port", str(two_ports()), "--store", "sqlite:dev.db")
    production = {"TRIOBOT_TOKEN": "the-token", "SHOP_TOKEN": "its-token"}
    with listening(tmp_path, *dev, "--strict", **production) as first:
        control = {"X-Triobot-Control": first.ready["control_token"], "Content-Type": "application/json"}
        assert '"strict":true' in ask(f"{first.ready['control_url']}/switches", control, b"{}")[1]
        until(lambda: '"running"' in ask(f"{first.ready['control_url']}/bot", control)[1])
    with listening(tmp_path, *dev, "--port", "0") as second:
        with listening(tmp_path, *dev, "--port", "0") as third:
            pass
        kept = (tmp_path / "dev.db.platform").read_text()
    assert first.ready["control_token"] == second.ready["control_token"]
    assert first.ready["page"].endswith(f"/#{first.ready['control_token']}")
    assert third.ready == {}
    assert "has the platform in" in third.err
    assert first.ready["control_token"] in kept

    assert f"The store {tmp_path}/dev.db is kept" in first.out
    assert "For production, and not used here: TRIOBOT_TOKEN\n" in first.out
    assert "For production" not in second.out
    assert "the bot's own settings (token, store, all of SHOP_...)" in first.err
    assert not any(word in first.out + first.err for word in ("the-token", "its-token", "of the shop"))


@pytest.mark.slow
@pytest.mark.processes
def test_a_platform_is_kept_for_a_bot_in_any_language(tmp_path: Path) -> None:
    """Opened in the browser by an address that works once: others can read a command line."""
    browser = tmp_path / "browser"
    browser.write_text(BROWSER)
    browser.chmod(0o755)
    emulate = ("emulate", "--port", "0", "--store", "shop.platform")
    environ = {"BROWSER": f"{browser} %s", "TRIOBOT_STORE": "sqlite:production.db"}
    with listening(tmp_path, *emulate, "--open", **environ) as first:
        control = {"X-Triobot-Control": first.ready["control_token"], "Content-Type": "application/json"}
        users = f"{first.ready['control_url']}/users"
        assert ask(users, control, b'{"name": "Lena"}')[0] == 200
        opened = tmp_path / "opened"
        until(opened.exists)
        address = opened.read_text().strip()
        page, once = ask(address, {}), ask(address, {})
    with listening(tmp_path, *emulate) as second:
        control = {"X-Triobot-Control": second.ready["control_token"]}
        people = json.loads(ask(f"{second.ready['control_url']}/users", control)[1])

    assert first.ready["control_token"] not in address
    assert (page[0], once[0]) == (200, 403)
    assert [one["name"] for one in people] == ["Lena"]
    for name in ("token", "control_token"):
        assert first.ready[name] == second.ready[name]
    assert f"store          {tmp_path}/shop.platform\n" in first.out
    assert "not read       TRIOBOT_STORE: " in first.out
    assert first.err == second.err == ""


def test_a_bot_that_is_not_there_begins_nothing(triobot: Command, tmp_path: Path) -> None:
    for target, words in (
        ("nosuch.py:bot", "there is no file 'nosuch.py'"),
        ("nosuch:bot", "there is no module 'nosuch' here or in Python's path; a file is nosuch.py:bot"),
    ):
        ended = triobot("dev", target, "--store", "sqlite:dev.db")
        assert (ended.code, ended.out) == (1, "")
        assert words in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_descriptor_that_is_none_begins_nothing(triobot: Command, tmp_path: Path, hello: Path) -> None:
    assert hello.read_text() == BOT
    read, write = os.pipe()
    try:
        for command in (("dev", "hello.py:bot"), ("emulate", "--port", "0")):
            ended = triobot(*command, "--ready-fd", str(read))
            assert (ended.code, ended.out) == (1, "")
            assert "can't be written to" in ended.err
    finally:
        os.close(read)
        os.close(write)
    ended = triobot("emulate", "--port", "0", "--ready-fd", str(read))
    assert (ended.code, ended.out) == (1, "")
    assert f"--ready-fd {read}: it is not open" in ended.err


def test_a_store_of_a_bot_is_no_platform_s(triobot: Command) -> None:
    ended = triobot("emulate", "--store", "sqlite:shop.db")

    assert ended.code == 2
    assert "such as shop.platform" in ended.err
