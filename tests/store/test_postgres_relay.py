"""Operators' requests that the store carries: whom they reach, what is answered, and that nothing stays."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from tests.postgres import Server
from tests.store.contract import SettableClock
from tests.wire_proxy import Proxy, proxying
from triobot.errors import ConfigError, StoreAwayError, StoreError
from triobot.seams.writes import Hear, Relayed
from triobot.store import Stamp, Store, ask_owner, open_store

STAMP = Stamp("https://platform.test", "t")
HI = Relayed("GET", "/hi?a=1", b"{}")
NOTHING_LEFT = [(0, 0)]

Answer = Callable[[Relayed, Hear], Awaitable[None]]


async def echo(relayed: Relayed, hear: Hear) -> None:
    """Answer what was asked, in a line each."""
    for line in (relayed.method.encode(), relayed.target.encode(), relayed.body):
        await hear(200, line + b"\n")


@asynccontextmanager
async def running(
    server: Server, answer: Answer | None = echo, proxy: Proxy | None = None
) -> AsyncGenerator[Store]:
    """A process that has the store, and answers so; None: it never looks."""
    url = server.url(port=0 if proxy is None else proxy.port)
    async with open_store(url, stamp=STAMP, clock=SettableClock()) as store, trio.open_nursery() as nursery:
        assert store.relay is not None
        if answer is not None:
            nursery.start_soon(store.relay, answer)
        yield store
        nursery.cancel_scope.cancel()


async def asked(server: Server, relayed: Relayed = HI, *, url: str = "") -> list[tuple[int, bytes]] | None:
    """The parts of the answer; None if nobody has the store."""
    parts: list[tuple[int, bytes]] = []

    async def hear(status: int, lines: bytes) -> None:
        await trio.lowlevel.checkpoint()
        parts.append((status, lines))

    return parts if await ask_owner(url or server.url(), relayed, hear) else None


def left(server: Server) -> list[tuple[object, ...]]:
    """How many requests and parts of answers there are."""
    return server.ask(
        "SELECT (SELECT count(*) FROM triobot.operator_requests),"
        " (SELECT count(*) FROM triobot.operator_answers)"
    )


async def until_nothing_is_left(server: Server) -> None:
    while left(server) != NOTHING_LEFT:
        await trio.sleep(0.05)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for longer than a fraction of a second."""
    from triobot.store.postgres import relay

    monkeypatch.setattr("triobot.store.postgres.ask_owner", partial(relay.ask_owner, patience=0.4))


# --- what is answered


async def test_whoever_has_the_store_is_asked_and_nothing_of_it_stays(postgres: Server) -> None:
    async with running(postgres):
        assert await asked(postgres) == [(200, b"GET\n/hi?a=1\n{}\n")]
        assert left(postgres) == NOTHING_LEFT


async def test_an_asker_that_dies_before_it_has_told_of_its_request_leaves_none(postgres: Server) -> None:
    """Nobody would know of it, and so nobody would delete it."""
    async with running(postgres):
        with proxying(postgres.port) as proxy:
            proxy.watch = lambda who, said: not (who == "client" and b"pg_notify" in said)
            with pytest.raises(StoreAwayError):
                await asked(postgres, url=postgres.url(port=proxy.port))
        assert left(postgres) == NOTHING_LEFT


async def test_what_is_asked_reaches_no_log_of_the_servers(postgres: Server) -> None:
    async with running(postgres):
        kept = postgres.ask(
            "SELECT relpersistence::text FROM pg_class WHERE relnamespace = 'triobot'::regnamespace"
            " AND relname LIKE 'operator%' AND relkind = 'r'"
        )
    assert kept == [("u",), ("u",)]


async def test_a_large_answer_comes_in_parts_and_in_order(postgres: Server) -> None:
    lines = [b"%d %s\n" % (n, b"x" * 700) for n in range(1_000)] + [b"y" * 300_000 + b"\n"]

    async def answer(relayed: Relayed, hear: Hear) -> None:
        for line in lines:
            await hear(200, line)

    async with running(postgres, answer):
        parts = await asked(postgres)
        assert parts is not None
        assert len(parts) > 5
        assert b"".join(part for _, part in parts) == b"".join(lines)
        assert left(postgres) == NOTHING_LEFT


async def test_an_answer_may_fail_in_its_middle(postgres: Server) -> None:
    async def answer(relayed: Relayed, hear: Hear) -> None:
        await hear(200, b"1\n")
        await hear(503, b"no\n")

    async with running(postgres, answer):
        assert await asked(postgres) == [(200, b"1\n"), (503, b"no\n")]


