"""What becomes of a store whose server dies, and whose standby is made the primary; on real servers."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager

import pytest
import trio

from tests.loopback import PATIENCE
from tests.postgres import Server, run_pair, why_not
from tests.store.contract import SettableClock
from tests.store.contract.contract import accepted, arrival
from tests.wire_proxy import proxying
from triobot.errors import StoreAwayError, StoreCorruptError, StoreLockedError
from triobot.seams.inbox import InboxRow
from triobot.store import Stamp, Store, admission_at, open_store
from triobot.store.opening import LEAP

STAMP = Stamp("https://platform.test", "t")
pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}")


def opened(url: str) -> AbstractAsyncContextManager[Store]:
    return open_store(url, stamp=STAMP, clock=SettableClock())


def either(primary: Server, standby: Server) -> str:
    """The address of a store that is on whichever of the two takes writes."""
    return f"postgresql://bots@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/bots"


@contextmanager
def fresh_memory(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """A process that begins now has seen no server."""
    from triobot.store.postgres import history, opened
    from triobot.store.postgres.history import Timelines

    seen = Timelines()
    with monkeypatch.context() as patch:
        for module in (history, opened):
            patch.setattr(module, "SEEN", seen)
        yield


async def accepts(store: Store, key: str) -> InboxRow:
    """Take an event in, as often as it takes until the store is there."""
    while True:
        try:
            return await accepted(store, arrival(key=key))
        except StoreAwayError:
            await trio.lowlevel.checkpoint()


async def test_a_synchronous_standby_has_everything_and_the_store_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its process finds all that it knows of: no epoch begins. The old primary is refused when it is back."""
    with run_pair(synchronous=True) as (primary, standby):
        url = either(primary, standby)
        async with opened(url) as store:
            first = await accepts(store, "a")
            primary.die()
            standby.promote()
            second = await accepts(store, "b")
            assert second.seq > first.seq
            assert [row.seq for row in await store.backlog(after=0, limit=9)] == [first.seq, second.seq]
        assert "nothing acknowledged is missing" in caplog.text
        async with opened(url) as store:
            assert (store.opening().restored, store.opening().epoch, store.opening().unclean) == (False, 0, 0)
            primary.start()
            # Its session stands, and it needs no other.
            await accepts(store, "c")
        words = f"127.0.0.1:{primary.port} in timeline 1 and 127.0.0.1:{standby.port} in timeline 2"
        with pytest.raises(StoreAwayError, match=words):
            async with opened(url):
                pass
        with fresh_memory(monkeypatch), pytest.raises(StoreAwayError, match="two of its servers take writes"):
            async with opened(url):
                pass
        primary.die()
        async with opened(url) as store:
            assert await store.setting("x") is None
            assert len(await store.backlog(after=0, limit=9)) == 3


@pytest.mark.slow
async def test_an_old_primary_behind_an_address_that_moved_is_refused() -> None:
    """One name that leads to the new primary, and then to the old one again, is taken for what it is."""
    with run_pair(synchronous=False) as (primary, standby), proxying(primary.port) as proxy:
        url = primary.url(port=proxy.port)
        async with opened(url) as store:
            await accepts(store, "a")
            standby.catch_up(primary)
            primary.die()
            standby.promote()
            proxy.target = standby.port
            proxy.cut()
            await accepts(store, "b")
        primary.start()
        proxy.target = primary.port
        with pytest.raises(StoreAwayError, match="has gone on in timeline 2"):
            async with opened(url):
                pass


@pytest.mark.slow
async def test_a_copy_in_a_later_timeline_and_the_server_it_is_of_are_two_stores() -> None:
    """Whoever has read the restored copy by its address goes on to the living server by another."""
    with run_pair(synchronous=False) as (primary, standby):
        async with opened(primary.url()) as store:
            await accepts(store, "a")
        standby.catch_up(primary)
        standby.promote()
        async with opened(standby.url()) as store:
            assert len(await store.backlog(after=0, limit=9)) == 1
        async with opened(primary.url()) as store:
            await accepts(store, "b")
            assert not store.opening().restored


