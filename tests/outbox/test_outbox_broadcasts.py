"""Broadcasts over a real outbox, in virtual time."""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from broadcast_rig import Noon, Rig, listed, running
from scripted_platform import ScriptedPlatform, bad_request, broken, forbidden, too_many, unknown, unreachable
from trio.testing import MockClock

from triobot.errors import StoreFullError
from triobot.outbox import OutboxRules
from triobot.outbox.broadcast_plan import WindowRules
from triobot.outbox.broadcasts import AT_ONCE
from triobot.seams.broadcasts import (
    AddReceivers,
    AdvanceBroadcast,
    Announcement,
    BroadcastStatus,
    OpenBroadcast,
    TurnBroadcast,
)
from triobot.seams.outbox import Urgency
from triobot.store import Store
from triobot.store.memory import open_memory
from triobot.wire.content import Descriptor, Image
from triobot.wire.ids import ChatId
from triobot.wire.markup import CallbackButton, InlineKeyboard
from triobot.wire.operations import SendMessage, Upload


@pytest.fixture
async def store() -> Any:
    async with open_memory(clock=Noon()) as store:
        yield store


async def test_everybody_is_told_once_in_the_order_of_the_audience(
    autojump_clock: MockClock, store: Store
) -> None:
    async with running(store) as rig:
        assert await rig.start(chats=[*range(500, 0, -1), 7, 8])
        assert await rig.over() == BroadcastStatus("done", 500, sent=500)

        assert Counter(rig.told()) == Counter(range(1, 501))
        # In flight side by side, so nearly in order.
        assert all(abs(chat - (500 - place)) < 64 for place, chat in enumerate(rig.told()))
        assert rig.platform.most_in_flight <= OutboxRules().parallel // 2


async def test_a_key_is_started_once(autojump_clock: MockClock, store: Store) -> None:
    async with running(store) as rig:
        assert await rig.broadcasts.status("k") == BroadcastStatus("none")
        assert await rig.start()
        assert not await rig.start(chats=[1000])
        await rig.over()
        assert not await rig.start(chats=[1000])
        assert len(rig.told()) == 100
    async with running(store) as rig:
        assert not await rig.start(chats=[1000])
        assert rig.told() == []


async def test_two_who_start_one_key_at_once_start_it_once(autojump_clock: MockClock, store: Store) -> None:
    async with running(store) as rig:
        started: list[bool] = []

        async def start(chat: int) -> None:
            started.append(await rig.start(chats=range(chat, chat + 600)))

        async with trio.open_nursery() as nursery:
            for chat in (1000, 2000, 3000):
                nursery.start_soon(start, chat)
        assert sorted(started) == [False, False, True]
        assert (await rig.over()).sent == 600


async def test_nobody_is_told_before_everybody_is_written_down(
    autojump_clock: MockClock, store: Store
) -> None:
    """An audience that fails half-way leaves nothing, and the key can be started again."""

    async def failing() -> AsyncIterator[ChatId]:
        for chat in range(1, 1201):
            yield ChatId(chat)
        await trio.sleep(60)
        assert (await rig.broadcasts.status("k")).state == "capturing"
        raise ValueError("the database is gone")

    async with running(store) as rig:
        with pytest.raises(ValueError, match="gone"):
            await rig.broadcasts.start("k", Announcement("hello"), failing())
        await trio.sleep(1)
        assert await rig.broadcasts.status("k") == BroadcastStatus("none")
        assert rig.told() == []
        assert await rig.start(chats=[1, 2])
        assert (await rig.over()).sent == 2


async def test_an_empty_audience_is_done(autojump_clock: MockClock, store: Store) -> None:
    async with running(store) as rig:
        assert await rig.start(chats=[])
        assert await rig.over() == BroadcastStatus("done")


