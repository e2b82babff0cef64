"""A body's length is told once, readably, or the request is refused."""

from __future__ import annotations

import pytest

from triobot.errors import ConfigError
from triobot.webhook.app import read_framing
from triobot.webhook.limits import Limits


def test_plain_length() -> None:
    framing = read_framing([(b"content-length", b"12"), (b"content-type", b"text/\xe9")], "1.1")

    assert (framing.length, framing.conflicting, framing.unread) == (12, False, True)
    assert framing.content_type == "text/é"


def test_no_body() -> None:
    assert not read_framing([], "1.1").unread
    assert not read_framing([(b"content-length", b"0")], "1.1").unread
    assert read_framing([], "2").unread


@pytest.mark.parametrize(
    "headers",
    [
        [(b"content-length", b"5"), (b"transfer-encoding", b"chunked")],
        [(b"transfer-encoding", b"chunked"), (b"content-length", b"0")],
        [(b"content-length", b"5"), (b"content-length", b"6")],
        [(b"content-length", b"5, 6")],
        [(b"content-length", b"+5")],
        [(b"content-length", b"5_0")],
        [(b"content-length", "۵".encode())],
        [(b"content-length", b"")],
        [(b"content-length", b"9" * 30)],
    ],
)
def test_conflicting_lengths(headers: list[tuple[bytes, bytes]]) -> None:
    assert read_framing(headers, "1.1").conflicting


def test_equal_lengths_are_one() -> None:
    assert read_framing([(b"content-length", b"5, 5"), (b"content-length", b"5")], "1.1").length == 5


@pytest.mark.parametrize("wrong", [{"body_bytes": 0}, {"body_seconds": -1.0}, {"bodies_bytes": 10}])
def test_limits_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        Limits(**wrong)  # type: ignore[arg-type]
