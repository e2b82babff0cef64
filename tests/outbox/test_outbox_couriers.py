"""The tasks that carry operations: they go on with the next one, are cut off in time, and end when idle."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from scripted_platform import Alarms, ScriptedPlatform

from triobot.errors import DeliveryUnknownError
from triobot.outbox import OutboxRules, open_outbox
from triobot.outbox.delivery import Address, Call, Delivery
from triobot.outbox.lanes import Place
from triobot.outbox.sender import Couriers
from triobot.seams import OnUnknown, Urgency
from triobot.wire.content import Image
from triobot.wire.operations import Operation, SendMessage, Upload


class Remembering(ScriptedPlatform):
    """Remembers which tasks called it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tasks: set[trio.lowlevel.Task] = set()

    async def perform(self, operation: Operation[Any], /) -> Any:
        self.tasks.add(trio.lowlevel.current_task())
        return await super().perform(operation)


async def test_one_task_carries_what_goes_one_after_the_other(autojump_clock: Any) -> None:
    """Whoever sends alone has one task, however much it is; several at once have as many as are in flight."""
    platform = Remembering()
    async with open_outbox(platform, raise_alarm=Alarms()) as outbox:
        for number in range(20):
            await outbox.perform(SendMessage(number % 3 + 1, "x"))
        assert len(platform.tasks) == 1

        async with trio.open_nursery() as nursery:
            for chat in range(8):
                nursery.start_soon(outbox.perform, SendMessage(chat + 1, "y"))
        assert len(platform.tasks) == 8


async def test_one_that_is_not_answered_is_cut_off_and_its_lane_goes_on(autojump_clock: Any) -> None:
    """The time is that of the attempt, not of the task that carries one after the other."""

    async def script(operation: Operation[Any]) -> None:
        if getattr(operation, "content", "") == "silence":
            await trio.sleep_forever()

    platform = ScriptedPlatform(script)
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


async def test_a_file_has_its_own_time(autojump_clock: Any) -> None:
    """An upload may take longer than an answer may."""

    async def script(operation: Operation[Any]) -> None:
        if isinstance(operation, Upload):
            await trio.sleep(8)

    platform = ScriptedPlatform(script)
    rules = OutboxRules(answer_within=3, upload_within=10)
    async with open_outbox(platform, raise_alarm=Alarms(), rules=rules) as outbox:
        await outbox.perform(SendMessage(1, "before"))
        await outbox.perform(SendMessage(1, Image.from_bytes(b"picture", "a.jpg", "middle")))

    assert platform.count(Upload) == 1
    assert len(platform.texts()) == 2


class Carriers:
    """Couriers whose attempts take as long as the place's number says, and can't be cancelled."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.carried: list[float] = []
        self.late: list[float] = []
        self.shielded = True
        self.waiting: list[tuple[float, float]] = []
        self.couriers = Couriers(self._carry, self._too_late, start=nursery.start_soon, landed=self._landed)

    def _landed(self) -> None:
        if self.waiting:
            self.send(*self.waiting.pop())

    def send(self, seconds: float, within: float) -> None:
        delivery = Delivery(Address("lane", "chat"), [Call(SendMessage(1, str(seconds)))])
        self.couriers.send(Place("lane", delivery, Urgency.REPLY), trio.current_time() + within)

    async def _carry(self, place: Place[Delivery]) -> None:
        with trio.CancelScope(shield=self.shielded):
            await trio.sleep(self._seconds(place))
        self.carried.append(self._seconds(place))

    def _too_late(self, place: Place[Delivery]) -> None:
        self.late.append(self._seconds(place))

    def _seconds(self, place: Place[Delivery]) -> float:
        operation = place.work.call.operation
        assert isinstance(operation, SendMessage)
        return float(str(operation.content))


async def test_an_answer_in_the_moment_of_the_deadline_counts(
    autojump_clock: Any, nursery: trio.Nursery
) -> None:
    """It is not told as late; and the next one is carried by a task that has not been cancelled."""
    carriers = Carriers(nursery)
    carriers.waiting.append((3, 4))
    carriers.send(2, within=1)
    await trio.sleep(1.5)
    carriers.shielded = False
    await trio.sleep(4)

    assert carriers.carried == [2, 3]
    assert carriers.late == []


async def test_who_is_late_is_told_once(autojump_clock: Any, nursery: trio.Nursery) -> None:
    """And only the attempt whose time is over."""
    carriers = Carriers(nursery)
    carriers.shielded = False
    carriers.send(5, within=1)
    carriers.send(2, within=3)
    await trio.sleep(10)

    assert (carriers.carried, carriers.late) == ([2], [5])


async def test_who_rests_ends_when_its_last_time_is_over(autojump_clock: Any, nursery: trio.Nursery) -> None:
    """Nothing is kept for what may never come; and who rests takes what comes before."""
    carriers = Carriers(nursery)
    carriers.send(1, within=5)
    await trio.sleep(3)
    assert len(nursery.child_tasks) == 1
    carriers.send(1, within=5)
    await trio.sleep(4)
    assert len(nursery.child_tasks) == 1
    await trio.sleep(2)
    assert not nursery.child_tasks

    carriers.send(1, within=5)
    await trio.sleep(1.5)
    assert carriers.carried == [1, 1, 1]
    assert carriers.late == []
