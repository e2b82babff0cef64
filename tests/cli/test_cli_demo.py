"""``triobot demo``: it runs anywhere, shows what is so, and fails when it isn't."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import Command, child_environment

from tests.loopback import PATIENCE
from triobot.studio.commands import demo


@pytest.mark.processes
@pytest.mark.cold
def test_the_demo_runs_from_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    """In a real process, with settings of a production bot around it that must not be touched."""
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    environ = child_environment(
        TMPDIR=str(temporary),
        TRIOBOT_TOKEN="production-token",
        TRIOBOT_BASE_URL="https://production.example.com",
        TRIOBOT_STORE="sqlite:production.db",
        TRIOBOT_WEBHOOK_SECRET="weak",
        HTTP_PROXY="http://127.0.0.1:9",
    )

    ran = subprocess.run(
        [sys.executable, "-m", "triobot", "demo"],
        cwd=work,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    shown = [
        "Good evening! Your name?",
        "[ Large ]",
        "( Send my location )",
        "<location 35.6892, 51.3890>",
        "Name on the doorbell: ____",
        "Floor: please enter a whole number.",
        "<file label.dat, 5,096 bytes> It will look like this.",
        "[ Pay: 250,000 ]",
        "Thank you, Sara! We ring at Ahmadi in 30 minutes.",
        "true: the file came back byte for byte",
        "true: the wallet: 1,000,000 - 250,000 = 750,000 rials",
        "true: the payment was verified",
        "true: the bot's store is empty again",
        "true: 8 events, each answered 200 at its first delivery",
    ]
    assert [text for text in shown if text not in ran.stdout] == []
    places = [ran.stdout.index(text) for text in shown[:10]]
    assert places == sorted(places)
    assert "\x1b" not in ran.stdout
    assert list(work.iterdir()) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_quiet_is_quiet(triobot: Command) -> None:
    ended = triobot("demo", "--quiet")

    assert (ended.code, ended.out) == (0, "")
    # That the machine stood still, the watchdog may say.
    assert [line for line in ended.err.splitlines() if " triobot.watchdog: " not in line] == []


@pytest.mark.slow
def test_the_demo_fails_when_what_it_shows_isn_t_so(
    triobot: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A demo that can't fail shows nothing."""
    monkeypatch.setattr(demo, "_PRICE", 240_000)

    ended = triobot("demo", "--quiet")

    assert ended.code == 1
    assert ended.err == "triobot: the demo isn't true: the wallet holds 750,000 rials\n"


@pytest.mark.processes
def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        ran = subprocess.run(
            [sys.executable, "-m", "triobot", "demo", "--quiet", "--port", str(busy.getsockname()[1])],
            cwd=tmp_path,
            env=child_environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    assert ran.returncode == 1
    assert ran.stderr.startswith("triobot: the port is in use already")
    assert ran.stderr.count("\n") == 1
