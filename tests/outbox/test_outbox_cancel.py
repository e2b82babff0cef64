"""A `perform` cancelled at every point of its life: the order holds, nothing is sent twice, nothing leaks."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
import trio.testing
from scripted_platform import Alarms, ScriptedPlatform, unknown, unreachable

from triobot.outbox import open_outbox
from triobot.wire.content import Image
from triobot.wire.operations import SendMessage, Upload


@pytest.fixture(autouse=True, params=[True, False], ids=["caller", "courier"])
def carried_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let callers carry their requests, or couriers all of them."""
    monkeypatch.setattr(ScriptedPlatform, "begins", request.param)


def opened(platform: ScriptedPlatform) -> Any:
    return open_outbox(platform, raise_alarm=Alarms(), random=random.Random(7).random)


class SteppingPlatform(ScriptedPlatform):
    """Every request takes a few checkpoints instead of time, so that a test can stop between any two."""

    async def perform(self, operation: Any, /) -> Any:
        for _ in range(4):
            await trio.lowlevel.checkpoint()
        return await super().perform(operation)


PICTURE = Image.from_bytes(b"picture", "a.jpg", "middle")


@pytest.mark.parametrize("steps", range(40))
async def test_cancelled_after_any_number_of_steps(steps: int, autojump_clock: Any) -> None:
    """A picture queued between two texts: `steps` scheduler rounds later its caller is cancelled."""
    platform = SteppingPlatform(delay=0.0)
    results: list[object] = []

    async def send(content: Any, scope: trio.CancelScope) -> None:
        with scope:
            results.append(await outbox.perform(SendMessage(1, content)))

    async with opened(platform) as outbox:
        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            for content, own in (("first", None), (PICTURE, scope), ("last", None)):
                nursery.start_soon(send, content, own or trio.CancelScope())
                await trio.lowlevel.checkpoint()
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            scope.cancel()
        await outbox.drain()

        contents = ["picture" if isinstance(one, Image) else one for one in platform.texts()]
        assert contents in (["first", "last"], ["first", "picture", "last"])
        if scope.cancelled_caught:
            assert len(results) == 2
        else:
            assert len(results) == 3 and len(contents) == 3
        assert platform.count(SendMessage) == len(contents), "never twice"
        assert platform.count(Upload) <= 1
        statistics = outbox.statistics()
        assert (statistics.queued, statistics.in_flight, statistics.lanes) == (0, 0, 0)


async def test_a_caller_that_is_cancelled_on_entry_sends_nothing(autojump_clock: Any) -> None:
    platform = ScriptedPlatform()
    async with opened(platform) as outbox:
        with trio.CancelScope() as scope:
            scope.cancel()
            await outbox.perform(SendMessage(1, "x"))
        await outbox.drain()
        assert scope.cancelled_caught
        assert platform.seen == []


@pytest.mark.parametrize("at", [0.05, 0.5, 0.95])
async def test_in_flight_the_request_goes_on_and_the_next_waits_for_it(
    at: float, autojump_clock: Any
) -> None:
    platform = ScriptedPlatform(delay=1.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        with trio.move_on_after(at) as scope:
            await outbox.perform(SendMessage(1, "a"))
        assert scope.cancelled_caught
        nursery.start_soon(outbox.perform, SendMessage(1, "b"))
    assert platform.texts() == ["a", "b"]
    assert [at for at, _ in platform.seen] == [0.0, 1.0]


@pytest.mark.parametrize("failure", [unreachable, unknown])
@pytest.mark.parametrize("at", [0.5, 1.2, 3.0])
async def test_nobody_waits_so_it_is_not_tried_again(failure: Any, at: float, autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if operation.content == "a":
            raise failure(operation)

    platform = ScriptedPlatform(script, delay=1.0)
    async with opened(platform) as outbox:
        with trio.move_on_after(at):
            await outbox.perform(SendMessage(1, "a"))
        seen = platform.count(SendMessage)
        await outbox.perform(SendMessage(1, "b"))
        assert platform.texts() == ["b"]
        assert platform.count(SendMessage) == seen + 1


async def test_a_cancelled_upload_stops_and_sends_nothing(autojump_clock: Any) -> None:
    platform = ScriptedPlatform(delay=10.0)
    async with opened(platform) as outbox:
        with trio.move_on_after(5):
            await outbox.perform(SendMessage(1, PICTURE))
        with trio.fail_after(0.1):
            await outbox.drain()
        assert platform.took_effect == [] and platform.count(SendMessage) == 0


async def test_random_storms_keep_order_and_send_nothing_twice(autojump_clock: Any) -> None:
    draw = random.Random(11)

    async def script(operation: Any) -> None:
        if draw.random() < 0.3:
            raise unreachable(operation)
        await trio.sleep(draw.random())

    platform = ScriptedPlatform(script)
    wanted: dict[int, list[str]] = {chat: [] for chat in range(8)}
    got: dict[tuple[int, str], object] = {}

    async def send(chat: int, text: str, patience: float) -> None:
        with trio.move_on_after(patience):
            got[chat, text] = await outbox.perform(SendMessage(chat, text))

    async with opened(platform) as outbox:
        async with trio.open_nursery() as nursery:
            for number in range(200):
                chat, text = draw.randrange(8), str(number)
                wanted[chat].append(text)
                nursery.start_soon(send, chat, text, draw.choice([draw.random() * 20, 10_000]))
                await trio.sleep(draw.random() / 10)
        await outbox.drain()
        assert outbox.statistics().lanes <= outbox.statistics().queued == 0

    for chat, texts in wanted.items():
        sent = platform.texts(chat)
        assert sent == [text for text in texts if text in set(sent)], "in order, each at most once"
        assert all(text in sent for text in texts if (chat, text) in got)
