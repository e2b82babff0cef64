"""``triobot store``: the same bot under a new token, when its operator says so; and in another store."""

from __future__ import annotations

import re
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
    """Its bot starts on it once it is said that the bot is the same."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "the-old-token")
    before = triobot("webhook-url", "hello:bot", *PUBLIC)
    assert triobot("store", "backup", "night.db").code == 0
    monkeypatch.setenv("TRIOBOT_TOKEN", "the-new-token")
    assert triobot("store", "rebind", "hello:bot").code == 0

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


# --- copy


def test_a_store_is_moved_and_its_bot_goes_there(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its secret; the command says what was copied, and nothing runs on the old one any more."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    before = triobot("webhook-url", "hello:bot", *PUBLIC)
    there = "sqlite:busy.db"

    copied = triobot("store", "copy", "sqlite:triobot.db", there)
    refused = triobot("run", "hello:bot", "--port", "0")
    monkeypatch.setenv("TRIOBOT_STORE", there)
    told = triobot("status")
    after = triobot("webhook-url", "hello:bot", *PUBLIC)

    assert told.out.startswith("no bot runs; none has run on this store\n")
    assert (copied.code, copied.err) == (0, "")
    first, second = copied.out.splitlines()
    assert re.fullmatch(rf"copied sqlite:triobot\.db to {there}: \d+ rows", first)
    assert second == f"no bot runs on sqlite:triobot.db any more: set TRIOBOT_STORE to {there}"
    assert refused.code == 1
    assert f"was copied to sqlite:{hello.parent}/busy.db, and its conversations" in refused.err
    assert refused.err.count("\n") == 1
    assert (after.code, after.out) == (0, before.out)


def test_a_copy_that_was_made_is_not_made_again(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    triobot("webhook-url", "hello:bot", *PUBLIC)
    assert triobot("store", "copy", "sqlite:triobot.db", "sqlite:other.db").code == 0

    again = triobot("store", "copy", "sqlite:triobot.db", "sqlite:other.db")
    elsewhere = triobot("store", "copy", "sqlite:triobot.db", "sqlite:third.db")

    assert again.code == 0
    assert again.out.splitlines()[0] == "sqlite:triobot.db was copied to sqlite:other.db before"
    assert elsewhere.code == 1
    assert "was copied to" in elsewhere.err
    assert "copy that one" in elsewhere.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sqlite:triobot.db", "sqlite:other.db", "--store", "sqlite:x.db"), "leave --store out"),
        (("sqlite:absent.db", "sqlite:other.db"), "there is no store at"),
        (("sqlite:triobot.db", "sqlite:triobot.db"), "the same store"),
        (("sqlite:triobot.db", "other.db"), "sqlite:PATH or postgresql://HOST/DATABASE"),
    ],
)
def test_what_can_not_be_copied_is_refused_in_one_line(
    triobot: Command,
    hello: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    before = triobot("webhook-url", "hello:bot", *PUBLIC)

    ended = triobot("store", "copy", *arguments)

    assert (ended.code, ended.out) == (1, "")
    assert says in ended.err
    assert ended.err.count("\n") == 1
    assert not (hello.parent / "other.db").exists()
    assert triobot("webhook-url", "hello:bot", *PUBLIC).out == before.out


def test_a_copy_needs_the_bots_token(triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    triobot("webhook-url", "hello:bot", *PUBLIC)
    monkeypatch.delenv("TRIOBOT_TOKEN")
    without = triobot("store", "copy", "sqlite:triobot.db", "sqlite:other.db")
    monkeypatch.setenv("TRIOBOT_TOKEN", "another-token-of-tests")
    other = triobot("store", "copy", "sqlite:triobot.db", "sqlite:other.db")
    assert (without.code, other.code) == (1, 1)
    assert "TRIOBOT_TOKEN" in without.err
    assert "another token" in other.err
