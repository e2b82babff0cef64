"""Without what Windows lacks, the commands work, a bot with a store in a file and `dev` included."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import trio

from tests.loopback import PATIENCE
from triobot.emulator.person import App, connect

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "triobot").rglob("*.py")
    if path.name != "__main__.py"
)

BOT = """\
from triobot import Bot, Chat

bot = Bot("0123456789abcdefghij")


@bot.conversation
async def greet(chat: Chat) -> None:
    name = await chat.ask("Your name?")
    await chat.send(f"Hello, {name}.")
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "ignore", str(ROOT / "tests" / "platforms" / "as_windows.py"), *arguments]


def environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRIOBOT_")}
    return {**kept, "PYTHONPATH": str(ROOT)}


def ended(folder: Path, *arguments: str, says: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environ(),
        input=says,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "greeter.py").write_text(BOT)
    return tmp_path


@pytest.mark.processes
def test_every_module_can_be_imported(folder: Path) -> None:
    done = ended(folder, "import", *MODULES)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.processes
def test_talk_has_a_conversation(folder: Path) -> None:
    """It takes the emulator, the webhook's listener, the client and the codec, over real sockets."""
    done = ended(folder, "talk", "greeter.py:bot", says="Sara\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Your name?" in done.stdout
    assert "Hello, Sara." in done.stdout


@pytest.mark.slow
@pytest.mark.processes
def test_the_demo_is_true(folder: Path) -> None:
    """A bot whose store is a file, a payment and an upload: over real sockets."""
    done = ended(folder, "demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "250,000 = 750,000 rials" in done.stdout


@pytest.mark.slow
@pytest.mark.processes
def test_a_platform_is_kept_by_one_process(folder: Path) -> None:
    emulate = ("emulate", "--port", "0", "--store", "shop.platform")
    with subprocess.Popen(
        command(*emulate), cwd=folder, env=environ(), stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert any("Ctrl-C ends it." in line for line in first.stdout)
        second = ended(folder, *emulate)
        first.send_signal(signal.SIGINT)
    assert (second.returncode, "has the platform in" in second.stderr) == (1, True)
    assert (folder / "shop.platform").is_file()


@pytest.mark.processes
@pytest.mark.long  # a new bot's test, below, is by the kit, too, and each command by the client
@pytest.mark.parametrize(
    "tests",
    [
        ["client/test_client_platform.py", "client/test_client_download.py", "wire/test_wire_values.py"],
        ["testing/test_testing_drive.py", "emulator/test_emulator_door.py"],
    ],
    ids=["client", "kit"],
)
def test_their_own_tests_pass(tests: list[str]) -> None:
    """But for those that start one more pytest: what that finds here, it finds everywhere."""
    done = ended(ROOT, "pytest", "-q", "-k", "not a_failed_test", *(f"tests/{path}" for path in tests))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.processes
def test_a_new_bot_s_test_passes(folder: Path) -> None:
    assert ended(folder, "new", "pizzeria").returncode == 0
    done = ended(folder / "pizzeria", "pytest", "-q", "-p", "no:cacheprovider")
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@contextmanager
def running(folder: Path) -> Generator[subprocess.Popen[str]]:
    """A bot with its store in a file, by `triobot run`."""
    with (
        (folder / "log").open("w+") as log,
        subprocess.Popen(
            command("run", "greeter.py:bot", "--port", "0"), cwd=folder, env=environ(), stderr=log, text=True
        ) as popen,
    ):
        try:
            while "listening on" not in (folder / "log").read_text():
                assert popen.poll() is None, (folder / "log").read_text()
                time.sleep(0.05)  # this core is the bot's, too
            yield popen
        finally:
            popen.kill()


@pytest.mark.slow
@pytest.mark.processes
def test_a_bot_runs_and_is_asked_on_loopback_with_its_key(folder: Path) -> None:
    with running(folder) as popen:
        assert "the bot works" in ended(folder, "status").stdout
        assert ended(folder, "journal", "list").returncode == 0
        assert ended(folder, "store", "backup", "copy.db").returncode == 0
        second = ended(folder, "run", "greeter.py:bot", "--port", "0")
        assert (second.returncode, "is open in another process" in second.stderr) == (1, True)

        key = folder / "triobot.db.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        told = json.loads(key.read_text())
        address = f"http://127.0.0.1:{told['port']}/status"
        wrong = [{}, {"authorization": "Bearer no"}, {"authorization": f"Bearer {told['key'][:-1]}"}]
        for headers in (*wrong, {"authorization": told["key"]}):
            refused = httpx.get(address, headers=headers, timeout=PATIENCE)
            assert refused.status_code == 401
            assert told["key"] not in refused.text
        right = httpx.get(address, headers={"authorization": f"Bearer {told['key']}"}, timeout=PATIENCE)
        assert right.json()["running"]

        key.write_text("{}")
        lost = ended(folder, "status")
        assert (lost.returncode, lost.stderr.count("\n")) == (1, 1)
        assert "triobot.db.key holds no key of a bot" in lost.stderr
        key.write_text(json.dumps(told))
        popen.send_signal(signal.SIGINT)
        assert popen.wait(PATIENCE) == 0
    assert told["key"] not in (folder / "log").read_text()
    assert not key.exists()
    assert ended(folder, "status", "--check").returncode == 3
    assert "is whole" in ended(folder, "store", "check").stdout
    assert "restored" in ended(folder, "store", "restore", "copy.db", "--bot", "greeter.py:bot").stdout


@pytest.mark.slow
@pytest.mark.processes
def test_a_killed_bot_s_key_opens_nothing_and_its_store_goes_on(folder: Path) -> None:
    with running(folder) as popen:
        popen.kill()
        popen.wait(PATIENCE)
    old = (folder / "triobot.db.key").read_text()
    assert ended(folder, "status", "--check").returncode == 3
    with running(folder):
        assert (folder / "triobot.db.key").read_text() != old
        assert "stops in a row that were not clean: 1" in ended(folder, "status").stdout


async def greeted(app: App, name: str, greeting: str) -> None:
    """Have one more person talk to the bot."""
    person = await app.user(name)
    await person.joins()
    await person.sees("Your name?", within=PATIENCE)
    await person.says(name)
    await person.sees(f"{greeting}, {name}.", within=PATIENCE)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.cold  # its bot begins as an interpreter of its own does: with the module that takes things away
async def test_a_developer_s_bot_talks_and_is_started_anew_when_its_file_is_saved(folder: Path) -> None:
    """Its process is without what Windows lacks, too: it binds its port, and stops when its input ends."""
    (folder / "sitecustomize.py").write_text(
        "import sys\nif 'triobot.studio.commands.dev_bot' in sys.orig_argv:\n"
        "    from tests.platforms.as_windows import hide\n    hide()\n"
    )
    own = {**environ(), "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            command("dev", "greeter.py:bot", "--port", "0"), cwd=folder, env=own, stdout=log, stderr=log
        ) as popen,
    ):
        try:
            with trio.fail_after(PATIENCE):
                while (found := re.search(r"(http://\S+)/#(\S+)", (folder / "log").read_text())) is None:
                    assert popen.poll() is None, (folder / "log").read_text()
                    await trio.sleep(0.05)
                async with connect(f"{found[1]}/control", found[2]) as app:
                    await greeted(app, "Reza", "Hello")
                    [store] = re.findall(r"--store (sqlite:\S+dev\.db)\n", (folder / "log").read_text())
                    assert "the bot works" in ended(folder, "status", "--store", store).stdout
                    (folder / "greeter.py").write_text(BOT.replace("Hello", "Welcome"))
                    while (folder / "log").read_text().count("listening on") < 2:
                        await trio.sleep(0.05)
                    await greeted(app, "Mina", "Welcome")
            popen.send_signal(signal.SIGINT)
            assert popen.wait(PATIENCE) == 0
        finally:
            popen.kill()
    said = (folder / "log").read_text()
    assert "Traceback" not in said
    assert "killed" not in said
