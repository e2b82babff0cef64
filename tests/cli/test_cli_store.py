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


def test_a_backup_from_before_the_token_was_replaced_comes_back(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a store's place when it is said that the bot is the same; on another machine without a token."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "the-old-token")
    before = triobot("webhook-url", "hello:bot", *PUBLIC)
    assert triobot("store", "backup", "night.db").code == 0
    monkeypatch.setenv("TRIOBOT_TOKEN", "the-new-token")
    assert triobot("store", "rebind", "hello:bot").code == 0

    refused = triobot("store", "restore", "night.db")
    restored = triobot("store", "restore", "night.db", "--rebind")
    after = triobot("webhook-url", "hello:bot", *PUBLIC)

    assert (refused.code, restored.code, after.out) == (1, 0, before.out)
    assert "`triobot store restore FILE --rebind`" in refused.err

    monkeypatch.setenv("TRIOBOT_STORE", "sqlite:elsewhere.db")
    monkeypatch.delenv("TRIOBOT_TOKEN")
    assert triobot("store", "restore", "night.db").code == 0
    monkeypatch.setenv("TRIOBOT_TOKEN", "the-new-token")
    other = triobot("webhook-url", "hello:bot", *PUBLIC)
    assert (other.code, "`triobot store rebind`" in other.err) == (1, True)
    assert triobot("store", "rebind", "hello:bot").code == 0
    assert triobot("webhook-url", "hello:bot", *PUBLIC).out == before.out


def test_a_backup_without_a_name_is_not_the_store(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a script whose variable is empty: no backup was found whole."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    triobot("webhook-url", "hello:bot", *PUBLIC)

    assert triobot("store", "check").code == 0
    assert triobot("store", "check", "").code == 1


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
