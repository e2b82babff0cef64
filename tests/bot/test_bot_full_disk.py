"""A whole bot with a real store file that can't grow: SQLite itself reports a full disk."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import trio

from tests.bot.rig import FORM, Chats, make_bot
from tests.loopback import PATIENCE, text_event
from triobot import Alarm, Chat
from triobot.webhook.answers import Readiness
from triobot.webhook.inbox import EventStored


async def test_a_store_that_can_t_grow_refuses_events_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused while it is full, with one alarm; then it finds out by itself, and what it took is handled."""
    connections: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def remember(*given: object, **named: object) -> sqlite3.Connection:
        connections.append(connect(*given, **named))  # type: ignore[call-overload]
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", remember)
    chats = Chats(gate=trio.Event())
    alarms: list[Alarm] = []
    bot = make_bot(chats, store=f"sqlite:{tmp_path / 'bot.db'}")

    @bot.on_alarm
    async def hear(alarm: Alarm) -> None:
        alarms.append(alarm)

    @bot.conversation
    async def echo(chat: Chat) -> None:
        await chat.send(chat.event.content)  # type: ignore[attr-defined]

    async with bot.running() as intake:
        (connection,) = connections
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        taken: list[str] = []
        refused = 0
        for number in range(60):
            text = f"{number} " + "x" * 5000
            match await intake.inbox.accept(FORM, text_event(7, text)):
                case EventStored():
                    taken.append(text)
                case "unwritable":
                    refused += 1
                case other:
                    raise AssertionError(other)
        assert refused > 50
        assert not intake.readiness().ready

        connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
        with trio.fail_after(PATIENCE):
            while not intake.readiness().ready:
                await trio.sleep(0.05)
        taken.append("after")
        assert isinstance(await intake.inbox.accept(FORM, text_event(7, "after")), EventStored)
        assert chats.gate is not None
        chats.gate.set()
        await chats.wait_for(7, *taken)

    assert [alarm.kind for alarm in alarms] == ["store_unwritable"]


async def test_a_bot_that_does_not_know_whether_it_has_its_store_is_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its database is away for longer than its lease; no event has come that would tell."""
    has = True
    bot = make_bot(Chats())

    @bot.conversation
    async def nothing(chat: Chat) -> None: ...

    async with bot.running() as intake:
        monkeypatch.setattr(intake.store, "held", lambda: has)
        assert intake.readiness() == Readiness(True, {**intake.readiness().states, "store": "ok"})
        has = False
        assert (intake.readiness().ready, intake.readiness().states["store"]) == (False, "away")
        has = True
        assert intake.readiness().ready
