"""Imports an example as `triobot run` does, with no settings around it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from triobot.cli.loading import load_bot

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder and no settings; examples that were imported are forgotten, for they have state."""
    for name in [name for name in os.environ if name.startswith("TRIOBOT_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if EXAMPLES in Path(getattr(sys.modules[name], "__file__", None) or "/").parents:
            del sys.modules[name]


@pytest.fixture
def example() -> Callable[[str], ModuleType]:
    """The module of an example."""

    def load(name: str) -> ModuleType:
        bot = load_bot(f"{EXAMPLES / name}.py:bot")
        module = sys.modules[Path(name).name]
        assert module.bot is bot
        return module

    return load
