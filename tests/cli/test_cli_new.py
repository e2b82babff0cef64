"""``triobot new``: what it makes runs, passes and is typed, as it is."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest
from cli_rig import Command, child_environment

from triobot import __version__
from triobot.cli.loading import load_bot
from triobot.conversations.routes.router import table_of

RECORD = f"triobot_runtime-{__version__}.dist-info/RECORD"


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
    wheel = f"triobot_runtime-{__version__}-py3-none-any.whl"
    names = {path.name for path in pizza.iterdir()}
    assert names == {
        wheel,
        "pizzeria.py",
        "test_pizzeria.py",
        "pizzeria.service",
        "pizzeria.socket",
        "Containerfile",
        "requirements.txt",
        "requirements-dev.txt",
        ".gitignore",
    }
    files = {name: (pizza / name).read_text(encoding="utf-8") for name in names - {wheel}}
    assert not [name for name, text in files.items() if "NAME" in text or "WHEEL" in text]


def test_the_bot_can_run(pizza: Path) -> None:
    assert len(table_of(load_bot(str(pizza / "pizzeria.py"))).routes) == 2


@pytest.mark.processes
def test_its_test_passes_without_a_setting(pizza: Path) -> None:
    code, said = ended(pizza, "pytest", "-q", "-p", "no:cacheprovider")
    assert code == 0, said
    assert "2 passed" in said


@pytest.mark.slow
@pytest.mark.processes
def test_the_commands_that_it_prints_work(triobot: Command, tmp_path: Path) -> None:
    """In an environment of the folder's own, which installs the triobot that made the folder.

    What others' packages bring is on the path here, so that pip asks no index.
    """
    lines = triobot("new", "pizzeria").out.splitlines()[-3:]
    set_up, try_it, test_it = (line.partition(":")[2].strip() for line in lines)
    others = {"PYTHONPATH": sysconfig.get_path("purelib"), "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}

    def told(line: str) -> str:
        env = {**child_environment(), **others}
        ran = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, env=env, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    told(set_up)
    where = "import triobot, triobot_pytest as p; print(triobot.__file__, p.__file__)"
    python = "pizzeria/.venv/bin/python"
    assert told(f"{python} -c '{where}'").count(str(tmp_path / "pizzeria" / ".venv")) == 2
    assert "usage: triobot dev" in told(f"{try_it} --help")
    assert "2 passed" in told(test_it)
    # Without a checkout: the wheel makes the next one.
    assert "triobot_runtime" in told("cd pizzeria && .venv/bin/triobot new bakery")
    first, second = sorted(tmp_path.rglob("*.whl"))
    assert ZipFile(first).read(RECORD) == ZipFile(second).read(RECORD)
    assert {line.split(",")[0] for line in ZipFile(first).read(RECORD).decode().split()} == {
        *ZipFile(first).namelist()
    }


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
