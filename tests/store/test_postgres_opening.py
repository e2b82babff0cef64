"""Which addresses, servers and schemas a store in PostgreSQL is opened at, and what is said of the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import pytest

from tests.postgres import ROLE, Server, why_not
from tests.processes.process import listen
from tests.store.contract import SettableClock
from tests.store.contract.contract import accepted, arrival
from triobot.errors import (
    ConfigError,
    StoreAwayError,
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreVersionError,
)
from triobot.seams.journals import Opening
from triobot.seams.writes import PutSetting
from triobot.store import Stamp, open_store

STAMP = Stamp("https://platform.test", "t")
SECRET = "s3cret-of-the-database"


async def opened(url: str, stamp: Stamp | None = STAMP, *, visit: bool = False) -> int:
    """Open the store and close it again; gives the number of this run."""
    async with open_store(url, stamp=stamp, clock=SettableClock(), visit=visit) as store:
        return store.opening().boot


@contextmanager
def refuses(kind: type[Exception], *words: str) -> Iterator[None]:
    """The block raises this, in one line with these words, and without the password."""
    with pytest.raises(kind) as caught:
        yield
    text = str(caught.value)
    assert [word for word in words if word not in text] == [], text
    assert SECRET not in text
    assert "\n" not in text
    told: BaseException | None = caught.value
    while told is not None:
        assert SECRET not in repr(told)
        told = told.__cause__


# --- addresses

needs_psycopg = pytest.mark.skipif(
    why_not() == "the extra postgres isn't installed", reason="the extra postgres isn't installed"
)


@needs_psycopg
@pytest.mark.parametrize(
    ("place", "schema", "accepts"),
    [
        ("//u@h/d", "triobot", False),
        ("//u@h1:5432,h2:5433/d?sslmode=require&schema=pizza", "pizza", False),
        ("host=h dbname=d user=u?accept-loss", "triobot", True),
        ("service=bots", "triobot", False),
        ("", "triobot", False),
    ],
)
def test_an_address_is_what_libpq_takes(place: str, schema: str, accepts: bool) -> None:
    from triobot.store.postgres.address import read_address

    address = read_address(place)
    assert (address.schema, address.accept_loss) == (schema, accepts)
    assert "schema=" not in address.conninfo
    assert address.hosts == (2 if "h2" in place else 1)


@needs_psycopg
@pytest.mark.parametrize(
    ("place", "words"),
    [
        (f"//u:{SECRET}@h/d", "must hold no password"),
        (f"//u@h/d?password={SECRET}", "must hold no password"),
        (f"host=h password={SECRET}", "must hold no password"),
        (f"//u@h/d?sslpassword={SECRET}", "must hold no password"),
        (f"//u:{SECRET}@h/d?colour=red", "can't be read"),
        (f"//u:{SECRET}@[h/d", "can't be read"),
        (f"host=h passwort={SECRET}", "can't be read"),
        ("host=h?sslmode=require", "schema=NAME and accept-loss"),
        ("//u@h/d?schema=Pizza;drop", "small letters"),
        ("//u@h/d?schema=pg_catalog", "small letters"),
        ("//u@h/d?accept-loss=maybe", "can't be read"),
    ],
)
def test_an_address_with_a_password_or_a_mistake_is_refused(place: str, words: str) -> None:
    from triobot.store.postgres.address import read_address

    with refuses(ConfigError, words):
        read_address(place)


# --- servers

GOOD = (150018, False, False, "on", "on", "on", "", "UTF8", 7, 7)


@needs_psycopg
def test_a_server_that_keeps_what_it_acknowledges_is_taken() -> None:
    from triobot.store.postgres.server import ServerFacts as Seen
    from triobot.store.postgres.server import refusal, risk

    for commit in ("on", "remote_apply", "remote_write", "local"):
        seen = attrs.evolve(Seen(*GOOD), synchronous_commit=commit)
        assert refusal(seen) is None
        assert risk(seen) is None
    assert refusal(attrs.evolve(Seen(*GOOD), version=140000)) is None


@needs_psycopg
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 130022}, "PostgreSQL 13"),
        ({"pid": 8}, "proxy"),
        ({"encoding": "SQL_ASCII"}, "SQL_ASCII"),
    ],
)
def test_a_server_that_can_hold_no_store_is_refused(change: dict[str, object], words: str) -> None:
    from triobot.store.postgres.server import ServerFacts as Seen
    from triobot.store.postgres.server import refusal

    assert words in (refusal(attrs.evolve(Seen(*GOOD), **change)) or "")


@needs_psycopg
@pytest.mark.parametrize(
    ("change", "words"), [({"standby": True}, "standby"), ({"read_only": True}, "no writes")]
)
def test_a_server_that_takes_no_writes_now_is_away(change: dict[str, object], words: str) -> None:
    from triobot.store.postgres.server import ServerFacts as Seen
    from triobot.store.postgres.server import refusal, why_closed

    assert why_closed(Seen(*GOOD)) is None
    seen = attrs.evolve(Seen(*GOOD), **change)
    assert refusal(seen) is None
    assert words in (why_closed(seen) or "")


@needs_psycopg
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fsync": "off"}, "fsync is off"),
        ({"full_page_writes": "off"}, "full_page_writes is off"),
        ({"synchronous_commit": "off"}, "synchronous_commit is off"),
        ({"synchronous_commit": "local", "standbys": "s1"}, "synchronous_commit is local"),
    ],
)
def test_a_server_that_may_lose_is_a_risk(change: dict[str, object], words: str) -> None:
    from triobot.store.postgres.server import ServerFacts as Seen
    from triobot.store.postgres.server import refusal, risk

    seen = attrs.evolve(Seen(*GOOD), **change)
    assert refusal(seen) is None
    assert words in (risk(seen) or "")


async def test_a_role_that_commits_asynchronously_is_refused_unless_that_is_accepted(
    postgres: Server, caplog: pytest.LogCaptureFixture
) -> None:
    postgres.ask(f"ALTER ROLE {ROLE} SET synchronous_commit = off")
    try:
        with refuses(ConfigError, "synchronous_commit is off", "accept-loss"):
            await opened(postgres.url())
        assert await opened(postgres.url(query="accept-loss")) == 1
        assert "synchronous_commit is off" in caplog.text
    finally:
        postgres.ask(f"ALTER ROLE {ROLE} RESET synchronous_commit")


async def test_a_server_without_fsync_is_refused(postgres: Server) -> None:
    with postgres.having("fsync", "off"), refuses(ConfigError, "fsync is off"):
        await opened(postgres.url())
    assert await opened(postgres.url()) == 1


async def test_a_session_that_takes_no_writes_is_refused(postgres: Server) -> None:
    postgres.ask(f"ALTER ROLE {ROLE} SET default_transaction_read_only = on")
    try:
        with refuses(StoreAwayError, "takes no writes"):
            await opened(postgres.url())
    finally:
        postgres.ask(f"ALTER ROLE {ROLE} RESET default_transaction_read_only")


async def test_a_database_in_another_encoding_is_refused(postgres: Server) -> None:
    postgres.ask(
        "CREATE DATABASE latin ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'", database="postgres"
    )
    with refuses(ConfigError, "SQL_ASCII", "UTF8"):
        await opened(postgres.url(database="latin"))


# --- what is not there, and who may not


async def test_a_database_or_a_role_that_is_not_there_is_named(postgres: Server) -> None:
    with refuses(ConfigError, "no such database", "nowhere"):
        await opened(postgres.url(database="nowhere"))
    with refuses(ConfigError, "no such role", "nobody"):
        await opened(postgres.url(user="nobody"))


async def test_a_server_that_is_not_there_is_away(postgres: Server) -> None:
    with listen() as sock:
        port = sock.getsockname()[1]
    with refuses(StoreAwayError, "can't be reached", str(port)):
        await opened(postgres.url(port=port))


async def test_a_wrong_password_is_refused_and_not_repeated(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.ask(
        "DROP ROLE IF EXISTS careful",
        f"CREATE ROLE careful LOGIN PASSWORD '{SECRET}x'",
        "GRANT CREATE ON DATABASE bots TO careful",
    )
    with postgres.admitting("host all careful 127.0.0.1/32 scram-sha-256"):
        with refuses(ConfigError, "wants a password", "PGPASSWORD"):
            await opened(postgres.url(user="careful", query="schema=careful"))
        monkeypatch.setenv("PGPASSWORD", SECRET)
        with refuses(ConfigError, "refused this user's password"):
            await opened(postgres.url(user="careful", query="schema=careful"))
        monkeypatch.setenv("PGPASSWORD", SECRET + "x")
        assert await opened(postgres.url(user="careful", query="schema=careful")) == 1
    postgres.ask("DROP OWNED BY careful CASCADE", "DROP ROLE careful")


async def test_a_role_that_may_make_no_schema_is_told_what_to_ask_for(postgres: Server) -> None:
    postgres.ask("CREATE ROLE guest LOGIN")
    with refuses(ConfigError, "permission denied", "CREATE SCHEMA", "guest"):
        await opened(postgres.url(user="guest", query="schema=guests"))
    # What its text tells to do, done.
    postgres.ask("CREATE SCHEMA guests AUTHORIZATION guest")
    assert await opened(postgres.url(user="guest", query="schema=guests")) == 1
    postgres.ask("DROP OWNED BY guest CASCADE", "DROP ROLE guest")


@pytest.mark.parametrize("function", ["pg_control_system()", "pg_walfile_name(pg_lsn)"])
async def test_a_role_that_may_not_ask_for_the_servers_history_is_told_so(
    postgres: Server, function: str
) -> None:
    """Everybody may, unless an owner has taken that right away."""
    postgres.ask(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
    try:
        with refuses(ConfigError, "permission denied for function", "owner must give that right"):
            await opened(postgres.url())
    finally:
        postgres.ask(f"GRANT EXECUTE ON FUNCTION {function} TO PUBLIC")
    assert await opened(postgres.url()) == 1


# --- schemas


async def test_a_schema_of_another_program_is_left_alone(postgres: Server) -> None:
    postgres.ask(
        "CREATE SCHEMA theirs", "CREATE TABLE theirs.meta (n int)", f"GRANT ALL ON SCHEMA theirs TO {ROLE}"
    )
    with refuses(StoreCorruptError, "another program", "schema=NAME"):
        await opened(postgres.url(query="schema=theirs"))
    assert postgres.ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'theirs'") == [(1,)]
    postgres.ask("DROP SCHEMA theirs CASCADE")


async def test_a_store_of_another_bot_is_refused(postgres: Server) -> None:
    await opened(postgres.url())
    with refuses(ConfigError, "another token"):
        await opened(postgres.url(), Stamp("https://platform.test", "another"))
    with refuses(ConfigError, "another platform"):
        await opened(postgres.url(), Stamp("https://elsewhere.test", "t"))


async def test_a_store_of_a_newer_triobot_is_refused(postgres: Server) -> None:
    await opened(postgres.url())
    old = postgres.ask(
        "SELECT name, value FROM triobot.meta WHERE name LIKE 'min_reader%' OR name = 'schema'"
    )
    postgres.ask(
        "UPDATE triobot.meta SET value = '999' WHERE name IN ('schema', 'min_reader')",
        "UPDATE triobot.meta SET value = '9.9' WHERE name = 'min_reader_release'",
    )
    try:
        with refuses(StoreVersionError, "9.9"):
            await opened(postgres.url())
    finally:
        postgres.ask(
            *(f"UPDATE triobot.meta SET value = '{value}' WHERE name = '{name}'" for name, value in old)
        )


async def test_a_tool_makes_no_store(postgres: Server) -> None:
    with refuses(ConfigError, "there is no store", "schema nothing"):
        await opened(postgres.url(query="schema=nothing"), None, visit=True)
    assert postgres.ask("SELECT 1 FROM pg_namespace WHERE nspname = 'nothing'") == []


async def test_two_schemas_are_two_stores(postgres: Server) -> None:
    async with (
        open_store(postgres.url(), stamp=STAMP, clock=SettableClock()) as one,
        open_store(postgres.url(query="schema=second"), stamp=STAMP, clock=SettableClock()) as other,
    ):
        await one.commit(PutSetting("whose", "one"))
        assert await other.setting("whose") is None
    postgres.ask("DROP SCHEMA second CASCADE")


# --- what was put back


async def seen(url: str) -> tuple[Opening, int]:
    """Open the store and take an event in; gives what is known of the run, and the event's number."""
    async with open_store(url, stamp=STAMP, clock=SettableClock()) as store:
        row = await accepted(store, arrival(key=f"{store.opening().boot}"))
        return store.opening(), row.seq


