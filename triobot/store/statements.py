"""The store's rows: every SQL statement that reads or writes them, and what is counted of them.

Runs in the worker thread, inside the transaction that `Transactions` has opened, and knows nothing of it.
A new kind of write is one method here and one line in `apply`; those of money and broadcasts are beside it.

What one event costs must not grow with the number of conversations that are parked around it: every statement
of its path finds its rows by a primary key or by an index that holds only what isn't at rest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, TypeAlias, assert_never

from ..journals import (
    AppendRecords,
    BeginConversation,
    ContinueConversation,
    ConversationId,
    ConversationRow,
    DropEffects,
    Effect,
    EndConversation,
    Journal,
    JournalWrite,
    KeepIntent,
    KeepResult,
    Lease,
    ParkConversation,
    PutStanding,
    RunKind,
    TakeInHand,
    WakeEarlier,
)
from ..money import AcknowledgeAlarms, AlarmTold, MovePayment, PutPayment, RaiseAlarm
from ..seams import (
    Accept,
    Acceptance,
    AddReceivers,
    AdvanceBroadcast,
    Arrival,
    Beginning,
    Consume,
    DropBroadcast,
    Forgotten,
    InboxRow,
    JournalConflictError,
    KeepRaw,
    LeaseLostError,
    OpenBroadcast,
    PutData,
    PutSetting,
    Quota,
    Redelivered,
    RedeliveredError,
    TurnBroadcast,
    Write,
)
from ..shards import WHOLE
from ..wire.ids import ChatId, SenderId
from .admission import admit_begun, decided
from .broadcasts import BroadcastTables
from .payment_rows import MoneyTables
from .rules import (
    NAMING,
    UNSURE_BEFORE_A_CRASH,
    Delivery,
    Retention,
    Tally,
    cutoff,
    is_redelivery,
    overflows,
)
from .schema import PUT_META, get_meta
from .sql import Sql, listed

_NOTE: Final = "INSERT INTO deliveries (key, at, once, acknowledged) VALUES (?, ?, ?, NULL) ON CONFLICT (key)"
NOTE_NEW: Final = f"{_NOTE} DO NOTHING"
NOTE_AGAIN: Final = f"{_NOTE} DO UPDATE SET at = excluded.at, once = excluded.once, acknowledged = NULL"
TAKE_IN: Final = "INSERT INTO inbox (seq, chat_id, at, content_type, body, begun) VALUES (?, ?, ?, ?, ?, ?)"
# One statement that deletes them all and returns this takes 1.5 to 2.5 times as long as the two.
_SIZES: Final = "SELECT chat_id, length(body) FROM json_each(?) CROSS JOIN inbox ON seq = value"
_CONSUME: Final = "DELETE FROM inbox WHERE seq = ?"
SEE_SENDER: Final = (
    "INSERT INTO senders (chat_id, first_sender) VALUES (?, ?) ON CONFLICT (chat_id)"
    " DO UPDATE SET several = 1 WHERE senders.several = 0 AND senders.first_sender <> excluded.first_sender"
)
ANSWERED: Final = "UPDATE deliveries SET acknowledged = ? WHERE key = ? AND acknowledged IS NULL"
_CHATS: Final = 16_384
_ROWS: Final = 16_384
_SWEPT: Final = 5_000
_ALIVE_EVERY: Final = 200  # milliseconds; it is a page more in each transaction

_Row: TypeAlias = tuple[
    int, int, str, RunKind, str, int | None, str | None, int, int, int | None,
    str | None, str | None, int, int, int, int, int | None,
]  # fmt: skip

# One statement finds the end of the journal, compares, and writes.
APPEND: Final = (
    "INSERT INTO journal (conversation, n, size, records) SELECT ?1, ?2, ?3, ?4"
    " WHERE ?2 = coalesce((SELECT n + size FROM journal WHERE conversation = ?1 ORDER BY n DESC LIMIT 1), 0)"
    " AND EXISTS (SELECT 1 FROM conversations WHERE id = ?1 AND ended_at IS NULL)"
)
BEGIN_ONE: Final = (
    "INSERT INTO conversations (id, chat_id, route, kind, version, sender_id, key, unfinished,"
    " wake_at, started_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
STAND: Final = (
    "UPDATE conversations SET unfinished = ?, wake_at = ?,"
    " in_hand = CASE WHEN ? = 1 THEN in_hand ELSE 0 END, updated_at = ? WHERE id = ? AND ended_at IS NULL"
)
_POSITION: Final = (
    "coalesce((SELECT n + size FROM journal WHERE conversation = id ORDER BY n DESC LIMIT 1), 0)"
)
_SELECT: Final = (
    "SELECT id, chat_id, route, kind, version, sender_id, key, run, unfinished, wake_at,"
    f" parked, error, in_hand, {_POSITION}, started_at, updated_at, ended_at FROM conversations"
)
_OF_CHAT: Final = f"{_SELECT} WHERE chat_id = ? AND ended_at IS NULL ORDER BY id"
_CRASHED: Final = (
    f"{_SELECT} INDEXED BY conversations_ended WHERE ended_at IS NOT NULL AND chat_id = ? ORDER BY id"
)
_UNFINISHED: Final = (
    f"{_SELECT} WHERE unfinished = 1 AND parked IS NULL AND ended_at IS NULL AND id > ? ORDER BY id LIMIT ?"
)
_DUE: Final = (
    f"{_SELECT} WHERE wake_at IS NOT NULL AND parked IS NULL AND ended_at IS NULL"
    " AND wake_at <= ? AND (wake_at, id) > (?, ?) ORDER BY wake_at, id LIMIT ?"
)
_NEXT_WAKE: Final = (
    "SELECT min(wake_at) FROM conversations"
    " WHERE wake_at IS NOT NULL AND parked IS NULL AND ended_at IS NULL AND wake_at > ?"
)
_PARKED: Final = f"{_SELECT} WHERE parked IS NOT NULL AND ended_at IS NULL AND id > ? ORDER BY id LIMIT ?"
_EVERY: Final = f"{_SELECT} WHERE id > ? ORDER BY id LIMIT ?"
_IDS_OF_CHAT: Final = (
    "SELECT id FROM conversations WHERE chat_id = ?1 AND ended_at IS NULL UNION ALL"
    " SELECT id FROM conversations INDEXED BY conversations_ended"
    " WHERE ended_at IS NOT NULL AND chat_id = ?1"
)
_OVER: Final = (
    "SELECT id FROM conversations"
    " WHERE ended_at IS NOT NULL AND ended_at < ?1 AND (error IS NULL OR ?2 = 1) LIMIT ?3"
)
_TOO_MANY: Final = (
    "SELECT id FROM conversations WHERE ended_at IS NOT NULL AND error IS NULL"
    " ORDER BY ended_at DESC LIMIT ? OFFSET ?"
)

LIVE: Final = "EXISTS (SELECT 1 FROM conversations WHERE chat_id = {chat} AND ended_at IS NULL)"
"""True in SQL if a chat has conversations that have not ended; the chat's id is to be put in."""


