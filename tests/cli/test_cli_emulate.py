"""``triobot emulate``: it says all that a client needs, and only its own control token opens it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from cli_rig import Command, child_environment

from tests.loopback import PATIENCE


def ask(url: str, headers: dict[str, str], data: bytes | None = None) -> tuple[int, str]:
    """One request, past any proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, data, headers), timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.cold
def test_it_prints_what_a_client_needs_and_ends_silently(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "triobot", "emulate", "--port", "0", "--token", "t0ken"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=child_environment(TRIOBOT_TOKEN="production-token"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as emulator:
        try:
            assert emulator.stdout is not None
            told = dict(emulator.stdout.readline().strip().split("  ", 1) for _ in range(4))
            words = {name: value.strip() for name, value in told.items()}
            base, control = words["base_url"], words["control"]
            opened = ask(f"{control}/users", {"X-Triobot-Control": words["control token"]})
            closed = ask(f"{control}/users", {"X-Triobot-Control": "t0ken"})
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            known = ask(f"{base}/sendMessage", {**form, "token": "t0ken"}, b"chat_id=1")
            unknown = ask(f"{base}/sendMessage", {**form, "token": "production-token"}, b"chat_id=1")
            emulator.send_signal(signal.SIGINT)
            _, complaints = emulator.communicate(timeout=PATIENCE)
        finally:
            emulator.kill()

    assert words["token"] == "t0ken"
    assert (opened[0], json.loads(opened[1])) == (200, [])
    assert (closed[0], known[0], unknown[0]) == (403, 400, 403)
    assert (emulator.returncode, complaints) == (0, "")


def test_a_bot_s_address_that_is_none_is_not_repeated(triobot: Command) -> None:
    """It has the webhook's secret in it."""
    ended = triobot("emulate", "--bot-url", "localhost:8080/the-secret")

    assert ended.code == 1
    assert ended.err.startswith("triobot: --bot-url must look like")
    assert "the-secret" not in ended.err


@pytest.mark.processes
@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP], ids=lambda ending: ending.name)
def test_what_was_done_right_before_an_end_is_kept(tmp_path: Path, ending: signal.Signals) -> None:
    """Windows are closed, too."""
    command = [sys.executable, "-m", "triobot", "emulate", "--port", "0", "--store", "shop.platform"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=child_environment(), stdout=subprocess.PIPE, text=True
    ) as emulator:
        try:
            assert emulator.stdout is not None
            base, _, control, key = (emulator.stdout.readline().split()[-1] for _ in range(4))
            headers = {"X-Triobot-Control": key, "Content-Type": "application/json"}
            assert control == f"{base}/control"
            assert ask(f"{control}/users", headers, b'{"name": "Sara"}')[0] == 200
            emulator.send_signal(ending)
            emulator.communicate(timeout=PATIENCE)
        finally:
            emulator.kill()

    assert "Sara" in (tmp_path / "shop.platform").read_text()


@pytest.mark.processes
@pytest.mark.parametrize("strict", [False, True])
def test_a_liberty_is_told_once(tmp_path: Path, strict: bool) -> None:
    command = [sys.executable, "-m", "triobot", "emulate", "--port", "0", "--token", "t0ken"]
    with subprocess.Popen(
        [*command, *(["--strict"] if strict else [])],
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as emulator:
        try:
            assert emulator.stdout is not None
            base = emulator.stdout.readline().split()[1]
            form = {"Content-Type": "application/x-www-form-urlencoded", "token": "t0ken"}
            statuses = {ask(f"{base}/sendAction", form, b"chat_id=1&type=Typing")[0] for _ in range(2)}
            emulator.send_signal(signal.SIGINT)
            _, told = emulator.communicate(timeout=PATIENCE)
        finally:
            emulator.kill()

    what = "refused" if strict else "taken, though the interface doesn't promise it"
    assert told == f"triobot: {what}: sendAction: type must be in small letters\n"
    assert statuses == {400 if strict else 403}  # nobody has joined
