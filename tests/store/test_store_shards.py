"""Shards: which one has a chat, and what an address says of them; SQLite has none."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlite_rig import STAMP

from tests.store.contract.contract import SettableClock
from triobot.errors import ConfigError
from triobot.rooms import LARGEST_PLACE, SHARED, person_place, room_place
from triobot.shards import (
    MOST_SHARDS,
    STEP,
    WHOLE,
    ShardedAddress,
    Share,
    home_of,
    read_shards,
    shard_of,
    shard_of_number,
)
from triobot.store import open_store
from triobot.wire.ids import ChatId, SenderId

PLACES = st.integers(-LARGEST_PLACE, LARGEST_PLACE).map(ChatId)


# --- which shard


@given(PLACES, st.integers(1, MOST_SHARDS))
def test_each_place_is_in_one_of_the_shards(place: ChatId, shards: int) -> None:
    assert 0 <= shard_of(place, shards) < shards


def test_a_chat_stays_in_its_shard_for_ever() -> None:
    """Stores hold what these said: another hash would look for each chat in another file."""
    places = [ChatId(1), ChatId(2), ChatId(71_234_567), ChatId(-5), SHARED, person_place(SenderId(71))]
    assert [shard_of(place, 4) for place in places] == PINNED_OF_4
    assert [shard_of(place, 64) for place in places] == PINNED_OF_64
    assert home_of(4) == shard_of(SHARED, 4)


PINNED_OF_4 = [2, 0, 2, 3, 0, 0]
PINNED_OF_64 = [39, 15, 37, 58, 9, 7]


@pytest.mark.parametrize("shards", [2, 3, 4, 7, 64])
@pytest.mark.parametrize("step", [1, 2, 64, 1000, 4096])
def test_chats_whose_numbers_have_a_pattern_are_spread_evenly(shards: int, step: int) -> None:
    """A platform may draw its chats' numbers in any steps."""
    counts = Counter(shard_of(ChatId(70_000_000 + step * n), shards) for n in range(20_000))
    fair = 20_000 / shards
    assert len(counts) == shards
    assert max(counts.values()) < 1.25 * fair
    assert min(counts.values()) > 0.75 * fair


def test_rooms_are_spread_as_chats_are() -> None:
    counts = Counter(shard_of(room_place("shop.desk", str(n)), 4) for n in range(4_000))
    assert min(counts.values()) > 800


# --- numbers


@given(st.integers(0, MOST_SHARDS - 1), st.integers(0, 10**12))
def test_the_next_number_is_the_first_of_its_shard(number: int, newest: int) -> None:
    following = Share(number, MOST_SHARDS).before_next(newest) + STEP
    assert newest < following <= newest + STEP
    assert shard_of_number(following) == number


@given(st.integers(0, 10**12))
def test_a_store_by_itself_numbers_its_events_one_by_one(newest: int) -> None:
    assert WHOLE.before_next(newest) == newest


# --- addresses


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("sqlite:bot.db", ShardedAddress("sqlite:bot.db")),
        ("memory:", ShardedAddress("memory:")),
        ("sqlite:what?.db", ShardedAddress("sqlite:what?.db")),
        ("postgresql://h/db?sslmode=require", ShardedAddress("postgresql://h/db?sslmode=require")),
        ("postgresql://h/db?shards=4", ShardedAddress("postgresql://h/db", 4)),
        ("postgresql://h/db?shards=4&shard=3", ShardedAddress("postgresql://h/db", 4, 3)),
        ("memory:?shards=64", ShardedAddress("memory:", 64)),
    ],
)
def test_what_an_address_says(store: str, said: ShardedAddress) -> None:
    assert read_shards(store) == said


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("shards=0", "shards= in the store's address must be a whole number from 1 to 64"),
        ("shards=65", "shards= in the store's address must be a whole number from 1 to 64"),
        ("shards=-1", "must be a whole number from 1 to 64"),
        ("shards=four", "must be a whole number from 1 to 64"),
        ("shards=", "must be a whole number from 1 to 64"),
        ("shards=99999999999999999999", "must be a whole number from 1 to 64"),
        ("shards=٤", "must be a whole number from 1 to 64"),
        ("shards", "must be a whole number from 1 to 64"),
        ("shards=4&shard=4", "shard= in the store's address must be a whole number from 0 to 3"),
        ("shard=1", "says a shard, and not of how many"),
        ("shards=4&shards=8", "says ?shards= once"),
    ],
)
def test_an_address_that_can_not_be_is_refused_in_one_line(query: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_shards(f"postgresql://bots@db/pizza?{query}")
    assert what.replace("says a shard", "names a shard") in str(caught.value)
    assert "such as postgresql://bots@10.0.0.20/pizza?shards=4" in str(caught.value)
    assert "\n" not in str(caught.value)


# --- a store in files, which no release has made


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
