"""What every store must do with broadcasts, as one suite."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from triobot.errors import LocalProtocolError
from triobot.seams.broadcasts import (
    AddReceivers,
    AdvanceBroadcast,
    BroadcastJob,
    BroadcastStatus,
    DropBroadcast,
    OpenBroadcast,
    Outcome,
    Receiver,
    TurnBroadcast,
)
from triobot.seams.writes import Write
from triobot.store import Store
from triobot.store.rules import RETENTION, Retention
from triobot.wire.ids import ChatId

from .contract import NOON, SettableClock


def chats(*numbers: int) -> tuple[ChatId, ...]:
    return tuple(ChatId(number) for number in numbers)


async def captured(store: Store, key: str, *numbers: int) -> None:
    """Store a broadcast that is being sent."""
    await store.commit(OpenBroadcast(key, NOON, "hello"), AddReceivers(key, chats(*numbers)))
    await store.commit(TurnBroadcast(key, "sending"))


async def status(store: Store, key: str = "k") -> BroadcastStatus:
    job = await store.broadcasts.get(key)
    assert job is not None
    return job.status


async def waiting(store: Store, key: str = "k", *, after: int = 0) -> list[tuple[int, int]]:
    rows = await store.broadcasts.receivers(key, after=after, limit=100)
    return [(row.position, row.chat_id) for row in rows]


class BroadcastContract:
    """The suite."""

    def opened(
        self, clock: SettableClock, folder: Path, retention: Retention = RETENTION
    ) -> AbstractAsyncContextManager[Store]:
        """Open an empty store."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self, tmp_path: Path) -> object:
        async with self.opened(SettableClock(), tmp_path) as store:
            yield store

    async def test_an_audience_keeps_its_order_and_each_chat_once(self, store: Store) -> None:
        await store.commit(OpenBroadcast("k", NOON, "hello"), AddReceivers("k", chats(5, -3, 5)))
        await store.commit(AddReceivers("k", chats(-3, 10**17)))

        assert await store.broadcasts.get("k") == BroadcastJob(
            "k", NOON, "hello", 0, BroadcastStatus("capturing", total=3)
        )
        assert await waiting(store) == [(1, 5), (2, -3), (3, 10**17)]
        assert await waiting(store, after=2) == [(3, 10**17)]
        assert list(await store.broadcasts.receivers("k", after=0, limit=1)) == [Receiver(1, ChatId(5))]
        assert await store.broadcasts.get("other") is None
        assert await waiting(store, "other") == []

    async def test_a_capture_that_was_cut_short_begins_anew(self, store: Store) -> None:
        await store.commit(OpenBroadcast("k", NOON, "hello"), AddReceivers("k", chats(1, 2)))
        await store.commit(OpenBroadcast("k", NOON + 1, "world"), AddReceivers("k", chats(2, 3)))

        assert await waiting(store) == [(1, 2), (2, 3)]
        job = await store.broadcasts.get("k")
        assert job is not None
        assert (job.at, job.content, job.status.total) == (NOON + 1, "world", 2)

    async def test_what_was_captured_is_not_captured_again_nor_forgotten(self, store: Store) -> None:
        await captured(store, "k", 1, 2)
        await store.commit(OpenBroadcast("k", NOON, "world"), AddReceivers("k", chats(3)), DropBroadcast("k"))
        assert await waiting(store) == [(1, 1), (2, 2)]
        assert await status(store) == BroadcastStatus("sending", total=2)

    async def test_a_capture_can_be_forgotten(self, store: Store) -> None:
        await store.commit(OpenBroadcast("k", NOON, "hello"), AddReceivers("k", chats(1, 2)))
        await store.commit(DropBroadcast("k"), DropBroadcast("never"))
        assert await store.broadcasts.get("k") is None
        assert await waiting(store) == []

    async def test_outcomes_count_once(self, store: Store) -> None:
        await captured(store, "k", 11, 12, 13, 14, 15)
        outcomes = {1: Outcome.SENT, 2: Outcome.GONE, 3: Outcome.FAILED, 4: Outcome.UNKNOWN}
        for meant in (4, 2):
            await store.commit(AdvanceBroadcast("k", meant, outcomes))

        assert await status(store) == BroadcastStatus("sending", 5, sent=1, gone=1, failed=1, unknown=1)
        assert (await status(store)).left == 1
        assert await waiting(store) == [(5, 15)]
        assert list(await store.broadcasts.receivers("k", after=0, limit=9, gone=True)) == [
            Receiver(2, ChatId(12))
        ]
        job = await store.broadcasts.get("k")
        assert job is not None
        assert job.meant == 4

    async def test_who_was_not_told_goes_to_the_end(self, store: Store) -> None:
        await captured(store, "k", 11, 12, 13, 14)
        await store.commit(AdvanceBroadcast("k", 3, {1: Outcome.AGAIN, 2: Outcome.SENT, 3: Outcome.AGAIN}))
        assert await waiting(store) == [(4, 14), (5, 11), (6, 13)]
        await store.commit(AdvanceBroadcast("k", 6, {6: Outcome.SENT, 5: Outcome.AGAIN, 4: Outcome.SENT}))
        assert await waiting(store) == [(7, 11)]
        assert await status(store) == BroadcastStatus("sending", 4, sent=3)

    async def test_a_stop_keeps_only_who_is_on_the_way(self, store: Store) -> None:
        await captured(store, "k", 11, 12, 13, 14)
        await store.commit(AdvanceBroadcast("k", 2, {1: Outcome.GONE}))
        await store.commit(TurnBroadcast("k", "stopping"))
        assert await waiting(store) == [(2, 12)]
        await store.commit(AdvanceBroadcast("k", 2, {2: Outcome.SENT}), TurnBroadcast("k", "stopped"))

        assert await status(store) == BroadcastStatus("stopped", 4, sent=1, gone=1)
        assert await waiting(store) == []
        assert len(await store.broadcasts.receivers("k", after=0, limit=9, gone=True)) == 1

    async def test_what_is_over_stays_so_and_its_content_is_gone(self, store: Store) -> None:
        await captured(store, "k", 11)
        await store.commit(AdvanceBroadcast("k", 1, {1: Outcome.SENT}), TurnBroadcast("k", "done"))
        await store.commit(
            TurnBroadcast("k", "sending"),
            AdvanceBroadcast("k", 9, {1: Outcome.GONE}),
            OpenBroadcast("k", NOON, "again"),
            TurnBroadcast("never", "stopped"),
        )
        assert await store.broadcasts.get("k") == BroadcastJob(
            "k", NOON, "", 1, BroadcastStatus("done", 1, sent=1)
        )

    async def test_broadcasts_are_apart_and_listed_as_they_were_started(self, store: Store) -> None:
        await captured(store, "b", 1, 2)
        await captured(store, "a", 2, 3)
        await store.commit(AdvanceBroadcast("b", 1, {1: Outcome.SENT}))

        assert [job.key for job in await store.broadcasts.all()] == ["b", "a"]
        assert await waiting(store, "a") == [(1, 2), (2, 3)]
        assert await waiting(store, "b") == [(2, 2)]

    async def test_a_chat_that_is_forgotten_is_no_receiver(self, store: Store) -> None:
        await captured(store, "k", 11, 12, 13)
        await store.commit(AdvanceBroadcast("k", 1, {1: Outcome.GONE}))
        await store.forget(ChatId(11))
        await store.forget(ChatId(12))
        assert await waiting(store) == [(3, 13)]
        assert list(await store.broadcasts.receivers("k", after=0, limit=9, gone=True)) == []
        assert await status(store) == BroadcastStatus("sending", 2, gone=1)
        await store.commit(AdvanceBroadcast("k", 3, {2: Outcome.SENT, 3: Outcome.SENT}))
        assert await status(store) == BroadcastStatus("sending", 2, sent=1, gone=1)

    @pytest.mark.parametrize(
        "write",
        [
            OpenBroadcast("", NOON, "x"),
            OpenBroadcast("k" * 201, NOON, "x"),
            OpenBroadcast("two\nlines", NOON, "x"),
            OpenBroadcast("k", -1, "x"),
            OpenBroadcast("k", NOON, "\0"),
            AddReceivers("k", chats(1, 10**18)),
            AdvanceBroadcast("k", 2**63, {}),
            AdvanceBroadcast("k", 0, {-1: Outcome.SENT}),
        ],
    )
    async def test_what_cannot_be_stored_is_refused(self, store: Store, write: Write) -> None:
        with pytest.raises(LocalProtocolError):
            await store.commit(OpenBroadcast("other", NOON, "x"), write)
        assert await store.broadcasts.all() == []
