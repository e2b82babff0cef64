"""A store in PostgreSQL beside a simulated world's model: told and asked the same, and it must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import attrs

from tests.payments.plain_money import PlainMoney
from tests.postgres import Server
from tests.store.postgres_rows import PostgresRows
from triobot.seams.money import AcknowledgeAlarms, AlarmTold, MovePayment, PutPayment, RaiseAlarm
from triobot.seams.writes import StaleRowError
from triobot.store.admission import admit_writes
from triobot.store.statements import Tables
from triobot.store.writer import AskedJob

TABLES = ("payments", "payment_moves", "alarms")
MONEY = (PutPayment, MovePayment, RaiseAlarm, AcknowledgeAlarms, AlarmTold)


@attrs.frozen
class _Then:
    time: int

    def now(self) -> int:
        return self.time


@final
class SecondStore:
    """`tests.payments.simulated_store.Second`, empty at first.

    Attributes:
        commits: how often something was stored or refused.
        asked: how often the same was asked.
    """

    def __init__(self, server: Server, now: int) -> None:
        self.commits = self.asked = 0
        self._now = now
        self._backups = 0
        self._server = server
        self._rows = PostgresRows(server)
        self._rows.open(_Then(now))
        server.ask("DROP SCHEMA IF EXISTS backups CASCADE", "CREATE SCHEMA backups")

    def commit(self, writes: Sequence[Any], refuses: Callable[[], None]) -> None:
        """Commit what is about money, as one unit; it must be refused if this raises."""
        money = admit_writes([write for write in writes if isinstance(write, MONEY)])
        if not money:
            return

        def apply(tables: Tables) -> None:
            for write in money:
                tables.apply(write)

        self.commits += 1
        refused = None
        try:
            refuses()
        except StaleRowError as error:
            refused = error
        verdict = self._rows.run(
            AskedJob(
                apply,
                writes=True,
                together=lambda tables: tables.apply_all(money),
            )
        )
        assert type(verdict) is type(refused), (verdict, refused, money)

    def check(self, work: Callable[[Any], Any], answer: Any) -> None:
        """Ask the same; it must answer the same, in any order where several are equally early."""
        self.asked += 1
        with self._rows.turn:
            mine = work(self._rows.tables)
        if isinstance(answer, list):
            assert sorted(map(repr, mine)) == sorted(map(repr, answer))
        else:
            assert mine == answer

    def check_all(self, model: PlainMoney) -> None:
        """Ask for everything; it must be the model's."""
        every = 10**6
        rows = model.find(limit=every)
        questions: list[Callable[[Any], Any]] = [
            lambda money: money.find(limit=every),
            lambda money: money.all_alarms(limit=every),
            lambda money: money.totals(since=0, until=2**60),
            lambda money: money.counts(),
            lambda money: money.next_due(),
            *(lambda money, id=row.id: money.history(id) for row in rows),
        ]
        for question in questions:
            self.check(lambda tables, ask=question: ask(tables.money), question(model))

    def backup(self) -> int:
        """Keep what there is, and return its number."""
        self._backups += 1
        for name in TABLES:
            self._server.ask(f"CREATE TABLE backups.{name}_{self._backups} AS TABLE triobot.{name}")
        return self._backups

    def restore(self, number: int) -> None:
        """Put that back, while nothing is open."""
        self._rows.close(self._now)
        for name in TABLES:
            self._server.ask(
                f"DELETE FROM triobot.{name}",
                f"INSERT INTO triobot.{name} SELECT * FROM backups.{name}_{number}",
            )
        self._rows.open(_Then(self._now))

    def close(self) -> None:
        """Let the store go."""
        self._rows.close(self._now)
