"""Events that come to any process, whichever has the store: each is taken in once, in order, or never."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from socket import gethostname

import attrs
import psycopg
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.loopback import PATIENCE
from tests.postgres import Server, run_server
from tests.store.contract import SettableClock
from tests.store.contract.contract import NOON, ROOMY, accepted, arrival
from tests.wire_proxy import Cut, proxying
from triobot.base.clock import SystemClock, steady_time
from triobot.base.secrets import Secret
from triobot.errors import ConfigError, StoreAwayError
from triobot.runtime.settings import Settings
from triobot.runtime.standby import open_standby
from triobot.seams.inbox import InboxRow, OverQuota, Quota, Redelivered
from triobot.seams.money import RaiseAlarm
from triobot.seams.writes import Consume, KeepRaw, OperatorOrder, PutSetting
from triobot.store import Stamp, admission_at, open_store
from triobot.store.postgres import admitting, threads
from triobot.store.postgres.address import read_address
from triobot.store.postgres.admitting import ADMITTED_WITHIN, Admission, _ToAdmit
from triobot.wire.ids import ChatId, SenderId

STAMP = Stamp("https://platform.test", "t")


async def _unasked(order: OperatorOrder, tell: object) -> int:
    raise AssertionError(order)


@asynccontextmanager
async def open_admission(url: str) -> AsyncGenerator[Admission]:
    """What takes events in for the store at this address."""
    way = admission_at(url)
    async with way.running():
        yield way


@contextmanager
def before_each_insert(server: Server, act: str) -> Generator[None]:
    """Have the server do this before it inserts a row into the inbox."""
    server.ask(
        "CREATE FUNCTION triobot.act() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {act}; RETURN NEW; END $$",
        "CREATE TRIGGER act BEFORE INSERT ON triobot.inbox FOR EACH ROW EXECUTE FUNCTION triobot.act()",
    )
    try:
        yield
    finally:
        server.ask("DROP FUNCTION triobot.act CASCADE")


@asynccontextmanager
async def open_both(url: str) -> AsyncGenerator[Admission]:
    """A store that nobody reads, and what takes events in for it."""
    async with open_store(url, stamp=STAMP, clock=SettableClock()), open_admission(url) as way:
        yield way


async def test_whoever_has_the_store_reads_what_another_process_took_in(postgres: Server) -> None:
    async with (
        open_store(postgres.url(), stamp=STAMP, clock=SettableClock()) as store,
        open_admission(postgres.url()) as way,
    ):
        first = await way.accept(arrival(1, key="a", body=b"one"), quota=ROOMY)
        own = await accepted(store, arrival(1, key="b", body=b"two"))
        third = await way.accept(arrival(2, key="c", body=b"three"), quota=ROOMY)
        assert isinstance(first, InboxRow)
        assert isinstance(third, InboxRow)
        rows = await store.backlog(after=0, limit=9)
        assert [(row.seq, row.body) for row in rows] == [
            (first.seq, b"one"),
            (own.seq, b"two"),
            (third.seq, b"three"),
        ]
        assert first.seq < own.seq < third.seq
        assert store.statistics().inbox == 3


async def test_the_news_of_it_come_at_once(postgres: Server) -> None:
    async with (
        open_store(postgres.url(), stamp=STAMP, clock=SettableClock()) as store,
        open_admission(postgres.url()) as way,
        trio.open_nursery() as nursery,
    ):
        assert store.news is not None
        told = 0

        def tell() -> None:
            nonlocal told
            told += 1

        nursery.start_soon(store.news, tell, _unasked)
        while not told:
            await trio.sleep(0.01)
        before = told
        await way.accept(arrival(1, key="a"), quota=ROOMY)
        while told == before:
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()


async def test_a_repetition_is_told_from_equal_words_at_any_process(postgres: Server) -> None:
    """Until the 200 was fully written it is one; whichever process heard of that."""
    async with (
        open_store(postgres.url(), stamp=STAMP, clock=SettableClock()),
        open_admission(postgres.url()) as one,
        open_admission(postgres.url()) as other,
    ):
        assert isinstance(await one.accept(arrival(1, key="a"), quota=ROOMY), InboxRow)
        assert await other.accept(arrival(1, key="a"), quota=ROOMY) == Redelivered()
        one.note_answered("a")
        later = arrival(1, key="a", at=NOON + 1)
        while not isinstance(await other.accept(later, quota=ROOMY), InboxRow):
            await trio.sleep(0.01)  # within a fiftieth of a second
        for way in (one, other):
            way.note_answered("b")
        press = arrival(1, key="press", once=True)
        assert isinstance(await one.accept(press, quota=ROOMY), InboxRow)
        one.note_answered("press")
        await one.accept(arrival(1, key="c"), quota=ROOMY)  # with it the note is written
        assert await other.accept(press, quota=ROOMY) == Redelivered()


@pytest.mark.parametrize("before", [0, 1, 4_000])
async def test_what_is_sent_again_is_no_new_words_whoever_answered_meanwhile(
    postgres: Server, before: int
) -> None:
    """Its COMMIT's answer was lost, or it was long on its way; it was repeated elsewhere, and answered."""
    async with (
        open_store(postgres.url(), stamp=STAMP, clock=SettableClock()),
        open_admission(postgres.url()) as one,
        open_admission(postgres.url()) as other,
    ):
        await other.accept(arrival(1, key="a"), quota=ROOMY)
        other.note_answered("a")
        await other.wait_noted()
        assert await one.accept(arrival(1, key="a", at=NOON - before), quota=ROOMY) == Redelivered()
        assert isinstance(await one.accept(arrival(1, key="a", at=NOON + 1), quota=ROOMY), InboxRow)