async def test_who_left_is_gone_and_who_is_refused_has_failed(
    autojump_clock: MockClock, store: Store
) -> None:
    async def script(operation: Any) -> None:
        if isinstance(operation, SendMessage):
            if operation.chat_id % 10 == 1:
                raise forbidden(operation)
            if operation.chat_id % 10 == 2:
                raise bad_request(operation)

    async with running(store, ScriptedPlatform(script)) as rig:
        await rig.start(chats=range(100))
        assert await rig.over() == BroadcastStatus("done", 100, sent=80, gone=10, failed=10)
        assert [chat async for chat in rig.broadcasts.gone("k")] == [*range(1, 100, 10)]
        assert rig.alarms == []
        # Whoever stops in the middle has nothing to close, and begins anew each time.
        with warnings.catch_warnings(record=True) as complaints:
            warnings.simplefilter("always")
            for _ in range(2):
                async for chat in rig.broadcasts.gone("k"):
                    assert chat == 1
                    break
            with trio.move_on_after(1):
                async for _ in rig.broadcasts.gone("k"):
                    await trio.sleep_forever()
            gc.collect()
            await trio.lowlevel.checkpoint()
        assert [str(one.message) for one in complaints] == []


@pytest.mark.slow
async def test_an_audience_most_of_which_has_left_holds_nothing(
    autojump_clock: MockClock, store: Store
) -> None:
    """Nine of ten are refused, in long runs: no false alarm, no long wait, and replies go out."""
    replies: list[float] = []

    async def script(operation: Any) -> None:
        if isinstance(operation, SendMessage) and operation.chat_id < 10_000 and operation.chat_id % 50 >= 5:
            raise forbidden(operation)

    async def chatting(rig: Rig) -> None:
        for number in range(40):
            began = trio.current_time()
            await rig.outbox.perform(SendMessage(ChatId(20_000 + number), "reply"))
            replies.append(trio.current_time() - began)
            await trio.sleep(10)

    async with running(store, ScriptedPlatform(script)) as rig, trio.open_nursery() as nursery:
        nursery.start_soon(chatting, rig)
        await rig.start(chats=range(1000))
        assert await rig.over(within=600) == BroadcastStatus("done", 1000, sent=100, gone=900)
        nursery.cancel_scope.cancel()
    assert rig.alarms == []
    assert replies
    assert max(replies) < 0.2


async def test_the_last_ones_may_all_have_left(autojump_clock: MockClock, store: Store) -> None:
    """Nobody comes after them who could be reached: they are believed after a while."""

    async def script(operation: Any) -> None:
        if isinstance(operation, SendMessage) and operation.chat_id > 97:
            raise forbidden(operation)

    async with running(store, ScriptedPlatform(script)) as rig:
        await rig.start()
        assert await rig.over(within=120) == BroadcastStatus("done", 100, sent=97, gone=3)


async def test_a_refused_token_makes_nobody_gone(autojump_clock: MockClock, store: Store) -> None:
    """Everybody is refused from some moment on: all wait, an operator is told, and all go out later."""
    refused = False

    async def script(operation: Any) -> None:
        if refused:
            raise forbidden(operation)

    async with running(store, ScriptedPlatform(script)) as rig:
        await rig.start(chats=range(1000))
        while (await rig.broadcasts.status("k")).sent < 300:
            await trio.sleep(0.1)
        refused = True
        await trio.sleep(3600)
        assert "token_refused" in rig.alarms.kinds
        assert (await rig.broadcasts.status("k")).gone == 0
        refused = False
        assert await rig.over(within=120) == BroadcastStatus("done", 1000, sent=1000)


async def test_an_unknown_outcome_is_counted_and_not_tried_again(
    autojump_clock: MockClock, store: Store
) -> None:
    async def script(operation: Any) -> None:
        if operation.chat_id in (3, 50):
            raise unknown(operation)

    async with running(store, ScriptedPlatform(script)) as rig:
        await rig.start()
        assert await rig.over() == BroadcastStatus("done", 100, sent=98, unknown=2)
        assert sum(operation.chat_id == 3 for _, operation in rig.platform.seen) == 1


