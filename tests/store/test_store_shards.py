"""Stores in several pieces, which no release has made: none is taken for a whole one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_rig import STAMP

from tests.postgres import Server
from tests.store.contract.contract import SettableClock
from triobot.errors import ConfigError
from triobot.store import open_store


@pytest.mark.parametrize("query", ["shards=4", "shards=4&shard=1"])
async def test_several_files_are_refused_with_the_way_out(query: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        async with open_store(f"sqlite:{tmp_path}/bot.db?{query}", stamp=STAMP, clock=SettableClock()):
            raise AssertionError
    assert "SQLite keeps a store in one file" in str(caught.value)
    assert "triobot store copy 'sqlite:PATH?shards=N' sqlite:NEW" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


async def test_one_of_several_files_is_not_opened_as_a_store(tmp_path: Path) -> None:
    """Its bot would miss three chats of four, and answer them as if they were new."""
    file = tmp_path / "bot.db.1"
    async with open_store(f"sqlite:{file}", stamp=STAMP, clock=SettableClock()):
        pass
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("INSERT INTO meta (name, value) VALUES ('shard', '1/4')")
    with pytest.raises(ConfigError, match=r"bot\.db\.1 is one of several files of a store\. SQLite keeps"):
        async with open_store(f"sqlite:{file}", stamp=STAMP, clock=SettableClock()):
            raise AssertionError


async def test_no_store_is_made_beside_several_files(tmp_path: Path) -> None:
    """The bot would begin with an empty store, and nobody would see that its chats are in another one."""
    (tmp_path / "bot.db.0").write_bytes(b"something")
    with pytest.raises(ConfigError, match=r"there is no store at .*bot\.db, but .*bot\.db\.0\. SQLite keeps"):
        async with open_store(f"sqlite:{tmp_path}/bot.db", stamp=STAMP, clock=SettableClock()):
            raise AssertionError
    assert not (tmp_path / "bot.db").exists()


# --- schemas of a server

EXPERIMENTAL = r"Stores in shards were experimental, and no release has made one: "


@pytest.fixture
def parts(postgres: Server) -> Iterator[str]:
    """The address of a store that isn't there yet."""
    postgres.ask("DROP SCHEMA IF EXISTS parts CASCADE")
    yield postgres.url(query="schema=parts")
    postgres.ask("DROP SCHEMA IF EXISTS parts CASCADE")


@pytest.mark.parametrize("query", ["shards=4", "schema=parts&shards=4&shard=1"])
async def test_several_schemas_are_refused_in_one_line(query: str) -> None:
    store = f"postgresql://bots@127.0.0.1:1/pizza?{query}"
    with pytest.raises(ConfigError, match=f"in one schema, without shards=. {EXPERIMENTAL}") as caught:
        async with open_store(store, stamp=STAMP, clock=SettableClock()):
            raise AssertionError
    assert "\n" not in str(caught.value)


async def test_one_of_several_schemas_is_not_opened_as_a_store(postgres: Server, parts: str) -> None:
    async with open_store(parts, stamp=STAMP, clock=SettableClock()):
        pass
    postgres.ask("INSERT INTO parts.meta (name, value) VALUES ('shard', '1/4')")
    with pytest.raises(ConfigError, match=rf"is one of several shards\. {EXPERIMENTAL}"):
        async with open_store(parts, stamp=STAMP, clock=SettableClock()):
            raise AssertionError


async def test_what_several_schemas_have_in_common_is_no_store(postgres: Server, parts: str) -> None:
    postgres.ask("CREATE SCHEMA parts", "CREATE TABLE parts.nodes ()", "CREATE TABLE parts.owners ()")
    with pytest.raises(ConfigError, match=rf"is in shards\. {EXPERIMENTAL}"):
        async with open_store(parts, stamp=STAMP, clock=SettableClock()):
            raise AssertionError
