"""What becomes of a commit when the connection is lost, and of a process whose shard another one has."""

from __future__ import annotations

import random
from contextlib import AbstractAsyncContextManager

import pytest
import trio

from tests.postgres import Server
from tests.store.contract import SettableClock
from tests.store.contract.contract import ROOMY, accepted, arrival
from tests.store.contract.money import put
from tests.wire_proxy import Proxy, proxying
from triobot.errors import ConfigError, StoreAwayError, StoreCorruptError
from triobot.seams import Consume, InboxRow, LeaseLostError, PutData, PutSetting, StaleRowError, Store
from triobot.store import Stamp, open_store
from triobot.wire.ids import ChatId

STAMP = Stamp("https://platform.test", "t")


def opened(server: Server, proxy: Proxy | None = None) -> AbstractAsyncContextManager[Store]:
    port = 0 if proxy is None else proxy.port
    return open_store(server.url(port=port), stamp=STAMP, clock=SettableClock())


class Cut:
    """Cuts the connection at a COMMIT: before the server has it, or before the client has its answer."""

    def __init__(self, proxy: Proxy, at: str) -> None:
        self.times = 0
        self._at = at
        self._proxy = proxy
        self._commits = False
        proxy.watch = self.watch

    def watch(self, who: str, said: bytes) -> bool:
        if who == "client" and b"COMMIT" in said:
            self._commits = True
        if self._commits and who == self._at:
            self._commits = False
            self._proxy.watch = lambda who, said: True
            self.times += 1
            return False
        return True


@pytest.mark.parametrize("at", ["client", "server"])
async def test_a_commit_whose_answer_is_lost_is_settled(postgres: Server, at: str) -> None:
    """Whether it was done or not, its caller is told what holds, and each event is there once."""
    with proxying(postgres.port) as proxy:
        async with opened(postgres, proxy) as store:
            first = await accepted(store, arrival(key="a"))
            cut = Cut(proxy, at)
            second = await accepted(store, arrival(key="b"))
            third = await accepted(store, arrival(key="c"))
            assert cut.times == 1
            assert [row.seq for row in await store.backlog(after=0, limit=9)] == [
                first.seq,
                second.seq,
                third.seq,
            ]
            assert store.statistics().inbox == 3
    assert postgres.ask("SELECT count(*) FROM triobot.inbox") == [(3,)]
    assert postgres.ask("SELECT count(*) FROM triobot.deliveries") == [(3,)]


async def test_a_connection_that_is_lost_between_commits_is_made_anew(postgres: Server) -> None:
    with proxying(postgres.port) as proxy:
        async with opened(postgres, proxy) as store:
            await accepted(store, arrival(key="a"))
            proxy.cut()
            await accepted(store, arrival(key="b"))
            proxy.cut()
            assert len(await store.backlog(after=0, limit=9)) == 2


async def test_a_session_that_the_server_ends_is_made_anew(postgres: Server) -> None:
    async with opened(postgres) as store:
        await accepted(store, arrival(key="a"))
        postgres.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'bots'")
        await accepted(store, arrival(key="b"))
        assert store.statistics().inbox == 2


async def test_while_the_database_is_away_nothing_is_stored_and_that_is_said(postgres: Server) -> None:
    with proxying(postgres.port) as proxy:
        async with opened(postgres, proxy) as store:
            await accepted(store, arrival(key="a"))
            proxy.refuses = True
            proxy.cut()
            for _ in range(2):
                with pytest.raises(StoreAwayError, match="away"):
                    await store.accept(arrival(key="b"), quota=ROOMY)
                with pytest.raises(StoreAwayError):
                    await store.setting("x")
            proxy.refuses = False
            await accepted(store, arrival(key="b"))
            assert store.statistics().inbox == 2