async def test_a_clock_that_was_set_back_makes_no_words_a_repetition(postgres: Server) -> None:
    async with open_both(postgres.url()) as way:
        await way.accept(arrival(1, key="a"), quota=ROOMY)
        way.note_answered("a")
        await way.wait_noted()
        early = arrival(1, key="a", at=NOON - round(ADMITTED_WITHIN * 1000) - 1)
        assert isinstance(await way.accept(early, quota=ROOMY), InboxRow)


async def test_new_words_may_come_within_the_millisecond_of_the_former(postgres: Server) -> None:
    async with open_both(postgres.url()) as way:
        for _ in range(2):
            assert isinstance(await way.accept(arrival(1, key="a"), quota=ROOMY), InboxRow)
            way.note_answered("a")


async def test_that_a_200_was_written_is_said_of_no_later_words(postgres: Server) -> None:
    """It is sent again once the answer is lost, and comes behind them: their 200 isn't written yet."""
    async with open_both(postgres.url()) as way:
        await way.accept(arrival(1, key="a"), quota=ROOMY)
        way.note_answered("a")
        await way.wait_noted()
        await way.accept(arrival(1, key="a", at=NOON + 1_000), quota=ROOMY)
        way._answered["a"] = NOON  # as what is sent again
        way._some.set()
        await way.wait_noted()
        assert await way.accept(arrival(1, key="a", at=NOON + 2_000), quota=ROOMY) == Redelivered()
        way.note_answered("a")
        await way.wait_noted()
        assert isinstance(await way.accept(arrival(1, key="a", at=NOON + 3_000), quota=ROOMY), InboxRow)


async def test_who_was_seen_in_a_chat_makes_it_a_group(postgres: Server) -> None:
    async with (
        open_store(postgres.url(), stamp=STAMP, clock=SettableClock()) as store,
        open_admission(postgres.url()) as way,
    ):
        for key, sender in (("a", 7), ("b", 8), ("c", 7)):
            await way.accept(arrival(1, key=key, sender_id=SenderId(sender)), quota=ROOMY)
        await way.accept(arrival(2, key="d", sender_id=SenderId(7)), quota=ROOMY)
        rows = await store.backlog(after=0, limit=9)
        assert [row.group for row in rows] == [True, True, True, False]


async def test_a_chat_in_which_too_much_waits_refuses_no_other(postgres: Server) -> None:
    quota = Quota(events_per_chat=2)
    async with (
        open_store(postgres.url(), stamp=STAMP, clock=SettableClock()) as store,
        open_admission(postgres.url()) as way,
    ):
        for key in ("a", "b"):
            await way.accept(arrival(1, key=key), quota=quota)
        assert await way.accept(arrival(1, key="c"), quota=quota) == OverQuota(whole=False)
        assert isinstance(await way.accept(arrival(2, key="d"), quota=quota), InboxRow)
        # What was refused is no repetition later.
        row = (await store.backlog(after=0, limit=1))[0]
        await store.commit(Consume((row.seq,)))
        assert isinstance(await way.accept(arrival(1, key="c"), quota=quota), InboxRow)


