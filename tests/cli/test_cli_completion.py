"""``triobot completion``: shells complete commands, actions and options."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cli_rig import Command

from triobot.cli import COMMANDS

ASK = """
source "$1"; shift
COMP_WORDS=(triobot "$@"); COMP_CWORD=$#
_shtab_triobot
echo "${COMPREPLY[*]}"
"""


def completed(script: Path, *words: str) -> set[str]:
    """What bash offers behind these words; the last of them is being typed."""
    ran = subprocess.run(
        ["bash", "-c", ASK, "bash", str(script), *words], capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    return set(ran.stdout.split())


@pytest.mark.processes
def test_bash_completes_what_may_come_next(triobot: Command, tmp_path: Path) -> None:
    script = tmp_path / "triobot.bash"
    script.write_text(triobot("completion", "bash").out)

    assert completed(script, "") == {*COMMANDS}
    assert completed(script, "--") == {"--help", "--version"}
    assert completed(script, "st") == {"start", "status", "store"}
    assert completed(script, "store", "") >= {"backup", "restore", "check", "rebind"}
    assert completed(script, "store", "--b") == {"--bot"}
    assert completed(script, "store", "--bot", "pizza:bot", "ba") == {"backup"}
    assert completed(script, "payments", "list", "--s") == {"--state", "--store"}
    assert completed(script, "run", "pizza:bot", "--tls") == {"--tls-certificate", "--tls-key"}
    assert completed(script, "journal", "ch") == {"check"}
    assert completed(script, "store", "check", str(script)) == {str(script)}
    assert completed(script, "completion", "") >= {"bash", "zsh", "fish"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_all_commands(triobot: Command, tmp_path: Path, shell: str) -> None:
    """And a script that it can read."""
    ended = triobot("completion", shell)
    assert (ended.code, ended.err) == (0, "")
    assert all(name in ended.out for name in COMMANDS)
    assert "{redeliver" not in ended.out
    script = tmp_path / "script"
    script.write_text(ended.out)
    if shutil.which(shell) is not None:
        read = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
        assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.processes
def test_fish_finds_the_same(triobot: Command, tmp_path: Path) -> None:
    """Asked as by a person who types."""
    if shutil.which("fish") is None:
        pytest.skip("needs fish")
    script = tmp_path / "triobot.fish"
    script.write_text(triobot("completion", "fish").out)
    ask = f"source {script}; complete -C 'triobot store --bot pizza:bot '"
    fish = subprocess.run(["fish", "--no-config", "-c", ask], capture_output=True, text=True, check=True)
    offered = {line.partition("\t")[0] for line in fish.stdout.splitlines()}
    assert {"backup", "restore"} <= offered
    assert "run" not in offered
