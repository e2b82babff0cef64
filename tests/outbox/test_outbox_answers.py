"""Answers to presses: one each, in time, on a path of their own."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from scripted_platform import Alarms, ScriptedPlatform, bad_request, unknown

from triobot.errors import LocalProtocolError
from triobot.outbox import OutboxRules, open_outbox
from triobot.outbox.answers import NEVER, AnswerRules, Presses
from triobot.wire.events import Press
from triobot.wire.operations import AnswerCallback, SendMessage


def opened(platform: ScriptedPlatform, rules: OutboxRules | None = None) -> Any:
    return open_outbox(platform, raise_alarm=Alarms(), rules=rules, random=random.Random(7).random)


def press(name: str = "p", chat: int = 1) -> Press[object]:
    return Press(chat, "value", 5, name)


def answered(platform: ScriptedPlatform) -> list[tuple[float, str, str, bool]]:
    return [
        (at, operation.callback_id, operation.text, operation.show_alert)
        for at, operation in platform.seen
        if isinstance(operation, AnswerCallback)
    ]


async def test_a_press_that_was_taken_is_answered_after_a_second(autojump_clock: Any) -> None:
    platform = ScriptedPlatform()
    async with opened(platform) as outbox:
        outbox.press_taken(press("a"))
        await trio.sleep(0.5)
        outbox.press_taken(press("b"))
        outbox.press_taken(press("a"))
        await trio.sleep(10)
        assert answered(platform) == [(1.0, "a", "", False), (1.5, "b", "", False)]
        assert outbox.statistics().answers_sent == 2


async def test_the_authors_answer_is_the_only_one(autojump_clock: Any) -> None:
    platform = ScriptedPlatform()
    async with opened(platform) as outbox:
        outbox.press_taken(press())
        await trio.sleep(0.5)
        assert await outbox.answer(press(), "In the cart.", alert=True)
        outbox.press_due(press())
        outbox.refuse_press(press(), "expired")
        assert not await outbox.answer(press(), "again", alert=False)
        await trio.sleep(10)
        assert answered(platform) == [(0.5, "p", "In the cart.", True)]


async def test_the_next_operation_answers_at_once_and_the_author_is_late(autojump_clock: Any) -> None:
    platform = ScriptedPlatform()
    async with opened(platform) as outbox:
        outbox.press_taken(press())
        outbox.press_due(press())
        await trio.sleep(0.01)
        assert not await outbox.answer(press(), "late", alert=False)
        outbox.refuse_press(press("old"), "expired")
        await trio.sleep(10)
        assert answered(platform) == [(0.0, "p", "", False), (0.01, "old", "expired", False)]


@pytest.mark.parametrize("failure", [unknown, bad_request])
async def test_failures_are_counted_and_never_raised_or_tried_again(
    failure: Any, autojump_clock: Any
) -> None:
    async def script(operation: Any) -> None:
        raise failure(operation)

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox:
        assert await outbox.answer(press("a"), "hello", alert=False)
        outbox.press_due(press("b"))
        await trio.sleep(100)
        assert outbox.statistics().answers_failed == len(platform.seen) == 2


async def test_an_answer_waits_for_no_message(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if isinstance(operation, SendMessage):
            await trio.sleep_forever()

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        for chat in range(64):
            nursery.start_soon(outbox.perform, SendMessage(chat, "stuck"))
        await trio.sleep(1)
        with trio.fail_after(0.2):
            assert await outbox.answer(press(), "quick", alert=False)
        nursery.cancel_scope.cancel()


async def test_few_are_in_flight_and_few_wait(autojump_clock: Any) -> None:
    platform = ScriptedPlatform(delay=1.0)
    rules = OutboxRules(answers=AnswerRules(parallel=2, waiting=10))
    async with opened(platform, rules) as outbox:
        for number in range(100):
            outbox.press_due(press(str(number)))
        # The author's words go before the silent ones.
        assert await outbox.answer(press("author"), "hello", alert=False)
        assert trio.current_time() == 1.0
        await outbox.drain()
        assert platform.most_in_flight == 2
        assert outbox.statistics().answers_sent == 11
        assert outbox.statistics().answers_failed == 90


@pytest.mark.parametrize(("silent", "within"), [(30, 0.2), (40, 10.2), (60, 10.2)])
async def test_presses_whose_answers_are_never_taken_hold_the_others_up_shortly(
    silent: int, within: float, autojump_clock: Any
) -> None:
    async def script(operation: Any) -> None:
        if operation.chat_id >= 10_000:
            await trio.sleep_forever()

    async with opened(ScriptedPlatform(script)) as outbox:
        for chat in range(10_000, 10_000 + silent):
            outbox.press_due(press(str(chat), chat))
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(within):
            assert await outbox.answer(press("quick"), "hello", alert=False)


async def test_a_cancelled_answer_that_waited_becomes_a_silent_one(autojump_clock: Any) -> None:
    platform = ScriptedPlatform(delay=1.0)
    async with opened(platform, OutboxRules(answers=AnswerRules(parallel=1))) as outbox:
        outbox.press_due(press("first"))
        await trio.sleep(0.1)
        with trio.move_on_after(0.1) as scope:
            await outbox.answer(press("a"), "never mind", alert=False)
        assert scope.cancelled_caught
        await outbox.drain()
        assert [(name, text) for _, name, text, _ in answered(platform)] == [("first", ""), ("a", "")]

        with trio.move_on_after(0.5) as scope:
            await outbox.answer(press("b"), "in flight", alert=False)
        assert scope.cancelled_caught
        await outbox.drain()
        assert [text for _, name, text, _ in answered(platform) if name == "b"] == ["in flight"]


async def test_drain_answers_what_was_taken_without_waiting(autojump_clock: Any) -> None:
    platform = ScriptedPlatform()
    async with opened(platform) as outbox:
        outbox.press_taken(press())
        await outbox.drain()
        assert answered(platform) == [(0.0, "p", "", False)]


async def test_words_that_cannot_be_sent_are_the_authors_fault_and_answer_nothing(
    autojump_clock: Any,
) -> None:
    platform = ScriptedPlatform()
    async with opened(platform) as outbox:
        with pytest.raises(LocalProtocolError):
            await outbox.answer(press(), "\ud800", alert=False)
        assert await outbox.answer(press(), "words", alert=False)


async def test_at_the_end_nobody_waits_for_an_answer(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        await trio.sleep_forever()

    rules = OutboxRules(answers=AnswerRules(parallel=1))
    async with trio.open_nursery() as nursery, opened(ScriptedPlatform(script), rules) as outbox:
        for name in "abc":
            nursery.start_soon(lambda name=name: outbox.answer(press(name), "x", alert=False))
        await trio.testing.wait_all_tasks_blocked()
    assert outbox.statistics().answers_failed == 3


@given(
    st.lists(
        st.tuples(st.sampled_from(["take", "settle", "due"]), st.integers(0, 12), st.floats(0, 0.7)),
        max_size=80,
    )
)
def test_each_press_is_settled_once_and_in_time(steps: list[tuple[str, int, float]]) -> None:
    rules = AnswerRules(remembered=100)
    presses = Presses(rules)
    now = 0.0
    taken: dict[str, float] = {}
    settled: set[str] = set()
    for action, number, later in steps:
        name = str(number)
        now = min(now + later, max(now, presses.look_again()))  # as the task that keeps the time does
        if action == "take":
            presses.take(1, name, now)
            if name not in settled:
                taken.setdefault(name, now)
        elif action == "settle":
            assert presses.settle(name) == (name not in settled)
            settled.add(name)
        for _, due in presses.due(now):
            assert now == pytest.approx(taken[due] + rules.after)
            assert presses.settle(due)
            settled.add(due)
    assert presses.look_again() <= now + rules.after or presses.look_again() == NEVER


def test_both_memories_are_bounded() -> None:
    presses = Presses(AnswerRules(remembered=3))
    for number in range(5):
        presses.take(1, str(number), 0.0)
    assert presses.look_again() < 0
    assert [name for _, name in presses.due(0.0)] == ["0", "1"], "the oldest are answered early"
    for number in range(5):
        assert presses.settle(str(number))
    assert not presses.settle("4")
    assert presses.settle("0"), "forgotten"
