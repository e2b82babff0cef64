"""Who carries a request: its caller's task, or a task of the outbox's own; and what ends it in time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from scripted_platform import Alarms, ScriptedPlatform, unreachable

from triobot.errors import DeliveryUnknownError, LocalProtocolError, NotDeliveredError
from triobot.outbox import OutboxRules, open_outbox
from triobot.seams.outbox import OnUnknown
from triobot.wire.content import Image
from triobot.wire.operations import Operation, SendMessage, Upload


class Remembering(ScriptedPlatform):
    """Remembers which tasks asked for it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tasks: list[trio.lowlevel.Task] = []

    def begin(self, operation: Operation[Any], /, *, fresh: bool = False) -> Any:
        self.tasks.append(trio.lowlevel.current_task())
        return super().begin(operation)


async def test_each_caller_carries_its_own_whether_it_has_to_wait_or_not(autojump_clock: Any) -> None:
    """No other task is there but the one that keeps the time: also for what waits behind, and is repeated."""
    failed: set[object] = set()

    async def script(operation: Any) -> None:
        if operation.content not in failed:
            failed.add(operation.content)
            raise unreachable(operation)

    platform = Remembering(script)
    callers: list[trio.lowlevel.Task] = []

    async def send(number: int) -> None:
        callers.append(trio.lowlevel.current_task())
        await outbox.perform(SendMessage(number % 3 + 1, f"{number}"))

    async with open_outbox(platform, raise_alarm=Alarms()) as outbox:
        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(send, number)
        assert len(outbox._nursery.child_tasks) == 1  # type: ignore[union-attr]
        assert outbox.statistics().retries == 12

    assert set(platform.tasks) == set(callers)
    assert len(platform.tasks) == 24


async def test_a_courier_goes_on_with_the_request_of_a_caller_that_is_cancelled(autojump_clock: Any) -> None:
    """It is the same request: nothing is sent twice, and it has what was left of its time."""

    async def script(operation: Any) -> None:
        if operation.content == "silence":
            await trio.sleep_forever()

    platform = ScriptedPlatform(script)
    async with open_outbox(platform, raise_alarm=Alarms(), rules=OutboxRules(answer_within=3)) as outbox:
        for content in ("a", "silence"):
            with trio.move_on_after(0.05 if content == "a" else 2) as scope:
                await outbox.perform(SendMessage(1, content))
            assert scope.cancelled_caught
            assert len(outbox._nursery.child_tasks) == 2  # type: ignore[union-attr]
            began = trio.current_time()
            await outbox.perform(SendMessage(1, "b"))
        assert trio.current_time() - began == pytest.approx(1.1)

    assert [operation.content for _, operation in platform.seen] == ["a", "b", "silence", "b"]  # type: ignore[attr-defined]
    assert platform.texts() == ["a", "b", "b"]


async def test_a_request_that_has_not_left_is_over_with_its_caller(autojump_clock: Any) -> None:
    """As while a connection is made: it is not sent, and its lane goes on at once."""

    class Connecting(ScriptedPlatform):
        def begin(self, operation: Operation[Any], /, *, fresh: bool = False) -> Any:
            request, made = super().begin(operation), self
            result = request.result  # type: ignore[union-attr]

            async def connect_first() -> Any:
                await trio.sleep(made.connecting)
                return await result()

            request.result = connect_first  # type: ignore[union-attr,method-assign]
            return request

        connecting = 1.0

    platform = Connecting()
    async with open_outbox(platform, raise_alarm=Alarms()) as outbox:
        with trio.move_on_after(0.5) as scope:
            await outbox.perform(SendMessage(1, "a"))
        assert scope.cancelled_caught
        assert outbox.statistics().in_flight == 0
        platform.connecting = 0.0
        await outbox.perform(SendMessage(1, "b"))

    assert platform.texts() == ["b"]
    assert trio.current_time() == pytest.approx(0.6)


