"""The secret is accepted exactly, shown to nobody, and changed without a gap."""

from __future__ import annotations

import copy
import traceback

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from webhook_rig import OLD_SECRET, SECRET

from tests.samples import examples
from triobot.errors import ConfigError
from triobot.webhook.secrets import Secrets, webhook_address


def test_first_is_current_and_all_are_accepted() -> None:
    secrets = Secrets.parse(f" {SECRET},\n{OLD_SECRET} {SECRET},")

    assert secrets.current == SECRET
    assert secrets.path == "/" + SECRET
    assert secrets.matches(SECRET)
    assert secrets.matches(OLD_SECRET)


@pytest.mark.parametrize(
    "candidate", ["", SECRET[:-1], SECRET + "x", SECRET.lower(), "رمز", "\ud800", "\0", SECRET + "/"]
)
def test_anything_else_is_refused(candidate: str) -> None:
    assert not Secrets.parse(SECRET).matches(candidate)


@given(st.text())
@settings(max_examples=examples(100))
def test_matching_never_raises(candidate: str) -> None:
    assert Secrets.parse(SECRET).matches(candidate) == (candidate == SECRET)


@pytest.mark.parametrize(
    "text", ["", " , ", "short", SECRET[:21], SECRET + "!", "a" * 40, f"{SECRET},short", "x" * 10 + "é" * 20]
)
def test_weak_ones_are_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Secrets.parse(text)

    shown = "".join(traceback.format_exception(caught.value, chain=True))
    for part in text.split(","):
        assert len(part) < 10 or part not in str(caught.value)
    assert SECRET not in shown


def test_generated_ones_are_accepted_and_differ() -> None:
    made = Secrets.generate()

    assert Secrets.parse(made.current) == made
    assert made != Secrets.generate()
    assert len(made.current) == 32


def test_nothing_shows_them() -> None:
    secrets = Secrets.parse(f"{SECRET},{OLD_SECRET}")

    for shown in (repr(secrets), str(secrets), f"{secrets}", repr(copy.copy(secrets))):
        assert SECRET not in shown
        assert OLD_SECRET not in shown


@pytest.mark.parametrize(
    ("base", "address"),
    [
        ("https://bot.example.com", f"https://bot.example.com/{SECRET}"),
        ("https://bot.example.com/", f"https://bot.example.com/{SECRET}"),
        ("http://localhost:8080/bot", f"http://localhost:8080/bot/{SECRET}"),
    ],
)
def test_address_to_register(base: str, address: str) -> None:
    assert webhook_address(base, Secrets.parse(SECRET)) == address


@pytest.mark.parametrize(
    "base", ["", "bot.example.com", "ftp://x", "https://", "https://x/?a", "https://u:p@x"]
)
def test_address_needs_a_plain_base(base: str) -> None:
    with pytest.raises(ConfigError):
        webhook_address(base, Secrets.parse(SECRET))