class OneByOneError(Exception):
    """What comes together can't be done together; nothing of it may stay."""


def _standing(write: PutStanding) -> tuple[object, ...]:
    return int(write.unfinished), write.wake_at, int(write.unfinished), write.at, write.conversation


def _taken_in(row: InboxRow) -> tuple[object, ...]:
    return row.seq, row.chat_id, row.at, row.content_type, row.body, row.begun


class JournalTables:
    """The conversations of one store.

    Attributes:
        lease: the one under which this process writes.
    """

    def __init__(self, connection: Sql, tally: Tally) -> None:
        self._sql = connection
        self._tally = tally
        self.lease = Lease(0, 0)

    # --- writing

    def apply(self, write: JournalWrite) -> None:
        """Do one write."""
        if write.lease != self.lease:
            raise LeaseLostError("a conversation was read by an earlier run of this program, and is stale")
        match write:
            case BeginConversation():
                self._begin(write)
            case AppendRecords():
                self._append(write)
            case PutStanding():
                self._put_standing(write)
            case KeepIntent():
                self._keep_intent(write)
            case KeepResult():
                self._keep_result(write)
            case DropEffects():
                self._drop_effects(write)
            case ContinueConversation():
                self._continue(write)
            case ParkConversation():
                self._park(write)
            case TakeInHand():
                self._take_in_hand(write)
            case WakeEarlier():
                self._wake_earlier(write)
            case EndConversation():
                self._end(write)
            case _:
                assert_never(write)

    def append_all(self, writes: Sequence[AppendRecords]) -> None:
        """Add records to many journals, as `apply` does for one.

        Raises:
            OneByOneError: not all of them can be added.
        """
        rows = [(one.conversation, one.position, len(one.records), "\n".join(one.records)) for one in writes]
        self._do_all(APPEND, rows, writes)

    def put_all_standing(self, writes: Sequence[PutStanding]) -> None:
        """Say where many conversations stand, as `apply` does for one.

        Raises:
            OneByOneError: one of them is over.
        """
        self._do_all(STAND, [_standing(write) for write in writes], writes)

    def _do_all(
        self,
        statement: str,
        rows: Sequence[tuple[object, ...]],
        writes: Sequence[AppendRecords | PutStanding],
    ) -> None:
        stale = any(write.lease != self.lease for write in writes)
        if stale or self._sql.executemany(statement, rows).rowcount != len(rows):
            raise OneByOneError

    def _begin(self, write: BeginConversation) -> None:
        begun = self._sql.execute(
            BEGIN_ONE,
            (write.id, write.chat_id, write.route, write.kind, write.version, write.sender_id, write.key,
             write.wake_at, write.at, write.at),
        ).rowcount  # fmt: skip
        if not begun:
            raise JournalConflictError(write.id, "has begun already")
        self._tally.add("conversations", 1)

    def position(self, conversation: ConversationId) -> int | None:
        """Return the position of a conversation's next record; None if it has ended or doesn't exist."""
        found: tuple[int] | None = self._sql.execute(
            f"SELECT {_POSITION} FROM conversations WHERE id = ? AND ended_at IS NULL", (conversation,)
        ).fetchone()
        return None if found is None else found[0]

    def _append(self, write: AppendRecords) -> None:
        self._append_records(write.conversation, write.position, write.records)

    def _append_records(self, conversation: ConversationId, position: int, records: tuple[str, ...]) -> None:
        values = (conversation, position, len(records), "\n".join(records))
        if not self._sql.execute(APPEND, values).rowcount:
            raise self._conflict(conversation, position)

    def _conflict(self, conversation: ConversationId, position: int) -> JournalConflictError:
        found = self.position(conversation)
        if found is None:
            return JournalConflictError(conversation, "is over")
        return JournalConflictError(
            conversation, f"its next record is number {found}, and its writer believes {position}"
        )

    def _put_standing(self, write: PutStanding) -> None:
        if not self._sql.execute(STAND, _standing(write)).rowcount:
            raise JournalConflictError(write.conversation, "is over")

    def _update(self, conversation: ConversationId, what: str, values: tuple[object, ...]) -> None:
        changed = self._sql.execute(
            f"UPDATE conversations SET {what} WHERE id = ? AND ended_at IS NULL", (*values, conversation)
        ).rowcount
        if not changed:
            raise JournalConflictError(conversation, "is over")

    def _keep_intent(self, write: KeepIntent) -> None:
        kept = self._sql.execute(
            "INSERT INTO effects (conversation, operation, intended_at, intent) SELECT ?1, ?2, ?3, ?4"
            " WHERE EXISTS (SELECT 1 FROM conversations WHERE id = ?1 AND run = ?5 AND ended_at IS NULL)"
            " ON CONFLICT (conversation, operation) DO UPDATE SET"
            " intended_at = excluded.intended_at, intent = excluded.intent",
            (write.conversation, write.operation, write.at, write.text, write.run),
        ).rowcount
        if not kept:
            raise JournalConflictError(write.conversation, "this run of it is over")

    def _keep_result(self, write: KeepResult) -> None:
        self._sql.execute(
            "INSERT INTO effects (conversation, operation, resulted_at, result) SELECT ?1, ?2, ?3, ?4"
            " WHERE EXISTS (SELECT 1 FROM conversations WHERE id = ?1 AND run = ?5 AND ended_at IS NULL)"
            " ON CONFLICT (conversation, operation) DO UPDATE SET"
            " resulted_at = excluded.resulted_at, result = excluded.result WHERE effects.result IS NULL",
            (write.conversation, write.operation, write.at, write.text, write.run),
        )

    def _drop_effects(self, write: DropEffects) -> None:
        self._sql.executemany(
            "DELETE FROM effects WHERE conversation = ?1 AND operation = ?2"
            " AND EXISTS (SELECT 1 FROM conversations WHERE id = ?1 AND run = ?3)",
            [(write.conversation, operation, write.run) for operation in write.operations],
        )

    def _continue(self, write: ContinueConversation) -> None:
        # First in its place, so that the position is compared; then whatever is before it goes.
        self._append_records(write.conversation, write.position, write.records)
        self._sql.execute(
            "DELETE FROM journal WHERE conversation = ? AND n < ?", (write.conversation, write.position)
        )
        self._sql.execute("DELETE FROM effects WHERE conversation = ?", (write.conversation,))
        self._update(
            write.conversation,
            "route = ?, kind = ?, version = ?, run = run + 1, unfinished = 1, wake_at = NULL, updated_at = ?",
            (write.route, write.kind, write.version, write.at),
        )

    def _park(self, write: ParkConversation) -> None:
        found: tuple[int] | None = self._sql.execute(
            "SELECT parked IS NOT NULL FROM conversations WHERE id = ? AND ended_at IS NULL",
            (write.conversation,),
        ).fetchone()
        self._update(
            write.conversation,
            "parked = ?, error = ?, in_hand = CASE WHEN ? = 1 THEN in_hand ELSE 0 END, updated_at = ?",
            (write.because, write.error, int(write.because is not None), write.at),
        )
        assert found is not None
        self._tally.add("parked", int(write.because is not None) - found[0])

    def _take_in_hand(self, write: TakeInHand) -> None:
        self._update(write.conversation, "in_hand = in_hand + 1, updated_at = ?", (write.at,))

    def _wake_earlier(self, write: WakeEarlier) -> None:
        self._sql.execute(
            "UPDATE conversations SET wake_at = CASE WHEN wake_at > ?1 THEN wake_at - ?1 ELSE 0 END"
            " WHERE wake_at IS NOT NULL",
            (write.by,),
        )

    def _end(self, write: EndConversation) -> None:
        found: tuple[int] | None
        if write.error is None and not write.kept:
            found = self._sql.execute(
                "DELETE FROM conversations WHERE id = ? AND ended_at IS NULL RETURNING parked IS NOT NULL",
                (write.conversation,),
            ).fetchone()
            if found is None:
                return
            self._sql.execute("DELETE FROM journal WHERE conversation = ?", (write.conversation,))
            self._sql.execute("DELETE FROM effects WHERE conversation = ?", (write.conversation,))
        else:
            found = self._sql.execute(
                "UPDATE conversations SET ended_at = ?, error = ?, unfinished = 0, wake_at = NULL,"
                " updated_at = ? WHERE id = ? AND ended_at IS NULL RETURNING parked IS NOT NULL",
                (write.at, write.error, write.at, write.conversation),
            ).fetchone()
            if found is None:
                return
        self._tally.add("conversations", -1)
        self._tally.add("parked", -found[0])

    def _delete(self, conversations: Sequence[int]) -> int:
        """Delete everything of these, and return how many records that were."""
        records = 0
        for conversation in conversations:
            lost: tuple[int] = self._sql.execute(
                "SELECT coalesce(sum(size), 0) FROM journal WHERE conversation = ?", (conversation,)
            ).fetchone()
            records += lost[0]
            self._sql.execute("DELETE FROM journal WHERE conversation = ?", (conversation,))
            self._sql.execute("DELETE FROM effects WHERE conversation = ?", (conversation,))
            self._sql.execute("DELETE FROM conversations WHERE id = ?", (conversation,))
        return records

    def drop_ended(self, before: int, *, most: int, crashed: bool = True) -> None:
        """Delete at most so many of those that ended before this time; without `crashed`, that ended well."""
        self._delete([id_ for (id_,) in self._sql.execute(_OVER, (before, int(crashed), most)).fetchall()])

    def keep_newest(self, many: int, *, most: int) -> None:
        """Delete conversations that ended well, but the newest so many; at most so many."""
        self._delete([id_ for (id_,) in self._sql.execute(_TOO_MANY, (most, many)).fetchall()])

    def forget(self, chat_id: ChatId) -> tuple[int, int]:
        """Delete the conversations of a chat; return how many, and how many records they had."""
        live: tuple[int, int] = self._sql.execute(
            "SELECT count(*), count(parked) FROM conversations WHERE chat_id = ? AND ended_at IS NULL",
            (chat_id,),
        ).fetchone()
        found = [id_ for (id_,) in self._sql.execute(_IDS_OF_CHAT, (chat_id,)).fetchall()]
        self._tally.add("conversations", -live[0])
        self._tally.add("parked", -live[1])
        return len(found), self._delete(found)

    # --- reading

    def has(self, chat_id: ChatId) -> bool:
        """Return whether a chat has conversations that have not ended."""
        if not self._tally["conversations"]:
            return False
        found: tuple[int] = self._sql.execute(f"SELECT {LIVE.format(chat='?1')}", (chat_id,)).fetchone()
        return bool(found[0])

    def conversations(self, chat_id: ChatId) -> list[ConversationRow]:
        """Return the conversations of a chat that have not ended."""
        return self._rows(_OF_CHAT, (chat_id,))

    def crashed(self, chat_id: ChatId) -> list[ConversationRow]:
        """Return the conversations of a chat that crashed and are kept."""
        return self._rows(_CRASHED, (chat_id,))

    def journal(self, conversation: ConversationId) -> Journal | None:
        """Read everything of one conversation; None if it doesn't exist."""
        rows = self._rows(f"{_SELECT} WHERE id = ?", (conversation,))
        if not rows:
            return None
        parts: list[tuple[int, str]] = self._sql.execute(
            "SELECT n, records FROM journal WHERE conversation = ? ORDER BY n", (conversation,)
        ).fetchall()
        effects: list[tuple[str, int | None, str | None, int | None, str | None]] = self._sql.execute(
            "SELECT operation, intended_at, intent, resulted_at, result FROM effects WHERE conversation = ?",
            (conversation,),
        ).fetchall()
        return Journal(
            row=rows[0],
            first=parts[0][0] if parts else 0,
            records=tuple("\n".join([part for _, part in parts]).split("\n")) if parts else (),
            effects={effect[0]: Effect(*effect[1:]) for effect in effects},
        )

    def unfinished(self, after: int, limit: int) -> list[ConversationRow]:
        """Return conversations that have something under way and are not parked; a page of them."""
        return self._rows(_UNFINISHED, (after, limit))

    def due(self, now: int, after: tuple[int, int], limit: int) -> list[ConversationRow]:
        """Return conversations that are to be woken by `now`, the earliest first; a page of them."""
        return self._rows(_DUE, (now, *after, limit))

    def next_wake(self, after: int) -> int | None:
        """Return when the next conversation is to be woken after this time, or None."""
        found: tuple[int | None] = self._sql.execute(_NEXT_WAKE, (after,)).fetchone()
        return found[0]

    def parked(self, after: int, limit: int) -> list[ConversationRow]:
        """Return conversations that are parked, since this code can't revive them; a page of them."""
        return self._rows(_PARKED, (after, limit))

    def every(self, after: int, limit: int) -> list[ConversationRow]:
        """Return conversations, those too that have ended and are kept; a page of them."""
        return self._rows(_EVERY, (after, limit))

    def unknown_effects(self) -> int:
        """Count the effects that have an intent and no result."""
        # A row has one of the two, and the index holds those without a result only.
        found: tuple[int] = self._sql.execute(
            "SELECT count(*) FROM effects INDEXED BY effects_unknown WHERE result IS NULL"
        ).fetchone()
        return found[0]

    def count(self) -> None:
        """Fill the tally; once, when the store is opened."""
        for total, which in (("conversations", ""), ("parked", " AND parked IS NOT NULL")):
            found: tuple[int] = self._sql.execute(
                f"SELECT count(*) FROM conversations WHERE ended_at IS NULL{which}"
            ).fetchone()
            self._tally.add("conversations" if total == "conversations" else "parked", found[0])

    def _rows(self, statement: str, values: tuple[int, ...]) -> list[ConversationRow]:
        found: list[_Row] = self._sql.execute(statement, values).fetchall()
        return [self._row(row) for row in found]

    def _row(self, row: _Row) -> ConversationRow:
        return ConversationRow(
            id=ConversationId(row[0]),
            lease=self.lease,
            chat_id=ChatId(row[1]),
            route=row[2],
            kind=row[3],
            version=row[4],
            sender_id=None if row[5] is None else SenderId(row[5]),
            key=row[6],
            run=row[7],
            unfinished=bool(row[8]),
            wake_at=row[9],
            parked_because=row[10],
            error=row[11],
            in_hand=row[12],
            position=row[13],
            started_at=row[14],
            updated_at=row[15],
            ended_at=row[16],
        )


