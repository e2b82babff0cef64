"""Nothing that strangers wrote acts on the terminal."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from triobot.cli.terminal import PlainFormatter, harmless, is_terminal, set_up_logging


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("a\u2028b", "a\\u2028b"),
        ("abc\u202efed", "abc\\u202efed"),
        ("\ud800", "\\ud800"),
        ("می‌خواهم", "می‌خواهم"),
        ("👩‍🚀 €", "👩‍🚀 €"),
    ],
)
def test_what_a_terminal_would_act_on_is_escaped(text: str, shown: str) -> None:
    """Escapes, line ends and reordering go; the joiners of Persian and of pictures stay."""
    assert harmless(text) == shown


def test_what_a_bot_has_put_in_a_stream_s_place_is_no_terminal() -> None:
    """It may have `write` alone, and it may be closed."""

    class Tee:
        def write(self, text: str) -> None:
            """Go to two places."""

    closed, tee = io.StringIO(), Tee()
    closed.close()
    assert not is_terminal(None)
    assert not is_terminal(closed)
    assert not is_terminal(tee)  # type: ignore[arg-type]


def test_a_log_line_can_t_be_forged() -> None:
    stream = io.StringIO()
    set_up_logging(stream)

    logging.getLogger("triobot.somewhere").info("name: %s", "x\n2026-01-01 ERROR triobot: forged")

    assert stream.getvalue().count("\n") == 1
    assert "INFO triobot.somewhere: name: x\\n2026" in stream.getvalue()


def test_a_traceback_s_lines_are_marked() -> None:
    stream = io.StringIO()
    set_up_logging(stream)

    try:
        raise ValueError("a\n2026-01-01 ERROR triobot: forged\x1b[2J")
    except ValueError:
        logging.getLogger("triobot").exception("failed")

    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("ERROR triobot: failed")
    assert rest
    assert all(line.startswith("  | ") for line in rest)
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("name", ["httpx", "httpcore.connection", "hypercorn.error"])
def test_libraries_that_write_addresses_are_quiet(name: str) -> None:
    """At INFO they write whole addresses; the webhook's has a secret in it."""
    stream = io.StringIO()
    set_up_logging(stream, debug=True)

    logging.getLogger(name).info("POST http://127.0.0.1/secret")

    assert stream.getvalue() == ""


def test_requests_are_logged_only_when_asked_for() -> None:
    """A line a request says little, and costs much."""
    access = logging.getLogger("triobot.webhook.access")
    stream = io.StringIO()

    set_up_logging(stream)
    assert not access.isEnabledFor(logging.INFO)

    set_up_logging(stream, access=True)
    access.info("POST /*** 200 1.0 ms")
    assert "POST /***" in stream.getvalue()


@pytest.mark.parametrize("brief", [True, False])
def test_the_same_traceback_is_shown_twice_in_a_row(brief: bool) -> None:
    """Another one is shown whole, and the first again behind it."""
    formatter = PlainFormatter(brief=brief)

    def shown(words: str) -> bool:
        try:
            raise ValueError(words)
        except ValueError:
            text = formatter.formatException(sys.exc_info())
        whole = f"ValueError: {words}" in text
        assert whole != (text == "  | again, as above")
        return whole

    assert [shown(words) for words in "aaaaba"] == [True, True, not brief, not brief, True, True]
