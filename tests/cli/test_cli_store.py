"""``triobot store rebind``: the same bot under a new token, when its operator says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_rig import Command

PUBLIC = ("--public-url", "https://bot.example.com")


def test_a_store_follows_its_bot_to_a_new_token_when_told(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before, the same store with the same secret afterwards."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "the-old-token")
    before = triobot("webhook-url", "hello:bot", *PUBLIC)
    monkeypatch.setenv("TRIOBOT_TOKEN", "the-new-token")

    refused = triobot("webhook-url", "hello:bot", *PUBLIC)
    rebound = triobot("store", "rebind", "hello:bot")
    after = triobot("webhook-url", "hello:bot", *PUBLIC)

    assert (refused.code, rebound.code, after.code) == (1, 0, 0)
    assert "triobot store rebind" in refused.err
    assert after.out == before.out
    assert "token" not in rebound.out.replace("this token", "")


@pytest.mark.parametrize(
    ("store", "says"),
    [("memory:", "only a sqlite: store"), ("sqlite:absent.db", "there is no store at absent.db")],
)
def test_there_must_be_something_to_rebind(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch, store: str, says: str
) -> None:
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")

    ended = triobot("store", "rebind", "hello:bot", "--store", store)

    assert (ended.code, ended.out) == (1, "")
    assert says in ended.err
    assert not (hello.parent / "absent.db").exists()
