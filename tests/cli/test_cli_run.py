"""``triobot run``: its settings, its errors, and that it keeps the secret to itself."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import Command, child_environment

from tests.loopback import PATIENCE
from triobot.cli import main
from triobot.cli.run_work import inherited_socket
from triobot.errors import ConfigError
from triobot.store.lock import take_lock

SECRET = "abcdefghijklmnopqrstuvwx"


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    monkeypatch.setenv("TRIOBOT_BASE_URL", "http://127.0.0.1:9")


@pytest.mark.slow
def test_no_token_says_what_to_set(triobot: Command, hello: Path) -> None:
    ended = triobot("run", "hello:bot", "--store", "memory:")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("triobot: no token: set TRIOBOT_TOKEN")


def test_a_weak_secret_is_refused_and_not_shown(
    triobot: Command, hello: Path, token: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIOBOT_WEBHOOK_SECRET", "hunter2")

    ended = triobot("run", "hello:bot", "--store", "memory:")

    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith("triobot: a webhook secret must be")
    assert "hunter2" not in ended.out + ended.err


def test_a_port_in_use_is_one_line(triobot: Command, hello: Path, token: None) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]

        ended = triobot("run", "hello:bot", "--store", "memory:", "--port", str(port))

    assert ended.code == 1
    assert ended.err == f"triobot: can't listen on 127.0.0.1:{port}: another program is listening there\n"


def test_a_locked_store_is_one_line(triobot: Command, hello: Path, token: None, tmp_path: Path) -> None:
    lock = take_lock(tmp_path / "held.db")

    ended = triobot("run", "hello:bot", "--store", "sqlite:held.db")
    lock.release()

    assert ended.code == 1
    assert "held.db is open in this process" in ended.err
    assert ended.err.count("\n") == 1


def test_a_broken_store_address_is_one_line(triobot: Command, hello: Path, token: None) -> None:
    ended = triobot("run", "hello:bot", "--store", "postgres://me:hunter2@host/db")

    assert ended.code == 1
    assert "hunter2" not in ended.err


@pytest.mark.parametrize(
    ("environ", "fd"),
    [
        ({}, None),
        ({"LISTEN_FDS": "1"}, None),
        ({"LISTEN_FDS": "1", "LISTEN_PID": "7"}, None),
        ({"LISTEN_FDS": "1", "LISTEN_PID": "42"}, 3),
    ],
)
def test_systemd_s_socket_is_for_the_process_it_names(environ: dict[str, str], fd: int | None) -> None:
    assert inherited_socket(environ, 42) == fd


def test_systemd_s_variables_are_not_handed_on() -> None:
    """What the bot starts must not take the bot's socket for its own."""
    environ = {"LISTEN_FDS": "1", "LISTEN_PID": "42", "LISTEN_FDNAMES": "web", "HOME": "/"}

    inherited_socket(environ, 42)

    assert environ == {"HOME": "/"}


def test_several_sockets_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 sockets"):
        inherited_socket({"LISTEN_FDS": "2", "LISTEN_PID": "42"}, 42)


def test_a_path_that_is_too_long_is_called_so(triobot: Command, hello: Path, token: None) -> None:
    ended = triobot("run", "hello:bot", "--store", "memory:", "--unix", "/tmp/" + "a" * 200)

    assert ended.code == 1
    assert ended.err.endswith("a: the path is too long for a socket; Linux takes 107 bytes\n")


