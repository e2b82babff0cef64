"""Typing: at once, refreshed, out of the way of messages, and never after its block."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
import trio.testing
from scripted_platform import Alarms, ScriptedPlatform, broken, forbidden, unknown

from triobot.outbox import open_outbox
from triobot.wire.ids import GroupName
from triobot.wire.operations import SendAction, SendMessage


def opened(platform: ScriptedPlatform) -> Any:
    return open_outbox(platform, raise_alarm=Alarms(), random=random.Random(7).random)


def typed(platform: ScriptedPlatform) -> list[float]:
    return [at for at, operation in platform.seen if isinstance(operation, SendAction)]


async def test_it_is_sent_at_once_and_refreshed_until_the_block_ends(autojump_clock: Any) -> None:
    platform = ScriptedPlatform()
    async with opened(platform) as outbox:
        with outbox.typing(1):
            await trio.sleep(9)
        await trio.sleep(60)
        assert typed(platform) == [0.0, 4.0, 8.0]


async def test_blocks_of_one_chat_are_counted(autojump_clock: Any) -> None:
    platform = ScriptedPlatform()
    async with opened(platform) as outbox, trio.open_nursery() as nursery:

        async def work(recipient: Any, begin: float, seconds: float) -> None:
            await trio.sleep(begin)
            with outbox.typing(recipient):
                await trio.sleep(seconds)

        nursery.start_soon(work, GroupName("@team"), 0, 5)
        nursery.start_soon(work, GroupName("team@"), 3, 6)
        nursery.start_soon(work, 2, 1, 1)
        await trio.sleep(60)
    assert typed(platform) == [0.0, 1.0, 4.0, 8.0]


async def test_a_block_that_ends_at_once_sends_nothing(autojump_clock: Any) -> None:
    platform = ScriptedPlatform()
    async with opened(platform) as outbox:
        with outbox.typing(1):
            pass
        await trio.sleep(60)
        assert platform.seen == []


async def test_it_never_delays_a_message_and_gives_way_to_it(autojump_clock: Any) -> None:
    platform = ScriptedPlatform(delay=3.0)
    async with opened(platform) as outbox:
        with outbox.typing(1):
            await trio.sleep(1)
            began = trio.current_time()
            await outbox.perform(SendMessage(1, "hello"))
            assert trio.current_time() == began + 3.0

    platform = ScriptedPlatform(delay=3.0)
    async with opened(platform) as outbox:
        with outbox.typing(1):
            await outbox.perform(SendMessage(1, "hello"))
            assert typed(platform) == [], "the message was queued before typing left"


async def test_it_is_skipped_while_a_message_is_on_its_way(autojump_clock: Any) -> None:
    platform = ScriptedPlatform(delay=5.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        nursery.start_soon(outbox.perform, SendMessage(1, "hello"))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        with outbox.typing(1):
            await trio.sleep(9)
        assert [at - began for at in typed(platform)] == [8.0]


@pytest.mark.parametrize("failure", [unknown, broken, forbidden])
async def test_it_never_fails_the_conversation_and_is_never_tried_again(
    failure: Any, autojump_clock: Any
) -> None:
    async def script(operation: Any) -> None:
        if isinstance(operation, SendAction):
            raise failure(operation)

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox:
        await outbox.perform(SendMessage(1, "x"))
        with outbox.typing(1):
            await trio.sleep(9)
        assert len(typed(platform)) == 3
        assert outbox.statistics().retries == 0


async def test_a_request_that_hangs_does_not_hold_the_block(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if isinstance(operation, SendAction):
            await trio.sleep_forever()

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox:
        began = trio.current_time()
        with outbox.typing(1):
            await trio.sleep(20)
            await outbox.perform(SendMessage(1, "x"))
        assert trio.current_time() - began < 21
        assert len(typed(platform)) == 1, "one at a time"


async def test_typing_ends_when_the_block_is_cancelled(autojump_clock: Any) -> None:
    platform = ScriptedPlatform()
    async with opened(platform) as outbox:
        with trio.move_on_after(5), outbox.typing(1):
            await trio.sleep_forever()
        await trio.sleep(60)
        assert typed(platform) == [0.0, 4.0]


async def test_an_explicit_action_just_goes(autojump_clock: Any) -> None:
    platform = ScriptedPlatform(delay=1.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        nursery.start_soon(outbox.perform, SendMessage(1, "x"))
        await outbox.perform(SendAction(1))
    assert trio.current_time() == 1.0