@pytest.mark.slow
async def test_an_outage_costs_few_receivers(autojump_clock: MockClock, store: Store) -> None:
    """While nobody knows what arrives, one at a time goes, with longer and longer pauses."""
    out = False

    async def script(operation: Any) -> None:
        if out:
            raise broken(operation)

    async with running(store, ScriptedPlatform(script)) as rig:
        await rig.start(chats=range(2000))
        await trio.sleep(2)
        out = True
        await trio.sleep(1800)
        out = False
        status = await rig.over(within=300)
        assert status.state == "done"
        assert 16 < status.unknown < 80
        assert status.sent == 2000 - status.unknown


@pytest.mark.slow
async def test_a_platform_that_is_not_there_costs_nobody(autojump_clock: MockClock, store: Store) -> None:
    """Also when it comes back after every patience has ended."""
    out = True

    async def script(operation: Any) -> None:
        if out:
            raise unreachable(operation)

    async with running(store, ScriptedPlatform(script)) as rig:
        await rig.start(chats=range(300))
        await trio.sleep(2 * 3600)
        out = False
        assert await rig.over(within=600) == BroadcastStatus("done", 300, sent=300)


async def test_a_limit_costs_nobody(autojump_clock: MockClock, store: Store) -> None:
    count = 0

    async def script(operation: Any) -> None:
        nonlocal count
        count += 1
        if count % 3:
            raise too_many(operation)

    async with running(store, ScriptedPlatform(script)) as rig:
        await rig.start(chats=range(60))
        assert await rig.over(within=3600) == BroadcastStatus("done", 60, sent=60)


async def test_replies_go_first(autojump_clock: MockClock, store: Store) -> None:
    """With every place of the broadcast's share in use, a reply still leaves at once."""
    async with running(store, ScriptedPlatform(delay=1)) as rig:
        await rig.start(chats=range(1000))
        await trio.sleep(5.5)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for chat in range(5000, 5016):
                nursery.start_soon(rig.outbox.perform, SendMessage(ChatId(chat), "reply"))
        assert trio.current_time() - began < 1.2


async def test_a_reply_to_a_receiver_keeps_the_order_of_its_chat(
    autojump_clock: MockClock, store: Store
) -> None:
    async with running(store, ScriptedPlatform(delay=1)) as rig:
        await rig.start(chats=range(100))
        await trio.sleep(1.5)  # 16 to 31 are in flight
        await rig.outbox.perform(SendMessage(ChatId(20), "reply"))
        assert rig.platform.texts(20) == ["hello", "reply"]


async def test_a_stop_is_prompt_and_for_good(autojump_clock: MockClock, store: Store) -> None:
    async with running(store) as rig:
        await rig.start(chats=range(1000))
        await trio.sleep(1)
        assert await rig.broadcasts.stop("k")
        told = len(rig.told())
        status = await rig.over(within=3)
        assert status.state == "stopped"
        assert status.total == 1000
        assert told <= status.sent <= told + 32
        assert status.sent == len(rig.told())
        assert status.left == 1000 - status.sent
        assert not await rig.broadcasts.stop("k")
        assert not await rig.broadcasts.stop("other")
        assert not await rig.start()
    async with running(store) as rig:
        await trio.sleep(10)
        assert rig.told() == []


async def test_a_stop_is_prompt_while_the_platform_does_not_answer(
    autojump_clock: MockClock, store: Store
) -> None:
    async def script(operation: Any) -> None:
        await trio.sleep_forever()

    async with running(store, ScriptedPlatform(script)) as rig:
        await rig.start()
        await trio.sleep(WindowRules().quiet / 2)  # after all of it one more would be let through
        await rig.broadcasts.stop("k")
        status = await rig.over(within=3)
        assert (status.state, status.sent, status.unknown) == ("stopped", 0, WindowRules().width)


