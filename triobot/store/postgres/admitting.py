"""Admission: every process of a bot, owner or standby, inserts events into the store's inbox.

An event is in the inbox before its 200, and the owner of the store reads the event there. So standby
processes also accept events, and no event is lost if the owner dies.

One transaction inserts all events that have arrived since the previous transaction began. After any error,
the same batch is sent again. The second attempt finds the keys that the first attempt has stored. So the
transaction needs neither a count of commits nor the owner's lock. By the server's clock, an event is inserted
within `ADMITTED_WITHIN` seconds of its arrival, or never. Without this limit, a delayed batch might insert an
event that the platform has sent again to another process. After that process's 200, the delayed event would
count as a new event. Within the limit, the time of arrival distinguishes a new event from a repetition: a
user's second, equal message arrives after the 200 of the first message. After an error, the fact that a 200
was written is also sent again. The repeated fact never acknowledges a delivery that arrived after the
answered delivery.

A transaction takes event numbers under one lock, and keeps this lock until the transaction ends. So rows
become visible in the order of their numbers: once the owner has read a row, no row with a smaller number
appears. A transaction may have to wait for the lock while another process commits.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, final
from uuid import uuid4

import attrs
import psycopg
import trio

from ...base.clock import steady_time
from ...errors import ConfigError, StoreAwayError, StoreError, TriobotError
from ...seams.inbox import Acceptance, Arrival, InboxRow, OverQuota, Quota, Redelivered
from ...seams.money import RaiseAlarm
from ...seams.writes import CarryOut, KeepRaw, OperatorOrder, StoreStatistics
from ..admission import admit
from ..payment_rows import MoneyTables
from ..rules import FIRST_ROWS, MOST_ROWS, ONCE_FOR, REPEATED_WITHIN, as_kept
from ..schema import Stamp, check_whole
from ..table_store import Store
from .address import PostgresAddress, read_address
from .failures import first_line, for_the_caller
from .opened import own_name
from .orders import carry_out, news_channel, take_orders
from .ownership import end_silent
from .schemas import check_store, numbers_key
from .session import Connection, Session, connect, make_connection, named
from .threads import ask

ADMITTED_WITHIN: Final = 5.0
"""Time limit for inserting an event, in seconds. A proxy before the webhook must wait longer than this limit.
"""
MOST_AT_ONCE: Final = 500
MOST_BYTES: Final = 1024 * 1024
_MOST_KNOWN: Final = 10_000
_AGAIN_SECONDS: Final = 0.05
_LOOK_EVERY: Final = 0.5
_ASK_CLOCK_EVERY: Final = 5_000
_LAST_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.5
_NOTED_WITHIN: Final = 0.02
"""How long a written 200 waits for a batch of events, to be stored in the same transaction; in seconds."""
_NOTHING: Final = StoreStatistics(0, 0, 0)

_NAME: Final = b"SET application_name = 'node admission'"
_CLOCK: Final = b"SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_ANSWERED: Final = (
    b"UPDATE deliveries AS d SET acknowledged = d.at FROM unnest($1::text[], $2::bigint[]) AS g (key, at)"
    b" WHERE d.key = g.key AND d.at <= g.at AND acknowledged IS NULL"
)
_ADMIT: Final = f"""
WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock($1)),
given AS MATERIALIZED (
    SELECT g.*, (SELECT count(*) FROM (
        SELECT 1 FROM inbox WHERE inbox.chat_id = g.chat_id AND begun IS NULL LIMIT $2
    ) AS waiting) >= $2 AS refused
    FROM held, unnest(
        $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bytea[], $8::text[], $9::bigint[]
    ) WITH ORDINALITY AS g (chat_id, sender_id, at, content_type, body, key, once, n)
),
noted AS (
    INSERT INTO deliveries AS d (key, at, once)
    SELECT key, at, once FROM given WHERE key IS NOT NULL AND NOT refused ORDER BY key
    ON CONFLICT (key) DO UPDATE SET at = excluded.at, once = excluded.once, acknowledged = NULL
    WHERE CASE WHEN excluded.once = 1 THEN excluded.at - d.at >= {ONCE_FOR}
        ELSE abs(excluded.at - d.at) > {REPEATED_WITHIN} OR (d.acknowledged IS NOT NULL
            AND NOT excluded.at BETWEEN d.at - {round(ADMITTED_WITHIN * 1000)} AND d.at) END
    RETURNING key
),
new AS MATERIALIZED (
    SELECT given.* FROM given LEFT JOIN noted USING (key)
    WHERE NOT refused AND (given.key IS NULL OR noted.key IS NOT NULL)
),
seen AS (
    INSERT INTO senders AS s (chat_id, first_sender, several)
    SELECT chat_id, min(sender_id), (min(sender_id) <> max(sender_id))::int::bigint
    FROM new WHERE sender_id IS NOT NULL GROUP BY chat_id ORDER BY chat_id
    ON CONFLICT (chat_id) DO UPDATE SET several = 1
    WHERE s.several = 0 AND (excluded.several = 1 OR s.first_sender <> excluded.first_sender)
),
numbered AS MATERIALIZED (
    SELECT nextval('numbers') AS seq, o.* FROM (SELECT * FROM new ORDER BY n) AS o
),
put AS (
    INSERT INTO inbox (seq, chat_id, at, content_type, body)
    SELECT seq, chat_id, at, content_type, body FROM numbered
)
SELECT given.refused, numbered.seq, (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    1 / (clock_timestamp() < to_timestamp($10 / 1000.0))::int
FROM given LEFT JOIN numbered USING (n) ORDER BY n
""".encode()
_KEEP_RAW: Final = b"INSERT INTO raw (at, reason, content_type, body) VALUES ($1, $2, $3, $4)"
_KEEP_FEW: Final = (
    f"DELETE FROM raw WHERE n = (SELECT n FROM raw ORDER BY n OFFSET {FIRST_ROWS} LIMIT 1)"
    f" AND (SELECT count(*) FROM raw) > {MOST_ROWS}"
).encode()
_AGAIN: Final = b"UPDATE meta SET value = value WHERE name = 'schema'"
_NOTIFY: Final = b"SELECT pg_notify($1, '')"
_SETTINGS: Final = b"SELECT * FROM settings UNION ALL (SELECT '', sources FROM deployed ORDER BY -at LIMIT 1)"
_MAY_WRITE: Final = (
    b"SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'INSERT'),"
    b" pg_get_userbyid(c.relowner) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    b" WHERE n.nspname = $1 AND c.relname = 'inbox'"
)


@attrs.define(eq=False)
class _ToAdmit:
    """An event to be inserted, the deadline of the insertion by the steady clock, and the result."""

    arrival: Arrival
    quota: Quota
    until: int
    answer: Acceptance | None = None
    error: StoreError | None = None
    over: trio.Event = attrs.field(factory=trio.Event)

    def fail(self, error: StoreError) -> None:
        self.error = error
        self.over.set()


@final
class Admission:
    """Inserts events; implements `triobot.webhook.inbox.Admits`. Also reads settings for a standby process.

    Attributes:
        process: name of this process in texts for people.
        store: the store itself, while this process owns the store; else None.
        news: called when this process has inserted events; must not wait.
        heard: called after each reading of the server's clock, in any thread, with three times: `steady_time`
            before the reading, the server's time of day, and `steady_time` after the reading.
    """

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._key = numbers_key(address)
        self._connection: Connection | None = None
        # Number of milliseconds by which the server's clock is ahead of the steady clock; None if unknown.
        self._ahead: int | None = None
        self._ask_clock_at = 0
        self._waiting: list[_ToAdmit] = []
        # Arrival times by key. `_came` is for events whose 200 is not written yet. `_answered` is for events
        # whose 200 is written, until the store has this fact.
        self._came: dict[str, int] = {}
        self._answered: dict[str, int] = {}
        self._some = trio.Event()
        self._sent: Sequence[_ToAdmit] = ()
        self._attempt = trio.CancelScope()
        self.process: Final = own_name()
        self.store: Store | None = None
        self.news: Callable[[], None] = lambda: None
        self.heard: Callable[[int, int, int], None] = lambda asked, server, heard: None

    async def accept(
        self,
        arrival: Arrival,
        *,
        quota: Quota,
        beginning: object = None,
        on_commit: Callable[[InboxRow], None] | None = None,
    ) -> Acceptance:
        """Insert an event. The owner of the store handles the event.

        Raises:
            StoreAwayError: the event was not inserted in time, and will not be inserted later. But if the
                answer to a COMMIT was lost, the event may already be in the inbox; the platform's repetition
                is then dropped.

        Cancellation: *ambiguous*.
        """
        admit(arrival)
        if arrival.key is None:  # after an error, the key shows whether the event is stored
            arrival = attrs.evolve(arrival, key=f"request:{arrival.chat_id}:{uuid4().hex}")
        elif arrival.at == self._answered.get(arrival.key):
            arrival = attrs.evolve(arrival, at=arrival.at + 1)  # a new event with the same arrival time
        if self.statistics().inbox_bytes + len(arrival.body) > quota.bytes_in_all:
            await trio.lowlevel.checkpoint()
            return OverQuota(whole=True)
        came = steady_time() if arrival.came is None else arrival.came
        one = _ToAdmit(arrival, quota, came + round(ADMITTED_WITHIN * 1000))
        self._waiting.append(one)
        self._some.set()
        await one.over.wait()
        if one.error is not None:
            raise one.error
        assert one.answer is not None
        if arrival.key is not None and not arrival.once:
            self._came[arrival.key] = arrival.at
            if len(self._came) > _MOST_KNOWN:  # a lost connection leaves its key in `_came`
                del self._came[next(iter(self._came))]
        if on_commit is not None and isinstance(one.answer, InboxRow):
            on_commit(one.answer)
        return one.answer

    async def commit(self, kept: KeepRaw | RaiseAlarm) -> None:
        """Store `kept`: an unreadable request, or an alarm of this process."""
        if self.store is not None:
            await self.store.commit(kept)
            return

        def keep(connection: Connection) -> None:
            if isinstance(kept, RaiseAlarm):
                MoneyTables(Session(connection)).apply(kept)
                return
            one = as_kept(kept)
            with connection.transaction():
                connection.execute(_KEEP_RAW, (one.at, one.reason, one.content_type, one.body))
                connection.execute(_KEEP_FEW)

        await self.ask(keep)

    def note_answered(self, key: str) -> None:
        """Queue the fact that the 200 with this key was fully written. The next batch stores this fact.

        Never waits.
        """
        if (came := self._came.pop(key, None)) is not None:
            self._answered[key] = came
            self._some.set()

    async def wait_noted(self) -> None:
        """Wait until all noted 200s are stored."""
        while self._answered:  # noqa: ASYNC110 - at the very end
            await trio.sleep(_NOTED_WITHIN)

    async def check(self) -> None:
        """Write a stored value again, to check that the database commits now.

        A read would be no check: reads succeed even while commits wait for a lost synchronous standby.

        Raises:
            StoreAwayError: the database doesn't answer.
        """
        await self.ask(lambda connection: connection.execute(_AGAIN))

    def statistics(self) -> StoreStatistics:
        """Return the store's counts if this process owns the store; otherwise return zeros."""
        return _NOTHING if self.store is None else self.store.statistics()

    async def settings(self, stamp: Stamp) -> Mapping[str, str]:
        """Read the store's settings and the server's time of day, even if another process owns the store.

        The result also has, under the name "", the digests of the newest build's sources.

        Raises:
            ConfigError, StoreError: the store is another bot's, or this triobot or this role can't use it.
            StoreAwayError: the settings can't be read now.
        """
        found: dict[str, str] = {}

        def read(connection: Connection) -> None:
            session = Session(connection)
            for may, owner in session.run(_MAY_WRITE, (self._address.schema,)).fetchall():
                if not may:
                    raise ConfigError(
                        f"the store {named(self._address)} can't be used: this role may not write into its"
                        f" tables; run the bot as the role that made them, {owner}"
                    )
            check_store(session, self._address, stamp)
            check_whole(session, named(self._address))
            self._hear_clock(connection)
            found.update(connection.execute(_SETTINGS).fetchall())

        await self.ask(read)
        return found

    async def ask(self, work: Callable[[Connection], object]) -> None:
        """Run `work` in a worker thread, over a new connection.

        Raises:
            StoreAwayError: `work` has failed for now, or the server doesn't answer in time.
        """

        def do() -> None:
            with make_connection(self._address) as connection:
                work(connection)

        try:
            await ask(do, within=ADMITTED_WITHIN)
        except psycopg.Error as error:
            raise self._away(error) from error

    # --- the task

    async def run(self) -> None:
        """Insert events until cancelled.

        After a cancellation, it is unknown whether the last batch's events are inserted.
        """
        try:
            while True:
                with trio.move_on_after(_ASK_CLOCK_EVERY / 1000):
                    await self._some.wait()
                self._some = trio.Event()
                if self._answered and not self._waiting:
                    with trio.move_on_after(_NOTED_WITHIN):
                        await self._some.wait()
                self._sent = self._take()
                await self._admit(self._sent)
                self._sent = ()
                if self._waiting:
                    self._some.set()
        finally:
            for one in self._waiting:
                one.fail(StoreAwayError("this process ends, and has not taken the event in"))
            if self._connection is not None:
                self._connection.close()

    def _take(self) -> list[_ToAdmit]:
        batch: list[_ToAdmit] = []
        size = 0
        while self._waiting and len(batch) < MOST_AT_ONCE and size < MOST_BYTES:
            one = self._waiting.pop(0)
            size += len(one.arrival.body)
            batch.append(one)
        return batch

    async def _admit(self, batch: Sequence[_ToAdmit]) -> None:
        """Insert a batch, and retry after each error. Events that have waited too long get an error."""
        answered = dict(self._answered)
        why = StoreAwayError(f"the server of the store {named(self._address)} doesn't answer in time")
        while True:
            answers: list[Acceptance] | None = None
            try:
                with trio.CancelScope() as self._attempt:
                    answers = await ask(partial(self._send, batch, answered), self._connection)
                if answers is None:
                    raise why  # an earlier error says more than this timeout
            except (TriobotError, psycopg.Error) as error:
                if self._connection is not None:
                    self._connection.close()
                self._connection = self._ahead = None
                if not isinstance(error, psycopg.errors.DivisionByZero):  # divided by 0: too late
                    why = self._away(error)
                late = [one for one in batch if steady_time() >= one.until]
                for one in late:
                    one.fail(why)
                batch = [one for one in batch if one not in late]
                if not batch:
                    return  # the next batch stores the remaining facts about written 200s
                await trio.sleep(_AGAIN_SECONDS)
                continue
            for key, came in answered.items():
                if self._answered[key] == came:
                    del self._answered[key]
            for one, answer in zip(batch, answers, strict=True):
                one.answer = answer
                one.over.set()
            if any(isinstance(answer, InboxRow) for answer in answers):
                self.news()
            return

    def _away(self, error: Exception) -> StoreAwayError:
        found = for_the_caller(error, named(self._address))
        if isinstance(found, StoreAwayError):
            return found
        return StoreAwayError(f"the store {named(self._address)} is away: {first_line(error)}")

    async def watch(self) -> None:
        """Cancel each attempt that gets no answer in time; runs until cancelled."""
        while True:
            await trio.sleep(_LOOK_SECONDS)
            asked = [one for one in self._sent if not one.over.is_set()] or self._waiting
            if any(steady_time() >= one.until for one in asked):
                self._attempt.cancel()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Insert events while the block runs."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.run)
            nursery.start_soon(self.watch)
            yield
            with trio.move_on_after(_LAST_SECONDS):
                await self.wait_noted()
            nursery.cancel_scope.cancel()

    # --- in a worker thread

    def _send(self, batch: Sequence[_ToAdmit], answered: Mapping[str, int]) -> list[Acceptance]:
        if self._connection is None:
            self._connection = connect(self._address)
            self._connection.execute(_NAME, prepare=False)
        connection = self._connection
        # Read the server's clock every few seconds, however many events come.
        if self._ahead is None or steady_time() >= self._ask_clock_at:
            self._hear_clock(connection)
        if not (batch or answered):
            return []
        found: list[Any] = []
        with connection.pipeline():
            connection.execute(b"BEGIN")
            if answered:
                connection.execute(_ANSWERED, (list(answered), list(answered.values())))
            said = connection.execute(_ADMIT, self._values(batch)) if batch else None
            connection.execute(b"COMMIT")
            if batch:
                connection.execute(_NOTIFY, (news_channel(self._address),))
        if said is not None:
            found = said.fetchall()
            self._ahead = int(found[0][2]) - steady_time()
        return [_answer(one.arrival, *row[:2]) for one, row in zip(batch, found, strict=True)]

    def _hear_clock(self, connection: Connection) -> None:
        asked = steady_time()
        ((now,),) = connection.execute(_CLOCK).fetchall()
        self._ahead = int(now) - steady_time()
        self._ask_clock_at = asked + _ASK_CLOCK_EVERY
        self.heard(asked, int(now), steady_time())

    def _values(self, batch: Sequence[_ToAdmit]) -> tuple[object, ...]:
        arrivals, ahead = [one.arrival for one in batch], self._ahead
        assert ahead is not None
        return (
            self._key,
            batch[0].quota.events_per_chat,
            [one.chat_id for one in arrivals],
            [one.sender_id for one in arrivals],
            [one.at for one in arrivals],
            [one.content_type for one in arrivals],
            [one.body for one in arrivals],
            [one.key for one in arrivals],
            [int(one.once) for one in arrivals],
            min(one.until for one in batch) + ahead,
        )


def _answer(arrival: Arrival, refused: bool, seq: int | None) -> Acceptance:
    if refused:
        return OverQuota(whole=False)
    if seq is None:
        return Redelivered()
    return InboxRow(seq, arrival.chat_id, arrival.at, arrival.content_type, arrival.body)


def admission_at(place: str) -> Admission:
    """Return the object that accepts events into the store at this address.

    Raises:
        ConfigError: the address can't be parsed.
    """
    return Admission(read_address(place))


# --- the owner of the store


async def hear_news(address: PostgresAddress, node: int, tell: Callable[[], None], answer: CarryOut) -> None:
    """Call `tell` when another process may have inserted events, and `answer` for each order of an operator.

    Runs until cancelled. After a lost notification, `tell` is called up to half a second late.

    Args:
        node: the number of this process, which is the store's owner.
        answer: carries out an order.
    """
    connection: Connection | None = None
    in_hand: set[int] = set()

    async def have_done(number: int, order: OperatorOrder) -> None:
        await carry_out(address, number, order, answer)
        in_hand.remove(number)

    try:
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    if connection is None:
                        connection = await ask(partial(_listen, address))
                    look = partial(_look, connection, node, list(in_hand))
                    for number, order in await ask(look, connection):
                        in_hand.add(number)
                        nursery.start_soon(have_done, number, order)
                    tell()
                    with trio.move_on_after(_LOOK_EVERY):
                        await trio.lowlevel.wait_readable(connection.fileno())
                except (TriobotError, psycopg.Error, OSError):
                    if connection is not None:
                        connection.close()
                    connection = None
                    await trio.sleep(_LOOK_EVERY)
    finally:
        if connection is not None:
            connection.close()


def _listen(address: PostgresAddress) -> Connection:
    connection = make_connection(address)
    connection.execute(f'LISTEN "{news_channel(address)}"'.encode())
    return connection


def _look(connection: Connection, node: int, in_hand: Sequence[int]) -> Sequence[tuple[int, OperatorOrder]]:
    list(connection.notifies(timeout=0))
    end_silent(connection)
    return take_orders(connection, node, in_hand)
