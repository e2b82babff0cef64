"""Runs commands in this process, with an environment and a folder of their own."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_rig import BOT, Command, Ended

from triobot.cli import main
from triobot.exact.sites import loaded_modules

_TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder, no settings, and everything that a command changes put back."""
    for name in [name for name in os.environ if name.startswith(("TRIOBOT_", "LISTEN_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    # All that was collected is loaded; taken for the bot's own code, it would say the same words again.
    monkeypatch.setattr("triobot.conversations.revival.code.loaded_modules", modules_of_bots)
    root, known = logging.getLogger(), set(sys.modules)
    handlers, level = root.handlers[:], root.level
    named = [logging.getLogger(name) for name in ("triobot", "triobot.webhook.access", "httpx", "httpcore")]
    levels = [logger.level for logger in named]
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for logger, before in zip(named, levels, strict=True):
        logger.setLevel(before)
    for name in sorted(set(sys.modules) - known, reverse=True):  # what is in a package before it
        module = sys.modules[name]
        # A folder without __init__.py is a package without a file.
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        if any(place and Path(place).is_relative_to(tmp_path) for place in places):
            del sys.modules[name]


def modules_of_bots() -> Iterator[tuple[str, str]]:
    """Yield what is loaded, but for the tests."""
    return ((name, file) for name, file in loaded_modules() if not Path(file).is_relative_to(_TESTS))


@pytest.fixture
def triobot(capsys: pytest.CaptureFixture[str]) -> Command:
    """``triobot ...``"""

    def command(*arguments: str) -> Ended:
        code = 0
        try:
            main(arguments)
        except SystemExit as stop:
            assert isinstance(stop.code, int)
            code = stop.code
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return command


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    """A bot in a file."""
    path = tmp_path / "hello.py"
    path.write_text(BOT)
    return path


@pytest.fixture
def hangup() -> Iterator[None]:
    """What is started here hears of a window that closes, even if this was started by nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