async def test_a_capture_can_be_stopped(autojump_clock: MockClock, store: Store) -> None:
    async def endless() -> AsyncIterator[ChatId]:
        yield ChatId(1)
        await trio.sleep_forever()

    async with running(store) as rig, trio.open_nursery() as nursery:
        nursery.start_soon(rig.broadcasts.start, "k", Announcement("hello"), endless())
        await trio.sleep(1)
        assert await rig.broadcasts.stop("k")
        assert (await rig.broadcasts.status("k")).state == "stopped"
        await trio.sleep(1)
        assert not await rig.start()
        assert rig.told() == []


async def test_a_clean_stop_leaves_nobody_unknown(autojump_clock: MockClock, store: Store) -> None:
    """And the next start goes on where it was."""
    told: list[int] = []
    for _ in range(4):
        async with running(store) as rig:
            await rig.start(chats=range(1000))
            await trio.sleep(1)
        told += rig.told()
    async with running(store) as rig:
        assert await rig.over() == BroadcastStatus("done", 1000, sent=1000)
    assert Counter(told + rig.told()) == Counter(range(1000))


async def test_a_stop_of_the_bot_while_the_platform_is_away_loses_nobody(
    autojump_clock: MockClock, store: Store
) -> None:
    async def script(operation: Any) -> None:
        raise unreachable(operation)

    async with running(store, ScriptedPlatform(script)) as rig:
        await rig.start()
        await trio.sleep(100)
    async with running(store) as rig:
        assert await rig.over() == BroadcastStatus("done", 100, sent=100)


async def test_several_share_the_way(autojump_clock: MockClock, store: Store) -> None:
    """A short one doesn't wait for a long one; more than a few wait for their turn."""
    async with running(store) as rig:
        await rig.start("long", range(10_000))
        for number in range(AT_ONCE + 2):
            await rig.start(f"short {number}", [20_000 + number])
        for number in range(AT_ONCE + 2):
            assert (await rig.over(f"short {number}")).sent == 1
        assert (await rig.broadcasts.status("long")).state == "sending"


async def test_a_file_is_uploaded_once(autojump_clock: MockClock, store: Store) -> None:
    async with running(store) as rig:
        picture = Image.from_bytes(b"not really", "pizza.jpg", "Look!")
        keyboard = InlineKeyboard(((CallbackButton("Yes", "b1"),),))
        assert await rig.broadcasts.start("k", Announcement(picture, keyboard), listed(range(200)))
        assert (await rig.over()).sent == 200
        assert rig.platform.count(Upload) == 1
        [sent, *_] = [one for one in rig.platform.took_effect if isinstance(one, SendMessage)]
        assert isinstance(sent.content, Image)
        assert isinstance(sent.content.source, Descriptor)
        assert sent.content.caption == "Look!"
        assert sent.inline_keyboard == keyboard