def test_a_socket_and_a_port_contradict_each_other(triobot: Command, hello: Path, token: None) -> None:
    ended = triobot("run", "hello:bot", "--fd", "3", "--port", "8080")

    assert ended.code == 1
    assert "--host, --port and --unix" in ended.err


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize(
    "ending",
    [pytest.param(signal.SIGTERM, marks=pytest.mark.cold), signal.SIGHUP],
    ids=lambda ending: ending.name,
)
def test_it_serves_an_inherited_socket_and_stops_at_a_signal(hello: Path, ending: signal.Signals) -> None:
    """The socket is there before the bot: who connects early is answered. No secret is written."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        fd = listening.fileno()
        environ = child_environment(
            TRIOBOT_TOKEN="a-token-of-tests",
            TRIOBOT_BASE_URL="http://127.0.0.1:9",
            TRIOBOT_WEBHOOK_SECRET=SECRET,
        )
        command = [sys.executable, "-m", "triobot", "run", "hello.py:bot"]
        with subprocess.Popen(
            [*command, "--store", "memory:", "--fd", str(fd)],
            cwd=hello.parent,
            env=environ,
            pass_fds=[fd],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as bot:
            try:
                with socket.create_connection(listening.getsockname(), timeout=PATIENCE) as caller:
                    caller.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    answer = caller.recv(1000)
                bot.send_signal(ending)
                output, _ = bot.communicate(timeout=PATIENCE)
            finally:
                bot.kill()

    assert answer.startswith(b"HTTP/1.1 200")
    assert bot.returncode == 0
    assert "listening on" in output
    assert f"stopping on {ending.name}" in output
    assert SECRET not in output
    assert "a-token-of-tests" not in output


def test_a_closed_output_is_no_terminal(
    triobot: Command, hello: Path, token: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As whoever starts a service by `>&-` leaves it."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr("triobot.cli.run_work.run_together", lambda bots, **_: None)

    assert not main(["run", "hello:bot", "--store", "memory:"])


@pytest.mark.processes
def test_only_a_terminal_is_shown_the_address(hello: Path) -> None:
    """The person who starts a bot may read its secret; a journal may not."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "triobot", "run", "hello.py:bot", "--store", "memory:", "--port", "0"],
        cwd=hello.parent,
        env=child_environment(
            TRIOBOT_TOKEN="a-token-of-tests",
            TRIOBOT_BASE_URL="http://127.0.0.1:9",
            TRIOBOT_WEBHOOK_SECRET=SECRET,
            TRIOBOT_PUBLIC_URL="https://bot.example.com",
        ),
        stdout=slave,
        stderr=subprocess.PIPE,
        text=True,
    ) as bot:
        os.close(slave)
        try:
            with os.fdopen(master, encoding="utf-8") as terminal:
                shown = [terminal.readline(), terminal.readline()]
                assert bot.stderr is not None
                logged = bot.stderr.readline()
                bot.terminate()
                logged += bot.stderr.read()
                bot.wait(PATIENCE)
        finally:
            bot.kill()

    assert shown == ["register:\n", f"  https://bot.example.com/{SECRET}\n"]
    assert "listening on" in logged
    assert SECRET not in logged


def test_several_bots_need_a_token_each(
    triobot: Command, hello: Path, token: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads its own variables; a store is no option then."""
    desk = tmp_path / "desk.py"
    desk.write_text(hello.read_text().replace("Bot()", "Bot(env='DESK_')"))
    ended = triobot("run", "hello:bot", "desk:bot")
    assert ended.code == 1
    assert "no token: set DESK_TOKEN" in ended.err

    monkeypatch.setenv("DESK_TOKEN", "a-token-of-tests")
    ended = triobot("run", "hello:bot", "desk:bot")
    assert ended.code == 1
    assert "two bots have the same token" in ended.err
    assert "a-token-of-tests" not in ended.err

    ended = triobot("run", "hello:bot", "desk:bot", "--store", "memory:")
    assert ended.code == 1
    assert "leave --store out" in ended.err


def test_the_end_of_a_bot_that_logs_for_programs_is_a_line_of_its_own(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads the log reads why it ended, too."""
    monkeypatch.setenv("TRIOBOT_LOG_FORMAT", "json")
    for options in (["--log-format", "json"], []):
        ended = triobot("run", f"{hello}:bot", *options)
        assert ended.code == 1
        (line,) = map(json.loads, ended.err.splitlines())
        assert (line["level"], line["message"].partition(":")[0]) == ("critical", "no token")
        assert line["bot"] == "triobot"
    nobody = triobot("run", "no-such-module:bot", "--log-format", "json")
    assert "bot" not in json.loads(nobody.err)
    plain = triobot("run", f"{hello}:bot", "--log-format", "plain")
    assert plain.err.startswith("triobot: no token")

    monkeypatch.setenv("TRIOBOT_LOG_FORMAT", "xml")
    ended = triobot("run", f"{hello}:bot")
    assert ended.code == 1
    assert "TRIOBOT_LOG_FORMAT must be plain or json" in ended.err
