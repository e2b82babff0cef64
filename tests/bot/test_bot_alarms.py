"""The alarm bell: once an hour a thing, and never at anybody's cost."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from triobot import Alarm
from triobot.alarms import AlarmBell


async def test_a_thing_is_said_once_an_hour(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """What goes wrong again next week is news, what goes wrong again now is not."""
    heard: list[str] = []

    async def hear(alarm: Alarm) -> None:
        heard.append(alarm.key)

    bell = AlarmBell(hear)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bell.keep_telling)
        for _ in range(3):
            for key in ("a", "a", "b"):
                bell.ring(Alarm("kind", key, "text"))
            await trio.sleep(1000)
        await trio.sleep(3000)
        bell.ring(Alarm("kind", "a", "text"))
        await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert heard == ["a", "b", "a"]
    assert len(caplog.records) == 3


async def test_a_hook_that_fails_is_named_and_not_quoted(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The next alarm is told all the same."""
    heard: list[str] = []

    async def hear(alarm: Alarm) -> None:
        heard.append(alarm.key)
        raise ValueError("the password of the mail server")

    caplog.set_level(logging.INFO)
    bell = AlarmBell(hear)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bell.keep_telling)
        bell.ring(Alarm("kind", "a", "text"))
        bell.ring(Alarm("kind", "b", "text"))
        await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert heard == ["a", "b"]
    assert "ValueError" in caplog.text
    assert "password" not in caplog.text
