"""Which processes share a store, and which may: the server's sessions tell."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import psycopg
import pytest
import trio

from tests.loopback import PATIENCE
from tests.postgres import Server
from tests.store.contract.contract import SettableClock
from triobot import Bot, Chat
from triobot.base.secrets import Secret
from triobot.errors import ConfigError
from triobot.filters import text
from triobot.runtime.settings import Settings
from triobot.store import Stamp, open_store, read_nodes, wait_free

PLATFORM = "http://127.0.0.1:9"
STAMP = Stamp("https://platform.test", "t")
ME = f"number {os.getpid()} on {socket.gethostname()[:20]}"


@asynccontextmanager
async def standing_by(url: str) -> AsyncGenerator[None]:
    """Stand by in this process, too."""
    taken = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(wait_free, url, taken=taken.set))
        await taken.wait()
        yield
        nursery.cancel_scope.cancel()


async def test_who_works_and_who_stands_by(postgres: Server) -> None:
    async with open_store(postgres.url(), stamp=STAMP, clock=SettableClock()):
        (alone,) = await read_nodes(postgres.url())
        assert (alone.works, alone.waits_for) == (True, "")
        async with standing_by(postgres.url()), standing_by(postgres.url()):
            works, *others = await read_nodes(postgres.url())
        assert (works.works, works.version) == (True, "0.1.0")
        assert [(one.name, one.works, one.version) for one in others] == [(ME, False, "0.1.0")] * 2
        assert all(one.seconds < PATIENCE for one in others)
    assert await read_nodes(postgres.url()) == []


async def test_those_of_another_store_in_the_database_are_not_listed(postgres: Server) -> None:
    other = postgres.url(query="schema=second")
    try:
        async with (
            open_store(postgres.url(), stamp=STAMP, clock=SettableClock()),
            open_store(other, stamp=STAMP, clock=SettableClock()),
            standing_by(postgres.url()),
        ):
            (works,) = await read_nodes(other)
            assert works.works
            assert len(await read_nodes(postgres.url())) == 2
    finally:
        postgres.ask("DROP SCHEMA IF EXISTS second CASCADE")


async def test_what_the_one_that_works_waits_for_is_said(postgres: Server) -> None:
    async with open_store(postgres.url(), stamp=STAMP, clock=SettableClock()) as store:
        with psycopg.connect(postgres.url()) as another:
            another.execute("LOCK TABLE triobot.commits")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.check)
                with trio.fail_after(PATIENCE):
                    while (await read_nodes(postgres.url()))[0].waits_for != "relation":
                        await trio.sleep(0.01)
                another.rollback()


async def test_only_a_server_has_several(tmp_path: object) -> None:
    with pytest.raises(ConfigError, match="only a store in PostgreSQL has several processes"):
        await read_nodes(f"sqlite:{tmp_path}/bot.db")


async def test_where_no_store_is_there_are_no_processes(postgres: Server) -> None:
    with pytest.raises(ConfigError, match="there is no store at"):
        await read_nodes(postgres.url(query="schema=nowhere"))


def a_bot(store: str, token: str) -> Bot:
    """A bot that says one thing."""
    settings = Settings(token=Secret(token), base_url=PLATFORM, allow_insecure=True, store=store)
    bot = Bot(settings=settings)

    @bot.conversation(text(), name="hear")
    async def hear(chat: Chat) -> None:
        await chat.send("heard")

    return bot


async def test_another_bot_doesn_t_stand_by_for_a_store(postgres: Server) -> None:
    """It would put its own events into the inbox of this one; whether a process has the store or not."""
    postgres.ask("DROP SCHEMA IF EXISTS theirs CASCADE")
    url = postgres.url(query="schema=theirs")
    try:
        async with a_bot(url, "rig-token").running():
            with pytest.raises(ConfigError, match="store rebind"):
                async with a_bot(url, "token-two").running():
                    raise AssertionError
        with pytest.raises(ConfigError, match="store rebind"):
            async with a_bot(url, "token-two").running():
                raise AssertionError
    finally:
        postgres.ask("DROP SCHEMA IF EXISTS theirs CASCADE")
