"""`python -m tests` installs the programs that tests start, or lists the missing programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs

ROOT = Path(__file__).parents[1]
APT = """#!/bin/sh
echo "$DEBIAN_FRONTEND $(test -x {policy} && echo starts nothing): $*" >> {log}
case "$*" in *install*caddy*wrk*) exit 100 ;; esac
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What an apt-get was told, which has one of the packages but not the other; for root."""
    policy, log, folder = tmp_path / "policy-rc.d", tmp_path / "log", tmp_path / "bin"
    folder.mkdir()
    (folder / "apt-get").write_text(APT.format(policy=policy, log=log))
    (folder / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(programs, "_POLICY", policy)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return log


def test_what_is_missing_is_installed_and_not_started(log: Path) -> None:
    """One by one, where not all can be had; services stay as they were."""
    programs.bring(["caddy", "wrk"])

    told = [line.removeprefix("noninteractive starts nothing: -qq ") for line in log.read_text().splitlines()]
    install = "install -y --no-install-recommends"
    assert told == ["update", f"{install} caddy wrk", f"{install} caddy", f"{install} wrk"]
    assert not log.with_name("policy-rc.d").exists()


def test_a_machine_s_own_policy_stays(log: Path) -> None:
    policy = log.with_name("policy-rc.d")
    policy.write_text("own")
    programs.bring(["curl"])
    assert policy.read_text() == "own"


def test_nobody_but_root_installs(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    programs.bring(["curl"])
    assert not log.exists()


def test_what_is_here_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("curl", "google-chrome"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert {"curl", "chromium-headless-shell"} & {*programs.missing()} == set()
    assert {"zsh", "wrk"} <= {*programs.missing()}


@pytest.mark.cold
@pytest.mark.slow
@pytest.mark.processes
def test_it_says_what_to_install_and_how_many_tests_that_costs(tmp_path: Path) -> None:
    """Before pytest's closing line; what it is given goes to pytest. Async tests are counted, too."""
    tests = (
        "tests/cli/test_cli_completion.py::test_fish_finds_the_same",
        "tests/examples/test_other_languages.py",
        "tests/operator/test_operator_metrics.py",
        "-kfish or echo.go or echo.php or promtool",
    )
    ran = subprocess.run(
        [sys.executable, "-m", "tests", "-n0", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    *_, told, closing = ran.stdout.splitlines()
    assert told == (
        "Skipped for want of Debian's packages, and npm's axe-core: fish (1 tests), golang-go (1 tests), "
        "php-cli (1 tests), prometheus (2 tests)"
    )
    assert "5 skipped" in closing