@pytest.mark.slow
async def test_a_dump_that_was_loaded_is_older_than_what_was_done_since(postgres: Server) -> None:
    """What came between may have been done: an epoch begins, and no number comes again."""
    url = postgres.url(query="schema=dumped")
    await seen(url)
    dump = postgres.dump("dumped")
    opening, newest = await seen(url)
    assert (opening.restored, opening.epoch) == (False, 0)

    postgres.load(dump, "dumped")
    restored, first = await seen(url)
    assert (restored.restored, restored.epoch, restored.unclean) == (True, 1, 0)
    assert first > newest + 10**8
    again, next_one = await seen(url)
    assert (again.restored, again.epoch, next_one) == (False, 1, first + 1)
    postgres.ask("DROP SCHEMA dumped CASCADE")


async def test_a_standby_that_was_made_the_primary_may_lack_what_was_acknowledged(postgres: Server) -> None:
    """It goes on in another timeline; so does a server that was recovered to a point in time."""
    before, newest = await seen(postgres.url())
    ((history,),) = postgres.ask("SELECT value FROM triobot.meta WHERE name = 'history'")
    assert isinstance(history, str)
    cluster, timeline, table = history.split("/")
    assert timeline == "00000001"
    postgres.ask(f"UPDATE triobot.meta SET value = '{cluster}/00000002/{table}' WHERE name = 'history'")
    after, first = await seen(postgres.url())
    assert (after.restored, after.epoch) == (True, before.epoch + 1)
    assert first > newest + 10**8


