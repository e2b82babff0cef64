"""A store in shards in PostgreSQL: a schema for each, and that each is the one that is meant."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest
import trio

from tests.loopback import PATIENCE
from tests.postgres import ROLE, Server
from tests.store.contract.contract import ROOMY, SettableClock, accepted, arrival
from triobot import Bot, Chat
from triobot.errors import ConfigError, StoreCorruptError, StoreError, StoreLockedError
from triobot.filters import text
from triobot.nodes.node import prepare_shards
from triobot.seams import InboxRow, PutSetting, Relayed
from triobot.secrets import Secret
from triobot.settings import Settings
from triobot.shards import STEP, shard_of_number
from triobot.store import Stamp, ask_owner, is_made, open_store, rebind_store, wait_free
from triobot.wire.ids import ChatId

SHARDS = 3
STAMP = Stamp("http://127.0.0.1:9", "rig-token")


@pytest.fixture
def whole(postgres: Server) -> Iterator[str]:
    """The address of a store in shards that isn't there yet."""
    drop(postgres)
    yield postgres.url(query=f"schema=parts&shards={SHARDS}")
    drop(postgres)


def drop(postgres: Server) -> None:
    for schema in ("parts", *(f"parts_{number}" for number in range(SHARDS))):
        postgres.ask(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


async def made(address: str, stamp: Stamp | None = STAMP) -> None:
    async with open_store(address, stamp=stamp, clock=SettableClock()):
        pass


def settings_of(store: str) -> Settings:
    return Settings(
        token=Secret("rig-token"), base_url="http://127.0.0.1:9", allow_insecure=True, store=store
    )


def a_bot(settings: Settings) -> Bot:
    bot = Bot(settings=settings)

    @bot.conversation(text(), name="hear")
    async def hear(chat: Chat) -> None:
        await chat.send("heard")

    return bot


@pytest.mark.slow
async def test_events_of_two_shards_have_different_numbers_and_go_on_in_their_steps(whole: str) -> None:
    numbers: list[int] = []
    for shard in range(SHARDS):
        for _ in range(2):
            async with open_store(f"{whole}&shard={shard}", stamp=STAMP, clock=SettableClock()) as store:
                for chat in (1, 2):
                    row = await accepted(store, arrival(ChatId(chat)))
                    numbers.append(row.seq)
                    assert shard_of_number(row.seq) == shard
                once = await store.accept(arrival(ChatId(1)), quota=ROOMY)
                assert isinstance(once, InboxRow)
                numbers.append(once.seq)
    assert len(set(numbers)) == SHARDS * 2 * 3
    assert numbers[6:9] == [1 + STEP * n for n in range(3)]


@pytest.mark.slow
async def test_one_process_at_a_time_has_a_shard_and_the_database_says_who(
    whole: str, postgres: Server
) -> None:
    clock, owners = SettableClock(), "SELECT shard FROM parts.owners JOIN parts.nodes ON id = owner"
    async with (
        open_store(f"{whole}&shard=0", stamp=STAMP, clock=clock),
        open_store(f"{whole}&shard=1", stamp=STAMP, clock=clock),
    ):
        assert postgres.ask(f"{owners} ORDER BY shard") == [(0,), (1,)]
        with pytest.raises(StoreLockedError, match=r"schema parts_1\) is open in this process"):
            await made(f"{whole}&shard=1")
    assert postgres.ask(owners) == []


async def test_the_number_of_shards_is_fixed_when_a_store_is_made(whole: str) -> None:
    await made(f"{whole}&shard=1")
    with pytest.raises(ConfigError, match="is in 3 shards, and the address says 8"):
        await made(f"{whole.replace('shards=3', 'shards=8')}&shard=1")


@pytest.mark.slow
async def test_one_store_and_a_store_in_shards_are_not_taken_for_each_other(
    whole: str, postgres: Server
) -> None:
    """Else a bot would begin with an empty store, and nobody would see that its chats are in another one."""
    await made(f"{whole}&shard=1")
    with pytest.raises(ConfigError, match=r"is in shards; its address says shards=3"):
        await made(postgres.url(query="schema=parts"))
    with pytest.raises(ConfigError, match=r"is a shard of a store; .* the schema parts, with shards=3"):
        await made(postgres.url(query="schema=parts_1"))
    drop(postgres)
    await made(postgres.url(query="schema=parts"))
    with pytest.raises(ConfigError, match=r"is one store, and stays one: .* Leave shards=3 out"):
        await made(f"{whole}&shard=1")


@pytest.mark.slow
async def test_what_is_the_whole_bot_s_is_copied_to_all_shards(whole: str) -> None:
    await prepare_shards(settings_of(whole), SettableClock())
    found: list[tuple[str | None, ...]] = []
    for shard in range(SHARDS):
        async with open_store(f"{whole}&shard={shard}", stamp=STAMP, clock=SettableClock()) as store:
            names = ("webhook_secret", "door_key", "member_of")
            found.append(tuple([await store.setting(name) for name in names]))
    assert None not in found[0]
    assert len(set(found)) == 1


@pytest.mark.slow
async def test_a_missing_shard_is_told_and_never_made_anew(whole: str, postgres: Server) -> None:
    await prepare_shards(settings_of(whole), SettableClock())
    postgres.ask("DROP SCHEMA parts_2 CASCADE")
    with pytest.raises(ConfigError, match=r"shards of the store .* are missing: shard 2; bring them back"):
        await prepare_shards(settings_of(whole), SettableClock())
    assert not await is_made(f"{whole}&shard=2")


@pytest.mark.slow
async def test_what_the_shards_have_in_common_is_made_anew_when_its_owner_says_so(
    whole: str, postgres: Server
) -> None:
    """Whoever dropped the schema may have meant the whole store, of which the shards are left."""
    await prepare_shards(settings_of(whole), SettableClock())
    async with open_store(f"{whole}&shard=1", stamp=STAMP, clock=SettableClock()) as store:
        await accepted(store, arrival(ChatId(1)))
    postgres.ask("DROP SCHEMA parts CASCADE")
    with pytest.raises(ConfigError, match=r"the schema parts is gone, .* drop parts_0 to parts_2 as well"):
        await prepare_shards(settings_of(whole), SettableClock())
    with pytest.raises(ConfigError, match="the schema parts is gone"):
        await ask_owner(f"{whole}&shard=1", Relayed("GET", "/status", b""), unheard)
    assert not postgres.ask("SELECT 1 FROM pg_namespace WHERE nspname = 'parts'")
    postgres.ask("CREATE SCHEMA parts", user=ROLE)
    await prepare_shards(settings_of(whole), SettableClock())
    assert postgres.ask("SELECT count(*) FROM parts.owners") == [(SHARDS,)]
    assert postgres.ask("SELECT count(*) FROM parts_1.inbox") == [(1,)]


async def unheard(status: int, lines: bytes) -> None:
    await trio.lowlevel.checkpoint()
    pytest.fail("nobody runs")


async def test_a_shard_of_another_store_is_refused(whole: str) -> None:
    await prepare_shards(settings_of(whole), SettableClock())
    async with open_store(f"{whole}&shard=2", stamp=STAMP, clock=SettableClock()) as store:
        await store.commit(PutSetting("member_of", "another"))
    with pytest.raises(ConfigError, match="shard 2 is a shard of another store than"):
        await prepare_shards(settings_of(whole), SettableClock())


@pytest.mark.slow
async def test_a_shard_of_another_bot_is_refused(whole: str) -> None:
    await made(f"{whole}&shard=1")
    other = Stamp(STAMP.base_url, "token-two")
    with pytest.raises(ConfigError, match="store rebind"):
        await made(f"{whole}&shard=1", other)
    for shard in (0, 2):
        await made(f"{whole}&shard={shard}")
    await rebind_store(whole, stamp=other, clock=SettableClock())
    for shard in range(SHARDS):
        await made(f"{whole}&shard={shard}", other)


@pytest.mark.slow
async def test_a_bot_with_another_token_begins_nothing(whole: str, postgres: Server) -> None:
    """Whether other nodes live or not; what is wrong is said by itself, and not as one of a group."""
    settings = settings_of(whole)
    other = attrs.evolve(settings, token=Secret("token-two"))
    async with a_bot(settings).running():
        with pytest.raises(ConfigError, match="store rebind"):
            async with a_bot(other).running():
                raise AssertionError
        assert postgres.ask("SELECT count(*) FROM parts.nodes") == [(1,)]
    with pytest.raises(ConfigError, match="store rebind"):
        async with a_bot(other).running():
            raise AssertionError
    assert postgres.ask("SELECT count(*) FROM parts.nodes") == [(0,)]


async def test_another_program_s_schema_is_left_alone(whole: str, postgres: Server) -> None:
    postgres.ask("CREATE SCHEMA parts", "CREATE TABLE parts.theirs (a bigint)")
    with pytest.raises(StoreCorruptError, match=r"the schema parts: .* tables of another program"):
        await made(f"{whole}&shard=0")
    assert not await is_made(f"{whole}&shard=0")


async def test_a_role_that_may_make_no_schemas_is_told_what_to_do(whole: str, postgres: Server) -> None:
    postgres.ask("ALTER DATABASE bots OWNER TO postgres")
    try:
        with pytest.raises(ConfigError, match=f"CREATE SCHEMA ... AUTHORIZATION {ROLE}"):
            await made(f"{whole}&shard=0")
    finally:
        postgres.ask(f"ALTER DATABASE bots OWNER TO {ROLE}")


async def test_more_shards_than_numbers_have_room_for_are_refused(postgres: Server) -> None:
    with pytest.raises(ConfigError, match="a whole number from 1 to 64"):
        await made(postgres.url(query="shards=65&shard=0"))


async def test_a_whole_store_is_not_opened_at_once(whole: str) -> None:
    with pytest.raises((ConfigError, StoreError), match="opened one by one"):
        await made(whole)


@pytest.mark.slow
async def test_whoever_opens_a_store_in_shards_without_them_is_told_so(whole: str) -> None:
    """And doesn't wait for a store that nobody can have: what all shards have in common is none."""
    await prepare_shards(settings_of(whole), SettableClock())
    address = whole.partition("&shards=")[0]
    with trio.fail_after(PATIENCE):
        await wait_free(address, taken=lambda: None)
    with pytest.raises(ConfigError, match="is in shards"):
        await made(address)
