"""The tables of a store in PostgreSQL. For each batch, rows are read ahead.

On SQLite a query is cheap; here each query is a round trip to the server. So a batch that accepts events or
changes payments first reads all rows that its jobs will query, in one round trip: the keys, the senders of
the chats, whether a chat has conversations, and the data of chats. Changes of the batch itself update these
copies. Rows that were not read ahead are queried as on SQLite.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, final

from ...seams.inbox import Acceptance, Arrival, Beginning, InboxRow, Quota
from ...seams.journals import BeginConversation, EndConversation, JournalWrite
from ...seams.money import MoneyWrite, MovePayment, PaymentRow, PutPayment
from ...seams.writes import Forgotten, PutData
from ...wire.ids import ChatId, RefId, SenderId
from ..journal_rows import JournalTables
from ..payment_rows import PAYMENTS, MoneyTables, payments_of
from ..rules import AcceptedDelivery, Tally, is_redelivery
from ..statements import NOTE_AGAIN, NOTE_NEW, SEE_SENDER, TAKE_IN, Tables
from ..writer import Arriving, Job
from .session import Session

_LAST: Final = b"SELECT last_value FROM numbers"
_LOCK: Final = b"SELECT pg_advisory_xact_lock($1)"
_CONSUME: Final = "DELETE FROM inbox WHERE seq = ANY(?::bigint[]) RETURNING chat_id, length(body), seq"
_KEYS: Final = b"SELECT key, at, acknowledged IS NOT NULL FROM deliveries WHERE key = ANY($1)"
_SENDERS: Final = b"SELECT chat_id, first_sender, several FROM senders WHERE chat_id = ANY($1)"
_LIVE: Final = b"SELECT DISTINCT chat_id FROM conversations WHERE chat_id = ANY($1) AND ended_at IS NULL"
_DATA: Final = b"SELECT chat_id, key, value FROM data WHERE chat_id = ANY($1)"
_PAYMENTS: Final = f"{PAYMENTS} WHERE id = ANY($1)".encode()

# Also deletes the conversation's records and effects, unless it has ended already and is kept.
_END: Final = (
    "WITH gone AS (DELETE FROM conversations WHERE id = ? AND ended_at IS NULL RETURNING id, parked),"
    " records AS (DELETE FROM journal WHERE conversation IN (SELECT id FROM gone)),"
    " beside AS (DELETE FROM effects WHERE conversation IN (SELECT id FROM gone))"
    " SELECT parked IS NOT NULL FROM gone"
)


def looks(job: Job[Any]) -> bool:
    """Return whether the job's result depends on stored rows."""
    return any(isinstance(one, Arrival | MovePayment) for one in job.brings)


