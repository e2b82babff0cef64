"""Operators' orders that the store carries: whom they reach, what is answered, and that nothing stays."""

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
from triobot.seams.writes import Answered, CarryOut, OperatorOrder
from triobot.store import Stamp, Store, ask_owner, open_store
from triobot.store.postgres import orders

STAMP = Stamp("https://platform.test", "t")
HI = OperatorOrder("GET", "/hi?a=1", b"{}")
NOTHING_LEFT = [(0,)]
_PIECE = 400_000

Answer = Callable[[OperatorOrder], Awaitable[Answered]]


async def echo(order: OperatorOrder) -> Answered:
    """Answer what was asked, in a line each."""
    await trio.lowlevel.checkpoint()
    return 200, b"\n".join((order.method.encode(), order.target.encode(), order.body, b""))


def in_pieces(answer: Answer) -> CarryOut:
    """Tell what this answers, some at a time."""

    async def carry_out(order: OperatorOrder, tell: Callable[[bytes], Awaitable[None]]) -> int:
        status, lines = await answer(order)
        for at in range(0, len(lines), _PIECE):
            await tell(lines[at : at + _PIECE])
        return status

    return carry_out


@asynccontextmanager
async def running(
    server: Server, answer: Answer | None = echo, proxy: Proxy | None = None
) -> AsyncGenerator[Store]:
    """A process that has the store, and answers so; None: it never looks."""
    url = server.url(port=0 if proxy is None else proxy.port)
    async with open_store(url, stamp=STAMP, clock=SettableClock()) as store, trio.open_nursery() as nursery:
        assert store.news is not None
        if answer is not None:
            nursery.start_soon(store.news, lambda: None, in_pieces(answer))
        yield store
        nursery.cancel_scope.cancel()


async def asked(server: Server, order: OperatorOrder = HI, *, url: str = "") -> Answered | None:
    """The answer; None if nobody has the store."""
    return await ask_owner(url or server.url(), order)


def left(server: Server) -> list[tuple[object, ...]]:
    """How many orders there are."""
    return server.ask("SELECT count(*) FROM triobot.orders")


