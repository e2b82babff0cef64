"""Edits that no code awaits: what the chat is told never waits for them; a message's last edit wins."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
import trio.testing
from scripted_platform import Alarms, ScriptedPlatform, broken, forbidden, too_many, unknown, unreachable

from tests.samples import sample
from triobot.errors import ForbiddenError
from triobot.outbox import open_outbox
from triobot.outbox.lanes import NEVER
from triobot.seams.outbox import Urgency
from triobot.wire.markup import CallbackButton, InlineKeyboard
from triobot.wire.operations import EditMessage, SendMessage

BESIDE = Urgency.BESIDE


def opened(platform: ScriptedPlatform) -> Any:
    return open_outbox(platform, raise_alarm=Alarms(), random=random.Random(7).random)


def shown(platform: ScriptedPlatform, message: int) -> list[Any]:
    """What a message has shown, in order."""
    return [
        operation.content
        for operation in platform.took_effect
        if isinstance(operation, EditMessage) and operation.message_id == message
    ]


@pytest.mark.parametrize("failure", [unreachable, too_many, broken, unknown, None])
async def test_what_the_chat_is_told_never_waits_for_them(failure: Any, autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if isinstance(operation, EditMessage) and trio.current_time() < 100:
            if failure is None:
                await trio.sleep_forever()
            raise failure(operation)

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: outbox.perform(EditMessage(1, 5, "over"), urgency=BESIDE))
        for number in range(50):
            with trio.fail_after(0.5):
                await outbox.perform(SendMessage(1, str(number)))
            await trio.sleep(0.5)
        assert shown(platform, 5) == []
    assert shown(platform, 5) == ["over"], "it still happens"
    assert len(platform.texts(1)) == 50


async def test_an_edit_that_code_awaits_comes_behind_one_that_waits_beside(autojump_clock: Any) -> None:
    fail = [broken, broken]

    async def script(operation: Any) -> None:
        if isinstance(operation, EditMessage) and fail:
            raise fail.pop()(operation)

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: outbox.perform(EditMessage(1, 5, "over"), urgency=BESIDE))
        await trio.sleep(0.2)
        assert len(platform.seen) == 1, "it rests between two attempts"
        await outbox.perform(EditMessage(1, 5, "new"))
        # Both have been told: nothing is left to be sent.
        await outbox.drain()
    assert shown(platform, 5) == ["over", "new"]
    assert len(platform.seen) == 4


@pytest.mark.parametrize("failure", [broken, unknown, forbidden, None])
async def test_an_edit_that_code_awaits_waits_for_one_in_flight(failure: Any, autojump_clock: Any) -> None:
    fail = [failure]

    async def script(operation: Any) -> None:
        if isinstance(operation, EditMessage) and fail and (error := fail.pop()) is not None:
            raise error(operation)

    platform = ScriptedPlatform(script, delay=2.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: outbox.perform(EditMessage(1, 5, "over"), urgency=BESIDE))
        await trio.sleep(1)
        await outbox.perform(EditMessage(1, 5, "new"))
        await outbox.drain()
    assert shown(platform, 5) == ["over", "new"]
    assert outbox.statistics().lanes == 0


@pytest.mark.parametrize("failure", [broken, unknown, forbidden, None])
@pytest.mark.parametrize("waits", [0.0, 1.0])
async def test_an_edit_of_the_buttons_only_keeps_the_text_that_was_to_come(
    failure: Any, waits: float, autojump_clock: Any
) -> None:
    """Whether the text's edit waits beside, is in flight, or has failed."""
    fail = [failure]

    async def script(operation: Any) -> None:
        if isinstance(operation, EditMessage) and fail and (error := fail.pop()) is not None:
            raise error(operation)

    again = InlineKeyboard(((CallbackButton("Again", "b1"),),))
    platform = ScriptedPlatform(script, delay=2.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: outbox.perform(EditMessage(1, 5, "over"), urgency=BESIDE))
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(waits)
        await outbox.perform(EditMessage(1, 5, None, again))
        await outbox.drain()
    edits = [edit for edit in platform.took_effect if isinstance(edit, EditMessage)]
    assert [edit.content for edit in edits if edit.content is not None] == ["over"]
    assert edits[-1].inline_keyboard == again


