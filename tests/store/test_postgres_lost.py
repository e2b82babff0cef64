"""What becomes of a commit when the connection is lost, and of a process whose store another one has."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any

import psycopg
import pytest
import trio
from psycopg import errors

from tests.loopback import PATIENCE
from tests.postgres import Server
from tests.store.contract import SettableClock
from tests.store.contract.contract import NOON, ROOMY, accepted, arrival
from tests.store.contract.money import put, raised
from tests.wire_proxy import Cut, Proxy, proxying
from triobot.errors import ConfigError, StoreAwayError, StoreCorruptError, StoreError, StoreLockedError
from triobot.seams.broadcasts import OpenBroadcast
from triobot.seams.inbox import InboxRow
from triobot.seams.journals import BeginConversation, ConversationId
from triobot.seams.money import RaiseAlarm
from triobot.seams.writes import (
    Accept,
    Consume,
    KeepRaw,
    LeaseLostError,
    OperatorOrder,
    PutData,
    PutSetting,
    StaleRowError,
    Write,
)
from triobot.store import Stamp, Store, open_store, read_nodes, wait_free
from triobot.store.postgres import session
from triobot.store.postgres.failures import ends_the_session
from triobot.store.postgres.orders import ask_owner
from triobot.store.postgres.ownership import SECONDS, SPEAKS_EVERY, hold
from triobot.wire.ids import ChatId

STAMP = Stamp("https://platform.test", "t")


def opened(server: Server, proxy: Proxy | None = None) -> AbstractAsyncContextManager[Store]:
    port = 0 if proxy is None else proxy.port
    return open_store(server.url(port=port), stamp=STAMP, clock=SettableClock())


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


class LastWords:
    """Has the server end all sessions of the store around a COMMIT, and hands its last words on.

    Args:
        when: ``"before"`` the server has the COMMIT; ``"within"``: it is done, and the server's last words
            are read in place of its answer; ``"after"`` the answer.
        end: ends the sessions.
    """

    def __init__(self, proxy: Proxy, when: str, end: Callable[[], object]) -> None:
        self.times = 0
        self._when = when
        self._end = end
        self._commits = self._answered = False
        proxy.watch, proxy.change = self.watch, self.change

    def watch(self, who: str, said: bytes) -> bool:
        if self.times:
            return True
        if who == "client" and b"COMMIT" in said:
            self._commits = True
            self._do("before")
        elif who == "server" and self._commits and b"COMMIT\0" in said:
            self._answered = self._when == "within"
            self._do("within")
        return True

    def change(self, answer: bytes) -> bytes:
        dropped, self._answered = self._answered, False
        if self._when == "after" and b"COMMIT\0" in answer:
            self._do("after")
        return b"" if dropped else answer

    def _do(self, when: str) -> None:
        if when == self._when and not self.times:
            self.times = 1
            self._end()


def terminate(server: Server) -> None:
    """As ``pg_ctl restart -m fast`` and a provider's maintenance do (57P01)."""
    asked(server, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'bots'")


def crash(server: Server) -> None:
    """Who connects meanwhile hears that the server starts (57P03)."""
    (pid, *_), *_ = asked(server, "SELECT pid FROM pg_stat_activity WHERE usename = 'bots'")
    os.kill(pid, signal.SIGKILL)


def asked(server: Server, question: str) -> list[tuple[Any, ...]]:
    """Ask in the thread of a proxy, which may outlive the test's own session."""
    with psycopg.connect(server.url(user="postgres"), autocommit=True) as connection:
        return connection.execute(question.encode()).fetchall()


@pytest.mark.parametrize("when", ["before", "within", "after"])
@pytest.mark.parametrize("end", [terminate, crash])
async def test_a_commit_at_which_the_server_ends_the_session_is_settled(
    postgres: Server, end: Callable[[Server], None], when: str
) -> None:
    """Its last words say nothing of the COMMIT: the count does."""
    with proxying(postgres.port) as proxy:
        async with opened(postgres, proxy) as store:
            first = await accepted(store, arrival(key="a"))
            ends = LastWords(proxy, when, partial(end, postgres))
            seqs = [first.seq]
            for key in ("b", "c"):
                while True:  # it may be away when a batch begins, and says so
                    try:
                        seqs.append((await accepted(store, arrival(key=key))).seq)
                        break
                    except StoreAwayError:
                        await trio.sleep(0.01)
            assert ends.times == 1
            assert [row.seq for row in await store.backlog(after=0, limit=9)] == seqs
            assert store.statistics().inbox == 3
    postgres.close()
    postgres.wait()
    assert postgres.ask("SELECT count(*) FROM triobot.inbox") == [(3,)]


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        # psycopg raises these while it calls the connection open.
        (psycopg.OperationalError("consuming input failed: server closed the connection unexpectedly"), True),
        (psycopg.InternalError("got unexpected result"), True),
        (errors.AdminShutdown("terminating connection"), True),
        (errors.CannotConnectNow("the database system is starting up"), True),
        (errors.ConnectionFailure("a proxy says so"), True),
        (errors.PipelineAborted("pipeline aborted"), False),
        (psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"), False),
        (errors.QueryCanceled("statement timeout"), False),
        (errors.LockNotAvailable("lock timeout"), False),
        (StaleRowError("stale"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_which_errors_end_the_session(error: Exception, ends: bool) -> None:
    assert ends_the_session(error) is ends


async def test_a_session_that_stood_still_in_a_transaction_is_made_anew(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has ended it (25P03), and psycopg doesn't call that an operational error."""
    short = [text.replace("session_timeout = 2000", "session_timeout = 500") for text in session._SETTINGS]
    monkeypatch.setattr(session, "_SETTINGS", short)
    stood = 0

    def watch(who: str, said: bytes) -> bool:
        nonlocal stood
        if who == "client" and b"ROLLBACK TO" in said and not stood:
            stood = 1
            in_hand = (
                "SELECT count(*) FROM pg_stat_activity WHERE usename = 'bots' AND backend_xid IS NOT NULL"
            )
            while asked(postgres, in_hand) != [(0,)]:
                pass
        return True

    with proxying(postgres.port) as proxy:
        async with opened(postgres, proxy) as store:
            await accepted(store, arrival(key="a"))
            proxy.watch = watch
            with pytest.raises(StaleRowError):  # what is refused goes by savepoints
                await store.commit(put(revision=5))
            await store.commit(PutData(ChatId(1), "k", "v"))
            assert stood
    assert postgres.ask("SELECT value FROM triobot.data") == [("v",)]


@pytest.mark.slow
async def test_sessions_that_are_ended_and_cancelled_at_any_moment_lose_and_double_nothing(
    postgres: Server,
) -> None:
    """A cancelled statement is an error of a session that goes on."""
    chance, over = random.Random(7), threading.Event()
    faults = [f"SELECT pg_{what}_backend(pid) FROM pg_stat_activity WHERE usename = 'bots'" for what in
              ("terminate", "cancel", "cancel", "cancel")]  # fmt: skip

    async def until_stored(call: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await call()
            except StoreAwayError:
                await trio.lowlevel.checkpoint()
            else:
                return

    async def talk(store: Store, chat: int) -> None:
        for number in range(150):
            said = arrival(chat, key=f"{chat} {number}", once=True, body=str(number).encode())
            await until_stored(partial(store.accept, said, quota=ROOMY))
            if number % 7 == chat:
                with pytest.raises(StaleRowError):
                    await until_stored(partial(store.commit, put(revision=5)))

    def end_some() -> None:
        while not over.wait(chance.uniform(0, 0.02)):
            asked(postgres, chance.choice(faults))

    async with opened(postgres) as store:
        thread = threading.Thread(target=end_some)
        thread.start()
        try:
            async with trio.open_nursery() as nursery:
                for chat in range(1, 5):
                    nursery.start_soon(talk, store, chat)
        finally:
            over.set()
            thread.join()
        for chat in range(1, 5):
            rows = await store.pending(ChatId(chat), after=0, limit=999)
            assert [int(row.body) for row in rows] == list(range(150))
        assert store.statistics().inbox == 600


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


@pytest.mark.slow
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


async def loses(store: Store, write: Write) -> None:
    """The store refuses this as another process's: at once, or once its lease's thread has heard of that."""
    while True:
        try:
            await store.commit(write)
        except LeaseLostError:
            return
        except StoreAwayError:
            await trio.lowlevel.checkpoint()
        else:
            raise AssertionError("it was stored")


async def test_a_process_whose_store_was_taken_over_stores_nothing(postgres: Server) -> None:
    """It lost its session, and another one opened the store meanwhile."""
    with proxying(postgres.port) as proxy, pytest.raises(LeaseLostError, match="taken over"):
        async with opened(postgres, proxy) as first:
            row = await accepted(first, arrival(key="a"))
            proxy.refuses = True
            proxy.cut()
            async with opened(postgres) as second:
                await second.commit(PutSetting("whose", "second"))
            proxy.refuses = False
            await loses(first, Consume((row.seq,)))
            with pytest.raises(LeaseLostError):
                await first.commit(PutSetting("whose", "first"))
    assert postgres.ask("SELECT value FROM triobot.settings") == [("second",)]
    assert postgres.ask("SELECT count(*) FROM triobot.inbox") == [(1,)]


async def test_a_fence_that_was_moved_under_a_living_session_holds(postgres: Server) -> None:
    """Though it has its session and believes in its lease, a write of any kind stores nothing."""
    writes: list[tuple[Write, ...]] = [
        (PutSetting("whose", "still mine"),),
        (PutData(ChatId(1), "k", "v"),),
        (KeepRaw(NOON, "odd", "text/plain", b"?"),),
        (put(),),
        (raised([], 1),),
        (RaiseAlarm("outbox_held", "outbox", "held", NOON),),
        (OpenBroadcast("news", NOON, "text"),),
        (Accept(arrival(key="taken")),),
        (PutSetting("one", "of two"), PutData(ChatId(2), "k", "v")),
    ]
    with pytest.raises(LeaseLostError):
        async with opened(postgres) as store:
            row = await accepted(store, arrival(key="a"))
            begin = BeginConversation(ConversationId(row.seq), row.chat_id, "pizza", "v", NOON)
            await store.commit(PutSetting("whose", "mine"))
            before = everything(postgres)
            taken_over(postgres)
            for write in [*writes, (Consume((row.seq,)),), (begin,)]:
                with pytest.raises(LeaseLostError):
                    await store.commit(*write)
            for call in (
                lambda: store.accept(arrival(key="b"), quota=ROOMY),
                lambda: store.accept(arrival(key="c"), quota=ROOMY, also=[PutSetting("with", "it")]),
                lambda: store.forget(row.chat_id),
                store.check,
            ):
                with pytest.raises(LeaseLostError):
                    await call()
            store.note_answered("a")
            assert everything(postgres) == before
    assert everything(postgres) == before


def taken_over(server: Server) -> None:
    """As by another process, which has found the lock free."""
    server.ask("DELETE FROM triobot.commits")


def everything(server: Server) -> object:
    """All that is in a store's tables, but for what says who has it."""
    tables = server.ask(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'triobot'"
        " AND tablename NOT IN ('owner', 'commits') ORDER BY 1"
    )
    return [(name, sorted(map(str, server.ask(f"SELECT * FROM triobot.{name}")))) for (name,) in tables]


# --- whose it is


async def test_a_store_that_nobody_took_is_had_again(postgres: Server) -> None:
    """While nothing is heard of the server for three seconds, nothing may begin; then it goes on."""
    with proxying(postgres.port) as proxy:
        async with opened(postgres, proxy) as store:
            assert store.held is not None
            assert store.held()
            proxy.refuses = True
            proxy.cut()
            while store.held():
                await trio.sleep(0.05)
            with pytest.raises(StoreAwayError, match="is away"):
                await store.commit(PutSetting("whose", "?"))
            proxy.refuses = False
            while not store.held():
                await trio.sleep(0.05)
            await store.commit(PutSetting("whose", "still mine"))
    assert postgres.ask("SELECT value FROM triobot.settings") == [("still mine",)]


async def test_who_stands_still_while_it_commits_does_not_keep_the_store(postgres: Server) -> None:
    """The server takes it for busy as long as statements may follow that it is to run at once."""
    async with opened(postgres):
        pass
    frozen = psycopg.connect(postgres.url(), autocommit=True, cursor_factory=psycopg.RawCursor)
    hold(frozen, 7)
    postgres.ask(
        "INSERT INTO triobot.commits VALUES (7, 0)",
        "UPDATE triobot.owner SET id = 7, name = 'frozen'",
    )
    with suppress(psycopg.OperationalError), frozen.pipeline():
        for statement in ("BEGIN", "SELECT 1 FROM triobot.owner FOR UPDATE"):
            frozen.execute(statement)
        frozen.pgconn.send_flush_request()
        frozen.pgconn.flush()
        locked = "SELECT count(*) FROM pg_stat_activity JOIN triobot.owner ON backend_xid = owner.xmax"
        while postgres.ask(locked) == [(0,)]:
            await trio.sleep(0.01)
        async with opened(postgres) as store:
            await store.commit(PutSetting("whose", "mine"))
        assert postgres.ask(locked) == [(0,)]
    frozen.close()
    assert postgres.ask("SELECT value FROM triobot.settings") == [("mine",)]


async def test_who_is_silent_for_three_seconds_loses_the_store_and_who_speaks_keeps_it(
    postgres: Server,
) -> None:
    """As one that stands still: the server hears nothing of it, and its session is there."""
    async with opened(postgres) as store:
        await trio.sleep(SECONDS + 2 * SPEAKS_EVERY)
        with pytest.raises(StoreLockedError):
            async with opened(postgres):
                raise AssertionError
        assert store.held is not None
        assert store.held()
        await store.commit(PutSetting("whose", "mine"))
    silent = psycopg.connect(postgres.url(), autocommit=True, cursor_factory=psycopg.RawCursor)
    hold(silent, 7)
    postgres.ask("UPDATE triobot.owner SET id = 7, name = 'number 7'")
    with trio.fail_after(PATIENCE):
        while not (await read_nodes(postgres.url()))[0].silent:
            await trio.sleep(0.01)
    place = postgres.url().removeprefix("postgresql:")
    with pytest.raises(StoreError, match=r"number 7, .*, nor tell the database anything for 3 s: it stands"):
        await ask_owner(place, OperatorOrder("GET", "/", b""), patience=0)
    async with opened(postgres) as store:
        await store.commit(PutSetting("whose", "another's"))
    with pytest.raises(psycopg.OperationalError):
        silent.execute("SELECT 1")


async def test_a_process_at_rest_writes_nothing(postgres: Server) -> None:
    async with opened(postgres) as store:
        await store.commit(PutSetting("a", "b"))
        # Not the log: the server writes there by itself. Whoever writes a row is given a number first.
        numbers = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
        before = postgres.ask(numbers)
        await trio.sleep(3 * SPEAKS_EVERY)
        assert postgres.ask(numbers) == before


async def test_a_commit_leaves_no_version_of_a_row_that_the_next_one_walks(postgres: Server) -> None:
    """Beside a long transaction dead versions stay, and a count in one row would grow by one a commit."""
    async with opened(postgres) as store:
        await accepted(store, arrival(key="0"))
        before = postgres.ask("SELECT ctid::text FROM triobot.owner")
        for number in range(1, 20):
            await accepted(store, arrival(key=str(number)))
        assert postgres.ask("SELECT ctid::text FROM triobot.owner") == before


async def test_who_lost_its_store_hears_of_it_without_asking(postgres: Server) -> None:
    """Its thread finds that its commits are counted no more, and the block is cancelled."""
    with proxying(postgres.port) as proxy, pytest.raises(LeaseLostError, match="taken over"):
        async with opened(postgres, proxy) as first:
            proxy.refuses = True
            proxy.cut()
            async with opened(postgres):
                assert first.held is not None
                assert not first.held()
                proxy.refuses = False
                await trio.sleep_forever()


async def started(server: Server, *, visit: bool = False, dies: bool = False) -> int:
    """Open the store and close it, or die with it open; return how many runs in a row had died before."""
    async with open_store(server.url(), stamp=STAMP, clock=SettableClock(), visit=visit) as store:
        unclean = store.opening().unclean
    if dies:
        server.ask("DELETE FROM triobot.meta WHERE name = 'clean'")
    return unclean


@pytest.mark.slow
@pytest.mark.parametrize(
    ("meanwhile", "then"),
    [
        # How each run ended that had the store meanwhile, and what the next one counts.
        (["died"], 1),
        (["died", "died"], 2),
        (["stopped"], 0),
        (["died", "stopped", "died"], 1),
        (["visit"], 0),
        (["visit", "died"], 1),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
async def test_who_lost_the_store_and_lives_is_no_crash(
    postgres: Server, meanwhile: list[str], then: int
) -> None:
    """Whoever took the store counted it as one, unless only a tool did; once it hears of it, it says so."""
    counted: list[int] = []
    with proxying(postgres.port) as proxy, pytest.raises(LeaseLostError):
        async with opened(postgres, proxy):
            proxy.refuses = True
            proxy.cut()
            for end in meanwhile:
                counted.append(await started(postgres, visit=end == "visit", dies=end == "died"))
            proxy.refuses = False
            await trio.sleep_forever()
    assert counted[0] == 1
    assert await started(postgres) == then


@pytest.mark.slow
@pytest.mark.parametrize(("meanwhile", "then"), [([], 0), (["died"], 1), (["stopped"], 0)], ids=str)
async def test_whose_server_was_away_at_the_end_is_no_crash(
    postgres: Server, meanwhile: list[str], then: int
) -> None:
    """A process whose work was cut by that lives on, and says so once it reaches the server again."""
    with proxying(postgres.port) as proxy:
        async with opened(postgres, proxy):
            proxy.refuses = True
            proxy.cut()
        for end in meanwhile:
            assert await started(postgres, dies=end == "died") == 1
        proxy.refuses = False
        await wait_free(postgres.url(port=proxy.port), taken=lambda: None)
    assert await started(postgres) == then


async def test_who_waits_is_told_when_the_store_is_free(postgres: Server) -> None:
    taken: list[str] = []
    async with opened(postgres):
        with trio.CancelScope() as waiting:

            def hear() -> None:
                taken.append("first")
                waiting.cancel()

            await wait_free(postgres.url(), taken=hear)
        assert waiting.cancelled_caught
    await wait_free(postgres.url(), taken=lambda: taken.append("never"))
    async with trio.open_nursery() as nursery, opened(postgres):
        with trio.CancelScope() as scope:
            waits = partial(wait_free, postgres.url(), taken=scope.cancel)
            nursery.start_soon(waits)
            await trio.sleep_forever()
    assert taken == ["first"]


# --- the rest


async def test_a_database_that_went_back_is_noticed(postgres: Server) -> None:
    with pytest.raises(StoreCorruptError, match="failover or a restore"):
        async with opened(postgres) as store:
            await store.commit(PutSetting("a", "b"))
            postgres.ask("UPDATE triobot.commits SET n = n - 1")
            with pytest.raises(StoreCorruptError):
                await store.commit(PutSetting("a", "c"))
    assert postgres.ask("SELECT value FROM triobot.settings") == [("b",)]


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


async def test_events_beside_a_refused_unit_keep_their_numbers(postgres: Server) -> None:
    """Those before it and behind it in the batch have their own, and so have those that come later."""
    seqs: list[int] = []

    async with opened(postgres) as store:

        async def store_one(number: int) -> None:
            if number % 3:
                seqs.append((await accepted(store, arrival(number, key=f"{number}"))).seq)
            else:
                with pytest.raises(StaleRowError):
                    await store.commit(put(revision=5))

        for chats in (range(30), range(30, 60)):
            async with trio.open_nursery() as nursery:
                for number in chats:
                    nursery.start_soon(store_one, number)
    assert len(seqs) == len(set(seqs)) == 40
    assert postgres.ask("SELECT last_value FROM triobot.numbers") == [(max(seqs),)]
