"""The alarm bell: repeats each open alarm once an hour until an operator acknowledges it."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from triobot import Alarm
from triobot.alarms.sink import AlarmSink
from triobot.errors import StoreFullError
from triobot.seams.money import AcknowledgeAlarms, RaiseAlarm
from triobot.store.memory import open_memory

HOUR = 3600.0


class Clock:
    """The time of day, which passes as Trio's does."""

    def now(self) -> int:
        return 1_700_000_000_000 + int(trio.current_time() * 1000)


def alarm(key: str) -> Alarm:
    return Alarm("adopted", key, "text")


async def test_a_thing_is_said_once_an_hour_until_somebody_has_seen_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """However often it goes wrong."""
    heard: list[str] = []

    async def hear(alarm: Alarm) -> None:
        heard.append(alarm.key)

    sink = AlarmSink(hear)
    async with open_memory(clock=Clock()) as store, trio.open_nursery() as nursery:
        nursery.start_soon(sink.keep_telling, store, Clock())
        for _ in range(3):
            for key in ("a", "a", "b"):
                sink.ring(alarm(key))
            await trio.sleep(1000)
        assert heard == ["a", "b"]
        await trio.sleep(HOUR)
        assert heard == ["a", "b", "a", "b"]
        await store.commit(AcknowledgeAlarms((), "a", Clock().now()))
        await trio.sleep(2 * HOUR + 600)
        assert heard == ["a", "b", "a", "b", "b", "b"]
        sink.ring(alarm("a"))
        await trio.sleep(1)
        assert heard[-1] == "a"
        nursery.cancel_scope.cancel()


async def test_what_goes_wrong_again_after_it_was_seen_is_news(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Within the hour, too; and each repetition says how to end it."""
    heard: list[str] = []

    async def hear(alarm: Alarm) -> None:
        heard.append(alarm.text)

    sink = AlarmSink(hear)
    async with open_memory(clock=Clock()) as store, trio.open_nursery() as nursery:
        nursery.start_soon(sink.keep_telling, store, Clock())
        for _ in range(2):
            await store.commit(RaiseAlarm("adopted", "a", "text", Clock().now()))
            sink.pass_on(alarm("a"))
            await trio.sleep(60)
            await store.commit(AcknowledgeAlarms((), None, Clock().now()))
            await trio.sleep(600)
        assert heard == ["text", "text"]
        await store.commit(RaiseAlarm("adopted", "a", "text", Clock().now()))
        sink.pass_on(alarm("a"))
        await trio.sleep(HOUR + 600)
        assert heard[2:] == [
            "text",
            "text Once you have seen it: `triobot alarms acknowledge --kind adopted --key a`",
        ]
        nursery.cancel_scope.cancel()


async def test_a_state_that_comes_back_while_its_end_is_looked_at_is_not_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nor one that comes back right behind its end; the hook hears of it as of a new one."""
    heard: list[str] = []

    async def hear(alarm: Alarm) -> None:
        heard.append(alarm.kind)

    held = Alarm("outbox_held", "outbox", "text")
    meanwhile = True

    async def is_over(kind: str, key: str, quiet: float) -> bool:
        assert (kind, key) == ("outbox_held", "outbox")
        assert quiet >= 300
        await trio.sleep(1)
        if meanwhile:
            sink.ring(held)
        return True

    sink = AlarmSink(hear)
    async with open_memory(clock=Clock()) as store, trio.open_nursery() as nursery:
        nursery.start_soon(sink.keep_telling, store, Clock(), is_over)
        sink.ring(held)
        await trio.sleep(2000)
        assert len(await store.alarms.open(limit=9)) == 1
        meanwhile = False
        while await store.alarms.open(limit=9):
            await trio.sleep(1)
        assert heard == ["outbox_held"]
        assert not sink.has_rung("outbox_held", "outbox")
        sink.ring(held)
        await trio.sleep(1)
        assert heard == ["outbox_held"] * 2
        assert len(await store.alarms.open(limit=9)) == 1
        nursery.cancel_scope.cancel()


async def test_an_alarm_that_another_process_has_put_into_the_store_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    heard: list[str] = []

    async def hear(alarm: Alarm) -> None:
        heard.append(alarm.key)

    async def news(*_: object) -> None:
        """As of a store on a server."""

    async with open_memory(clock=Clock()) as store, trio.open_nursery() as nursery:
        store.news = news
        nursery.start_soon(AlarmSink(hear).keep_telling, store, Clock())
        await trio.sleep(HOUR)
        await store.commit(RaiseAlarm("clock_differs", "pizza-2", "text", Clock().now()))
        await trio.sleep(61)
        assert heard == ["pizza-2"]
        nursery.cancel_scope.cancel()


async def test_an_alarm_outlives_the_process(autojump_clock: trio.testing.MockClock) -> None:
    """The hook had no time to hear it: it hears it after the next start."""
    heard: list[str] = []

    async def hear(alarm: Alarm) -> None:
        heard.append(alarm.text)

    async def hang(alarm: Alarm) -> None:
        await trio.sleep_forever()

    async with open_memory(clock=Clock()) as store:
        for hook in (hang, hear):
            sink = AlarmSink(hook)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sink.keep_telling, store, Clock())
                if hook is hang:
                    sink.ring(alarm("a"))
                await trio.sleep(1)
                nursery.cancel_scope.cancel()
    assert heard == ["text"]


async def test_a_hook_that_fails_is_named_and_not_quoted(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The next alarm is told all the same, and this one again."""
    heard: list[str] = []

    async def hear(alarm: Alarm) -> None:
        heard.append(alarm.key)
        if len(heard) < 3:
            raise ValueError("the password of the mail server")

    caplog.set_level(logging.INFO)
    sink = AlarmSink(hear)
    async with open_memory(clock=Clock()) as store, trio.open_nursery() as nursery:
        nursery.start_soon(sink.keep_telling, store, Clock())
        sink.ring(alarm("a"))
        sink.ring(alarm("b"))
        await trio.sleep(200)
        nursery.cancel_scope.cancel()

    assert heard == ["a", "b", "a", "b"]
    assert "ValueError" in caplog.text
    assert "password" not in caplog.text


async def test_a_store_that_is_full_is_no_reason_to_keep_silent(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be what the alarm is about; a row is made once there is room."""
    heard: list[str] = []

    async def hear(alarm: Alarm) -> None:
        heard.append(alarm.key)

    async def full(*writes: object) -> None:
        raise StoreFullError("no room")

    sink = AlarmSink(hear)
    async with open_memory(clock=Clock()) as store, trio.open_nursery() as nursery:
        with monkeypatch.context() as patch:
            patch.setattr(store, "commit", full)
            nursery.start_soon(sink.keep_telling, store, Clock())
            sink.ring(alarm("disk"))
            await trio.sleep(1)
            assert heard == ["disk"]
            assert [row.key for row in sink.unstored()] == ["disk"]
        await trio.sleep(60)
        assert [row.key for row in await store.alarms.open(limit=9)] == ["disk"]
        assert sink.unstored() == []
        nursery.cancel_scope.cancel()