async def test_of_two_at_once_neither_waits_for_the_other(postgres: Server) -> None:
    second = trio.Event()

    async def answer(relayed: Relayed, hear: Hear) -> None:
        if relayed.target == "/first":
            await second.wait()
        await hear(200, relayed.target.encode())

    async with running(postgres, answer), trio.open_nursery() as nursery:

        async def ask_first() -> None:
            assert await asked(postgres, Relayed("GET", "/first")) == [(200, b"/first")]

        nursery.start_soon(ask_first)
        assert await asked(postgres, Relayed("GET", "/second")) == [(200, b"/second")]
        second.set()


async def test_more_than_are_answered_at_once_wait_for_their_turn(postgres: Server) -> None:
    most = now = 0
    eight = trio.Event()

    async def answer(relayed: Relayed, hear: Hear) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        if now == 8:
            eight.set()
        await eight.wait()
        await hear(200, relayed.target.encode())
        now -= 1

    async with running(postgres, answer), trio.open_nursery() as nursery:

        async def ask(n: int) -> None:
            assert await asked(postgres, Relayed("GET", f"/{n}")) == [(200, b"/%d" % n)]

        for n in range(11):
            nursery.start_soon(ask, n)
    assert most == 8


async def test_a_lost_connection_loses_no_answer(postgres: Server) -> None:
    asks = 0

    async def answer(relayed: Relayed, hear: Hear) -> None:
        nonlocal asks
        asks += 1
        proxy.cut()
        await hear(200, b"x" * 200_000)
        await hear(200, b"1\n")
        proxy.cut()
        await hear(200, b"2\n")

    with proxying(postgres.port) as proxy:
        async with running(postgres, answer, proxy):
            parts = await asked(postgres)
    assert parts is not None
    assert b"".join(part for _, part in parts) == b"x" * 200_000 + b"1\n2\n"
    assert asks == 1


# --- nobody is there


async def test_without_a_process_nobody_is_asked(postgres: Server) -> None:
    assert await asked(postgres, url=postgres.url(query="schema=nothing")) is None
    async with running(postgres):
        pass
    assert await asked(postgres) is None
    assert left(postgres) == NOTHING_LEFT


@pytest.mark.usefixtures("short")
async def test_a_process_that_does_not_look_is_named(postgres: Server) -> None:
    async with running(postgres, None):
        with pytest.raises(
            StoreError, match=f"active node is number {os.getpid()} on .*within 0.4 s; nothing was"
        ):
            await asked(postgres)
        assert left(postgres) == NOTHING_LEFT


