"""``triobot broadcast``: an operator looks, and stops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from cli_rig import Command

from triobot.base.clock import SystemClock
from triobot.cli import broadcast
from triobot.cli.terminal import progress_line
from triobot.operator.api import Tell
from triobot.operator.routes import Question
from triobot.runtime.settings import Settings
from triobot.seams.broadcasts import (
    AddReceivers,
    AdvanceBroadcast,
    BroadcastStatus,
    OpenBroadcast,
    Outcome,
    TurnBroadcast,
)
from triobot.store import Stamp, open_store
from triobot.wire.ids import ChatId


@pytest.fixture
def stored(hello: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with a broadcast in the middle."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")

    async def fill() -> None:
        stamp = Stamp(Settings().base_url, "a-token-of-tests")
        async with open_store("sqlite:triobot.db", stamp=stamp, clock=SystemClock()) as store:
            await store.commit(
                OpenBroadcast("news", 1, "secret words"),
                AddReceivers("news", tuple(ChatId(chat) for chat in range(1, 2001))),
                TurnBroadcast("news", "sending"),
                AdvanceBroadcast("news", 4, {1: Outcome.SENT, 2: Outcome.GONE}),
            )

    trio.run(fill)


def test_an_operator_lists_looks_and_stops(triobot: Command, stored: None) -> None:
    listed = triobot("broadcast", "list", "--bot", "hello:bot")
    line = "news: sending, 2 of 2,000 (0 %), 1 sent, 1 gone, 0 failed, 0 unknown\n"
    assert (listed.code, listed.out) == (0, line)
    (told,) = map(json.loads, triobot("broadcast", "list", "--bot", "hello:bot", "--json").out.splitlines())
    assert (told["key"], told["total"], told["sent"]) == ("news", 2000, 1)
    (status,) = map(
        json.loads, triobot("broadcast", "status", "news", "--bot", "hello:bot", "--json").out.splitlines()
    )
    assert status["state"] == "sending"
    assert triobot("broadcast", "status", "news", "--bot", "hello:bot").out == line
    assert triobot("broadcast", "status", "olds", "--bot", "hello:bot").out == "olds: never started\n"
    assert triobot("broadcast", "stop", "news", "--bot", "hello:bot").out == "It tells nobody more.\n"
    assert triobot("broadcast", "stop", "news", "--bot", "hello:bot").out == "There was nothing to stop.\n"
    assert "news: stopping" in triobot("broadcast", "list", "--bot", "hello:bot").out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("list", "--bot", "hello:bot", "--store", "memory:"), "only a sqlite: store"),
        (("list", "--bot", "hello:bot", "--store", "sqlite:absent.db"), "there is no store at absent.db"),
        (("status", "k" * 201, "--bot", "hello:bot"), None),
    ],
)
def test_what_cannot_be_asked_is_told(
    triobot: Command, stored: None, arguments: tuple[str, ...], says: str | None
) -> None:
    ended = triobot("broadcast", *arguments)
    assert (ended.code, says or "") == (0 if says is None else 1, says or "")
    assert (says or "") in ended.err


def test_the_bar_grows_and_a_key_can_do_no_harm() -> None:
    half = progress_line("a\x1b[2J", BroadcastStatus("sending", 200, sent=100))
    assert half.startswith("a\\x1b[2J: [###############---------------] sending, 100 of 200 (50 %)")
    assert "[##############################] done" in progress_line("k", BroadcastStatus("done"))


async def test_a_terminal_follows_a_broadcast_to_its_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    sent = 0

    async def ask(settings: Settings, question: Question, tell: Tell) -> bool:
        nonlocal sent
        assert question == {"ask": "broadcast.status", "key": "k"}
        sent += 1
        state = "done" if sent == 3 else "sending"
        await tell({"broadcast": {"key": "k", "state": state, "total": 3, "sent": sent}})
        return True

    monkeypatch.setattr(broadcast, "ask_bot", ask)
    await broadcast.follow(Settings(), "k")
    assert [line.split(",")[1] for line in capsys.readouterr().out.split("\r\x1b[K")[1:]] == [
        " 1 of 3 (33 %)",
        " 2 of 3 (66 %)",
        " 3 of 3 (100 %)",
    ]