class Tables:
    """The rows of one store, and their counts.

    Attributes:
        retention: how long what is left over is kept.
        share: which shard it is.
    """

    def __init__(self, connection: Sql) -> None:
        self._sql = connection
        self.tally = Tally()
        self.retention = Retention()
        self.share = WHOLE
        self.journals = JournalTables(connection, self.tally)
        self.money = MoneyTables(connection)
        self.broadcasts = BroadcastTables(connection)
        # Chats in which one sender was seen and no other, each with that one.
        self._alone: dict[ChatId, SenderId] = {}
        # The chats and sizes of some rows of the inbox: that is what the tally has to know at their end.
        self._taken: dict[int, tuple[ChatId, int]] = {}
        # Rows that were consumed, maybe not in the table yet.
        self._unread: Collection[int] = ()
        self._alive_at = 0
        self._last_seq: int | None = None

    # --- writing

    def accept(
        self,
        arrival: Arrival,
        quota: Quota,
        also: Sequence[Write],
        beginning: Beginning | None,
    ) -> Acceptance:
        """Take an event in, unless it is here already or there is no room."""
        chat_id, refusal = arrival.chat_id, self.tally.refusal(arrival.chat_id, len(arrival.body), quota)
        if not self._is_new(arrival, noting=refusal is None):
            return Redelivered()
        if refusal is not None:
            return refusal
        for write in also:
            self.apply(write)
        group, parked, begun = self._begin(arrival, beginning, alone=not self.tally.waiting(chat_id))
        seq = self._read_last_seq() + self.share.step
        row = InboxRow(seq, chat_id, arrival.at, arrival.content_type, arrival.body, group, parked, begun)
        self._sql.execute(TAKE_IN, _taken_in(row))
        self._last_seq = seq
        self.tally.count_event(chat_id, len(arrival.body), sign=1)
        self._remember_rows([row])
        return row

    def accept_all(self, coming: Sequence[tuple[Arrival, Quota, Beginning | None]]) -> Sequence[Acceptance]:
        """Take these events in, one after another, with a statement for each table.

        Raises:
            OneByOneError: not all of them are to be taken in.
        """
        alone: list[bool] = []
        for arrival, quota, _ in coming:
            chat_id, size = arrival.chat_id, len(arrival.body)
            if self.tally.refusal(chat_id, size, quota) is not None:
                raise OneByOneError
            alone.append(not self.tally.waiting(chat_id))
            self.tally.count_event(chat_id, size, sign=1)
        self._note_new([arrival for arrival, _, _ in coming])
        seq, rows = self._read_last_seq(), list[InboxRow]()
        for (arrival, _, beginning), is_alone in zip(coming, alone, strict=True):
            begins = self._begin(arrival, beginning, alone=is_alone)
            seq += self.share.step
            rows.append(
                InboxRow(seq, arrival.chat_id, arrival.at, arrival.content_type, arrival.body, *begins)
            )
        self._sql.executemany(TAKE_IN, [_taken_in(row) for row in rows])
        self._last_seq = seq
        self._remember_rows(rows)
        return rows

    def _begin(
        self, arrival: Arrival, beginning: Beginning | None, *, alone: bool
    ) -> tuple[bool, bool, str | None]:
        """Note the sender; return whether the chat is a group or has conversations, and what begins there."""
        group, parked = self._is_group(arrival), self.journals.has(arrival.chat_id)
        if beginning is None or group or parked or not alone:
            return group, parked, None
        return False, False, admit_begun(beginning(partial(self.data, arrival.chat_id)))

    def _read_last_seq(self) -> int:
        """Return the number from which the next row's is one step away: that of the newest there ever was."""
        if self._last_seq is None:
            found: tuple[int] | None = self._sql.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = 'inbox'"
            ).fetchone()
            newest = 0 if found is None else found[0]
            self._last_seq = newest if self.share is WHOLE else self.share.before_next(newest)
        return self._last_seq

    @property
    def newest(self) -> int | None:
        """Return the number of the newest row, if this has come to know it."""
        return self._last_seq

    def undo(self, mark: int = 0) -> None:
        """Take the tally back to its mark, as the transaction was, and drop what is remembered of rows."""
        self.tally.undo(mark)
        self._alone.clear()
        self._taken.clear()
        self._alive_at, self._last_seq = 0, None

    def apply_all(self, writes: Sequence[Write]) -> None:
        """Do these writes; those of the kinds that each turn brings, with a statement for each kind.

        Which of those comes first makes no difference: they are in different tables.

        Raises:
            OneByOneError: one of them can't be done.
        """
        taken, consumed = list[Arrival](), list[int]()
        appended, standing = list[AppendRecords](), list[PutStanding]()

        def do_usual() -> None:
            if taken:
                self._note_new(taken)
                for arrival in taken:
                    self._note_sender(arrival)
                taken.clear()
            if consumed:
                self._consume(consumed)
                consumed.clear()
            if appended:
                self.journals.append_all(appended)
                appended.clear()
            if standing:
                self.journals.put_all_standing(standing)
                standing.clear()

        for write in writes:
            if isinstance(write, AppendRecords):
                appended.append(write)
            elif isinstance(write, PutStanding):
                standing.append(write)
            elif isinstance(write, Accept):
                taken.append(write.arrival)
            elif isinstance(write, Consume):
                consumed += write.seqs
            else:
                do_usual()
                self.apply(write)
        do_usual()

    def _note_new(self, arrivals: Sequence[Arrival]) -> None:
        """Note the keys of arrivals none of which is here already."""
        keys = [(one.key, one.at, int(one.once)) for one in arrivals if one.key is not None]
        if keys and self._sql.executemany(NOTE_NEW, keys).rowcount != len(keys):
            raise OneByOneError

    def apply(self, write: Write) -> None:
        """Do one write."""
        match write:
            case Consume():
                self._consume(write.seqs)
            case KeepRaw():
                self._keep_raw(write)
            case PutSetting():
                self._put_setting(write)
            case Accept(arrival):
                if not self._is_new(arrival, noting=True):
                    raise RedeliveredError("this event is in the store already")
                self._note_sender(arrival)
            case PutData():
                self._put_data(write)
            case PutPayment() | RaiseAlarm() | AcknowledgeAlarms() | AlarmTold():
                self.money.apply(write)
            case MovePayment():
                for one in decided(write, self.money.get(write.id)):
                    self.apply(one)
            case OpenBroadcast() | AddReceivers() | AdvanceBroadcast() | TurnBroadcast() | DropBroadcast():
                self.broadcasts.apply(write)
            case _:
                self.journals.apply(write)

    def sweep(self, now: int) -> None:
        """Delete what was kept for long enough; not too many at once, to keep the batch short."""
        old = cutoff(now)
        for once, before in ((0, old.repeatable), (1, old.once)):
            self._sql.execute(
                "DELETE FROM deliveries WHERE key IN"
                " (SELECT key FROM deliveries WHERE once = ? AND at < ? LIMIT ?)",
                (once, before, _SWEPT),
            )
        raw: list[tuple[int]] = self._sql.execute(
            "DELETE FROM raw WHERE at < ? RETURNING length(body)", (now - self.retention.raw,)
        ).fetchall()
        self._lost_raw(raw)
        kept, most = self.retention, _SWEPT // 50
        # What crashed is kept as long as what ended well, so no sweep goes through the one for the other.
        self.journals.drop_ended(now - max(kept.crashed, kept.ended), most=most)
        if kept.ended < kept.crashed:
            self.journals.drop_ended(now - kept.ended, most=most, crashed=False)
        if kept.most_ended is not None:
            self.journals.keep_newest(kept.most_ended, most=most)

    def note_alive(self, now: int) -> None:
        """Write that the machine is up, which is all that bounds when it crashed."""
        self._alive_at = now
        self._sql.execute(PUT_META, ("alive", str(now)))

    def doubt_last_acknowledgements(self) -> None:
        """Take back the acknowledgements of the last second before a crash of the machine.

        The crash came after the time at which the machine is last known to have been up. A store that has
        not noted that time tells no better than by its newest delivery.
        """
        alive = get_meta(self._sql, "alive")
        self._sql.execute(
            "UPDATE deliveries SET acknowledged = NULL WHERE acknowledged >="
            " coalesce(?, (SELECT max(CASE WHEN acknowledged > at THEN acknowledged ELSE at END)"
            " FROM deliveries)) - ?",
            (None if alive is None else int(alive), UNSURE_BEFORE_A_CRASH),
        )

    def read_no_more(self, consumed: Collection[int]) -> None:
        """Leave these rows out of all that is read, and no others, whether or not they can be deleted."""
        self._unread = consumed

    def catch_up(self, answered: Collection[str], consumed: Collection[int], now: int) -> None:
        """Write what was noted: deliveries that were answered, and rows that were consumed."""
        if consumed:
            self._consume(consumed)
        if answered:
            self._sql.executemany(ANSWERED, [(now, key) for key in answered])
            if abs(now - self._alive_at) >= _ALIVE_EVERY:
                self.note_alive(now)

    def _consume(self, seqs: Collection[int]) -> None:
        once = set(seqs)
        known = once & self._taken.keys()
        gone = [self._taken.pop(seq) for seq in known]
        if unknown := once - known:
            gone += self._sql.execute(_SIZES, (listed(unknown),)).fetchall()
        self._sql.executemany(_CONSUME, [(seq,) for seq in once])
        self._count_gone(gone)

    def _remember_rows(self, rows: Sequence[InboxRow]) -> None:
        if len(self._taken) >= _ROWS:
            self._taken.clear()
        for row in rows:
            self._taken[row.seq] = row.chat_id, len(row.body)

    def _count_gone(self, gone: Sequence[tuple[int, int]]) -> None:
        for chat_id, size in gone:
            self.tally.count_event(ChatId(chat_id), size, sign=-1)

    def _keep_raw(self, write: KeepRaw) -> None:
        self._sql.execute(
            "INSERT INTO raw (at, reason, content_type, body) VALUES (?, ?, ?, ?)",
            (write.at, write.reason, write.content_type, write.body),
        )
        self.tally.add("raw", 1)
        self.tally.add("raw_bytes", len(write.body))
        while overflows(self.tally["raw"], self.tally["raw_bytes"]):
            first: list[tuple[int]] = self._sql.execute(
                "DELETE FROM raw WHERE n = (SELECT min(n) FROM raw) RETURNING length(body)"
            ).fetchall()
            self._lost_raw(first)

    def _lost_raw(self, sizes: Sequence[tuple[int]]) -> None:
        self.tally.add("raw", -len(sizes))
        self.tally.add("raw_bytes", -sum(size for (size,) in sizes))

    def _put_setting(self, write: PutSetting) -> None:
        self._sql.execute(
            "INSERT INTO settings (name, value) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (write.name, write.value),
        )

    def _put_data(self, write: PutData) -> None:
        if write.value is None:
            self._sql.execute("DELETE FROM data WHERE chat_id = ? AND key = ?", (write.chat_id, write.key))
        else:
            self._sql.execute(
                "INSERT INTO data (chat_id, key, value) VALUES (?, ?, ?)"
                " ON CONFLICT (chat_id, key) DO UPDATE SET value = excluded.value",
                (write.chat_id, write.key, write.value),
            )

    def _is_new(self, arrival: Arrival, *, noting: bool) -> bool:
        """Tell whether an arrival isn't here already; with `noting`, note the key of one that isn't."""
        if arrival.key is None:
            return True
        delivery = (arrival.key, arrival.at, int(arrival.once))
        # Most keys are new: one statement finds that out, and notes it.
        if noting and self._sql.execute(NOTE_NEW, delivery).rowcount:
            return True
        row: tuple[int, int] | None = self._sql.execute(
            "SELECT at, acknowledged IS NOT NULL FROM deliveries WHERE key = ?", (arrival.key,)
        ).fetchone()
        if is_redelivery(arrival, None if row is None else Delivery(at=row[0], acknowledged=bool(row[1]))):
            return False
        if noting:
            self._sql.execute(NOTE_AGAIN, delivery)
        return True

    def _is_group(self, arrival: Arrival) -> bool:
        """Note the sender, and tell whether two different ones were ever seen in this chat."""
        chat_id, sender_id = arrival.chat_id, arrival.sender_id
        known = self._alone.get(chat_id)
        if known is not None and sender_id in (None, known):
            return False
        if sender_id is not None:
            self._sql.execute(SEE_SENDER, (chat_id, sender_id))
        several: tuple[int] | None = self._sql.execute(
            "SELECT several FROM senders WHERE chat_id = ?", (chat_id,)
        ).fetchone()
        if several is not None and several[0]:
            self._alone.pop(chat_id, None)
            return True
        if sender_id is not None:
            self._remember(chat_id, sender_id)
        return False

    # The same, where nobody asks for the answer.
    _note_sender = _is_group

    def _remember(self, chat_id: ChatId, alone: SenderId) -> None:
        if len(self._alone) >= _CHATS:
            self._alone.clear()
        self._alone[chat_id] = alone

    def forget(self, chat_id: ChatId) -> Forgotten:
        """Delete everything of a chat."""
        seqs: list[tuple[int]] = self._sql.execute(
            "SELECT seq FROM inbox WHERE chat_id = ?", (chat_id,)
        ).fetchall()
        self._consume([seq for (seq,) in seqs])
        conversations, records = self.journals.forget(chat_id)
        self._alone.pop(chat_id, None)
        values = self._sql.execute("DELETE FROM data WHERE chat_id = ?", (chat_id,)).rowcount
        others = self._sql.execute("DELETE FROM senders WHERE chat_id = ?", (chat_id,)).rowcount
        # Those could not be read, so their chat isn't known: what names this one goes.
        raw: list[tuple[int]] = self._sql.execute(
            "DELETE FROM raw WHERE instr(body, CAST(? AS BLOB)) RETURNING length(body)", (str(chat_id),)
        ).fetchall()
        self._lost_raw(raw)
        others += self.broadcasts.forget(chat_id)
        others += self._sql.execute(f"DELETE FROM deliveries WHERE {NAMING}", (str(chat_id),)).rowcount
        return Forgotten(len(seqs), conversations, records, values, others + len(raw))

    # --- reading

    def pending(self, chat_id: ChatId, after: int, limit: int) -> list[InboxRow]:
        """Return the chat's rows behind `after`, oldest first."""
        return self._rows("WHERE inbox.chat_id = ? AND seq > ?", (chat_id, after), limit)

    def backlog(self, after: int, limit: int) -> list[InboxRow]:
        """Return the rows of all chats behind `after`, oldest first."""
        return self._rows("WHERE seq > ?", (after,), limit)

    def _rows(self, where: str, values: tuple[int, ...], limit: int) -> list[InboxRow]:
        rows: list[tuple[int, int, int, str, bytes, int | None, int, str | None]] = self._sql.execute(
            "SELECT seq, inbox.chat_id, at, content_type, body, several,"
            f" {LIVE.format(chat='inbox.chat_id')}, begun FROM inbox"
            f" LEFT JOIN senders ON senders.chat_id = inbox.chat_id {where}"
            " AND seq NOT IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?",
            (*values, listed(self._unread), limit),
        ).fetchall()
        return [
            InboxRow(row[0], ChatId(row[1]), *row[2:5], bool(row[5]), bool(row[6]), row[7]) for row in rows
        ]

    def setting(self, name: str) -> str | None:
        """Return a setting's value, or None."""
        row: tuple[str] | None = self._sql.execute(
            "SELECT value FROM settings WHERE name = ?", (name,)
        ).fetchone()
        return None if row is None else row[0]

    def data(self, chat_id: ChatId) -> dict[str, str]:
        """Return all values of a chat, by their keys."""
        rows: list[tuple[str, str]] = self._sql.execute(
            "SELECT key, value FROM data WHERE chat_id = ?", (chat_id,)
        ).fetchall()
        return dict(rows)

    def keyed(self, key: str, after: ChatId | None, limit: int) -> list[tuple[ChatId, str]]:
        """Return the chats behind `after` that have a value under a key, each with it."""
        behind, values = ("", (key, limit)) if after is None else (" AND chat_id > ?", (key, after, limit))
        rows: list[tuple[int, str]] = self._sql.execute(
            f"SELECT chat_id, value FROM data WHERE key = ?{behind} ORDER BY chat_id LIMIT ?", values
        ).fetchall()
        return [(ChatId(chat_id), value) for chat_id, value in rows]

    def raw(self, limit: int) -> list[KeepRaw]:
        """Return the newest unreadable requests, newest first."""
        rows: list[tuple[int, str, str, bytes]] = self._sql.execute(
            "SELECT at, reason, content_type, body FROM raw ORDER BY n DESC LIMIT ?", (limit,)
        ).fetchall()
        return [KeepRaw(*row) for row in rows]

    def count_everything(self) -> None:
        """Fill the tally from the rows; once, when the store is opened."""
        events: list[tuple[int, int]] = self._sql.execute(
            "SELECT chat_id, length(body) FROM inbox"
        ).fetchall()
        for chat_id, size in events:
            self.tally.count_event(ChatId(chat_id), size, sign=1)
        raw: tuple[int, int] = self._sql.execute(
            "SELECT count(*), coalesce(sum(length(body)), 0) FROM raw"
        ).fetchone()
        self.tally.add("raw", raw[0])
        self.tally.add("raw_bytes", raw[1])
        self.journals.count()
        self.tally.settle()