@pytest.mark.parametrize("at", ["client", "server"])
async def test_a_batch_whose_answer_is_lost_is_sent_again_and_is_there_once(
    postgres: Server, at: str
) -> None:
    async with open_store(postgres.url(), stamp=STAMP, clock=SettableClock()):
        with proxying(postgres.port) as proxy:
            async with open_admission(postgres.url(port=proxy.port)) as way:
                await way.accept(arrival(1, key="a"), quota=ROOMY)
                cut = Cut(proxy, at)
                answers = []

                async def accept(key: str) -> None:
                    answers.append(await way.accept(arrival(1, key=key), quota=ROOMY))

                async with trio.open_nursery() as nursery:
                    for key in ("b", "c", "d"):
                        nursery.start_soon(accept, key)
                assert cut.times == 1
                assert len(answers) == 3
    assert postgres.ask("SELECT count(*) FROM triobot.inbox") == [(4,)]
    assert postgres.ask("SELECT count(*) FROM triobot.deliveries") == [(4,)]


@pytest.mark.parametrize("at", ["client", "server"])
async def test_an_event_that_nothing_tells_from_another_is_there_once_too(postgres: Server, at: str) -> None:
    async with open_store(postgres.url(), stamp=STAMP, clock=SettableClock()):
        with proxying(postgres.port) as proxy:
            async with open_admission(postgres.url(port=proxy.port)) as way:
                await way.accept(arrival(1, key="a"), quota=ROOMY)
                Cut(proxy, at)
                await way.accept(arrival(1), quota=ROOMY)
    assert postgres.ask("SELECT count(*) FROM triobot.inbox") == [(2,)]


