"""What becomes of each event: it waits, is delivered, refused or lost; and it is posted again at a wish."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing
from emulated import CONTROL, TOKEN, Emulated, emulated

from tests.loopback import PATIENCE
from triobot.emulator.deliveries import KEPT, Deliveries
from triobot.emulator.faults import EventFault, Switches
from triobot.emulator.follower import Follower
from triobot.emulator.pusher import PushSettings
from triobot.emulator.remembering import dump_world, load_world
from triobot.emulator.server import Emulator, make_exchange, serve_emulator
from triobot.wire.decode import decode_event
from triobot.wire.events import Join, Message, UnknownEvent
from triobot.wire.ids import ChatId
from triobot.wire.platform_side import Body


async def listed(platform: Emulated) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", (await platform.control.get("deliveries")).json())


async def test_an_event_waits_until_it_is_delivered(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform, trio.open_nursery() as nursery:
        follower = Follower(platform.exchange)
        assert follower.everything()["deliveries"] == []
        sara = await platform.app.user("Sara")
        await sara.joins()
        await sara.says("Hi")
        joined, said = await listed(platform)
        assert (joined["number"], joined["type"], joined["state"], joined["attempts"]) == (
            1,
            "join",
            "waiting",
            0,
        )
        assert (said["data"], said["user"], said["chat_id"]) == ("Hi", sara.id, sara.chat_id)
        assert [one["number"] for one in told(follower)] == [1, 2]

        nursery.start_soon(platform.exchange.pusher.run)
        await platform.exchange.pusher.wait_idle()
        joined, said = await listed(platform)
        assert (joined["state"], said["state"], said["attempts"], said["status"]) == (
            *("delivered", "delivered"),
            *(1, 200),
        )
        assert [one["state"] for one in told(follower)] == ["delivered", "delivered"]
        assert [call.delivery for call in platform.exchange.traffic.newest(2)] == [1, 2]
        nursery.cancel_scope.cancel()


def told(follower: Follower) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", (follower.news() or {}).get("deliveries", []))


async def test_each_answer_is_told_of(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """And which of them is promised to settle an event."""
    answers: list[int | None] = [None, 503, 200, 404, 204, 500, 500, 500, 204]

    async def post(body: Body) -> int | None:
        await trio.sleep(0.25)
        return answers.pop(0)

    exchange = make_exchange(tmp_path, post, base_url="http://127.0.0.1:9", push=PushSettings(attempts=3))
    exchange.plan.add(EventFault(type="leave", drop=True))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(exchange.pusher.run)
        exchange.pusher.push(*[Join(ChatId(5))] * 4)
        exchange.pusher.push(UnknownEvent(ChatId(5), "leave"))
        await exchange.pusher.wait_idle()
        exchange.world.switches = Switches(strict=True)
        exchange.pusher.push(Join(ChatId(5)))
        await exchange.pusher.wait_idle()
        nursery.cancel_scope.cancel()
    assert [
        (one.state, one.attempts, one.status, one.note) for one in exchange.pusher.deliveries.settled()
    ] == [
        ("delivered", 3, 200, ""),
        ("refused", 1, 404, ""),
        ("delivered", 1, 204, ""),
        ("lost", 3, 500, ""),
        ("lost", 0, None, "event lost"),
        ("refused", 1, 204, ""),
    ]
    posted = [call for call in exchange.traffic.since(0) if call.note == ""]
    assert [call.status for call in posted] == [None, 503, 200, 404, 204, 500, 500, 500, 204]
    assert {call.took for call in posted} == {250}
    assert {(path, liberty.field) for path, liberty in exchange.liberties} == {("join", "status")}


@pytest.mark.parametrize("as_json", [False, True])
async def test_an_event_is_posted_again_and_changed(tmp_path: Path, as_json: bool) -> None:
    async with emulated(tmp_path, Switches(json_events=as_json)) as platform, trio.open_nursery() as nursery:
        nursery.start_soon(platform.exchange.pusher.run)
        sara = await platform.app.user("Sara")
        await sara.joins()
        await sara.says("Hi")

        async def again(**given: object) -> dict[str, Any]:
            answer = await platform.control.post("deliveries/again", json={"number": 2, **given})
            assert answer.status_code == 200, answer.text
            return cast("dict[str, Any]", answer.json())

        same = await again()
        other = await again(data="Ho", **{"from": {"id": 7, "name": "Mona"}})
        typed = await again(type="image", data="{", chat_id=9, **{"from": None})
        await platform.exchange.pusher.wait_idle()
        nursery.cancel_scope.cancel()
    assert [(one["again"], one["changed"], one["state"]) for one in (same, other, typed)] == [
        (2, False, "waiting"),
        (2, True, "waiting"),
        (2, True, "waiting"),
    ]
    _, first, second, third, fourth = platform.posted
    assert first == second
    assert first.content_type.startswith("application/json") == as_json
    changed = decode_event(third.content_type, third.data)
    assert isinstance(changed, Message)
    assert changed.sender is not None
    assert (changed.content, changed.chat_id, changed.sender.id) == ("Ho", sara.chat_id, 7)
    broken = decode_event(fourth.content_type, fourth.data)
    assert isinstance(broken, UnknownEvent)
    assert (broken.type, broken.data, broken.chat_id, broken.sender) == ("image", "{", 9, None)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"number": 7}, 409),
        ({}, 400),
        ({"number": 1, "text": "a"}, 400),
        ({"number": 1, "from": {"uid": 1}}, 400),
    ],
)
async def test_what_can_t_be_posted_again(tmp_path: Path, given: Mapping[str, object], status: int) -> None:
    async with emulated(tmp_path) as platform:
        await (await platform.app.user("Sara")).joins()
        answer = await platform.control.post("deliveries/again", json=given)
        assert answer.status_code == status
        assert len(await listed(platform)) == 1


async def test_a_changed_event_outlives_the_run(tmp_path: Path) -> None:
    """As all that no bot has taken."""
    async with emulated(tmp_path) as platform:
        await (await platform.app.user("Sara")).joins()
        await platform.control.post("deliveries/again", json={"number": 1, "type": "wave"})
        exchange = platform.exchange
        kept = dump_world(exchange.world, exchange.pusher.pending, closed=True)
    async with emulated(tmp_path) as platform:
        events = load_world(platform.exchange.world, kept)
    assert [type(event) for event in events] == [Join, UnknownEvent]


def test_only_what_is_settled_is_forgotten() -> None:
    deliveries = Deliveries()
    waiting = deliveries.begin(Join(ChatId(5)), 0)
    for _ in range(KEPT + 10):
        posted = deliveries.begin(Join(ChatId(5)), 0)
        deliveries.answer(posted, 200)
        deliveries.settle(posted, "delivered")
    assert deliveries.get(1) is waiting
    assert deliveries.get(2) is None
    assert len(deliveries.settled()) == KEPT
    assert [one.number for one in deliveries.newest(2)] == [KEPT + 10, KEPT + 11]
    version = deliveries.version
    for _ in range(50):
        deliveries.answer(waiting, None)
    assert [one.number for one in deliveries.since(version)] == [1]
    assert (waiting.attempts, waiting.status) == (50, None)
    assert len(deliveries.since(0)) == KEPT + 1


async def test_whether_a_bot_listens_is_known() -> None:
    """Before an event is lost: by a look now and then, and by each posting."""
    with socket.socket() as bot:
        bot.bind(("127.0.0.1", 0))
        port = bot.getsockname()[1]
        async with trio.open_nursery() as nursery:
            url = f"http://127.0.0.1:{port}/the-secret"
            serve = partial(serve_emulator, port=0, bot_url=url, token=TOKEN, control_token=CONTROL)
            platform: Emulator = await nursery.start(serve)
            exchange = platform.exchange

            async def until(listens: bool) -> dict[str, Any]:
                heard = 0
                with trio.fail_after(PATIENCE):
                    while exchange.view_address()["listens"] is not listens:
                        heard = await exchange.wait_news(heard)
                return exchange.view_address()

            down = await until(False)
            assert (down["address"], down["reached_at"]) == (f"http://127.0.0.1:{port}", None)
            bot.listen()
            up = await until(True)
            assert up["since"] == up["reached_at"] > 0
            bot.close()
            exchange.pusher.push(Join(ChatId(5)))
            gone = await until(False)
            assert gone["reached_at"] == up["reached_at"]
            nursery.cancel_scope.cancel()


async def test_without_an_address_no_bot_listens(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        told = (await platform.control.get("address")).json()
        assert told == {"address": None, "listens": False, "since": 0, "reached_at": None}