async def test_one_that_is_cancelled_while_it_waits_leaves_the_other_as_it_was(autojump_clock: Any) -> None:
    fail = [broken]

    async def script(operation: Any) -> None:
        if isinstance(operation, EditMessage) and fail:
            raise fail.pop()(operation)

    platform = ScriptedPlatform(script, delay=2.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: outbox.perform(EditMessage(1, 5, "over"), urgency=BESIDE))
        await trio.sleep(1)
        with trio.move_on_after(0.5):
            await outbox.perform(EditMessage(1, 5, "new"))
        await outbox.drain()
    assert shown(platform, 5) == ["over"]


async def test_one_behind_an_edit_of_the_same_message_keeps_its_place(autojump_clock: Any) -> None:
    fail = [broken, broken]

    async def script(operation: Any) -> None:
        if isinstance(operation, EditMessage) and operation.content == "new" and fail:
            raise fail.pop()(operation)

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        nursery.start_soon(outbox.perform, EditMessage(1, 5, "new"))
        await trio.sleep(0.05)
        await outbox.perform(EditMessage(1, 5, "over"), urgency=BESIDE)
    assert shown(platform, 5) == ["new", "over"]


async def test_whoever_left_is_told_nothing_more(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        raise broken(operation)

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:

        async def edit(message: int) -> None:
            with pytest.raises(ForbiddenError):
                await outbox.perform(EditMessage(1, message, "over"), urgency=BESIDE)

        nursery.start_soon(edit, 5)
        nursery.start_soon(edit, 6)
        await trio.sleep(1)
        outbox.drop(1)
        await trio.sleep(1)
        assert outbox.statistics().lanes == 0


@pytest.mark.parametrize("seed", sample(range(60)))
async def test_each_message_shows_its_last_edit_whatever_fails(seed: int, autojump_clock: Any) -> None:
    """Also where a request took effect and its answer was lost; never two edits of a message at once."""
    dice = random.Random(seed)
    messages: dict[int, str] = {}
    in_flight: set[int] = set()

    async def script(operation: Any) -> None:
        if not isinstance(operation, EditMessage):
            return
        assert operation.message_id not in in_flight
        in_flight.add(operation.message_id)
        try:
            await trio.sleep(dice.choice((0, 0.1, 1, 10)))
            fate = dice.choice(("well", "well", "lost", "broken", "limited"))
            if fate in ("well", "lost"):
                messages[operation.message_id] = str(operation.content)
            if fate == "lost":
                raise unknown(operation)
            if fate != "well":
                raise (broken if fate == "broken" else too_many)(operation)
        finally:
            in_flight.discard(operation.message_id)

    platform = ScriptedPlatform(script, delay=0.05)
    last: dict[int, str] = {}
    cancelled: set[int] = set()
    ended = 0

    async with opened(platform) as outbox, trio.open_nursery() as nursery:

        async def edit(message: int, text: str, urgency: Urgency, within: float) -> None:
            nonlocal ended
            with trio.move_on_after(within) as scope:
                await outbox.perform(EditMessage(1, message, text), urgency=urgency)
            ended += 1
            if scope.cancelled_caught:
                cancelled.add(message)

        for number in range(40):
            message = dice.choice((5, 5, 6))
            if dice.random() < 0.3:
                nursery.start_soon(outbox.perform, SendMessage(1, str(number)))
            else:
                urgency = dice.choice((BESIDE, Urgency.REPLY))
                within = dice.choice((NEVER, NEVER, NEVER, NEVER, 1.0))
                last[message] = str(number)
                nursery.start_soon(edit, message, str(number), urgency, within)
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(dice.choice((0, 0, 0.2, 3)))
    # A cancelled one may have arrived or not; then the one before it may be the last word.
    for message, text in last.items():
        if message not in cancelled:
            assert messages[message] == text
    assert ended == 40 - len(platform.texts(1))
    assert (outbox.statistics().queued, outbox.statistics().failed) == (0, 0)
