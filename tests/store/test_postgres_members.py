"""The nodes that share a store in PostgreSQL: one lease for all shards, and what everybody sees."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio

from tests.loopback import PATIENCE
from tests.postgres import Server
from tests.store.contract.contract import ROOMY, SettableClock, arrival
from triobot.cli.webhook_url import current_secret
from triobot.errors import ConfigError, StoreAwayError, StoreError, StoreLockedError
from triobot.nodes.node import DOOR_KEY, prepare_shards
from triobot.seams import InboxRow, LeaseLostError
from triobot.secrets import Secret
from triobot.settings import Settings
from triobot.shards import home_of
from triobot.store import Retention, Stamp, drain_member, open_membership, prefer_build, read_members
from triobot.store.members import Membership
from triobot.wire.ids import ChatId

SHARDS = 3
STAMP = Stamp("http://127.0.0.1:9", "rig-token")


@pytest.fixture
def store(postgres: Server) -> Iterator[str]:
    drop(postgres)
    yield postgres.url(query=f"schema=parts&shards={SHARDS}")
    drop(postgres)


def drop(postgres: Server) -> None:
    for schema in ("parts", *(f"parts_{number}" for number in range(SHARDS))):
        postgres.ask(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def settings_of(store: str) -> Settings:
    return Settings(
        token=Secret("rig-token"), base_url="http://127.0.0.1:9", allow_insecure=True, store=store
    )


async def prepare(store: str) -> None:
    await prepare_shards(settings_of(store), SettableClock())


@asynccontextmanager
async def joined(
    store: str, door: str = "127.0.0.1:1", build: str | None = None
) -> AsyncGenerator[Membership]:
    async with open_membership(store) as member:
        await member.join(door, build, lambda: prepare(store))
        yield member
        await member.leave()


@asynccontextmanager
async def opened(member: Membership, store: str, shard: int) -> AsyncGenerator[object]:
    opening = member.open_store(
        f"{store}&shard={shard}", stamp=STAMP, clock=SettableClock(), retention=Retention()
    )
    async with opening as one:
        yield one


@pytest.mark.slow
async def test_one_lease_is_for_all_shards_of_a_node(store: str, postgres: Server) -> None:
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'bots'"
    async with joined(store) as member:
        with trio.fail_after(PATIENCE):
            while postgres.ask(sessions) != [(1,)]:
                await trio.sleep(0.01)
        async with opened(member, store, 0), opened(member, store, 1), opened(member, store, 2):
            assert postgres.ask("SELECT count(*) FROM parts.nodes") == [(1,)]
            seen = await member.look()
            assert [one.owner for one in seen.owners] == [member.id] * SHARDS
            assert not any(one.works for one in seen.owners)
            await member.say_works(1)
            assert [one.works for one in (await member.look()).owners] == [False, True, False]
            with trio.fail_after(PATIENCE):
                # One for each shard, one to look at the nodes, and one for the lease, once it is renewed.
                while postgres.ask(sessions) != [(SHARDS + 2,)]:
                    await trio.sleep(0.01)
        assert [one.owner for one in (await member.look()).owners] == [None] * SHARDS
    assert postgres.ask("SELECT count(*) FROM parts.nodes") == [(0,)]


@pytest.mark.slow
async def test_two_nodes_see_each_other_and_take_nothing_from_each_other(store: str) -> None:
    async with joined(store, "127.0.0.1:1") as one, joined(store, "127.0.0.1:2") as two:
        assert {node.door for node in (await one.look()).nodes} == {"127.0.0.1:1", "127.0.0.1:2"}
        async with opened(one, store, 0):
            with trio.fail_after(1), pytest.raises(StoreLockedError):
                async with opened(two, store, 0):
                    raise AssertionError
            waiting = trio.current_time()
        # Whoever waits is told at once that it is free.
        await two.wait(60)
        assert trio.current_time() - waiting < PATIENCE
        async with opened(two, store, 0):
            assert (await one.look()).owners[0].owner == two.id


@pytest.mark.slow
async def test_a_node_whose_lease_is_over_is_cut_in_all_its_shards_and_counts_for_no_death(
    store: str, postgres: Server
) -> None:
    late = "UPDATE parts.nodes SET until = clock_timestamp() - interval '1 s'"
    async with joined(store, "127.0.0.1:1") as one, joined(store, "127.0.0.1:2") as two:
        former = one.id
        with pytest.raises(StoreError) as caught:
            async with opened(one, store, 0) as lost, opened(one, store, 1):
                # As if it stood still for so long that nobody could wait any more.
                while not one.lost:
                    postgres.ask(f"{late} WHERE id = {former}")
                    try:
                        async with opened(two, store, 1):
                            with trio.move_on_after(2):
                                await trio.sleep_forever()
                    except StoreLockedError:
                        continue
                await lost.accept(arrival(ChatId(1)), quota=ROOMY)  # type: ignore[attr-defined]
        assert isinstance(caught.value, LeaseLostError)
        assert (await two.look()).owners[0].owner is None
        await one.join("127.0.0.1:3", None)
        assert one.id != former
        assert not one.lost
        for shard in range(2):
            async with opened(one, store, shard) as again:
                assert again.opening().unclean == 0  # type: ignore[attr-defined]
                found = await again.accept(arrival(ChatId(1)), quota=ROOMY)  # type: ignore[attr-defined]
                assert isinstance(found, InboxRow)


@pytest.mark.slow
async def test_the_store_is_prepared_once_and_by_one(store: str) -> None:
    prepared: list[str] = []

    async def join(name: str) -> None:
        async def ready() -> None:
            prepared.append(name)
            await prepare(store)

        async with open_membership(store) as member:
            await member.join(f"{name}:1", None, ready)
            common = await member.common(STAMP, [DOOR_KEY])
            assert len(common[DOOR_KEY]) == 64
            await trio.sleep(1)
            await member.leave()

    async with trio.open_nursery() as nursery:
        for name in ("one", "two", "three"):
            nursery.start_soon(join, name)
    assert len(prepared) == 1


@pytest.mark.slow
async def test_who_asks_for_the_webhook_s_secret_takes_nothing_from_the_nodes(store: str) -> None:
    settings = settings_of(store)
    async with joined(store) as member, opened(member, store, home_of(SHARDS)) as home:
        secrets, _ = await current_secret(settings)
        assert secrets.current == await home.setting("webhook_secret")  # type: ignore[attr-defined]


@pytest.mark.slow
async def test_a_node_of_another_bot_is_refused(store: str) -> None:
    async with joined(store) as member:
        with pytest.raises(ConfigError, match="store rebind"):
            await member.common(Stamp(STAMP.base_url, "token-two"), [DOOR_KEY])


@pytest.mark.slow
async def test_a_node_with_another_number_of_shards_is_refused(store: str) -> None:
    async with joined(store), open_membership(store.replace("shards=3", "shards=5")) as member:
        with pytest.raises(ConfigError, match="is in 3 shards, and the address says 5"):
            await member.join("127.0.0.1:2", None, lambda: prepare(store))


@pytest.mark.slow
async def test_operators_drain_a_node_by_name(store: str) -> None:
    async with joined(store, "127.0.0.1:1") as one:
        (node,) = (await read_members(store)).nodes
        with pytest.raises(ConfigError, match="no other node could take the shards of"):
            await drain_member(store, node.name)
        with pytest.raises(ConfigError, match="no node is called nobody; there are: "):
            await drain_member(store, "nobody")
        async with joined(store, "127.0.0.1:2"):
            # Both are of this process.
            with pytest.raises(ConfigError, match=r"several .* by its door: 127.0.0.1:1 .*, 127.0.0.1:2 "):
                await drain_member(store, node.name)
            assert not any(node.drained for node in (await one.look()).nodes)
            await drain_member(store, "127.0.0.1:2")
            assert [node.drained for node in (await one.look()).nodes] == [False, True]


async def builds_of(member: Membership) -> dict[str, int]:
    return {node.build: node.build_number for node in (await member.look()).nodes}


@pytest.mark.slow
async def test_builds_are_numbered_as_they_are_first_seen(store: str) -> None:
    async with joined(store, build="1.4") as one, joined(store, build="1.3"):
        assert await builds_of(one) == {"1.4": 1, "1.3": 2}
        async with joined(store, build="1.4"), joined(store):
            unnamed = f"triobot-{(await one.look()).nodes[0].version}"
            assert await builds_of(one) == {"1.4": 1, "1.3": 2, unnamed: 3}
    async with joined(store, build="1.4") as one:
        assert await builds_of(one) == {"1.4": 1}


@pytest.mark.slow
async def test_a_node_asks_how_late_it_is_and_says_that_its_clock_is_wrong(store: str) -> None:
    async with joined(store) as one:
        before = time.time_ns() // 1_000_000
        first, seen = await one.now(), await one.look()
        after = time.time_ns() // 1_000_000
        assert seen.now is not None
        assert before <= first <= seen.now <= after
        assert seen.nodes[0].clock_off == 0
        await one.say_clock(-2_500)
        await one.say_failing(True)
        (node,) = (await one.look()).nodes
        assert (node.clock_off, node.failing) == (-2_500, True)


@pytest.mark.slow
async def test_an_operator_goes_back_to_a_build_that_some_node_runs(store: str) -> None:
    async with joined(store, build="old") as one, joined(store, build="new"):
        await prefer_build(store, "old")
        assert await builds_of(one) == {"old": 3, "new": 2}
        await prefer_build(store, "old")
        assert await builds_of(one) == {"old": 3, "new": 2}
        async with joined(store, build="newer"):
            assert await builds_of(one) == {"old": 3, "new": 2, "newer": 4}
        with pytest.raises(
            ConfigError, match="has ever run a build older; there were, the last first: newer, o"
        ):
            await prefer_build(store, "older")
        with pytest.raises(ConfigError, match=r"no node runs the build newer .* that run: new, old"):
            await prefer_build(store, "newer")


@pytest.mark.slow
async def test_nodes_join_a_store_that_knew_of_no_builds(store: str, postgres: Server) -> None:
    async with joined(store):
        postgres.ask("DROP TABLE parts.builds")
        postgres.ask("ALTER TABLE parts.nodes DROP COLUMN build, DROP COLUMN failing, DROP COLUMN clock_off")
        async with joined(store, build="2") as two:
            assert await builds_of(two) == {"": 0, "2": 1}


async def test_an_operator_asks_for_a_store_that_is_not_there(store: str, postgres: Server) -> None:
    with pytest.raises(ConfigError, match="there is no store in shards at"):
        await read_members(store)
    with pytest.raises(ConfigError, match="only a store in PostgreSQL and in shards has several nodes"):
        await read_members(postgres.url())


@pytest.mark.slow
async def test_a_server_that_is_away_is_told_and_asked_again(store: str, postgres: Server) -> None:
    async with joined(store) as member:
        await trio.to_thread.run_sync(postgres.crash)
        with pytest.raises(StoreAwayError):
            await member.look()
        with trio.fail_after(PATIENCE):
            while True:
                try:
                    seen = await member.look()
                except StoreAwayError:
                    await trio.sleep(0.05)
                else:
                    break
        assert len(seen.owners) == SHARDS


@pytest.mark.slow
async def test_a_node_outlives_a_server_that_takes_no_writes_or_refuses_it_for_a_while(
    store: str, postgres: Server
) -> None:
    cut = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'bots'"
    async with joined(store) as member:
        # As a standby does in the middle of a failover.
        postgres.ask("ALTER ROLE bots SET default_transaction_read_only = on", cut)
        try:
            for found in ("connection", "takes no writes"):
                with pytest.raises(StoreAwayError, match=found):
                    await member.look()
        finally:
            postgres.ask("ALTER ROLE bots RESET default_transaction_read_only")
        assert len((await member.look()).owners) == SHARDS
        with postgres.admitting("host all bots 127.0.0.1/32 scram-sha-256"):
            postgres.ask(cut)
            for found in ("connection", "wants a password"):
                with pytest.raises(StoreAwayError, match=found):
                    await member.look()
        assert len((await member.look()).owners) == SHARDS
