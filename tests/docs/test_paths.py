"""What the pages say where something is: there it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = sorted(path.name for path in (ROOT / "triobot").iterdir() if path.is_dir())

# `triobot/store/schema.py`, `tests/corpus/answers`; `outbox/lanes`, below the package; NAME stands for any.
NAMED = re.compile(r"`((?:[\w-]+/)+[\w.-]*)`")


def paths_in(text: str) -> Iterator[str]:
    for path in NAMED.findall(text.replace("/NAME.py", "/__init__.py")):
        first = path.partition("/")[0]
        if first in ("triobot", "tests", "docs", "examples"):
            yield path
        elif first in PACKAGES:
            yield f"triobot/{path}"


def test_a_path_is_seen() -> None:
    assert list(paths_in("`outbox/lanes`, `tests/corpus/answers`, `text/plain`, `a/`")) == [
        "triobot/outbox/lanes",
        "tests/corpus/answers",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    named = set(paths_in(page.read_text(encoding="utf-8")))
    assert [path for path in named if not ((ROOT / path).exists() or (ROOT / f"{path}.py").exists())] == []
