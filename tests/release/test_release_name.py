"""pip's name of this package is `name` in `pyproject.toml`: no text tells anybody to install another one.

On the package index `triobot`, the name under which it is imported, is another project.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from triobot.base.extras import distribution, install_line

ROOT = Path(__file__).parents[2]
NAME: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]

# What an installer is told, up to the end of the command or of the quotation.
INSTALLS = re.compile(
    r"\b(?:(?:pip[\d.]*|pipx|uv|poetry|pdm|conda)(?:['\", ]+(?:pip|tool|-[\w-]+))*"
    r"['\", ]+(?:install|add|download|run|wheel)|uvx)\b((?:\\\n|[^\n`|&;])*)"
)
# A requirement of the import's name: with an extra or a version, or alone in a line or in quotes.
REQUIRES = re.compile(
    r"(?<![\w./@+-])triobot(?:\[[a-z]+(?:,[a-z]+)*\]|\s*[=~<>]=+\s*\d+\.| @ \w+)"
    r"|(?:requirements|dependencies)[^\n]*['\"`]triobot['\"`]"
)


def wrong(text: str) -> list[str]:
    """Return what in a text installs the import's name."""
    found = [one[0] for one in REQUIRES.finditer(text)]
    for told in INSTALLS.finditer(text):
        words = re.split(r"[\s'\",()]+", told[1])
        found += [told[0] for word in words if re.match(r"triobot(?![\w-])(?!/|_)", word.lower())]
    return found


@pytest.mark.parametrize(
    "text",
    [
        "pip install triobot",
        "RUN pip3 install --no-cache-dir 'triobot>=0.1' trio",
        "python -m pip install -U triobot.",
        'subprocess.run(["pip", "install", "triobot"])',
        "uv pip install triobot",
        "uvx triobot demo",
        "uv tool install Triobot",
        "pip3.11 --no-cache-dir install triobot",
        "RUN pip install \\\n    triobot",
        'dependencies = ["triobot"]',
        "uv add triobot && x",
        "a line `triobot[postgres]`",
        'dev = ["triobot[asgi,dev]"]',
        "triobot==0.1.0",
        "triobot @ git+https://forge.test/a",
        'requirements.txt with a line "triobot"',
    ],
)
def test_a_wrong_one_is_seen(text: str) -> None:
    assert wrong(text)


@pytest.mark.parametrize(
    "text",
    [
        f"pip install '{NAME}[dev]=={{version}}'",
        "pip install -e '.[dev]' && .venv/bin/triobot demo",
        f"pip install ./{NAME.replace('-', '_')}-*.whl",
        "`pip install .` installs triobot",
        "pip install -r requirements.txt\ntriobot run pizza.py:bot",
        "assert triobot == 1",
    ],
)
def test_a_right_one_is_not(text: str) -> None:
    assert wrong(text) == []


def test_no_text_names_another_package() -> None:
    """What git knows, and what it would take in."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    files = [ROOT / name for name in names if name and name != Path(__file__).relative_to(ROOT).as_posix()]
    texts = {path: path.read_bytes().decode(errors="replace") for path in files if path.is_file()}
    assert len(texts) > 500
    assert {
        str(path.relative_to(ROOT)): found for path, text in texts.items() if (found := wrong(text))
    } == {}


def test_readme_names_the_package() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"`{NAME}`" in readme


def test_messages_name_what_is_installed() -> None:
    """By what pip knows, so that pip finds it here and asks no index for it."""
    installed = distribution()
    assert installed is not None
    assert installed.name == NAME
    assert install_line("dev") == f"pip install '{NAME}[dev]'"
