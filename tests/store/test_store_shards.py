"""Shards: which one has a chat, what an address says of them, and that each file is the one that is meant."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlite_rig import STAMP

from tests.store.contract.contract import ROOMY, SettableClock, accepted, arrival
from triobot.errors import ConfigError, StoreLockedError
from triobot.rooms import LARGEST_PLACE, SHARED, person_place, room_place
from triobot.seams import InboxRow
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
from triobot.store import open_store, rebind_store
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


@pytest.mark.parametrize("engine", ["sqlite:{}/bot.db", "memory:"])
async def test_events_of_two_shards_have_different_numbers(engine: str, tmp_path: Path) -> None:
    whole, clock, numbers = engine.format(tmp_path), SettableClock(), list[int]()
    for shard in range(3):
        async with open_store(f"{whole}?shards=3&shard={shard}", stamp=STAMP, clock=clock) as store:
            for chat in (1, 2, 3):
                row = await accepted(store, arrival(ChatId(chat)))
                numbers.append(row.seq)
                assert shard_of_number(row.seq) == shard
    assert len(set(numbers)) == 9


async def test_numbers_go_on_in_their_steps_after_a_restart(tmp_path: Path) -> None:
    address, seqs = f"sqlite:{tmp_path}/bot.db?shards=4&shard=3", list[int]()
    for _ in range(3):
        async with open_store(address, stamp=STAMP, clock=SettableClock()) as store:
            found = await store.accept(arrival(ChatId(1)), quota=ROOMY)
            assert isinstance(found, InboxRow)
            seqs.append(found.seq)
    assert seqs == [3, 3 + STEP, 3 + 2 * STEP]


# --- addresses


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("sqlite:bot.db", ShardedAddress("sqlite:bot.db")),
        ("memory:", ShardedAddress("memory:")),
        ("sqlite:what?.db", ShardedAddress("sqlite:what?.db")),
        ("postgresql://h/db?sslmode=require", ShardedAddress("postgresql://h/db?sslmode=require")),
        ("sqlite:bot.db?shards=4", ShardedAddress("sqlite:bot.db", 4)),
        ("sqlite:bot.db?shards=4&shard=3", ShardedAddress("sqlite:bot.db", 4, 3)),
        ("memory:?shards=64", ShardedAddress("memory:", 64)),
    ],
)
def test_what_an_address_says(store: str, said: ShardedAddress) -> None:
    assert read_shards(store) == said


def test_the_addresses_of_each_shard_lead_to_files_of_their_own() -> None:
    address = read_shards("sqlite:/var/lib/bot.db?shards=3")
    assert address.file is None
    files = [read_shards(one).file for one in address.each]
    assert files == [Path(f"/var/lib/bot.db.{shard}") for shard in range(3)]
    assert read_shards("sqlite:bot.db").each == ["sqlite:bot.db"]
    assert read_shards("sqlite:bot.db?shards=3&shard=1").each == ["sqlite:bot.db?shards=3&shard=1"]


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
        ("shards=4&shards=8", "says ?shards= once, and nothing besides"),
        ("shards=4&sync=off", "says ?shards= once, and nothing besides"),
    ],
)
async def test_an_address_that_can_not_be_is_refused_in_one_line(
    query: str, what: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        async with open_store(f"sqlite:{tmp_path}/bot.db?{query}", stamp=STAMP, clock=SettableClock()):
            raise AssertionError
    assert what.replace("says a shard", "names a shard") in str(caught.value)
    assert "sqlite:bot.db?shards=4" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_address_of_a_server_is_told_what_such_a_one_looks_like() -> None:
    with pytest.raises(ConfigError, match="such as postgresql://"):
        read_shards("postgresql://bots@db/pizza?shards=65")


# --- files


async def _made(address: str) -> None:
    async with open_store(address, stamp=STAMP, clock=SettableClock()):
        pass


async def test_the_number_of_shards_is_fixed_when_a_store_is_made(tmp_path: Path) -> None:
    await _made(f"sqlite:{tmp_path}/bot.db?shards=4&shard=1")
    with pytest.raises(ConfigError, match=r"is shard 1 of 4, and the address says shard 1 of 8"):
        await _made(f"sqlite:{tmp_path}/bot.db?shards=8&shard=1")


async def test_a_shard_under_another_number_is_refused(tmp_path: Path) -> None:
    await _made(f"sqlite:{tmp_path}/bot.db?shards=4&shard=1")
    (tmp_path / "bot.db.1").rename(tmp_path / "bot.db.2")
    with pytest.raises(ConfigError, match=r"is shard 1 of 4, and the address says shard 2 of 4"):
        await _made(f"sqlite:{tmp_path}/bot.db?shards=4&shard=2")


async def test_a_shard_is_not_opened_as_a_store_by_itself(tmp_path: Path) -> None:
    """Its bot would miss three chats of four, and answer them as if they were new."""
    await _made(f"sqlite:{tmp_path}/bot.db?shards=4&shard=1")
    with pytest.raises(ConfigError, match=r"a shard .* the address of all of it is sqlite:bot\.db\?shards=4"):
        await _made(f"sqlite:{tmp_path}/bot.db.1")


async def test_a_store_by_itself_is_not_opened_as_a_shard(tmp_path: Path) -> None:
    await _made(f"sqlite:{tmp_path}/bot.db")
    (tmp_path / "bot.db").rename(tmp_path / "bot.db.0")
    with pytest.raises(ConfigError, match="a store by itself, and no shard"):
        await _made(f"sqlite:{tmp_path}/bot.db?shards=4&shard=0")


async def test_no_shards_are_made_beside_a_store_by_itself(tmp_path: Path) -> None:
    await _made(f"sqlite:{tmp_path}/bot.db")
    with pytest.raises(ConfigError, match=r"is one file, and stays one: .* Leave \?shards=4 out"):
        await _made(f"sqlite:{tmp_path}/bot.db?shards=4&shard=0")
    assert not (tmp_path / "bot.db.0").exists()


async def test_no_store_by_itself_is_made_beside_shards(tmp_path: Path) -> None:
    """The bot would begin with an empty store, and nobody would see that its chats are in another one."""
    await _made(f"sqlite:{tmp_path}/bot.db?shards=2&shard=0")
    with pytest.raises(ConfigError, match=r"say how many there are, as in sqlite:.*bot\.db\?shards=4"):
        await _made(f"sqlite:{tmp_path}/bot.db")
    assert not (tmp_path / "bot.db").exists()


async def test_one_process_at_a_time_has_a_shard_and_others_have_others(tmp_path: Path) -> None:
    clock, whole = SettableClock(), f"sqlite:{tmp_path}/bot.db?shards=2"
    async with (
        open_store(f"{whole}&shard=0", stamp=STAMP, clock=clock),
        open_store(f"{whole}&shard=1", stamp=STAMP, clock=clock),
    ):
        with pytest.raises(StoreLockedError, match=r"bot\.db\.1 is open in this process"):
            await _made(f"{whole}&shard=1")


async def test_a_rebound_store_is_rebound_in_all_its_shards(tmp_path: Path) -> None:
    whole, clock = f"sqlite:{tmp_path}/bot.db?shards=2", SettableClock()
    for shard in range(2):
        await _made(f"{whole}&shard={shard}")
    other = type(STAMP)(STAMP.base_url, "token-two")
    await rebind_store(whole, stamp=other, clock=clock)
    for shard in range(2):
        async with open_store(f"{whole}&shard={shard}", stamp=other, clock=clock) as store:
            assert store.opening().boot == 3
