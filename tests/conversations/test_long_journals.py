"""A journal that each restart takes long to replay: the log says so, once."""

from __future__ import annotations

import logging

import pytest
from doubles import FakeStore
from town import open_town
from trio.testing import MockClock

from triobot.conversations import units
from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import text
from triobot.conversations.routes.router import Router


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "replays" in one.getMessage()]


async def test_a_journal_of_more_than_ten_thousand_records_is_told_of_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its route and the way out, in production too; restarts repeat nothing."""
    assert units.LONG == 10_000
    monkeypatch.setattr(units, "LONG", 20)
    caplog.set_level(logging.WARNING, "triobot.conversations")
    router, store = Router(), FakeStore()

    @router.conversation(text("go"))
    async def shop(chat: Chat) -> None:
        while True:
            await chat.ask("And?")

    for before, after in ((0, 0), (0, 1), (1, 1)):
        assert len(told(caplog)) == before
        async with open_town(router, store=store) as town:
            if not before + after:
                await town.says("go")
            for n in range(5):
                await town.says(f"word {n}")
        assert len(told(caplog)) == after
    [line] = told(caplog)
    assert "shop of chat " in line and "chat.continue_as()" in line


async def test_what_continue_as_has_left_behind_does_not_count(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "LONG", 20)
    caplog.set_level(logging.WARNING, "triobot.conversations")
    router, store = Router(), FakeStore()

    @router.conversation(text("go"))
    async def shop(chat: Chat, turn: int = 0) -> None:
        for n in range(100 if turn == 12 else 5):
            await chat.ask(f"{n}?")
        await chat.continue_as(shop, turn + 1)

    async with open_town(router, store=store) as town:
        await town.says("go")
        for n in range(32):
            await town.says(f"word {n}")
    async with open_town(router, store=store) as town:
        for n in range(28):
            await town.says(f"word {n}")
        assert told(caplog) == []
        for n in range(30):
            await town.says(f"word {n}")
    assert len(told(caplog)) == 1
