"""The store's rows: the SQL statements that read or write these rows, and counts of the rows.

The code runs in the worker thread, inside the transaction that `Transactions` has opened. A new kind of write
needs one method here and one line in `apply`. The writes of journals, payments and broadcasts are in other
modules.

The cost of an event must not grow with the number of resting conversations. So each statement that is
executed for every event finds its rows by a primary key, or by an index that leaves out the resting
conversations.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

from ..seams.broadcasts import AddReceivers, AdvanceBroadcast, DropBroadcast, OpenBroadcast, TurnBroadcast
from ..seams.inbox import Acceptance, Arrival, Beginning, InboxRow, Quota, Redelivered, RedeliveredError
from ..seams.journals import AppendRecords, PutRested, PutStanding
from ..seams.money import AcknowledgeAlarms, AlarmTold, MovePayment, PutPayment, RaiseAlarm
from ..seams.writes import Accept, Consume, Forgotten, KeepRaw, PutData, PutSetting, PutStamp, Write
from ..wire.ids import ChatId, SenderId
from .admission import admit_begun, decided
from .broadcasts import BroadcastTables
from .journal_rows import LIVE, JournalTables, OneByOneError
from .payment_rows import MoneyTables
from .rules import (
    FIRST_ROWS,
    NAMING,
    OF_CODE,
    ONCE_FOR,
    REPEATED_WITHIN,
    AcceptedDelivery,
    Retention,
    Tally,
    is_redelivery,
    names_chat,
    overflows,
)
from .schema import PUT_META, get_meta, put_stamp
from .sql import Sql, as_text, listed

_NOTE: Final = "INSERT INTO deliveries (key, at, once, acknowledged) VALUES (?, ?, ?, NULL) ON CONFLICT (key)"
NOTE_NEW: Final = f"{_NOTE} DO NOTHING"
NOTE_AGAIN: Final = f"{_NOTE} DO UPDATE SET at = excluded.at, once = excluded.once, acknowledged = NULL"
TAKE_IN: Final = "INSERT INTO inbox (seq, chat_id, at, content_type, body, begun) VALUES (?, ?, ?, ?, ?, ?)"
# SQLite updates `sqlite_sequence` only if a new row's number exceeds the stored number. So this statement
# raises the stored number for many later events at once. Each of these events then writes one page less. A
# rollback may undo the raise. The only harm is that each event then writes one page more.
SET_ASIDE: Final = "UPDATE sqlite_sequence SET seq = ? WHERE name = 'inbox'"
_SET_ASIDE: Final = 64
# These two statements replace one DELETE with RETURNING, which would take 1.5 to 2.5 times as long.
_SIZES: Final = "SELECT chat_id, length(body), seq FROM json_each(?) CROSS JOIN inbox ON seq = value"
_CONSUME: Final = "DELETE FROM inbox WHERE seq = ?"
SEE_SENDER: Final = (
    "INSERT INTO senders (chat_id, first_sender) VALUES (?, ?) ON CONFLICT (chat_id)"
    " DO UPDATE SET several = 1 WHERE senders.several = 0 AND senders.first_sender <> excluded.first_sender"
)
# A unique key is also remembered after its event was answered.
ANSWERED: Final = "DELETE FROM deliveries WHERE key = ? AND once = 0"
_CHATS: Final = 16_384
_SWEPT: Final = 5_000
SWEEP_AFTER: Final = 256
"""Number of new deliveries after which a sweep of deliveries is due."""
_LOOKED_AT: Final = 4  # rows checked per new delivery: at most a quarter of all rows is then outdated
_SWEPT_TO: Final = "swept_to"  # name of the fact that stores the last key of the previous sweep
_OF_CODE: Final = "(" + " OR ".join([f"key LIKE '{word}%'" for word in OF_CODE]) + ")"
_OLD: Final = (
    f"(once = 1 AND NOT {_OF_CODE} AND at < ? OR once = 1 AND {_OF_CODE} AND at < ? OR once = 0 AND at < ?)"
)
_BY_NUMBER: Final = attrgetter("seq")


class Tables:
    """The rows of one store, and their counts.

    Attributes:
        retention: how long leftover rows are kept.
        noted: number of deliveries stored since the last sweep of deliveries.
    """

    def __init__(self, connection: Sql) -> None:
        self._sql = connection
        self.tally = Tally()
        self.retention = Retention()
        self.journals = JournalTables(connection, self.tally, self._read_last_seq)
        self.money = MoneyTables(connection)
        self.broadcasts = BroadcastTables(connection)
        # The sender's id, for each chat with a single known sender.
        self._alone: dict[ChatId, SenderId] = {}
        # Consumed inbox rows that may still be in the table.
        self._unread: Collection[int] = ()
        self._last_seq: int | None = None
        self.noted = 0
        self._swept_to: str | None = None

    # --- writing

    def accept(
        self, arrival: Arrival, quota: Quota, also: Sequence[Write], beginning: Beginning | None
    ) -> Acceptance:
        """Insert an event, unless the event is a redelivery or the inbox is full."""
        chat_id, size = arrival.chat_id, len(arrival.body)
        refusal = self.tally.refusal(chat_id, size, quota)
        if not self._is_new(arrival, noting=refusal is None):
            return Redelivered()
        if refusal is not None:
            return refusal
        for write in also:
            self.apply(write)
        group, occupied, begun = self._begin(arrival, beginning, alone=not self.tally.waiting(chat_id))
        seq = self._next_seq()
        row = InboxRow(seq, chat_id, arrival.at, arrival.content_type, arrival.body, group, occupied, begun)
        self.tally.count_event(chat_id, size, seq if begun is not None else 0)
        # sqlite3 would search for an adapter function for a bytes object, but not for a bytearray.
        body = bytearray(arrival.body)
        self._sql.execute(TAKE_IN, (seq, chat_id, arrival.at, arrival.content_type, body, begun))
        return row

    def _begin(
        self, arrival: Arrival, beginning: Beginning | None, *, alone: bool
    ) -> tuple[bool, bool, str | None]:
        """Store the sender; return the `group`, `occupied` and `begun` of the event's `InboxRow`."""
        group, occupied = self._is_group(arrival), self.journals.has(arrival.chat_id)
        if beginning is None or group or occupied or not alone:
            return group, occupied, None
        return False, False, admit_begun(beginning(partial(self.data, arrival.chat_id)))

    def _read_last_seq(self) -> int:
        """Return the largest number that any event of this store has ever had."""
        if self._last_seq is None:
            found: tuple[int] | None = self._sql.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = 'inbox'"
            ).fetchone()
            self._last_seq = 0 if found is None else found[0]
        return self._last_seq

    def _next_seq(self) -> int:
        """Return the next event number. No number is used again, not even after a rollback."""
        self._last_seq = seq = self._read_last_seq() + 1
        if not seq % _SET_ASIDE:
            self._sql.execute(SET_ASIDE, (seq + _SET_ASIDE,))
        return seq

    def undo(self, mark: int = 0) -> None:
        """Undo the changes of the tally since `mark`, and clear the cached senders."""
        self.tally.undo(mark)
        self._alone.clear()

    def apply_all(self, writes: Sequence[Write]) -> None:
        """Apply these writes; all writes of one frequent kind share one statement.

        The order of writes of different frequent kinds may change, because these kinds write to different
        tables.

        Raises:
            OneByOneError: a write can't be applied. The caller must roll back, and apply the writes one by
                one.
        """
        taken: list[Arrival] = []
        consumed: list[int] = []
        appended: list[AppendRecords] = []
        standing: list[PutStanding] = []
        rested: list[PutRested] = []

        def do_usual() -> None:
            if taken:
                self._note_new(taken)
                for arrival in taken:
                    self._is_group(arrival)
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
            if rested:
                self.journals.put_all_rested(rested)
                rested.clear()

        for write in writes:
            if isinstance(write, AppendRecords):
                appended.append(write)
            elif isinstance(write, PutStanding):
                standing.append(write)
            elif isinstance(write, Accept):
                taken.append(write.arrival)
            elif isinstance(write, Consume):
                consumed += write.seqs
            elif isinstance(write, PutRested):
                rested.append(write)
            else:
                do_usual()
                self.apply(write)
        do_usual()

    def _note_new(self, arrivals: Sequence[Arrival]) -> None:
        keys = [(one.key, one.at, int(one.once)) for one in arrivals if one.key is not None]
        if keys and self._sql.executemany(NOTE_NEW, keys).rowcount != len(keys):
            raise OneByOneError
        self.noted += len(keys)

    def apply(self, write: Write) -> None:
        match write:
            case Consume():
                self._consume(write.seqs)
            case KeepRaw():
                self._keep_raw(write)
            case PutSetting():
                self._put_setting(write)
            case PutStamp():
                put_stamp(self._sql, write)
            case Accept(arrival):
                if not self._is_new(arrival, noting=True):
                    raise RedeliveredError("this event is in the store already")
                self._is_group(arrival)
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
        """Delete old rows, up to a limit that keeps the batch short."""
        self._sweep_deliveries(now, _SWEPT)
        # Store the last checked key: otherwise, a bot that often restarts would check only the first rows.
        self._sql.execute(PUT_META, (_SWEPT_TO, self._swept_to or ""))
        raw: list[tuple[int]] = self._sql.execute(
            "DELETE FROM raw WHERE at < ? RETURNING length(body)", (now - self.retention.raw,)
        ).fetchall()
        self._lost_raw(raw)
        kept, most = self.retention, _SWEPT // 50
        # Crashed conversations are kept at least as long as other conversations. With a shorter time, each
        # sweep would have to search for the crashed conversations among the kept ones.
        self.journals.drop_ended(now - max(kept.crashed, kept.ended), most=most)
        if kept.ended < kept.crashed:
            self.journals.drop_ended(now - kept.ended, most=most, crashed=False)
        if kept.most_ended is not None:
            self.journals.keep_newest(kept.most_ended, most=most)

    def sweep_deliveries(self, now: int) -> None:
        """Delete old deliveries. Check `_LOOKED_AT` rows for each delivery stored since the last sweep.

        An index by age would save the search, but each event's transaction would write one more page.
        """
        self._sweep_deliveries(now, min(_LOOKED_AT * self.noted, _SWEPT))

    def _sweep_deliveries(self, now: int, most: int) -> None:
        """Check about `most` deliveries, and delete the old ones; begin where the last sweep ended."""
        if self._swept_to is None:
            self._swept_to = get_meta(self._sql, _SWEPT_TO) or ""
        self.noted, since = 0, self._swept_to
        ages = ONCE_FOR, self.retention.keys, REPEATED_WITHIN  # in the order of `_OLD`
        end: tuple[str] | None = self._sql.execute(
            "SELECT key FROM deliveries WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?", (since, most)
        ).fetchone()
        up_to = "" if end is None else " AND key <= ?"
        self._sql.execute(
            f"DELETE FROM deliveries WHERE key > ?{up_to} AND {_OLD}",
            (since, *(end or ()), *(now - age for age in ages)),
        )
        self._swept_to = "" if end is None else end[0]

    def put_check(self, now: int) -> None:
        """Store the time `now`, to check that the store is writable."""
        self._sql.execute(PUT_META, ("checked_at", str(now)))

    def read_no_more(self, consumed: Collection[int]) -> None:
        """From now on, exclude exactly these consumed rows from all reads, even if the rows can't be
        deleted.
        """
        self._unread = consumed

    def catch_up(self, answered: Collection[str], consumed: Collection[int]) -> None:
        """Delete the answered deliveries, except those with a unique key, and the consumed inbox rows."""
        if consumed:
            self._consume(consumed)
        if answered:
            self._sql.executemany(ANSWERED, zip(answered))

    def _consume(self, seqs: Collection[int]) -> None:
        once = set(seqs)
        gone: list[tuple[int, int, int]] = self._sql.execute(_SIZES, (listed(once),)).fetchall()
        self._sql.executemany(_CONSUME, zip(once))
        self._count_gone(gone)

    def _count_gone(self, gone: Sequence[tuple[int, int, int]]) -> None:
        for chat_id, size, seq in gone:
            self.tally.count_gone(ChatId(chat_id), size, seq)

    def _keep_raw(self, write: KeepRaw) -> None:
        self._sql.execute(
            "INSERT INTO raw (at, reason, content_type, body) VALUES (?, ?, ?, ?)",
            (write.at, write.reason, write.content_type, write.body),
        )
        self.tally.add("raw", 1)
        self.tally.add("raw_bytes", len(write.body))
        while overflows(self.tally["raw"], self.tally["raw_bytes"]):
            first: list[tuple[int]] = self._sql.execute(
                "DELETE FROM raw WHERE n = (SELECT n FROM raw ORDER BY n LIMIT 1 OFFSET ?) "
                "RETURNING length(body)",
                (FIRST_ROWS,),
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
        """Return whether `arrival` is a new event, and not a redelivery.

        With `noting`, also store the key of a new event.
        """
        if arrival.key is None:
            return True
        delivery = (arrival.key, arrival.at, int(arrival.once))
        # Most keys are new: one INSERT both checks and stores the key.
        if noting and self._sql.execute(NOTE_NEW, delivery).rowcount:
            self.noted += 1
            return True
        if is_redelivery(arrival, self._delivered(arrival.key), self.retention.keys):
            return False
        if noting:
            self._sql.execute(NOTE_AGAIN, delivery)
        return True

    def _delivered(self, key: str) -> AcceptedDelivery | None:
        row: tuple[int, int] | None = self._sql.execute(
            "SELECT at, acknowledged IS NOT NULL FROM deliveries WHERE key = ?", (key,)
        ).fetchone()
        return None if row is None else AcceptedDelivery(at=row[0], acknowledged=bool(row[1]))

    def _is_group(self, arrival: Arrival) -> bool:
        """Store the event's sender; return whether the chat has ever had two different senders."""
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

    def _remember(self, chat_id: ChatId, alone: SenderId) -> None:
        if len(self._alone) >= _CHATS:
            self._alone.clear()
        self._alone[chat_id] = alone

    def forget(self, chat_id: ChatId) -> Forgotten:
        """Delete all data of a chat."""
        waiting: list[tuple[int]] = self._sql.execute(
            "SELECT seq FROM inbox WHERE chat_id = ? AND begun IS NULL", (chat_id,)
        ).fetchall()
        seqs = [*self.tally.begun(chat_id), *(seq for (seq,) in waiting)]
        self._consume(seqs)
        conversations, records = self.journals.forget(chat_id)
        self._alone.pop(chat_id, None)
        values = self._sql.execute("DELETE FROM data WHERE chat_id = ?", (chat_id,)).rowcount
        others = self._sql.execute("DELETE FROM senders WHERE chat_id = ?", (chat_id,)).rowcount
        # The chat of an unreadable request isn't known. So delete each unreadable request that contains this
        # chat's number.
        raw: list[tuple[int]] = self._sql.execute(
            "DELETE FROM raw WHERE instr(body, CAST(? AS BLOB)) RETURNING length(body)", (str(chat_id),)
        ).fetchall()
        self._lost_raw(raw)
        others += self.broadcasts.forget(chat_id)
        others += self._sql.execute(f"DELETE FROM deliveries WHERE {NAMING}", (str(chat_id),)).rowcount
        if names_chat(self._swept_to or get_meta(self._sql, _SWEPT_TO) or "", chat_id):
            self._swept_to = ""
            self._sql.execute(PUT_META, (_SWEPT_TO, ""))
        return Forgotten(len(seqs), conversations, records, values, others + len(raw))

    # --- reading

    def pending(self, chat_id: ChatId, *, after: int, limit: int) -> list[InboxRow]:
        """Return the chat's inbox rows with a `seq` above `after`, oldest first."""
        rows = self._rows("WHERE inbox.chat_id = ? AND begun IS NULL AND seq > ?", (chat_id, after), limit)
        if begun := [seq for seq in self.tally.begun(chat_id) if seq > after]:
            where = "WHERE seq IN (SELECT value FROM json_each(?))"
            rows = sorted([*self._rows(where, (listed(begun),), limit), *rows], key=_BY_NUMBER)[:limit]
        return rows

    def backlog(self, *, after: int, limit: int) -> list[InboxRow]:
        """Return the inbox rows of all chats with a `seq` above `after`, oldest first."""
        return self._rows("WHERE seq > ?", (after,), limit)

    def _rows(self, where: str, values: tuple[int | str, ...], limit: int) -> list[InboxRow]:
        rows: list[tuple[int, int, int, str, bytes, int | None, int, str | None]] = self._sql.execute(
            f"SELECT seq, inbox.chat_id, at, {as_text('content_type')}, body, several,"
            f" {LIVE.format(chat='inbox.chat_id')}, {as_text('begun')} FROM inbox"
            f" LEFT JOIN senders ON senders.chat_id = inbox.chat_id {where}"
            " AND seq NOT IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?",
            (*values, listed(self._unread), limit),
        ).fetchall()
        return [
            InboxRow(row[0], ChatId(row[1]), *row[2:5], bool(row[5]), bool(row[6]), row[7]) for row in rows
        ]

    def setting(self, name: str) -> str | None:
        """Return the value of a setting of the whole store; None if the setting was never stored."""
        row: tuple[str] | None = self._sql.execute(
            "SELECT value FROM settings WHERE name = ?", (name,)
        ).fetchone()
        return None if row is None else row[0]

    def data(self, chat_id: ChatId) -> dict[str, str]:
        """Return all values of a chat, by key."""
        rows: list[tuple[str, str]] = self._sql.execute(
            f"SELECT {as_text('key, value')} FROM data WHERE chat_id = ?", (chat_id,)
        ).fetchall()
        return dict(rows)

    def keyed(self, key: str, *, after: ChatId | None, limit: int) -> list[tuple[ChatId, str]]:
        """Return chats that have a value under `key`, each with this value; only ids above `after`."""
        behind, values = ("", (key, limit)) if after is None else (" AND chat_id > ?", (key, after, limit))
        rows: list[tuple[int, str]] = self._sql.execute(
            f"SELECT chat_id, {as_text('value')} FROM data WHERE key = ?{behind} ORDER BY chat_id LIMIT ?",
            values,
        ).fetchall()
        return [(ChatId(chat_id), value) for chat_id, value in rows]

    def raw(self, *, limit: int) -> list[KeepRaw]:
        """Return the newest unreadable requests, newest first."""
        rows: list[tuple[int, str, str, bytes]] = self._sql.execute(
            "SELECT at, reason, content_type, body FROM raw ORDER BY n DESC LIMIT ?", (limit,)
        ).fetchall()
        return [KeepRaw(*row) for row in rows]

    def count_everything(self) -> None:
        """Count all rows again for the tally: when the store is opened, or after the server's answer to a
        COMMIT was lost.
        """
        self.tally.clear()  # applying the previous process's notes has filled the tally
        events: list[tuple[int, int, int]] = self._sql.execute(
            "SELECT chat_id, length(body), CASE WHEN begun IS NULL THEN 0 ELSE seq END FROM inbox"
        ).fetchall()
        for chat_id, size, begun in events:
            self.tally.count_event(ChatId(chat_id), size, begun)
        raw: tuple[int, int] = self._sql.execute(
            "SELECT count(*), coalesce(sum(length(body)), 0) FROM raw"
        ).fetchone()
        self.tally.add("raw", raw[0])
        self.tally.add("raw_bytes", raw[1])
        self.journals.count()
        self.tally.settle()