async def test_a_full_store_is_waited_for(
    autojump_clock: MockClock, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told who could not be written down before."""
    async with running(store) as rig:
        await rig.start(chats=range(300))
        await trio.sleep(0.5)
        commit = store.commit

        async def full(*writes: object) -> None:
            await trio.lowlevel.checkpoint()
            raise StoreFullError("no room")

        with monkeypatch.context() as patch:
            patch.setattr(type(store), "commit", staticmethod(full))
            await trio.sleep(1)
            told = len(rig.told())
            await trio.sleep(100)
            assert len(rig.told()) == told
        assert rig.alarms.kinds[:1] == ["store_unwritable"]
        assert commit
        assert await rig.over() == BroadcastStatus("done", 300, sent=300)


async def test_urgency_is_the_broadcasts_own(autojump_clock: MockClock, store: Store) -> None:
    async with running(store) as rig:
        await rig.start(chats=[1])
        await trio.sleep(0.05)
        [place] = rig.outbox._lanes.places()
        assert place.urgency is Urgency.BROADCAST
        await rig.over()


async def give_up_on_a_full_disk(rig: Rig, store: Any, patch: pytest.MonkeyPatch) -> None:
    """The disk fills up while an audience is being written down: the row of it is there, and can't go."""

    async def full(*writes: object) -> None:
        await trio.lowlevel.checkpoint()
        raise StoreFullError("no room")

    async def endless() -> AsyncIterator[ChatId]:
        yield ChatId(1)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.broadcasts.start, "k", Announcement("hello"), endless())
        await trio.sleep(1)
        patch.setattr(type(store), "commit", staticmethod(full))
        nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_capture_that_was_given_up_takes_nothing_from_the_next_one(
    autojump_clock: MockClock, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full when it was to be forgotten: by the time there is room, its key is started again."""
    async with running(store) as rig:
        with monkeypatch.context() as patch:
            await give_up_on_a_full_disk(rig, store, patch)
            await trio.sleep(3.5)

        async def slow() -> AsyncIterator[ChatId]:
            for chat in range(2000):
                if chat % 500 == 0:
                    await trio.sleep(1)
                yield ChatId(chat)

        assert await rig.broadcasts.start("k", Announcement("hello"), slow())
        assert (await rig.over()) == BroadcastStatus("done", 2000, sent=2000)


async def test_a_full_disk_does_not_keep_the_bot_from_ending(
    autojump_clock: MockClock, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, trio.fail_after(60):
        async with running(store) as rig:
            await give_up_on_a_full_disk(rig, store, patch)
            await trio.sleep(3)
    async with running(store) as rig:
        assert await rig.start(chats=[1])
        assert await rig.over() == BroadcastStatus("done", 1, sent=1)


async def test_a_stop_needs_no_room_among_those_that_run(autojump_clock: MockClock, store: Store) -> None:
    """A broadcast that waits for its turn is over at once."""

    async def script(operation: Any) -> None:
        await trio.sleep_forever()

    async with running(store, ScriptedPlatform(script)) as rig:
        for n in range(AT_ONCE):
            await rig.start(f"before-{n}")
        await rig.start("k")
        await trio.sleep(1)
        assert await rig.broadcasts.stop("k")
        assert await rig.over(within=3) == BroadcastStatus("stopped", 100)


async def test_what_nobody_can_read_any_more_can_be_stopped(autojump_clock: MockClock, store: Store) -> None:
    """Another version wrote it; those who were on their way at its end are unknown."""
    await store.commit(
        OpenBroadcast("k", 1, "[1,{}]"),
        AddReceivers("k", (ChatId(1), ChatId(2), ChatId(3))),
        TurnBroadcast("k", "sending"),
        AdvanceBroadcast("k", 1, {}),
    )
    async with running(store) as rig:
        await trio.sleep(5)
        assert (await rig.broadcasts.status("k")).state == "sending"
        assert await rig.broadcasts.stop("k")
        assert await rig.over(within=3) == BroadcastStatus("stopped", 3, unknown=1)
        assert rig.told() == []


async def test_who_is_forgotten_is_not_told(autojump_clock: MockClock, store: Store) -> None:
    """Not even when the row was read already, or the message waits behind others."""
    away = True

    async def script(operation: Any) -> None:
        if away:
            raise unreachable(operation)

    async with running(store, ScriptedPlatform(script)) as rig:
        await rig.start(chats=range(1, 501))
        await trio.sleep(5)
        for chat in (1, 2, 90, 499):
            await rig.broadcasts.forget(ChatId(chat))
            assert (await store.forget(ChatId(chat))).others == 1
        away = False
        assert await rig.over() == BroadcastStatus("done", 496, sent=496)
        assert set(rig.told()) == set(range(1, 501)) - {1, 2, 90, 499}


async def test_who_is_forgotten_while_the_audience_is_written_down_is_not_told(
    autojump_clock: MockClock, store: Store
) -> None:
    async def slow() -> AsyncIterator[ChatId]:
        for chat in range(1, 11):
            await trio.sleep(1)
            yield ChatId(chat)

    async with running(store) as rig, trio.open_nursery() as nursery:
        nursery.start_soon(rig.broadcasts.start, "k", Announcement("hello"), slow())
        await trio.sleep(5)
        await rig.broadcasts.forget(ChatId(2))
        await store.forget(ChatId(2))
        assert await rig.over() == BroadcastStatus("done", 9, sent=9)
        assert 2 not in rig.told()