@pytest.mark.parametrize("cut", [False, True])
async def test_those_that_carry_are_told_when_the_outbox_ends(cut: bool, autojump_clock: Any) -> None:
    """Also one whose turn came in that very moment, and one that waits behind."""
    platform = ScriptedPlatform(delay=100.0)
    errors: list[object] = []

    async def send(chat: int) -> None:
        try:
            await outbox.perform(SendMessage(chat, "x"))
        except (DeliveryUnknownError, NotDeliveredError) as error:
            errors.append((chat, type(error)))

    async with trio.open_nursery() as nursery:
        async with open_outbox(platform, raise_alarm=Alarms(), rules=OutboxRules(grace=5)) as outbox:
            nursery.start_soon(send, 1)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(send, 1)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(send, 2)
            await trio.lowlevel.checkpoint()
            if cut:
                outbox.cut()
        assert trio.current_time() == pytest.approx(0 if cut else 5)
    assert sorted(errors, key=str)[:2] == [(1, DeliveryUnknownError), (1, NotDeliveredError)]
    assert len(errors) == 3
    assert platform.took_effect == []


async def test_what_cannot_be_written_out_is_its_callers_alone(autojump_clock: Any) -> None:
    """Nothing of it is in the lane then."""

    class Refusing(ScriptedPlatform):
        def begin(self, operation: Operation[Any], /, *, fresh: bool = False) -> Any:
            raise LocalProtocolError("data", "must be text")

    async with open_outbox(Refusing(), raise_alarm=Alarms()) as outbox:
        with pytest.raises(LocalProtocolError):
            await outbox.perform(SendMessage(1, "x"))
        assert (outbox.statistics().failed, outbox.statistics().lanes) == (1, 0)


WAYS = pytest.mark.parametrize("begins", [True, False], ids=["caller", "courier"])


@WAYS
async def test_one_that_is_not_answered_is_cut_off_and_its_lane_goes_on(
    begins: bool, autojump_clock: Any
) -> None:
    """The time is that of the attempt, not of the task that carries one after the other."""

    async def script(operation: Operation[Any]) -> None:
        if getattr(operation, "content", "") == "silence":
            await trio.sleep_forever()

    platform = ScriptedPlatform(script)
    platform.begins = begins
    rules = OutboxRules(answer_within=3)
    async with open_outbox(platform, raise_alarm=Alarms(), rules=rules) as outbox:
        for _ in range(2):
            await trio.sleep(2)
            await outbox.perform(SendMessage(1, "a"))
        began = trio.current_time()
        with pytest.raises(DeliveryUnknownError, match="no answer within 3 seconds"):
            await outbox.perform(SendMessage(1, "silence"), on_unknown=OnUnknown.RAISE)
        assert trio.current_time() - began == pytest.approx(3)
        await outbox.perform(SendMessage(1, "b"))

    assert platform.texts() == ["a", "a", "b"]


@WAYS
async def test_a_file_has_its_own_time(begins: bool, autojump_clock: Any) -> None:
    """An upload may take longer than an answer may."""

    async def script(operation: Operation[Any]) -> None:
        if isinstance(operation, Upload):
            await trio.sleep(8)

    platform = ScriptedPlatform(script)
    platform.begins = begins
    rules = OutboxRules(answer_within=3, upload_within=10)
    async with open_outbox(platform, raise_alarm=Alarms(), rules=rules) as outbox:
        await outbox.perform(SendMessage(1, "before"))
        await outbox.perform(SendMessage(1, Image.from_bytes(b"picture", "a.jpg", "middle")))

    assert platform.count(Upload) == 1
    assert len(platform.texts()) == 2


@WAYS
async def test_an_answer_in_the_moment_of_the_deadline_counts(begins: bool, autojump_clock: Any) -> None:
    """It is not told as late: what carries it here can't be cancelled, as where only its body didn't end."""

    async def script(operation: Operation[Any]) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(4)

    platform = ScriptedPlatform(script)
    platform.begins = begins
    rules = OutboxRules(answer_within=3)
    async with open_outbox(platform, raise_alarm=Alarms(), rules=rules) as outbox:
        for number in (1, 2):
            sent = await outbox.perform(SendMessage(1, "a"))
            assert sent.id == number
        assert len(outbox._nursery.child_tasks) == 1  # type: ignore[union-attr]

    assert platform.count(SendMessage) == 2