async def test_what_can_not_be_taken_in_in_time_is_refused_and_never_comes(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has been repeated elsewhere by then, and answered, and forgotten: else it would count twice."""
    monkeypatch.setattr(admitting, "ADMITTED_WITHIN", 0.5)
    async with open_store(postgres.url(), stamp=STAMP, clock=SettableClock()):
        with proxying(postgres.port) as proxy:
            async with open_admission(postgres.url(port=proxy.port)) as way:
                await way.accept(arrival(1, key="a"), quota=ROOMY)
                proxy.refuses = True
                proxy.cut()
                with pytest.raises(StoreAwayError, match="can't be reached"):
                    await way.accept(arrival(1, key="b"), quota=ROOMY)
                proxy.refuses = False
                assert isinstance(await way.accept(arrival(1, key="c"), quota=ROOMY), InboxRow)
    assert postgres.ask("SELECT key FROM triobot.deliveries ORDER BY key") == [("a",), ("c",)]


async def test_a_server_that_stands_still_lets_nobody_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for the events that it was sent, nor for the clock that it was asked for."""
    monkeypatch.setattr(admitting, "ADMITTED_WITHIN", 0.5)
    monkeypatch.setattr(admitting, "_ASK_CLOCK_EVERY", 1)
    with run_server() as server:
        async with (
            open_store(server.url(), stamp=STAMP, clock=SettableClock()),
            open_admission(server.url()) as way,
        ):
            await way.accept(arrival(1, key="a"), quota=ROOMY)
            server.freeze()
            try:
                for key in ("b", "c"):
                    with pytest.raises(StoreAwayError, match=r"doesn't answer|can't be reached"):
                        await way.accept(arrival(1, key=key), quota=ROOMY)
            finally:
                server.thaw()
            assert isinstance(await way.accept(arrival(1, key="c"), quota=ROOMY), InboxRow)


async def test_an_event_that_waits_too_long_takes_nobody_along(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent together with an event that is refused has its own time, however slow the server is."""
    monkeypatch.setattr(admitting, "ADMITTED_WITHIN", 3.0)
    monkeypatch.setattr(admitting, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(threads, "PATIENCE", 0.05)
    async with open_both(postgres.url()) as way:
        await way.accept(arrival(1, key="a"), quota=ROOMY)
        answers = dict[str, object]()

        async def come(key: str, waited: int = 0) -> None:
            event = attrs.evolve(arrival(1, key=key), came=steady_time() - waited)
            try:
                answers[key] = await way.accept(event, quota=ROOMY)
            except StoreAwayError as error:
                answers[key] = error

        with before_each_insert(postgres, "PERFORM pg_sleep(0.5)"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(come, "first")
                await wait_all_tasks_blocked()
                nursery.start_soon(come, "late", 3_000)
                nursery.start_soon(come, "with it")
        kinds = {key: type(answer) for key, answer in answers.items()}
        assert kinds == {"first": InboxRow, "late": StoreAwayError, "with it": InboxRow}


async def test_what_the_server_says_is_told_although_it_is_slow(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt that is ended may have no answer; those before it had one."""
    monkeypatch.setattr(admitting, "ADMITTED_WITHIN", 2.0)
    monkeypatch.setattr(admitting, "_LOOK_SECONDS", 0.05)
    full = "PERFORM pg_sleep(0.6); RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'"
    async with open_both(postgres.url()) as way:
        with before_each_insert(postgres, full), pytest.raises(StoreAwayError, match="could not be written"):
            await way.accept(arrival(1, key="a"), quota=ROOMY)


async def test_a_check_that_nobody_answers_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody would look whether another server takes events in by now."""
    monkeypatch.setattr(admitting, "ADMITTED_WITHIN", 0.5)
    with run_server() as server:
        async with open_store(server.url(), stamp=STAMP, clock=SettableClock()):
            with (
                server.having("synchronous_standby_names", "nobody"),
                trio.fail_after(PATIENCE),
                pytest.raises(StoreAwayError),
            ):
                await admission_at(server.url()).check()


async def test_the_server_itself_refuses_what_comes_late(postgres: Server) -> None:
    """As over a network that is whole again: nobody is left to refuse it."""
    async with open_store(postgres.url(), stamp=STAMP, clock=SettableClock()):
        admission = Admission(read_address(postgres.url().partition(":")[2]))
        late = _ToAdmit(arrival(1, key="a"), ROOMY, steady_time() - 100)
        with pytest.raises(psycopg.errors.DivisionByZero):
            admission._send([late], {})
        assert admission._connection is not None
        admission._connection.close()
    assert postgres.ask("SELECT count(*) FROM triobot.inbox") == [(0,)]
    assert postgres.ask("SELECT count(*) FROM triobot.deliveries") == [(0,)]


async def test_rows_become_visible_in_the_order_of_their_numbers(postgres: Server) -> None:
    """Two processes put events in, and whoever has the store says things to its chats meanwhile."""
    chance, seen = random.Random(1), list[int]()
    async with (
        open_store(postgres.url(), stamp=STAMP, clock=SettableClock()) as store,
        open_admission(postgres.url()) as one,
        open_admission(postgres.url()) as other,
    ):
        done = 0

        async def put(way: object, name: str) -> None:
            nonlocal done
            for number in range(40):
                await way.accept(arrival(ChatId(1 + number % 5), key=f"{name}{number}"), quota=ROOMY)  # type: ignore[attr-defined]
                await trio.sleep(chance.random() * 0.002)
            done += 1

        async def look() -> None:
            while done < 3 or len(seen) < 120:
                rows = await store.backlog(after=seen[-1] if seen else 0, limit=9)
                seen.extend(row.seq for row in rows)

        async with trio.open_nursery() as nursery:
            for way, name in ((one, "one"), (other, "other"), (store, "own")):
                nursery.start_soon(put, way, name)
            nursery.start_soon(look)
        assert store.statistics().inbox == 120
    assert postgres.ask("SELECT count(*) FROM triobot.inbox") == [(120,)]
    assert [(seq,) for seq in seen] == postgres.ask("SELECT seq FROM triobot.inbox ORDER BY seq")


async def test_the_time_in_which_it_may_be_taken_begins_with_its_request(postgres: Server) -> None:
    """Not when another one of its key, for which it has waited, has failed."""
    async with (
        open_store(postgres.url(), stamp=STAMP, clock=SettableClock()) as store,
        open_admission(postgres.url()) as way,
    ):
        late = attrs.evolve(arrival(7, key="late"), came=steady_time() - 6_000)
        with pytest.raises(StoreAwayError):
            await way.accept(late, quota=ROOMY)
        assert list(await store.backlog(after=0, limit=9)) == []


async def test_the_clock_is_heard_however_many_events_come(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admitting, "_ASK_CLOCK_EVERY", 100)
    heard = list[int]()
    async with open_both(postgres.url()) as way:
        way.heard = lambda asked, server, at: heard.append(asked)
        number = 0
        while len(heard) < 3:
            number += 1
            await way.accept(arrival(1, key=f"{number}", once=True), quota=Quota(events_per_chat=9_999))
    assert heard[2] - heard[0] >= 200


async def test_an_alarm_of_who_stands_by_is_in_the_store(postgres: Server) -> None:
    async with (
        open_store(postgres.url(), stamp=STAMP, clock=SettableClock()) as store,
        open_admission(postgres.url()) as way,
    ):
        for _ in range(2):
            await way.commit(RaiseAlarm("clock_differs", "pizza-2", f"{way.process}: wrong", NOON))
        (row,) = await store.alarms.open(limit=9)
        assert (row.kind, row.key, row.count) == ("clock_differs", "pizza-2", 2)
        assert row.text == f"number {os.getpid()} on {gethostname()}: wrong"


async def test_a_disk_that_is_full_is_named(postgres: Server) -> None:
    """Of the database's server, to whoever takes an event in, and to whoever stores a turn."""
    async with (
        open_store(postgres.url(), stamp=STAMP, clock=SettableClock()) as store,
        open_admission(postgres.url()) as way,
    ):
        for table in ("inbox", "commits"):
            postgres.ask(
                "CREATE OR REPLACE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$",
                f"CREATE TRIGGER no_room BEFORE INSERT ON triobot.{table} EXECUTE FUNCTION no_room()",
            )
        try:
            came = steady_time() - round(ADMITTED_WITHIN * 1000) + 300
            with pytest.raises(StoreAwayError, match="No space left") as admitted:
                await way.accept(attrs.evolve(arrival(1, key="a"), came=came), quota=ROOMY)
            with pytest.raises(StoreAwayError, match="No space left") as committed:
                await store.commit(PutSetting("a", "b"))
        finally:
            for table in ("inbox", "commits"):
                postgres.ask(f"DROP TRIGGER no_room ON triobot.{table}")
        assert admitted.value.remedy == committed.value.remedy == "free some space on the database's server"
        await store.commit(PutSetting("a", "b"))
        assert isinstance(await way.accept(arrival(1, key="a"), quota=ROOMY), InboxRow)


async def test_what_can_not_be_read_is_kept_by_whoever_takes_it(postgres: Server) -> None:
    async with (
        open_store(postgres.url(), stamp=STAMP, clock=SettableClock()) as store,
        open_admission(postgres.url()) as way,
    ):
        kept = KeepRaw(NOON, "no JSON", "text/plain", b"?")
        await way.commit(kept)
        assert list(await store.raw(limit=9)) == [kept]


async def test_a_role_that_may_only_read_takes_no_events(postgres: Server) -> None:
    """Beside a bot that works it would refuse each event, and be taken for a process that stands by."""
    async with open_store(postgres.url(), stamp=STAMP, clock=SettableClock()):
        may_read = (
            "GRANT USAGE ON SCHEMA triobot TO reader",
            "GRANT SELECT ON ALL TABLES IN SCHEMA triobot TO reader",
        )
        for granted in (("CREATE ROLE reader LOGIN",), may_read):
            postgres.ask(*granted)
            with pytest.raises(ConfigError, match=r"may not write into its tables; run the bot as .* bots$"):
                await admission_at(postgres.url(user="reader")).settings(STAMP)


async def test_a_store_whose_maker_ended_before_it_kept_the_secret_is_taken_up(postgres: Server) -> None:
    async with open_store(postgres.url(), stamp=STAMP, clock=SettableClock()):
        pass
    settings = Settings(base_url=STAMP.base_url, token=Secret("t"), store=postgres.url())
    with trio.fail_after(30):
        async with open_standby(settings, SystemClock()):
            assert ("webhook_secret",) in postgres.ask("SELECT name FROM triobot.settings")