async def until_nothing_is_left(server: Server) -> None:
    while left(server) != NOTHING_LEFT:
        await trio.sleep(0.05)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for longer than a fraction of a second."""
    monkeypatch.setattr("triobot.store.postgres.ask_owner", partial(orders.ask_owner, patience=0.4))


# --- what is answered


async def test_whoever_has_the_store_is_asked_and_nothing_of_it_stays(postgres: Server) -> None:
    async with running(postgres):
        assert await asked(postgres) == (200, b"GET\n/hi?a=1\n{}\n")
        assert left(postgres) == NOTHING_LEFT


async def test_an_asker_that_dies_before_it_has_told_of_its_order_leaves_none(postgres: Server) -> None:
    async with running(postgres):
        with proxying(postgres.port) as proxy:
            proxy.watch = lambda who, said: not (who == "client" and b"pg_notify" in said)
            with pytest.raises(StoreAwayError):
                await asked(postgres, url=postgres.url(port=proxy.port))
        await until_nothing_is_left(postgres)


async def test_what_is_asked_reaches_no_log_of_the_servers(postgres: Server) -> None:
    async with running(postgres):
        kept = postgres.ask(
            "SELECT relpersistence::text FROM pg_class WHERE relnamespace = 'triobot'::regnamespace"
            " AND relname = 'orders'"
        )
    assert kept == [("u",)]


async def test_an_answer_may_be_large(postgres: Server) -> None:
    lines = b"".join(b"%d %s\n" % (n, b"x" * 700) for n in range(1_000)) + b"y" * 300_000 + b"\n"

    async def answer(order: OperatorOrder) -> Answered:
        await trio.lowlevel.checkpoint()
        return 200, lines

    async with running(postgres, answer):
        assert await asked(postgres) == (200, lines)
        assert left(postgres) == NOTHING_LEFT


async def test_an_answer_that_nobody_waits_for_any_more_is_cut(postgres: Server) -> None:
    told, cut = 0, trio.Event()

    async def endless(order: OperatorOrder, tell: Callable[[bytes], Awaitable[None]]) -> int:
        nonlocal told
        try:
            while True:
                await tell(b"{}\n")
                told += 1
        finally:
            cut.set()

    async with running(postgres, None) as store, trio.open_nursery() as nursery:
        assert store.news is not None
        nursery.start_soon(store.news, lambda: None, endless)
        postgres.ask("SELECT pg_advisory_lock(1)")
        put_by_hand(postgres)
        while told < 3:
            await trio.sleep(0.01)
        assert not cut.is_set()
        # As its command does at its end.
        postgres.ask("DELETE FROM triobot.orders", "SELECT pg_advisory_unlock(1)")
        await cut.wait()
        assert postgres.ask("SELECT count(*) FROM triobot.answers") == [(0,)]
        nursery.cancel_scope.cancel()


async def test_of_two_at_once_neither_waits_for_the_other(postgres: Server) -> None:
    second = trio.Event()

    async def answer(order: OperatorOrder) -> Answered:
        if order.target == "/first":
            await second.wait()
        return 200, order.target.encode()

    async with running(postgres, answer), trio.open_nursery() as nursery:

        async def ask_first() -> None:
            assert await asked(postgres, OperatorOrder("GET", "/first")) == (200, b"/first")

        nursery.start_soon(ask_first)
        assert await asked(postgres, OperatorOrder("GET", "/second")) == (200, b"/second")
        second.set()


async def test_a_lost_connection_loses_no_answer(postgres: Server) -> None:
    asks = 0

    async def answer(order: OperatorOrder) -> Answered:
        nonlocal asks
        asks += 1
        proxy.refuses = True
        proxy.cut()
        await trio.sleep(0.2)
        proxy.refuses = False
        return 200, b"1\n"

    with proxying(postgres.port) as proxy:
        async with running(postgres, answer, proxy):
            assert await asked(postgres) == (200, b"1\n")
    assert asks == 1


async def test_an_order_that_was_taken_unheard_is_taken_again(postgres: Server) -> None:
    """The server has noted that it is taken, and the answer that has the order was lost."""
    async with running(postgres, None) as store, trio.open_nursery() as nursery:
        assert store.news is not None
        done = trio.Event()

        async def ask() -> None:
            assert await asked(postgres) == (200, b"GET\n/hi?a=1\n{}\n")
            done.set()

        nursery.start_soon(ask)
        while left(postgres) != [(1,)]:
            await trio.sleep(0.01)
        postgres.ask("UPDATE triobot.orders SET taken = true")
        nursery.start_soon(store.news, lambda: None, in_pieces(echo))
        await done.wait()
        nursery.cancel_scope.cancel()


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


async def test_a_process_that_ends_over_its_answer_is_named(postgres: Server) -> None:
    began = trio.Event()

    async def answer(order: OperatorOrder) -> Answered:
        began.set()
        await trio.sleep_forever()

    async def ask() -> None:
        with pytest.raises(StoreError, match=f"number {os.getpid()} on .*, ended before it had answered"):
            await asked(postgres)

    async with trio.open_nursery() as nursery, running(postgres, answer):
        nursery.start_soon(ask)
        await began.wait()


async def test_if_a_process_ends_before_it_has_begun_the_next_one_is_asked(postgres: Server) -> None:
    """Another one had the store when the order was put down; it ends, and nothing had been done."""
    async with running(postgres), trio.open_nursery() as nursery:
        ((own,),) = postgres.ask("SELECT id FROM triobot.owner")
        postgres.ask("SELECT pg_advisory_lock(7)", "UPDATE triobot.owner SET id = 7")

        async def ask() -> None:
            assert await asked(postgres) == (200, b"GET\n/hi?a=1\n{}\n")

        nursery.start_soon(ask)
        while left(postgres) == NOTHING_LEFT:
            await trio.sleep(0.01)
        postgres.ask("SELECT pg_advisory_unlock(7)", f"UPDATE triobot.owner SET id = {own}")


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


def put_by_hand(server: Server, number: int = 1) -> None:
    """Put an order down as a command does that was killed then."""
    server.ask(
        f"INSERT INTO triobot.orders SELECT {number}, id, 'GET', '/', '', false FROM triobot.owner",
        "SELECT pg_notify('triobot has events', '')",
    )


async def test_an_order_that_nobody_waits_for_goes(postgres: Server) -> None:
    async with running(postgres):
        put_by_hand(postgres)
        await until_nothing_is_left(postgres)


async def test_whoever_gives_up_takes_the_order_along(postgres: Server) -> None:
    async with running(postgres, None):
        with trio.move_on_after(0.5) as scope:
            await asked(postgres)
        assert scope.cancelled_caught
    async with running(postgres):
        await until_nothing_is_left(postgres)


async def test_whoever_lost_the_store_takes_no_order(postgres: Server) -> None:
    taken = []

    async def answer(order: OperatorOrder) -> Answered:
        taken.append(order)
        return await echo(order)

    async with running(postgres, answer):
        postgres.ask("SELECT pg_advisory_lock(1)")
        ((own,),) = postgres.ask("SELECT id FROM triobot.owner")
        postgres.ask("UPDATE triobot.owner SET id = 7")
        put_by_hand(postgres)
        put_by_hand(postgres, 2)  # when it is gone, whoever swept it had looked for orders
        while left(postgres) != [(1,)]:
            await trio.sleep(0.01)
        postgres.ask(f"UPDATE triobot.owner SET id = {own}")
        postgres.ask("SELECT pg_advisory_unlock(1)")
        await until_nothing_is_left(postgres)
    assert taken == []


# --- who may not


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