async def test_a_commit_that_stays_in_doubt_breaks_the_store(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triobot.store.postgres.transactions.SETTLE_SECONDS", 0.0)
    with proxying(postgres.port) as proxy, pytest.raises(StoreCorruptError, match="may or may not"):
        async with opened(postgres, proxy) as store:

            def cut(who: str, said: bytes) -> bool:
                if who == "client" and b"COMMIT" in said:
                    proxy.refuses = True
                    return False
                return True

            proxy.watch = cut
            await accepted(store, arrival(key="a"))


async def test_connections_that_are_lost_anywhere_lose_and_double_nothing(postgres: Server) -> None:
    """Whoever is told that nothing was stored repeats it, and is never told then that it had been."""
    chance, chats, each = random.Random(5), range(1, 5), 40
    cuts, seen, at = 0, 0, 30

    def watch(who: str, said: bytes) -> bool:
        nonlocal cuts, seen, at
        seen += 1
        if seen < at:
            return True
        at, cuts = seen + chance.randrange(40, 90), cuts + 1
        return False

    with proxying(postgres.port) as proxy:
        async with opened(postgres, proxy) as store:

            async def talk(chat: int) -> None:
                for number in range(each):
                    said = arrival(chat, key=f"{chat} {number}", once=True, body=str(number).encode())
                    while True:
                        try:
                            assert isinstance(await store.accept(said, quota=ROOMY), InboxRow)
                        except StoreAwayError:
                            await trio.lowlevel.checkpoint()
                        else:
                            break

            proxy.watch = watch
            async with trio.open_nursery() as nursery:
                for chat in chats:
                    nursery.start_soon(talk, chat)
            proxy.watch = lambda who, said: True
            for chat in chats:
                rows = await store.pending(ChatId(chat), after=0, limit=2 * each)
                assert [int(row.body) for row in rows] == list(range(each))
            assert store.statistics().inbox == each * len(chats)
    assert cuts > 0


# --- the fence


async def test_a_process_whose_shard_was_taken_over_stores_nothing(postgres: Server) -> None:
    """It lost its session, and another one opened the store meanwhile."""
    with proxying(postgres.port) as proxy, pytest.raises(LeaseLostError, match="taken over"):
        async with opened(postgres, proxy) as first:
            row = await accepted(first, arrival(key="a"))
            proxy.refuses = True
            proxy.cut()
            async with opened(postgres) as second:
                await second.commit(PutSetting("whose", "second"))
            proxy.refuses = False
            with pytest.raises(LeaseLostError):
                await first.commit(Consume((row.seq,)))
            with pytest.raises(LeaseLostError):
                await first.commit(PutSetting("whose", "first"))
    assert postgres.ask("SELECT value FROM triobot.settings") == [("second",)]
    assert postgres.ask("SELECT count(*) FROM triobot.inbox") == [(1,)]


async def test_a_fence_that_was_moved_under_a_living_session_holds(postgres: Server) -> None:
    """Though it has its session and its lock, a write of any kind stores nothing."""
    with pytest.raises(LeaseLostError):
        async with opened(postgres) as store:
            await store.commit(PutSetting("whose", "mine"))
            postgres.ask("UPDATE triobot.shard SET fence = fence + 1")
            for write in (PutSetting("whose", "still mine"), PutData(ChatId(1), "k", "v")):
                with pytest.raises(LeaseLostError):
                    await store.commit(write)
            with pytest.raises(LeaseLostError):
                await store.accept(arrival(), quota=ROOMY)
    assert postgres.ask("SELECT value FROM triobot.settings") == [("mine",)]
    assert postgres.ask("SELECT count(*) FROM triobot.inbox") == [(0,)]
    assert postgres.ask("SELECT count(*) FROM triobot.data") == [(0,)]


async def test_a_database_that_went_back_is_noticed(postgres: Server) -> None:
    with pytest.raises(StoreCorruptError, match="failover or a restore"):
        async with opened(postgres) as store:
            await store.commit(PutSetting("a", "b"))
            postgres.ask("UPDATE triobot.shard SET commits = commits - 1")
            with pytest.raises(StoreCorruptError):
                await store.commit(PutSetting("a", "c"))
    assert postgres.ask("SELECT value FROM triobot.settings") == [("b",)]


# --- the rest


async def test_a_proxy_that_shares_sessions_is_found_out(postgres: Server) -> None:
    """It names a process of its own in the greeting, as pgbouncer does."""
    with proxying(postgres.port) as proxy:

        def change(answer: bytes) -> bytes:
            at = answer.find(b"K\0\0\0\x0c")
            return answer if at < 0 else answer[: at + 5] + b"\0\0\0\x07" + answer[at + 9 :]

        proxy.change = change
        with pytest.raises(ConfigError, match="proxy that shares sessions"):
            async with opened(postgres, proxy):
                pass


async def test_a_refused_unit_refuses_only_itself(postgres: Server) -> None:
    """Of many that are committed together one can't be stored; the others are."""
    verdicts: dict[int, str] = {}

    async with opened(postgres) as store:

        async def store_one(number: int) -> None:
            try:
                await store.commit(
                    PutSetting(f"s{number}", "x"), *([put(revision=5)] if number % 5 == 0 else [])
                )
            except StaleRowError:
                verdicts[number] = "stale"
            else:
                verdicts[number] = "stored"

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(store_one, number)
    assert verdicts == {number: "stale" if number % 5 == 0 else "stored" for number in range(20)}
    assert postgres.ask("SELECT count(*) FROM triobot.settings") == [(16,)]
