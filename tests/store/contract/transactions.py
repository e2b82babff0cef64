"""What a store does with everything that moves together, and with what must not harm it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from triobot.errors import LocalProtocolError
from triobot.seams.writes import Consume, KeepRaw, PutData, PutSetting, Write
from triobot.store import Store
from triobot.wire.ids import ChatId

from .contract import NOON, ROOMY, Contract, SettableClock, accepted, arrival


class TransactionContract(Contract):
    """All or nothing; settings, raw requests, data of chats."""

    # --- settings, raw requests

    async def test_settings_are_replaced(self, store: Store) -> None:
        assert await store.setting("secret") is None
        await store.commit(PutSetting("secret", "one"), PutSetting("empty", ""))
        await store.commit(PutSetting("secret", "two"))
        assert await store.setting("secret") == "two"
        assert await store.setting("empty") == ""

    async def test_the_newest_raw_requests_come_first(self, store: Store) -> None:
        kept = [KeepRaw(NOON + n, f"reason {n}", "text/plain", b"%d" % n) for n in range(4)]
        await store.commit(*kept)
        assert list(await store.raw(limit=3)) == kept[:0:-1]

    async def test_the_ring_of_raw_requests_is_bounded_by_rows(self, store: Store) -> None:
        """How it began is kept for good, and how it goes on."""
        await store.commit(*(KeepRaw(NOON, "", "", b"%d" % n) for n in range(1_103)))
        rows = [int(row.body) for row in await store.raw(limit=2_000)]
        assert rows == [*range(1_102, 102, -1), *range(99, -1, -1)]
        assert store.statistics().raw == 1_100

    async def test_the_ring_of_raw_requests_is_bounded_by_bytes(self, store: Store) -> None:
        big = bytes(100_000)
        await store.commit(*(KeepRaw(NOON + n, "", "", big) for n in range(260)))
        rows = await store.raw(limit=2_000)
        assert {len(row.body) for row in rows} == {64 * 1024}
        assert [row.at - NOON for row in rows] == [*range(259, 103, -1), *range(99, -1, -1)]

    async def test_a_raw_request_is_kept_whatever_is_in_its_headers(self, store: Store) -> None:
        await store.commit(KeepRaw(NOON, "bad \ud800\0", "x" * 10_000, b"\xff"))
        (row,) = await store.raw(limit=1)
        assert row.body == b"\xff"
        row.reason.encode()
        assert len(row.content_type) < 1_000

    # --- all or nothing, and no write harms its neighbours

    async def test_a_bad_value_fails_alone_and_leaves_nothing_behind(self, store: Store) -> None:
        poison: list[Write] = [
            PutSetting("x", "half a pair: \ud800"),
            PutSetting("nul\0", "x"),
            Consume((2**63,)),
            KeepRaw(2**63, "", "", b""),
        ]
        refused: list[str] = []

        async def bad(write: Write) -> None:
            with pytest.raises(LocalProtocolError) as caught:
                await store.commit(PutSetting("trace", "of a failed commit"), write)
            refused.append(str(caught.value))

        async def good(n: int) -> None:
            await accepted(store, arrival(n + 1))

        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(good, n)
            for write in poison:
                nursery.start_soon(bad, write)

        assert len(refused) == len(poison)
        assert "half a pair" not in "".join(refused)
        assert await store.setting("trace") is None
        assert store.statistics().inbox == 20

    @pytest.mark.parametrize(
        "changes",
        [
            {"chat_id": 2**63},
            {"chat_id": True},
            {"sender_id": -(2**63) - 1},
            {"at": 2**63},
            {"key": "\ud800"},
            {"key": "a\0b"},
            {"key": ""},
            {"content_type": "text/\ud800"},
            {"body": bytes(32 * 1024 * 1024 + 1)},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    async def test_an_arrival_that_cannot_be_stored_is_refused(
        self, store: Store, changes: dict[str, Any]
    ) -> None:
        with pytest.raises(LocalProtocolError):
            await store.accept(arrival(**changes), quota=ROOMY)
        await accepted(store, arrival())
        assert store.statistics().inbox == 1

    async def test_a_bad_write_refuses_the_event_that_it_comes_with(self, store: Store) -> None:
        with pytest.raises(LocalProtocolError):
            await store.accept(arrival(), quota=ROOMY, also=[PutSetting("\ud800", "x")])
        assert store.statistics().inbox == 0

    async def test_a_commit_of_nothing_is_fine(self, store: Store) -> None:
        await store.commit()
        await store.check()

    async def test_a_closed_store_says_so(self, clock: SettableClock, tmp_path: Path) -> None:
        async with self.opened(clock, tmp_path) as store:
            await store.check()
        with pytest.raises(trio.ClosedResourceError):
            await store.check()
        with pytest.raises(trio.ClosedResourceError):
            await store.accept(arrival(), quota=ROOMY)

    async def test_an_error_of_the_block_comes_out_as_it_is(
        self, clock: SettableClock, tmp_path: Path
    ) -> None:
        mine = ValueError("mine")
        with pytest.raises(ValueError) as caught:
            async with self.opened(clock, tmp_path):
                raise mine
        assert caught.value is mine

    async def test_every_method_checkpoints(self, store: Store) -> None:
        with trio.testing.assert_checkpoints():
            await store.accept(arrival(), quota=ROOMY)
        with trio.testing.assert_checkpoints():
            await store.commit()
        with trio.testing.assert_checkpoints():
            await store.pending(ChatId(1), after=0, limit=1)

    # --- data of chats

    async def test_a_chat_keeps_values_by_key(self, clock: SettableClock, tmp_path: Path) -> None:
        one, two = ChatId(1), ChatId(-2)
        async with self.opened(clock, tmp_path) as store:
            assert await store.data(one) == {}
            await store.commit(PutData(one, "a", "1"), PutData(one, "b", "2"), PutData(two, "a", "3"))
            assert await store.data(one) == {"a": "1", "b": "2"}

            await store.commit(PutData(one, "a", "4"), PutData(one, "b", None), PutData(one, "c", None))
            assert await store.data(one) == {"a": "4"}
            assert await store.data(two) == {"a": "3"}

    async def test_data_goes_with_what_it_is_committed_with(
        self, clock: SettableClock, tmp_path: Path
    ) -> None:
        async with self.opened(clock, tmp_path) as store:
            row = await accepted(store, arrival(), also=[PutData(ChatId(1), "a", "1")])
            await store.commit(
                Consume((row.seq,)), PutData(ChatId(1), "a", "2"), PutData(ChatId(1), "a", "3")
            )
            assert await store.data(ChatId(1)) == {"a": "3"}
            assert store.statistics().inbox == 0

    async def test_the_chats_of_a_key_come_in_pages(self, clock: SettableClock, tmp_path: Path) -> None:
        async with self.opened(clock, tmp_path) as store:
            for chat in (5, -7, 3, 10**17):
                await store.commit(PutData(ChatId(chat), "a", str(chat)), PutData(ChatId(chat), "b", "x"))
            await store.commit(PutData(ChatId(4), "b", "x"))

            first = await store.keyed("a", after=None, limit=2)
            rest = await store.keyed("a", after=first[-1][0], limit=10)

            assert [*first, *rest] == [(chat, str(chat)) for chat in (-7, 3, 5, 10**17)]
            assert list(await store.keyed("nobody's", after=None, limit=10)) == []

    @pytest.mark.parametrize(
        "write",
        [
            PutData(ChatId(2**63), "a", "1"),
            PutData(ChatId(1), "", "1"),
            PutData(ChatId(1), "a", "\0"),
            PutData(ChatId(1), "a", "x" * (1024 * 1024 + 1)),
        ],
    )
    async def test_data_that_cannot_be_stored_is_refused(
        self, clock: SettableClock, tmp_path: Path, write: PutData
    ) -> None:
        async with self.opened(clock, tmp_path) as store:
            with pytest.raises(LocalProtocolError):
                await store.commit(write)
