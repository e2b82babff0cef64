"""A process that starts warm is what it would be if it had started as ever: `tests.warm`.

Each program here is run both ways, and tells of itself.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import PATIENCE
from tests.processes.process import ROOT
from tests.warm import popen

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives a process another parent"),
]

TELLING = """\
import json, os, signal, sys

told = {
    "argv": sys.argv[1:],
    "name": __name__,
    "file": __file__,
    "main": sys.modules["__main__"].__dict__ is globals(),
    "path": sys.path,
    "folder": os.getcwd(),
    "variables": dict(os.environ),
    "files": sorted(int(number) for number in os.listdir("/proc/self/fd")),
    "parent": os.getppid(),
    "leads": os.getsid(0) == os.getpid(),
    "group": os.getpgid(0) == os.getpgid(os.getppid()),
    "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    "streams": [
        (one.name, one.mode, one.encoding, one.errors, one.line_buffering, one.write_through, one.isatty())
        for one in (sys.stdin, sys.stdout, sys.stderr)
    ],
    "said": sys.stdin.read(),
}
print(json.dumps(told))
"""

WAYS = pytest.mark.parametrize("way", ["warm", pytest.param("cold", marks=pytest.mark.cold)])


@pytest.fixture(autouse=True)
def started_as_marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start warm what isn't marked ``cold``, with ``--long``, too."""
    monkeypatch.setattr(popen.zygotes, "cold", request.node.get_closest_marker("cold") is not None)


def run(folder: Path, program: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in a file."""
    file = folder / "program.py"
    file.write_text(program)
    return subprocess.run(
        [sys.executable, str(file), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        **more,
    )


def told_both_ways(monkeypatch: pytest.MonkeyPatch, folder: Path, **more: Any) -> Sequence[dict[str, Any]]:
    """What a program tells of itself that starts warm, and then as ever."""
    told: list[dict[str, Any]] = []
    for cold in (False, True):
        monkeypatch.setattr(popen.zygotes, "cold", cold)
        ended = run(folder, TELLING, "one", "", "two words", **more)
        assert (ended.returncode, ended.stderr) == (0, "")
        told.append(json.loads(ended.stdout))
    return told


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_it_has_the_same_surroundings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    (inside := tmp_path / "inside").mkdir()
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}:/nowhere", "PYTHONUNBUFFERED": unbuffered, "OTHER": "ö"}
    signal_before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with socket.socket() as sock:
            given = {"env": environ, "cwd": inside, "pass_fds": [sock.fileno()], "input": "Hello.\n"}
            warm, cold = told_both_ways(monkeypatch, tmp_path, **given)
    finally:
        signal.signal(signal.SIGHUP, signal_before)

    assert warm == cold
    assert (warm["parent"], warm["leads"], warm["said"]) == (os.getpid(), False, "Hello.\n")


def test_without_a_locale_it_writes_as_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("LANG", "LC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LANG", "C.UTF-8")
    warm, cold = told_both_ways(monkeypatch, tmp_path, env={"PYTHONPATH": str(ROOT)}, input="")

    assert warm.pop("variables") == {"PYTHONPATH": str(ROOT)}
    assert cold.pop("variables").items() >= {"PYTHONPATH": str(ROOT)}.items()  # its locale may be among them
    assert warm == cold


def test_it_leads_a_session_where_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warm, cold = told_both_ways(
        monkeypatch, tmp_path, start_new_session=True, stdin=subprocess.DEVNULL, env=dict(os.environ)
    )

    assert warm == cold
    assert (warm["leads"], warm["group"]) == (True, False)


BOT = """\
from triobot import Bot, Chat
bot = Bot()

@bot.conversation
async def greet(chat: Chat) -> None:
    await chat.send("Hello.")
"""

ENDS = {
    "import sys; print('so'); sys.exit(7)": (7, "so\n", ""),
    "import sys; sys.exit('no')": (1, "", "no\n"),
    "print('so')": (0, "so\n", ""),
    "import atexit; atexit.register(print, 'last'); print('first')": (0, "first\nlast\n", ""),
    "import threading; threading.Timer(0.01, print, ['late']).start()": (0, "late\n", ""),
    "import os; os._exit(3)": (3, "", ""),
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": (-signal.SIGKILL, "", ""),
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)": (-signal.SIGTERM, "", ""),
}


@WAYS
@pytest.mark.parametrize("program", ENDS)
def test_it_ends_as_its_program_does(tmp_path: Path, program: str, way: str) -> None:
    ended = run(tmp_path, program)

    assert (ended.returncode, ended.stdout, ended.stderr) == ENDS[program]


@WAYS
def test_an_error_is_shown_with_its_lines(tmp_path: Path, way: str) -> None:
    ended = run(tmp_path, "def fail():\n    raise RuntimeError('this one')\n\nfail()\n")

    assert ended.returncode == 1
    assert ended.stderr.startswith("Traceback (most recent call last):\n")
    assert ended.stderr.endswith("in fail\n    raise RuntimeError('this one')\nRuntimeError: this one\n")


@WAYS
def test_an_interrupt_ends_it(tmp_path: Path, way: str) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    try:
        ended = run(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    finally:
        signal.signal(signal.SIGINT, before)

    assert ended.returncode == -signal.SIGINT
    assert ended.stderr.endswith("KeyboardInterrupt\n")


def test_it_dies_by_kill_9_and_its_files_are_closed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        command = [sys.executable, "-m", "triobot", "emulate", "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[listening.fileno()])
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"base_url")
    assert Path(f"/proc/{process.pid}/stat").read_text().split()[3] == str(os.getpid())
    socket.create_connection(("127.0.0.1", port)).close()

    process.kill()

    assert process.wait(PATIENCE) == -signal.SIGKILL
    with process.stdout:
        process.stdout.read()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_two_in_a_row_hash_in_two_ways(tmp_path: Path) -> None:
    assert len({run(tmp_path, "print(hash('a word'))").stdout for _ in range(4)}) == popen.SEEDS


def test_chance_is_drawn_anew(tmp_path: Path) -> None:
    drawn = "import random; from trio._core import _run; print(random.random(), _run._r.random())"
    numbers = [number for _ in range(4) for number in run(tmp_path, drawn).stdout.split()]

    assert len(set(numbers)) == 8


def test_nothing_of_a_bot_was_loaded_before(tmp_path: Path) -> None:
    loaded = "import sys; print(*(name for name in sys.modules if name.startswith(('tests', 'examples'))))"
    declared = "from triobot.conversations import data; print(data._declared)"

    assert run(tmp_path, loaded).stdout.split() == [
        "tests",
        "tests.warm",
        "tests.warm.becoming",
        "tests.warm.popen",
    ]
    assert run(tmp_path, declared).stdout == "set()\n"


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-X", "dev", "-m", "triobot"],
        [sys.executable, "-m", "hypercorn"],
        [sys.executable, "-c", "pass"],
        ["/usr/bin/python3", "-m", "triobot"],
        "triobot",
    ],
)
def test_other_commands_start_as_ever(command: Any) -> None:
    assert popen.program_of(command) is None


def test_what_an_interpreter_goes_by_has_it_start_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(popen, "zygotes", popen.Zygotes())
    monkeypatch.setattr(popen.Zygotes, "fork", None)
    for own in ({"PYTHONHASHSEED": "7"}, {"PYTHONWARNINGS": "error"}, {"LC_ALL": "C"}):
        assert run(tmp_path, "print('so')", env={**os.environ, **own}).stdout == "so\n"
    assert run(tmp_path, "print('so')", umask=0o77).stdout == "so\n"
