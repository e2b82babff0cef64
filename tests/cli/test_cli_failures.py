"""How errors are told: flattened, one line each, with nothing in them that must not be shown."""

from __future__ import annotations

import errno

import pytest

from triobot.cli.terminal import one_line, report
from triobot.errors import ConfigError, StoreLockedError


def test_groups_are_flattened_and_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Trio wraps; the person at the terminal sees what happened."""
    inner = ExceptionGroup("inner", [ConfigError("no token"), ConfigError("no token")])

    code = report(BaseExceptionGroup("outer", [inner, StoreLockedError("locked")]), debug=False)

    assert code == 1
    assert capsys.readouterr().err == "triobot: no token\ntriobot: locked\n"


def test_an_interrupt_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    code = report(BaseExceptionGroup("", [KeyboardInterrupt(), ConfigError("no token")]), debug=False)

    assert code == 130
    assert capsys.readouterr().err == ""


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(ConfigError("no token"), debug=True) == 1
    assert "triobot.errors.ConfigError: no token" in capsys.readouterr().err


@pytest.mark.parametrize(("asked", "code"), [(SystemExit(3), 3), (SystemExit(), 0), (SystemExit("why"), 1)])
def test_an_exit_is_an_exit(asked: SystemExit, code: int) -> None:
    assert report(asked, debug=False) == code


def test_a_port_in_use_says_what_to_do() -> None:
    assert "the port is in use already" in one_line(OSError(errno.EADDRINUSE, "whatever the system says"))


def test_a_file_s_error_names_the_file() -> None:
    assert one_line(FileNotFoundError(errno.ENOENT, "No such file", "a\x1bb")) == "a\\x1bb: No such file"


def test_the_text_of_a_surprise_stays_inside() -> None:
    """A stranger's exception may carry a message's text or a secret: its type and place are enough."""
    try:
        raise RuntimeError("a user's words")
    except RuntimeError as error:
        line = one_line(error)

    assert "user's words" not in line
    assert "RuntimeError at test_cli_failures.py:" in line


def test_no_error_s_text_reaches_the_terminal_raw() -> None:
    assert one_line(ConfigError("red: \x1b[31m\nforged")) == "red: \\x1b[31m\\nforged"
