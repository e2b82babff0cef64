"""``triobot new``: what it makes runs, passes and is typed, as it is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import Command, child_environment

from triobot.cli.loading import load_bot
from triobot.conversations.routes.router import table_of


@pytest.fixture
def pizza(triobot: Command, tmp_path: Path) -> Path:
    """A new bot's folder."""
    made = triobot("new", "pizzeria")
    assert (made.code, made.err) == (0, "")
    assert "triobot dev pizzeria.py:bot" in made.out
    return tmp_path / "pizzeria"


def ended(folder: Path, *command: str) -> tuple[int, str]:
    """Run a command in the folder, as its author would."""
    ran = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        env=child_environment(),
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_the_folder_has_all_that_a_bot_needs(pizza: Path) -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in pizza.iterdir()}
    assert set(files) == {
        "pizzeria.py",
        "test_pizzeria.py",
        "pizzeria.service",
        "pizzeria.socket",
        "Containerfile",
        "requirements.txt",
        ".gitignore",
    }
    assert not [name for name, text in files.items() if "NAME" in text]


def test_the_bot_can_run(pizza: Path) -> None:
    assert len(table_of(load_bot(str(pizza / "pizzeria.py"))).routes) == 2


@pytest.mark.processes
def test_its_test_passes_without_a_setting(pizza: Path) -> None:
    code, said = ended(pizza, "pytest", "-q", "-p", "no:cacheprovider")
    assert code == 0, said
    assert "2 passed" in said


@pytest.mark.apart
@pytest.mark.processes
def test_it_is_typed_strictly(pizza: Path) -> None:
    pytest.importorskip("mypy")
    cache = Path(__file__).parents[2] / ".mypy_cache" / "new"
    code, said = ended(
        pizza, "mypy", "--strict", "--cache-dir", str(cache), "pizzeria.py", "test_pizzeria.py"
    )
    assert code == 0, said


@pytest.mark.processes
def test_systemd_understands_its_unit(pizza: Path) -> None:
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("needs systemd-analyze")
    for file in (pizza / "pizzeria.service", pizza / "pizzeria.socket"):
        # What it starts is there on a server only.
        file.write_text(file.read_text().replace("/opt/pizzeria/.venv/bin/triobot", sys.executable))
        ran = subprocess.run([analyze, "verify", str(file)], capture_output=True, text=True, check=False)
        assert [line for line in ran.stderr.splitlines() if "pizzeria" in line and "Unknown" in line] == []


def test_nothing_is_overwritten(triobot: Command, pizza: Path) -> None:
    before = (pizza / "pizzeria.py").read_text(encoding="utf-8")
    again = triobot("new", "pizzeria")
    assert again.code == 1
    assert "is there, and not empty" in again.err
    assert (pizza / "pizzeria.py").read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("My-Bot", "such as my_bot"),
        ("class", "can't be a module's name"),
        ("../pizza", "can't be a module's name"),
        ("queue", "'queue' is another module's name; choose one of your own, such as queue_bot"),
        ("triobot", "is another module's name"),
    ],
)
def test_a_name_that_would_not_work_is_refused(
    triobot: Command, tmp_path: Path, name: str, what: str
) -> None:
    refused = triobot("new", name)
    assert refused.code == 1
    assert what in refused.err
    assert list(tmp_path.iterdir()) == []
