"""``triobot webhook-url``: the address, from settings or from the store, and why it can't be told."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_rig import Command, Ended

from triobot.store.lock import take_lock

PUBLIC = "https://bot.example.com/app"


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")


def test_the_first_secret_is_the_current_one(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During a change both are accepted; the new one is what is registered."""
    monkeypatch.setenv("TRIOBOT_WEBHOOK_SECRET", "newnewnew-abcdefghijklmno,oldoldold-abcdefghijklmno")

    ended = triobot("webhook-url", "hello:bot", "--public-url", PUBLIC)

    assert Ended(0, f"{PUBLIC}/newnewnew-abcdefghijklmno\n", "") == ended
    assert not list(hello.parent.glob("*.db*"))


def test_settings_alone_are_enough(triobot: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIOBOT_WEBHOOK_SECRET", "abcdefghijklmnopqrstuvwx")
    monkeypatch.setenv("TRIOBOT_PUBLIC_URL", "https://bot.example.com/")

    assert triobot("webhook-url").out == "https://bot.example.com/abcdefghijklmnopqrstuvwx\n"


def test_the_store_keeps_its_secret(triobot: Command, hello: Path) -> None:
    """Made once, the same ever after; and the person is told that it was made."""
    first = triobot("webhook-url", "hello:bot", "--public-url", PUBLIC)
    second = triobot("webhook-url", "hello:bot", "--public-url", PUBLIC)

    assert first.code == second.code == 0
    assert first.out == second.out
    assert len(first.out) > len(PUBLIC) + 22
    assert "made a new store" in first.err
    assert second.err == ""


def test_a_running_bot_s_store_can_t_be_read(triobot: Command, hello: Path, tmp_path: Path) -> None:
    lock = take_lock(tmp_path / "triobot.db")

    ended = triobot("webhook-url", "hello:bot", "--public-url", PUBLIC)
    lock.release()

    assert (ended.code, ended.out) == (1, "")
    assert "stop the bot for a moment, or set TRIOBOT_WEBHOOK_SECRET" in ended.err


def test_a_store_in_memory_keeps_nothing(triobot: Command, hello: Path) -> None:
    ended = triobot("webhook-url", "hello:bot", "--public-url", PUBLIC, "--store", "memory:")

    assert (ended.code, ended.out) == (1, "")
    assert "set TRIOBOT_WEBHOOK_SECRET" in ended.err


@pytest.mark.parametrize(
    "public", ["bot.example.com", "ftp://bot.example.com", "https://me:pass@host", "https://h/?q"]
)
def test_the_public_address_must_be_one(
    triobot: Command, monkeypatch: pytest.MonkeyPatch, public: str
) -> None:
    monkeypatch.setenv("TRIOBOT_WEBHOOK_SECRET", "abcdefghijklmnopqrstuvwx")

    ended = triobot("webhook-url", "--public-url", public)

    assert (ended.code, ended.out) == (1, "")
    assert "https://bot.example.com" in ended.err


def test_without_a_public_address_it_asks_for_one(triobot: Command) -> None:
    ended = triobot("webhook-url")

    assert (ended.code, ended.out) == (1, "")
    assert "--public-url" in ended.err
