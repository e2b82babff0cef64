"""Order, retries, the breaker and the end, in virtual time over a scripted platform."""

from __future__ import annotations

import gc
import random
import statistics
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from scripted_platform import (
    Alarms,
    ScriptedPlatform,
    bad_request,
    broken,
    forbidden,
    too_many,
    unknown,
    unreachable,
    unreadable,
)

from triobot.errors import (
    BadRequestError,
    DeliveryUnknownError,
    ForbiddenError,
    NotDeliveredError,
    RefusedError,
)
from triobot.outbox import LaneOutbox, OutboxRules, open_outbox
from triobot.outbox.breaker import BreakerRules
from triobot.outbox.retry import RetryRules
from triobot.seams.outbox import OnUnknown, Outbox, Urgency
from triobot.wire.ids import GroupName, PhoneNumber
from triobot.wire.operations import CreateInvoice, EditMessage, SendMessage, Upload, VerifyPayment


@pytest.fixture(autouse=True, params=[True, False], ids=["caller", "courier"])
def carried_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let callers carry their requests, or couriers all of them."""
    monkeypatch.setattr(ScriptedPlatform, "begins", request.param)


def opened(platform: ScriptedPlatform, alarms: Alarms | None = None, rules: OutboxRules | None = None) -> Any:
    return open_outbox(
        platform,
        raise_alarm=Alarms() if alarms is None else alarms,
        rules=rules,
        random=random.Random(7).random,
    )


def test_it_is_an_outbox() -> None:
    def takes(outbox: Outbox) -> None: ...

    def gives(outbox: LaneOutbox) -> None:
        takes(outbox)


async def queue_in_order(nursery: trio.Nursery, outbox: LaneOutbox, chat: int, texts: list[str]) -> None:
    """Start one caller a text, so that they are queued in this order."""
    for text in texts:
        nursery.start_soon(outbox.perform, SendMessage(chat, text))
        await trio.testing.wait_all_tasks_blocked()


async def test_a_chat_gets_what_was_queued_in_order_one_at_a_time(autojump_clock: Any) -> None:
    platform = ScriptedPlatform(delay=1.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        for number in range(5):
            for chat in (1, 2, 3):
                await queue_in_order(nursery, outbox, chat, [str(number)])
        assert outbox.statistics().queued + outbox.statistics().in_flight == 15

    assert trio.current_time() < 10, "chats don't wait for one another"
    for chat in (1, 2, 3):
        assert platform.texts(chat) == list("01234")
    assert (outbox.statistics().done, outbox.statistics().lanes) == (15, 0)


async def test_what_is_recorded_leaves_behind_the_record_of_the_one_before_it(autojump_clock: Any) -> None:
    """A kill in between would leave both in doubt. Other chats, and what nobody notes, wait for no note."""
    platform = ScriptedPlatform()
    notes = {text: trio.Event() for text in ("one", "two", "three")}
    async with opened(platform) as outbox, trio.open_nursery() as nursery:

        async def tell(chat: int, text: str, scope: trio.CancelScope | None = None) -> None:
            with scope or trio.CancelScope():
                await outbox.perform(SendMessage(chat, text), recorded=notes.get(text))

        given_up = trio.CancelScope()
        nursery.start_soon(tell, 1, "one")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(tell, 1, "two", given_up)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(tell, 1, "three")
        nursery.start_soon(tell, 2, "other")
        await trio.sleep(100)
        assert (platform.texts(1), platform.texts(2)) == (["one"], ["other"])
        given_up.cancel()
        notes["two"].set()
        await trio.sleep(100)
        assert platform.texts(1) == ["one"]
        notes["one"].set()
        await trio.sleep(1)
        assert platform.texts(1) == ["one", "three"]
        await outbox.perform(SendMessage(1, "not recorded"))
        del notes["three"]
        gc.collect()
        for chat in range(1000):
            await outbox.perform(SendMessage(chat, "recorded"), recorded=trio.Event())
        assert len(outbox._sender._unrecorded) < 200, "chats at rest cost next to nothing"
    assert outbox.statistics().lanes == 0


async def test_the_result_is_the_operations_own(autojump_clock: Any) -> None:
    async with opened(ScriptedPlatform()) as outbox:
        sent = await outbox.perform(SendMessage(7, "hello"))
        assert sent.chat_id == 7
        assert (await outbox.perform(VerifyPayment(7, "12"), urgency=Urgency.MONEY)).verified
        assert await outbox.perform(EditMessage(7, sent.id, "bye")) is None


@pytest.mark.parametrize(("rules", "most"), [(OutboxRules(parallel=8), 7), (OutboxRules(), 35)])
async def test_no_more_than_the_bound_are_in_flight(
    autojump_clock: Any, rules: OutboxRules, most: int
) -> None:
    platform = ScriptedPlatform()
    async with opened(platform, rules=rules) as outbox, trio.open_nursery() as nursery:
        for chat in range(100):
            nursery.start_soon(outbox.perform, SendMessage(chat, "x"))
    assert platform.most_in_flight == most, "an eighth of the places is kept for money"
    assert len(platform.took_effect) == 100


async def test_a_chat_that_is_never_answered_slows_nobody(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if operation.chat_id == 13:
            await trio.sleep_forever()

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(outbox.perform, SendMessage(13, "stuck"))
        await trio.sleep(200)
        began = trio.current_time()
        async with trio.open_nursery() as others:
            for chat in range(100, 200):
                others.start_soon(outbox.perform, SendMessage(chat, "x"))
        assert trio.current_time() - began < 1
        assert outbox.statistics().rate is None
        assert outbox.statistics().retries >= 2
        nursery.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("silent", [10, 40, 400])
async def test_many_chats_that_are_never_answered_slow_nobody(silent: int, autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if operation.chat_id >= 10_000:
            await trio.sleep_forever()

    delays: list[float] = []

    async def send(outbox: LaneOutbox, chat: int) -> None:
        began = trio.current_time()
        await outbox.perform(SendMessage(chat, "x"))
        delays.append(trio.current_time() - began)

    rules = OutboxRules(answer_within=30)
    async with opened(ScriptedPlatform(script), rules=rules) as outbox, trio.open_nursery() as nursery:
        for chat in range(silent):
            nursery.start_soon(outbox.perform, SendMessage(10_000 + chat, "stuck"))
        for number in range(1000):
            nursery.start_soon(send, outbox, number % 100)
            await trio.sleep(0.1)
        await trio.sleep(2)
        assert outbox.statistics().rate is None
        assert outbox.statistics().retries >= silent
        nursery.cancel_scope.cancel()
    assert len(delays) == 1000
    assert statistics.median(delays) < 0.2
    assert max(delays) < 3


@pytest.mark.slow
@pytest.mark.parametrize("offered", [20, 100])
async def test_random_faults_do_not_slow_the_sender(offered: int, autojump_clock: Any) -> None:
    dice = random.Random(offered)

    async def script(operation: Any) -> None:
        if dice.random() < 0.05:
            raise broken(operation)

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        for number in range(30 * offered):
            nursery.start_soon(outbox.perform, SendMessage(number % 500, "x"))
            await trio.sleep(1 / offered)
        assert len(platform.took_effect) >= 0.95 * 30 * offered
        assert outbox.statistics().rate is None


@pytest.mark.parametrize("failure", [unreachable, too_many, broken, unknown])
async def test_a_dead_platform_for_minutes_loses_nothing(failure: Any, autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if trio.current_time() < 300:
            raise failure(operation)

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        for chat in range(20):
            await queue_in_order(nursery, outbox, chat, ["a", "b", "c"])

    for chat in range(20):
        assert platform.texts(chat) == ["a", "b", "c"]
    assert trio.current_time() < 500
    assert len(platform.seen) < 60 + 20 * 40, "it backs off"
    assert (outbox.statistics().done, outbox.statistics().failed) == (60, 0)
    # What may have arrived is counted each time; what never arrived is no repeat.
    assert (outbox.statistics().possible_repeats > 0) is (failure in (broken, unknown))


async def test_patience_ends_and_then_the_lane_fails_fast(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        raise unreachable(operation)

    rules = OutboxRules(retry=RetryRules(patience=100))
    async with opened(ScriptedPlatform(script), rules=rules) as outbox:
        ended: list[float] = []

        async def send(text: str) -> None:
            with pytest.raises(NotDeliveredError):
                await outbox.perform(SendMessage(1, text))
            ended.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            for text in "abc":
                nursery.start_soon(send, text)
    assert 60 < ended[0] < 110
    assert ended[-1] < 120, "those behind it don't wait an hour each"


async def test_a_possible_repeat_is_counted_or_told(autojump_clock: Any) -> None:
    fail = [unknown]

    async def script(operation: Any) -> None:
        if fail:
            raise fail.pop()(operation)

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox:
        await outbox.perform(SendMessage(1, "a"))
        assert outbox.statistics().possible_repeats == 1

        fail.append(broken)
        with pytest.raises(DeliveryUnknownError) as caught:
            await outbox.perform(SendMessage(1, "b"), on_unknown=OnUnknown.RAISE)
        assert isinstance(caught.value.__cause__, RefusedError)

        fail.append(unknown)
        with pytest.raises(DeliveryUnknownError):
            await outbox.perform(CreateInvoice(1, 1000, "tea"), urgency=Urgency.MONEY)
        assert platform.count(CreateInvoice) == 1

        # A retry that never left is no repeat; the one that arrives is.
        fail.extend([unreachable, unreachable, unknown])
        await outbox.perform(SendMessage(1, "c"))
        assert outbox.statistics().possible_repeats == 2

        fail.append(unknown)
        await outbox.perform(EditMessage(1, 5, "d"))
        assert outbox.statistics().possible_repeats == 2
        assert outbox.statistics().retries == 1 + 3 + 1


async def test_a_refusal_is_told_and_the_lane_goes_on(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if operation.content == "bad":
            raise bad_request(operation)

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        await queue_in_order(nursery, outbox, 1, ["a"])
        with pytest.raises(BadRequestError):
            await outbox.perform(SendMessage(1, "bad"))
        await outbox.perform(SendMessage(1, "b"))
    assert platform.texts() == ["a", "b"]
    assert outbox.statistics().failed == 1


async def test_money_does_not_wait_behind_a_text_that_cannot_be_delivered(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if isinstance(operation, SendMessage):
            raise broken(operation)

    async with opened(ScriptedPlatform(script)) as outbox, trio.open_nursery() as nursery:
        nursery.start_soon(outbox.perform, SendMessage(1, "stuck"))
        await trio.sleep(10)
        with trio.fail_after(1):
            await outbox.perform(VerifyPayment(1, "77"), urgency=Urgency.MONEY)
        nursery.cancel_scope.cancel()


async def test_an_unexpected_error_is_its_callers_alone(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if operation.chat_id == 1:
            raise ZeroDivisionError

    async with opened(ScriptedPlatform(script)) as outbox:
        with pytest.raises(ZeroDivisionError):
            await outbox.perform(SendMessage(1, "a"))
        await outbox.perform(SendMessage(2, "a"))


async def test_both_spellings_of_a_group_are_one_lane(autojump_clock: Any) -> None:
    platform = ScriptedPlatform(delay=1.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        nursery.start_soon(outbox.perform, SendMessage(GroupName("@team"), "a"))
        nursery.start_soon(outbox.perform, SendMessage(GroupName("team@"), "a"))
        nursery.start_soon(outbox.perform, SendMessage(PhoneNumber("+98912000000"), "a"))
    times = {operation.chat_id: at for at, operation in platform.seen}
    assert abs(times["@team"] - times["team@"]) >= 1.0


# --- the breaker


async def test_five_minutes_of_refused_token_lose_nothing(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if 10 <= trio.current_time() < 310:
            raise forbidden(operation)

    platform, alarms = ScriptedPlatform(script), Alarms()
    async with opened(platform, alarms) as outbox:
        async with trio.open_nursery() as nursery:
            for chat in range(50):
                nursery.start_soon(outbox.perform, SendMessage(chat, "before"))
        await trio.sleep(20)
        refused_before = len(platform.seen)
        async with trio.open_nursery() as nursery:
            for chat in range(50):
                await queue_in_order(nursery, outbox, chat, ["a", "b", "c"])
            await trio.sleep(30)
            assert outbox.statistics().held
            assert outbox.statistics().queued == 150

    for chat in range(50):
        assert platform.texts(chat) == ["before", "a", "b", "c"]
    assert outbox.statistics().failed == 0
    assert alarms.kinds == ["token_refused"]
    assert 310 < trio.current_time() < 345
    refused = [at for at, _ in platform.seen[refused_before:] if at < 310]
    assert len(refused) <= 50 + 11, "those already in flight, then one probe every half minute"
    assert not outbox.statistics().held


async def test_a_trickle_of_refusals_at_a_dead_token_loses_nobody(autojump_clock: Any) -> None:
    """Even the first ones refused live on."""

    async def script(operation: Any) -> None:
        if 10 <= trio.current_time() < 200:
            raise forbidden(operation)

    platform, alarms = ScriptedPlatform(script), Alarms()
    async with opened(platform, alarms) as outbox, trio.open_nursery() as nursery:
        for chat in range(8):
            await outbox.perform(SendMessage(chat, "before"))
        await trio.sleep(15)
        for chat in range(8):
            nursery.start_soon(outbox.perform, SendMessage(chat, "after"))
            await trio.sleep(3)
    assert [platform.texts(chat) for chat in range(8)] == [["before", "after"]] * 8
    assert "token_refused" in alarms.kinds


async def test_one_who_left_is_told_while_others_work(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if operation.chat_id == 13:
            raise forbidden(operation)

    platform, alarms = ScriptedPlatform(script), Alarms()
    async with opened(platform, alarms) as outbox, trio.open_nursery() as nursery:

        async def chatter() -> None:
            while True:
                await outbox.perform(SendMessage(1, "x"))
                await trio.sleep(0.2)

        nursery.start_soon(chatter)
        await trio.sleep(1)
        began = trio.current_time()
        for _ in range(20):
            with pytest.raises(ForbiddenError):
                await outbox.perform(SendMessage(13, "x"))
        assert trio.current_time() - began < 20
        nursery.cancel_scope.cancel()
    assert alarms == []


@pytest.mark.parametrize("failure", [unknown, broken, unreachable, too_many])
async def test_the_only_chat_waits_until_another_tells(autojump_clock: Any, failure: Any) -> None:
    """The question that concerns no chat gets no answer that says anything."""
    gone = False

    async def script(operation: Any) -> None:
        if isinstance(operation, Upload):
            raise failure(operation)
        if gone and operation.chat_id == 13:
            raise forbidden(operation)

    platform, alarms = ScriptedPlatform(script), Alarms()
    async with opened(platform, alarms) as outbox, trio.open_nursery() as nursery:
        await outbox.perform(SendMessage(13, "hello"))
        gone = True
        ended = trio.Event()

        async def send() -> None:
            with pytest.raises(ForbiddenError):
                await outbox.perform(SendMessage(13, "are you there?"))
            ended.set()

        nursery.start_soon(send)
        await trio.sleep(100)
        assert not ended.is_set() and outbox.statistics().held and outbox.statistics().suspended == 1
        with trio.fail_after(1):
            await outbox.perform(SendMessage(1, "a newcomer is not kept waiting"))
        with trio.fail_after(6):
            await ended.wait()
    assert alarms.kinds == ["outbox_held"]


@pytest.mark.parametrize("failure", [None, bad_request, unreadable])
async def test_the_only_chat_has_left_if_the_token_is_good(autojump_clock: Any, failure: Any) -> None:
    gone = False

    async def script(operation: Any) -> None:
        if isinstance(operation, Upload):
            if failure is not None:
                raise failure(operation)
        elif gone:
            raise forbidden(operation)

    platform, alarms = ScriptedPlatform(script), Alarms()
    async with opened(platform, alarms) as outbox:
        await outbox.perform(SendMessage(13, "hello"))
        gone, began = True, trio.current_time()
        with trio.fail_after(100), pytest.raises(ForbiddenError):
            await outbox.perform(SendMessage(13, "are you there?"))
        assert 10 <= trio.current_time() - began < 12
        assert not outbox.statistics().held
    assert alarms == []
    assert platform.count(Upload) == 1


async def test_the_only_chat_is_told_nothing_if_the_token_is_not(autojump_clock: Any) -> None:
    bad = False

    async def script(operation: Any) -> None:
        if bad:
            raise forbidden(operation)

    platform, alarms = ScriptedPlatform(script), Alarms()
    async with opened(platform, alarms) as outbox, trio.open_nursery() as nursery:
        await outbox.perform(SendMessage(13, "hello"))
        bad = True
        nursery.start_soon(outbox.perform, SendMessage(13, "are you there?"))
        await trio.sleep(100)
        assert outbox.statistics().held
        bad = False
        await trio.sleep(31)
        assert not outbox.statistics().held
    assert alarms.kinds == ["token_refused"]
    assert platform.texts() == ["hello", "are you there?"]


async def test_a_stranger_is_refused_after_a_few_seconds_and_its_lane_goes_on(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if operation.chat_id == 13:
            raise forbidden(operation)

    alarms = Alarms()
    async with opened(ScriptedPlatform(script), alarms) as outbox:
        await outbox.perform(SendMessage(1, "x"))
        began = trio.current_time()
        with pytest.raises(ForbiddenError):
            await outbox.perform(SendMessage(13, "x"))
        assert 5 <= trio.current_time() - began < 6
        assert outbox.statistics().lanes == 0
    assert alarms == []


async def test_held_operations_can_be_cancelled_and_dropped(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        raise forbidden(operation)

    rules = OutboxRules(breaker=BreakerRules(chats=2))
    async with opened(ScriptedPlatform(script), rules=rules) as outbox, trio.open_nursery() as nursery:
        errors: list[ForbiddenError] = []

        async def send(chat: int) -> None:
            try:
                await outbox.perform(SendMessage(chat, "x"))
            except ForbiddenError as error:
                errors.append(error)

        for chat in range(4):
            nursery.start_soon(send, chat)
        await trio.sleep(100)
        assert outbox.statistics().held and outbox.statistics().queued == 4
        outbox.drop(2)
        await trio.sleep(1)
        assert [error.reason for error in errors] == ["the user has left"]
        nursery.cancel_scope.cancel()
    assert (outbox.statistics().queued, outbox.statistics().suspended) == (0, 0)


async def test_no_phone_number_or_text_in_reprs_and_logs(autojump_clock: Any, caplog: Any) -> None:
    caplog.set_level("DEBUG")

    async def script(operation: Any) -> None:
        raise forbidden(operation)

    platform, alarms = ScriptedPlatform(script), Alarms()
    async with opened(platform, alarms) as outbox, trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(outbox.perform, SendMessage(PhoneNumber(f"+9891200000{number}"), "a secret"))
        await trio.sleep(1)
        said = f"{list(outbox._lanes.places())} {alarms} {caplog.text} {outbox.statistics()}"
        assert alarms and "Delivery(" in said
        assert "98912" not in said and "a secret" not in said
        nursery.cancel_scope.cancel()


# --- leaving


async def test_drop_forgets_what_is_queued_and_what_is_in_flight_is_not_tried_again(
    autojump_clock: Any,
) -> None:
    async def script(operation: Any) -> None:
        raise unreachable(operation)

    platform = ScriptedPlatform(script, delay=1.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        ended: list[str] = []

        async def send(text: str) -> None:
            with pytest.raises(ForbiddenError, match="has left"):
                await outbox.perform(SendMessage(1, text))
            ended.append(text)

        for text in "abc":
            nursery.start_soon(send, text)
            await trio.testing.wait_all_tasks_blocked()
        outbox.drop(1)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(ended) == ["b", "c"]
    assert ended[-1] == "a" and len(platform.seen) == 1


async def test_drain_waits_for_all_that_is_queued(autojump_clock: Any) -> None:
    platform = ScriptedPlatform(delay=1.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        await queue_in_order(nursery, outbox, 1, ["a", "b", "c"])
        await outbox.drain()
        assert platform.texts() == ["a", "b", "c"]
        await outbox.drain()


async def test_at_the_end_what_is_in_flight_gets_a_grace_and_the_rest_is_told_apart(
    autojump_clock: Any,
) -> None:
    async def script(operation: Any) -> None:
        if operation.chat_id == 2:
            await trio.sleep_forever()

    platform = ScriptedPlatform(script, delay=1.0)
    ended: dict[tuple[int, str], object] = {}

    async with trio.open_nursery() as callers:

        async def send(outbox: LaneOutbox, chat: int, text: str) -> None:
            try:
                ended[chat, text] = await outbox.perform(SendMessage(chat, text))
            except (NotDeliveredError, DeliveryUnknownError) as error:
                ended[chat, text] = type(error)

        with trio.CancelScope() as scope:
            async with opened(platform) as outbox:
                for chat in (1, 2):
                    for text in "ab":
                        callers.start_soon(send, outbox, chat, text)
                        await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
                await trio.sleep_forever()
        assert trio.current_time() < 6

    assert platform.texts() == ["a"]
    assert ended[1, "b"] is ended[2, "b"] is NotDeliveredError
    assert ended[2, "a"] is DeliveryUnknownError
    assert attrs.has(type(ended[1, "a"]))
    with pytest.raises(NotDeliveredError):
        await outbox.perform(SendMessage(1, "late"))