@pytest.mark.slow
async def test_a_standby_that_lacks_commits_begins_an_epoch() -> None:
    """What was acknowledged last is gone. The process that knows of it stops; no number is given again."""
    with run_pair(synchronous=False) as (primary, standby):
        url = either(primary, standby)
        rows: list[InboxRow] = []
        with pytest.raises(StoreCorruptError, match="a failover or a restore lost some"):
            async with opened(url) as store:
                rows.append(await accepts(store, "a"))
                standby.catch_up(primary)
                standby.lag()
                rows.append(await accepts(store, "b"))
                primary.die()
                standby.promote()
                await accepts(store, "c")
        kept, lost = rows
        async with opened(url) as store:
            assert (store.opening().restored, store.opening().epoch) == (True, 1)
            assert [row.seq for row in await store.backlog(after=0, limit=9)] == [kept.seq]
            again = await accepts(store, "b")
            assert again.seq == (lost.seq // LEAP + 1) * LEAP + 1
        async with opened(url) as store:
            assert (store.opening().restored, store.opening().epoch) == (False, 1)


@pytest.mark.slow
async def test_a_commit_that_is_settled_is_at_the_standby_too() -> None:
    """Where only its answer is lost, its caller is told that it is stored once the standby has it."""
    with run_pair(synchronous=True) as (primary, standby), proxying(primary.port) as proxy:
        async with opened(primary.url(port=proxy.port)) as store, trio.open_nursery() as nursery:
            rows: list[InboxRow] = []
            await accepts(store, "a")
            standby.freeze()

            async def accept() -> None:
                rows.append(await accepts(store, "b"))

            nursery.start_soon(accept)
            waits = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
                " AND query LIKE '%{}%' AND usename = 'bots'"
            )
            await until(primary, waits.format("COMMIT"))
            proxy.cut()
            await until(primary, waits.format("DESC LIMIT 1 FOR UPDATE"))
            assert primary.ask("SELECT count(*) FROM triobot.inbox") == [(2,)]
            assert rows == []
            standby.thaw()
        assert len(rows) == 1


@pytest.mark.slow
async def test_a_check_waits_for_a_standby_as_commits_do() -> None:
    """Whoever asks whether events can be taken in again would else be told yes while each is refused."""
    with run_pair(synchronous=True) as (primary, standby):
        async with opened(primary.url()):
            way = admission_at(primary.url())
            await way.check()
            standby.freeze()
            try:
                with trio.fail_after(PATIENCE):
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(way.check)
                        await until(
                            primary,
                            "SELECT count(*) FROM pg_stat_activity"
                            " WHERE wait_event = 'SyncRep' AND query LIKE 'UPDATE meta%'",
                        )
                        standby.thaw()
            finally:
                standby.thaw()


async def until(server: Server, question: str) -> None:
    while server.ask(question) == [(0,)]:
        await trio.sleep(0.01)


@pytest.mark.slow
async def test_an_owner_has_three_seconds_to_come_back_to_another_history(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opens its store waits for so long, since only the owner can prove that nothing is missing."""
    with proxying(postgres.port) as proxy:
        async with opened(postgres.url(port=proxy.port)) as owner:
            await accepts(owner, "a")
            proxy.refuses = True
            proxy.cut()
            another_history(postgres)
            sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'bots'"
            await until(postgres, f"SELECT ({sessions}) = 0")
            with fresh_memory(monkeypatch):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(is_refused, postgres.url())
                    await until(postgres, sessions)
                    proxy.refuses = False
                    await accepts(owner, "b")
        async with opened(postgres.url()) as store:
            assert (store.opening().epoch, store.opening().restored) == (0, False)


async def is_refused(url: str) -> None:
    with pytest.raises(StoreLockedError):
        async with opened(url):
            pass


def another_history(server: Server) -> None:
    server.ask(
        "UPDATE triobot.meta SET value = regexp_replace(value, '/.*/', '/0000000F/') WHERE name = 'history'"
    )


async def test_an_owner_that_does_not_come_back_begins_an_epoch(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(postgres.url()) as store:
        first = await accepts(store, "a")
    another_history(postgres)
    postgres.ask(
        "UPDATE triobot.owner SET id = 7, name = 'gone'",
        "DELETE FROM triobot.meta WHERE name = 'clean'",
    )
    with fresh_memory(monkeypatch):
        began = time.monotonic()
        async with opened(postgres.url()) as store:
            assert time.monotonic() - began >= 3
            assert (store.opening().epoch, store.opening().restored) == (1, True)
            assert (await accepts(store, "b")).seq > first.seq + LEAP // 2


@pytest.mark.parametrize("whole", [True, False])
async def test_an_owner_that_was_closed_while_the_server_was_away_knows_what_was_there(
    postgres: Server, caplog: pytest.LogCaptureFixture, *, whole: bool
) -> None:
    """The bot's work is cut by a server that is away, and begins anew in the same process."""
    with proxying(postgres.port) as proxy:
        async with opened(postgres.url(port=proxy.port)) as owner:
            await accepts(owner, "a")
            proxy.refuses = True
            proxy.cut()
        another_history(postgres)
        if not whole:
            postgres.ask("UPDATE triobot.commits SET n = n - 1")
        proxy.refuses = False
        async with opened(postgres.url(port=proxy.port)) as store:
            assert (store.opening().epoch, store.opening().restored) == ((0, False) if whole else (1, True))
    assert ("nothing acknowledged is missing" in caplog.text) is whole
