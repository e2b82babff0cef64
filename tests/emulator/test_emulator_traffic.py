"""Every request in both directions is noted, with what was asked, what was answered and how long it took."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
from emulated import TOKEN, Emulated, emulated

from triobot.emulator.acts import Acting
from triobot.emulator.faults import EventFault, Fault, in_words
from triobot.emulator.traffic import HELD, KEPT, LONGEST, RecordedCall, Traffic, view_call, view_calls


def calls(platform: Emulated) -> list[RecordedCall]:
    return list(platform.exchange.traffic.since(0))


async def test_an_operation_is_noted_with_its_answer(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        sara = await platform.app.user("Sara")
        await sara.joins()
        answer = await platform.perform("sendMessage", chat_id=sara.chat_id, type="text", data="سلام")

        [call] = calls(platform)
        assert (call.way, call.name, call.status) == ("operation", "sendMessage", 200)
        assert call.body.startswith(b"chat_id=") and call.size == len(call.body)
        assert call.answer == answer.content
        assert TOKEN not in str(view_call(call))


async def test_uploads_are_noted_without_their_bytes(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        await platform.platform.post("/upload", files={"file": ("a.bin", b"secret" * 100)})

        [call] = calls(platform)
        assert (call.name, call.body) == ("upload", b"")
        assert call.size > 600
        assert b"filename" in call.answer


async def test_what_is_made_to_go_wrong_is_noted(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        platform.exchange.plan.add(Fault(status=502, times=1))
        await platform.perform("sendAction", chat_id=1, type="typing")
        platform.exchange.plan.add(Fault(drop="after", times=1))
        # There is no socket here that could be cut: httpx's transport says so.
        with pytest.raises(AssertionError):
            await platform.perform("sendAction", chat_id=1, type="typing")

        first, second = calls(platform)
        assert (first.status, first.note) == (502, "answered 502")
        assert (second.note, second.answer) == ("answer lost", b"")


async def test_latency_is_noted(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with emulated(tmp_path) as platform:
        platform.exchange.plan.add(Fault(latency=3, times=1))
        await platform.perform("sendAction", chat_id=1, type="typing")

        assert [call.took for call in calls(platform)] == [3_000]


async def test_the_control_api_is_nobody_s_traffic(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        await platform.app.user("Sara")

        assert calls(platform) == []


async def test_events_are_noted_each_time_they_are_posted(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform, trio.open_nursery() as nursery:
        exchange = platform.exchange
        exchange.plan.add(EventFault(type="text", duplicates=1, times=1))
        exchange.plan.add(EventFault(type="text", drop=True, times=1))
        sara = exchange.world.add_user("Sara")
        exchange.act(sara, lambda acting: acting.join())
        for text in ("twice", "never"):
            exchange.act(sara, partial(Acting.say, content=text))
        nursery.start_soon(exchange.pusher.run)
        await exchange.pusher.wait_idle()

        noted = [(call.way, call.name, call.status, call.note) for call in calls(platform)]
        assert noted == [
            ("event", "join", 200, ""),
            ("event", "text", 200, "event repeated"),
            ("event", "text", 200, "event repeated"),
            ("event", "text", None, "event lost"),
        ]
        assert b"twice" in calls(platform)[1].body
        nursery.cancel_scope.cancel()


def test_only_the_newest_are_kept() -> None:
    traffic = Traffic()
    for number in range(KEPT + 10):
        traffic.begin("event", "text", number)

    kept = traffic.since(0)
    assert len(kept) == KEPT
    assert (kept[0].number, kept[-1].number) == (11, KEPT + 10)


def test_long_bodies_take_the_place_of_many() -> None:
    """Of each, its beginning is kept; of all, what the memory has room for."""
    traffic = Traffic()
    for number in range(HELD // LONGEST + 10):
        call = traffic.begin("event", "text", number, body=b"x" * (LONGEST + 1))
        traffic.end(call, 0, 200)

    kept = traffic.since(0)
    assert (len(kept[0].body), kept[0].size) == (LONGEST, LONGEST + 1)
    assert sum(len(call.body) for call in kept) == HELD


def test_what_is_forgotten_while_it_is_under_way_stays_so() -> None:
    traffic = Traffic()
    slow = traffic.begin("event", "text", 0)
    for number in range(KEPT):
        traffic.begin("event", "text", number)
    seen = traffic.version

    traffic.end(slow, 30, None)

    assert traffic.since(seen) == []


def test_older_ones_are_looked_up_piece_by_piece() -> None:
    traffic = Traffic()
    for number in range(10):
        traffic.begin("event", "text", number)

    newest = traffic.newest(4)
    older = traffic.newest(100, before=newest[0].number)

    assert [call.number for call in (*older, *newest)] == list(range(1, 11))
    assert view_calls(newest, traffic)["older_calls"] is True
    assert view_calls(older, traffic)["older_calls"] is False
    assert view_calls((), traffic)["older_calls"] is False


def test_what_ended_is_told_once_more() -> None:
    traffic = Traffic()
    first, second = (traffic.begin("event", name, 0) for name in ("one", "two"))
    seen = traffic.version

    traffic.end(first, 0.25, 200)

    assert list(traffic.since(seen)) == [first]
    assert (first.took, second.took) == (250, None)
    assert list(traffic.since(traffic.version)) == []


def test_faults_have_words() -> None:
    assert in_words(None) == ""
    assert in_words(Fault(latency=1.5, drop="before")) == "request lost, answer late"
    assert in_words(EventFault(delay=2, behind=True)) == "event late, event behind the next"
