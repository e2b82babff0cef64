"""The tables of a store in PostgreSQL: like the tables in a file, but shared with other processes.

Other processes insert events into the inbox, and take numbers for these events. So this process takes event
numbers from a sequence, under a lock. An event that another process inserted is counted when this process
reads the event's row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, final

from ...seams.inbox import Acceptance, Arrival, Beginning, InboxRow, Quota
from ...seams.journals import EndConversation
from ...seams.writes import Write
from ...wire.ids import ChatId, SenderId
from ..journal_rows import JournalTables
from ..rules import Tally, is_redelivery
from ..statements import NOTE_AGAIN, Tables
from .session import Session

_LAST: Final = b"SELECT last_value FROM numbers"
_NEXT: Final = b"SELECT nextval('numbers')"
_LOCK: Final = b"SELECT pg_advisory_xact_lock($1)"
_CONSUME: Final = "DELETE FROM inbox WHERE seq = ANY(?::bigint[]) RETURNING chat_id, length(body), seq"

# This statement deletes a conversation that has not ended, with its records and effects. An ended
# conversation stays.
_END: Final = (
    "WITH gone AS (DELETE FROM conversations WHERE id = ? AND ended_at IS NULL RETURNING id, parked),"
    " records AS (DELETE FROM journal WHERE conversation IN (SELECT id FROM gone)),"
    " beside AS (DELETE FROM effects WHERE conversation IN (SELECT id FROM gone))"
    " SELECT parked IS NOT NULL FROM gone"
)


@final
class PostgresJournals(JournalTables):
    """The conversations of a store."""

    def __init__(self, session: Session, tally: Tally, newest: Callable[[], int]) -> None:
        super().__init__(session, tally, newest)
        self._session = session

    def _end(self, write: EndConversation) -> None:
        if write.error is not None or write.kept:
            super()._end(write)
            return
        self._session.later(self._session.execute(_END, (write.conversation,)), self._count_ended)

    def _count_ended(self, gone: Sequence[tuple[bool]]) -> None:
        for (parked,) in gone:
            self._tally.add("conversations", -1)
            self._tally.add("parked", -int(parked))


@final
class PostgresTables(Tables):
    """The rows of a store.

    Args:
        key: number of the advisory lock under which event numbers are taken.
    """

    def __init__(self, session: Session, key: int) -> None:
        super().__init__(session)
        self._key = key
        # The number of the newest counted inbox row; the numbers of newer inbox rows that this process has
        # inserted; and the inbox rows that the current batch has read.
        self._counted_to = 0
        self._ours: set[int] = set()
        self._seen_rows: list[InboxRow] = []
        self._session = session
        self.journals = PostgresJournals(session, self.tally, self._read_last_seq)

    def _read_last_seq(self) -> int:
        self._last_seq = None  # other processes take numbers too, so no number is cached
        return super()._read_last_seq()

    def _next_seq(self) -> int:
        number: int = self._session.run(_NEXT).fetchall()[0][0]
        self._ours.add(number)
        return number

    def count_everything(self) -> None:
        run = self._session.run
        run(b"BEGIN")
        run(_LOCK, (self._key,))
        super().count_everything()
        self._counted_to = run(_LAST).fetchall()[0][0]
        self._ours.clear()
        run(b"COMMIT")

    def backlog(self, *, after: int, limit: int) -> list[InboxRow]:
        rows = super().backlog(after=after, limit=limit)
        if after <= self._counted_to:
            self._seen_rows += rows
        return rows

    def count_seen(self) -> None:
        """Count the rows that other processes inserted. To be called after the batch that read these rows."""
        rows, self._seen_rows = self._seen_rows, []
        for row in rows:
            if row.seq > self._counted_to:
                self._counted_to = row.seq
                if row.seq not in self._ours:
                    self.noted += 1  # the other process also inserted a delivery
                    self.tally.count_event(row.chat_id, len(row.body))
        if rows:
            self._ours = {seq for seq in self._ours if seq > self._counted_to}
            self.tally.settle()

    def accept(
        self, arrival: Arrival, quota: Quota, also: Sequence[Write], beginning: Beginning | None
    ) -> Acceptance:
        # Take this lock before any row lock: a process that has this lock may wait for a row lock.
        self._session.run(_LOCK, (self._key,))
        self._session.take_late()
        return super().accept(arrival, quota, also, beginning)

    def _consume(self, seqs: Collection[int]) -> None:
        self._session.later(self._session.execute(_CONSUME, (list(seqs),)), self._count_gone)

    def _remember(self, chat_id: ChatId, alone: SenderId) -> None:
        """Do nothing: another process may store a second sender of the chat at any time."""

    def _is_new(self, arrival: Arrival, *, noting: bool) -> bool:
        # Read the stored delivery first. In a stream, the whole batch fails if a statement with a read
        # `rowcount` changes no row.
        if arrival.key is None:
            return True
        if is_redelivery(arrival, self._delivered(arrival.key), self.retention.keys):
            return False
        if noting:
            self.noted += 1
            self._session.execute(NOTE_AGAIN, (arrival.key, arrival.at, int(arrival.once)))
        return True