@final
class PostgresJournals(JournalTables):
    """The conversations of a store.

    Attributes:
        live: for the chats that were read ahead: whether the chat has conversations that have not ended.
    """

    def __init__(self, session: Session, tally: Tally, newest: Callable[[], int]) -> None:
        super().__init__(session, tally, newest)
        self._session = session
        self.live: dict[ChatId, bool] = {}

    def apply(self, write: JournalWrite) -> None:
        super().apply(write)
        if isinstance(write, BeginConversation):
            self.live[write.chat_id] = True

    def has(self, chat_id: ChatId) -> bool:
        known = self.live.get(chat_id)
        return super().has(chat_id) if known is None else known

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
class PostgresMoney(MoneyTables):
    """The payments and alarms of a store.

    Attributes:
        ahead: current rows of the payments that were read ahead. None if there is no such payment.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.ahead: dict[RefId, PaymentRow | None] = {}

    def apply(self, write: MoneyWrite) -> None:
        super().apply(write)
        if isinstance(write, PutPayment) and write.row.id in self.ahead:
            self.ahead[write.row.id] = write.row

    def get(self, id_: RefId) -> PaymentRow | None:
        return self.ahead[id_] if id_ in self.ahead else super().get(id_)


@final
class PostgresTables(Tables):
    """The rows of a store.

    Args:
        key: number of the lock for taking event numbers, because other processes insert events as well.
    """

    def __init__(self, session: Session, key: int) -> None:
        super().__init__(session)
        self._key = key
        # The number of the newest row that was counted. For newer rows: the numbers of this process's rows,
        # and the rows that were read.
        self._counted_to = 0
        self._ours: set[int] = set()
        self._seen_rows: list[InboxRow] = []
        self._session = session
        self._conversations = PostgresJournals(session, self.tally, self._read_last_seq)
        self.journals = self._conversations
        self._payments = PostgresMoney(session)
        self.money = self._payments
        self._delivered: dict[str, AcceptedDelivery | None] = {}
        # For some chats: the first sender, and whether there were several senders; None: no sender yet.
        self._seen: dict[ChatId, tuple[SenderId, bool] | None] = {}
        self._kept: dict[ChatId, dict[str, str]] = {}

    def look_ahead(self, jobs: Sequence[Job[Any]]) -> None:
        """Read all rows that these jobs will query."""
        brought = [one for job in jobs for one in job.brings]
        arrivals = [one for one in brought if isinstance(one, Arrival)]
        chats = list({arrival.chat_id for arrival in arrivals})
        keys = [arrival.key for arrival in arrivals if arrival.key is not None]
        # Read the data of these chats only: other jobs don't need the data, which may be large.
        begins = {job.arrival.chat_id for job in jobs if isinstance(job, Arriving) and job.beginning}
        moving = [one.id for one in brought if isinstance(one, MovePayment)]
        run = self._session.run
        last = None
        if self._last_seq is None and arrivals:
            # Without the lock, other processes might take further numbers before this transaction writes.
            run(_LOCK, (self._key,))
            last = run(_LAST)
        delivered = run(_KEYS, (keys,)) if keys else None
        seen = run(_SENDERS, (chats,)) if chats else None
        live = run(_LIVE, (chats,)) if chats and self.tally["conversations"] else None
        kept = run(_DATA, (list(begins),)) if begins else None
        payments = run(_PAYMENTS, (moving,)) if moving else None
        if last is not None:
            ((newest,),) = last.fetchall()
            self._last_seq = newest
        if delivered is not None:
            self._delivered = dict.fromkeys(keys)
            self._delivered.update(
                (key, AcceptedDelivery(at=at, acknowledged=told)) for key, at, told in delivered.fetchall()
            )
        if seen is not None:
            self._seen = dict.fromkeys(chats)
            self._seen.update((chat, (first, bool(several))) for chat, first, several in seen.fetchall())
        if live is not None:
            self._conversations.live = dict.fromkeys(chats, False)
            self._conversations.live.update((chat, True) for (chat,) in live.fetchall())
        if kept is not None:
            self._kept = {chat: {} for chat in begins}
            for chat, key, value in kept.fetchall():
                self._kept[chat][key] = value
        if payments is not None:
            self._payments.ahead = dict.fromkeys(moving)
            self._payments.ahead.update((row.id, row) for row in payments_of(payments.fetchall()))

    def _read_last_seq(self) -> int:
        if self._last_seq is None:
            self._session.run(_LOCK, (self._key,))
        return super()._read_last_seq()

    def forget_number(self) -> None:
        """Forget the last event's number at the end of a transaction: other processes take numbers too."""
        self._last_seq = None

    def count_everything(self) -> None:
        run = self._session.run
        run(b"BEGIN")
        run(_LOCK, (self._key,))
        super().count_everything()
        self._counted_to = run(_LAST).fetchall()[0][0]
        self._ours.clear()
        run(b"COMMIT")

    def backlog(self, after: int, limit: int) -> list[InboxRow]:
        rows = super().backlog(after, limit)
        if after <= self._counted_to:
            self._seen_rows += rows
        return rows

    def count_seen(self) -> None:
        """Count the rows that other processes inserted and that a successful batch has read."""
        rows, self._seen_rows = self._seen_rows, []
        for row in rows:
            if row.seq > self._counted_to:
                self._counted_to = row.seq
                if row.seq in self._ours:
                    self._ours.discard(row.seq)
                else:
                    self.noted += 1  # the row's delivery is new as well
                    self.tally.count_event(row.chat_id, len(row.body))
        if rows:
            self.tally.settle()

    def forget_ahead(self) -> None:
        """Forget all rows that were read ahead, at the end of the batch."""
        self._delivered = {}
        self._seen = {}
        self._kept = {}
        self._conversations.live = {}
        self._payments.ahead = {}

    def undo(self, mark: int = 0, *, newest: int | None = None) -> None:
        """Undo the changes of the tally since `mark`, and drop all caches.

        Args:
            newest: the number of the newest row at the mark, if the transaction goes on. This number isn't in
                the database yet, because the sequence is only set at the end of a transaction.
        """
        super().undo(mark)
        self._last_seq = newest
        if newest is None:
            self._seen_rows.clear()
        self.forget_ahead()

    def accept_all(self, coming: Sequence[tuple[Arrival, Quota, Beginning | None]]) -> Sequence[Acceptance]:
        """Insert these events in order. The stream sends the statements of all events together."""
        return [self.accept(arrival, quota, (), begins) for arrival, quota, begins in coming]

    def data(self, chat_id: ChatId) -> dict[str, str]:
        known = self._kept.get(chat_id)
        return super().data(chat_id) if known is None else dict(known)

    def forget(self, chat_id: ChatId) -> Forgotten:
        self.forget_ahead()
        return super().forget(chat_id)

    def _put_data(self, write: PutData) -> None:
        if (known := self._kept.get(write.chat_id)) is not None:
            known.pop(write.key, None)
            if write.value is not None:
                known[write.key] = write.value
        super()._put_data(write)

    def _consume(self, seqs: Collection[int]) -> None:
        self._session.later(self._session.execute(_CONSUME, (list(seqs),)), self._count_gone)

    def _take_in(self, rows: Sequence[InboxRow]) -> None:
        for row in rows:
            values = (row.seq, row.chat_id, row.at, row.content_type, row.body, row.begun)
            self._session.execute(TAKE_IN, values)
        # The transaction sets the sequence to this number at its end. The DELETE of a row returns the values
        # that the tally needs.
        self._last_seq = rows[-1].seq
        self._ours.update(row.seq for row in rows)

    def _is_new(self, arrival: Arrival, *, noting: bool) -> bool:
        key = arrival.key
        if key is None or key not in self._delivered:
            return super()._is_new(arrival, noting=noting)
        before = self._delivered[key]
        if is_redelivery(arrival, before, self.retention.keys):
            return False
        if noting:
            self.noted += before is None
            self._delivered[key] = AcceptedDelivery(at=arrival.at, acknowledged=False)
            statement = NOTE_NEW if before is None else NOTE_AGAIN
            self._session.execute(statement, (key, arrival.at, int(arrival.once)))
        return True

    def _note_new(self, arrivals: Sequence[Arrival]) -> None:
        super()._note_new(arrivals)
        for arrival in arrivals:
            if arrival.key in self._delivered:
                self._delivered[arrival.key] = AcceptedDelivery(at=arrival.at, acknowledged=False)

    def catch_up(self, answered: Collection[str], consumed: Collection[int], now: int) -> None:
        """Write the notes. Later jobs of the same batch see the deliveries as answered."""
        super().catch_up(answered, consumed, now)
        for key in answered:
            if (before := self._delivered.get(key)) is not None:
                self._delivered[key] = AcceptedDelivery(at=before.at, acknowledged=True)

    def _is_group(self, arrival: Arrival) -> bool:
        chat_id, sender_id = arrival.chat_id, arrival.sender_id
        if chat_id not in self._seen:
            return super()._is_group(arrival)
        first, several = self._seen[chat_id] or (None, False)
        if several or sender_id is None:
            return several
        if first != sender_id:
            self._session.execute(SEE_SENDER, (chat_id, sender_id))
            if first is not None:
                self._seen[chat_id] = (first, True)
                self._alone.pop(chat_id, None)
                return True
        self._seen[chat_id] = (sender_id, False)
        self._remember(chat_id, sender_id)
        return False

    def _note_sender(self, arrival: Arrival) -> bool:
        chat_id, sender_id = arrival.chat_id, arrival.sender_id
        known = self._alone.get(chat_id)
        if chat_id in self._seen or known is not None or sender_id is None:
            return self._is_group(arrival)
        # The result isn't needed here, so `several` isn't read.
        self._session.execute(SEE_SENDER, (chat_id, sender_id))
        return False