# --- two openers


async def test_a_second_opener_is_refused_while_the_first_has_it(postgres: Server) -> None:
    async with open_store(postgres.url(), stamp=STAMP, clock=SettableClock()) as first:
        with refuses(StoreLockedError, "open in this process", "127.0.0.1"):
            await opened(postgres.url())
        await accepted(first, arrival())
    assert await opened(postgres.url()) == 2


async def test_a_store_that_breaks_says_why_where_it_was_opened(postgres: Server) -> None:
    """Its tables are dropped under it: whoever has it open stops."""
    url = postgres.url(query="schema=doomed")
    with pytest.raises(StoreCorruptError, match="look at the schema"):
        async with open_store(url, stamp=STAMP, clock=SettableClock()) as store:
            postgres.ask("DROP SCHEMA doomed CASCADE")
            with pytest.raises(StoreError):
                await accepted(store, arrival())


@pytest.mark.parametrize("hosts", ["localhost,127.0.0.1", "127.0.0.1,127.0.0.1"])
async def test_one_server_of_two_names_is_one(postgres: Server, hosts: str) -> None:
    """As with two proxies in front of it: it is no primary that has come back."""
    address = f"postgresql://{ROLE}@{hosts}/bots?port={postgres.port}"
    async with open_store(address, stamp=STAMP, clock=SettableClock()) as store:
        await store.commit(PutSetting("whose", "mine"))