async def test_a_process_that_stands_still_over_its_answer_is_named(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triobot.store.postgres.relay.SILENCE", 0.4)
    began = trio.Event()

    async def answer(relayed: Relayed, hear: Hear) -> None:
        began.set()
        await trio.sleep_forever()

    async with running(postgres, None) as store, trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def relay() -> None:
            assert store.relay is not None
            with scope:
                await store.relay(answer)

        nursery.start_soon(relay)

        async def ask() -> None:
            with pytest.raises(StoreError, match="within 5 s; what it was asked for may be done"):
                await asked(postgres)

        nursery.start_soon(ask)
        await began.wait()
        scope.cancel()


async def test_a_process_that_ends_over_its_answer_is_named(postgres: Server) -> None:
    began = trio.Event()

    async def answer(relayed: Relayed, hear: Hear) -> None:
        began.set()
        await trio.sleep_forever()

    async def ask() -> None:
        with pytest.raises(StoreError, match=f"number {os.getpid()} on .*, ended before it had answered"):
            await asked(postgres)

    async with trio.open_nursery() as nursery, running(postgres, answer):
        nursery.start_soon(ask)
        await began.wait()


async def test_if_a_process_ends_before_it_has_begun_the_next_one_is_asked(postgres: Server) -> None:
    """Another one had the store when the request was put down; it ends, and nothing had been done."""
    async with running(postgres), trio.open_nursery() as nursery:
        own = "UPDATE triobot.shard SET owner = (SELECT id FROM triobot.nodes WHERE id <> 7)"
        postgres.ask(
            "SELECT pg_advisory_lock(7)",
            "INSERT INTO triobot.nodes VALUES (7, 'another', 'infinity')",
            "UPDATE triobot.shard SET owner = 7",
        )

        async def ask() -> None:
            assert await asked(postgres) == [(200, b"GET\n/hi?a=1\n{}\n")]

        nursery.start_soon(ask)
        while left(postgres) == NOTHING_LEFT:
            await trio.sleep(0.01)
        postgres.ask("SELECT pg_advisory_unlock(7)", "DELETE FROM triobot.nodes WHERE id = 7", own)


async def test_if_a_process_ends_before_it_has_begun_and_none_follows_nobody_is_asked(
    postgres: Server,
) -> None:
    async with trio.open_nursery() as nursery, running(postgres, None):

        async def ask() -> None:
            assert await asked(postgres) is None

        nursery.start_soon(ask)
        while left(postgres) == NOTHING_LEFT:
            await trio.sleep(0.01)
    assert left(postgres) == NOTHING_LEFT


# --- nobody waits


def put_by_hand(server: Server, number: int = 1, *, waits: str = "1 hour") -> None:
    """Put a request down as a command does, whose session is gone then, as if it had been killed."""
    server.ask(
        f"INSERT INTO triobot.operator_requests SELECT {number}, id, 'GET', '/', '', false,"
        f" now() + interval '{waits}', now() + interval '1 hour' FROM triobot.nodes",
        "SELECT pg_notify('triobot is asked', '')",
    )


def is_waited_for_no_more(server: Server) -> None:
    """Let the time of all that wait be over."""
    server.ask("UPDATE triobot.operator_requests SET asker_until = now()")


async def test_what_nobody_waits_for_is_ended_and_its_rows_go(postgres: Server) -> None:
    began, ended = trio.Event(), trio.Event()

    async def answer(relayed: Relayed, hear: Hear) -> None:
        try:
            await hear(200, b"x" * 100_000)
            await hear(200, b"1\n")
            began.set()
            await trio.sleep_forever()
        finally:
            ended.set()

    async with running(postgres, answer):
        put_by_hand(postgres)
        await began.wait()
        assert left(postgres) == [(1, 1)]
        is_waited_for_no_more(postgres)
        await ended.wait()
        await until_nothing_is_left(postgres)


async def test_an_answer_that_nobody_fetches_goes(postgres: Server) -> None:
    async with running(postgres):
        put_by_hand(postgres)
        while left(postgres) != [(1, 1)]:
            await trio.sleep(0.01)
        is_waited_for_no_more(postgres)
        await until_nothing_is_left(postgres)


async def test_whoever_gives_up_takes_the_request_along(postgres: Server) -> None:
    async with running(postgres, None):
        with trio.move_on_after(0.5) as scope:
            await asked(postgres)
        assert scope.cancelled_caught
        assert left(postgres) == NOTHING_LEFT


async def test_whoever_lost_the_store_takes_no_request(postgres: Server) -> None:
    async with running(postgres):
        postgres.ask("UPDATE triobot.shard SET owner = 7")
        put_by_hand(postgres)
        for number in (2, 3):  # when the second one is gone, whoever swept the first had looked for requests
            put_by_hand(postgres, number, waits="0 s")
            while left(postgres) != [(1, 0)]:
                await trio.sleep(0.01)
        postgres.ask("UPDATE triobot.shard SET owner = (SELECT id FROM triobot.nodes)")


# --- who may not


async def test_a_bot_of_an_older_version_is_named(postgres: Server) -> None:
    async with running(postgres, None):
        postgres.ask("DROP TABLE triobot.operator_answers, triobot.operator_requests")
        with pytest.raises(StoreError, match="of another version"):
            await asked(postgres)
    async with running(postgres):
        assert await asked(postgres) is not None


async def test_another_role_is_told_as_whom_to_ask(postgres: Server) -> None:
    async with running(postgres):
        postgres.ask("CREATE ROLE guest LOGIN", "GRANT USAGE ON SCHEMA triobot TO guest")
        try:
            with pytest.raises(ConfigError, match=r"may not ask the bot.*as the bot's role"):
                await asked(postgres, url=postgres.url(user="guest"))
        finally:
            postgres.ask("DROP OWNED BY guest CASCADE", "DROP ROLE guest")


async def test_a_server_that_goes_away_is_named(postgres: Server) -> None:
    with proxying(postgres.port) as proxy:
        async with running(postgres, None):

            async def cut() -> None:
                while left(postgres) == NOTHING_LEFT:
                    await trio.sleep(0.01)
                proxy.cut()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(cut)
                with pytest.raises(StoreAwayError, match="went away while the bot was asked"):
                    await asked(postgres, url=postgres.url(port=proxy.port))
