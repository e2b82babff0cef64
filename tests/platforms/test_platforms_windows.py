"""Without what Windows lacks, all but `dev` and a bot in production works; those two say no."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loopback import PATIENCE

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


@pytest.mark.processes
def test_talk_has_a_conversation(folder: Path) -> None:
    """It takes the emulator, the webhook's listener, the client and the codec, over real sockets."""
    done = ended(folder, "talk", "greeter.py:bot", says="Sara\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Your name?" in done.stdout
    assert "Hello, Sara." in done.stdout


@pytest.mark.processes
def test_the_demo_is_true(folder: Path) -> None:
    """A bot, its store in memory, a payment and a file: over real sockets."""
    done = ended(folder, "demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "250,000 = 750,000 rials" in done.stdout


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
@pytest.mark.parametrize(
    "tests",
    [
        ["client/test_client_platform.py", "client/test_client_download.py", "wire/test_wire_values.py"],
        # A new bot's test, below, is by the kit, too.
        pytest.param(
            ["testing/test_testing_drive.py", "emulator/test_emulator_door.py"], marks=pytest.mark.long
        ),
    ],
    ids=["client", "kit"],
)
def test_their_own_tests_pass(tests: list[str]) -> None:
    """But for those that start one more pytest: what that finds here, it finds everywhere."""
    done = ended(ROOT, "pytest", "-q", "-k", "not a_failed_test", *(f"tests/{path}" for path in tests))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.processes
def test_a_new_bot_s_test_passes(folder: Path) -> None:
    assert ended(folder, "new", "pizzeria").returncode == 0
    done = ended(folder / "pizzeria", "pytest", "-q", "-p", "no:cacheprovider")
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.processes
@pytest.mark.parametrize(
    ("words", "what"),
    [
        (
            ["run", "greeter.py:bot"],
            "a store in a file needs Linux or macOS, and so does a bot in production",
        ),
        (["dev", "greeter.py:bot"], "triobot dev needs Linux or macOS"),
    ],
)
def test_what_can_not_work_says_so_in_one_line(folder: Path, words: list[str], what: str) -> None:
    done = ended(folder, *words)
    assert done.returncode == 1
    assert what in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
