"""Requests and steps don't begin while the process may have lost its store."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from triobot.conversations.services import StepCall
from triobot.runtime.lease_guard import HeldPlatform, held_steps
from triobot.wire.ids import ChatId
from triobot.wire.operations import Operation, SendMessage

SAID = SendMessage(ChatId(1), "hello")


class Platform:
    """Remembers what was begun, and how."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    async def perform(self, operation: Operation[Any]) -> Any:
        await trio.lowlevel.checkpoint()
        self.begun.append("performed")

    def begin(self, operation: Operation[Any], *, fresh: bool = False) -> Any:
        self.begun.append("begun")
        return object()


async def test_a_request_waits_until_the_store_is_held_again(autojump_clock: trio.testing.MockClock) -> None:
    held, inner = False, Platform()
    platform = HeldPlatform(inner, lambda: held)
    assert platform.begin(SAID) is None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(platform.perform, SAID)
        await trio.sleep(10)
        assert inner.begun == []
        held = True
    assert inner.begun == ["performed"]
    assert platform.begin(SAID) is not None
    assert inner.begun == ["performed", "begun"]


async def test_a_step_waits_and_never_begins_once_work_is_cut(
    autojump_clock: trio.testing.MockClock,
) -> None:
    held, done = False, list[int]()

    async def bake(number: int) -> int:
        await trio.lowlevel.checkpoint()
        done.append(number)
        return number + 1

    run = held_steps(lambda: held, None)
    call = StepCall(bake, (3,), "bake", (), 1)
    with trio.move_on_after(10):
        await run(call)
    assert done == []
    held = True
    assert await run(call) == 4
    assert done == [3]


async def test_what_takes_a_steps_place_waits_in_its_place() -> None:
    async def instead(call: StepCall) -> str:
        await trio.lowlevel.checkpoint()
        return call.print

    assert await held_steps(lambda: True, instead)(StepCall(print, (), "baked", (), 1)) == "baked"


def test_a_platform_that_begins_no_requests_still_begins_none() -> None:
    class Plain:
        async def perform(self, operation: Operation[Any]) -> Any:
            raise NotImplementedError

    assert HeldPlatform(Plain(), lambda: True).begin(SAID) is None
