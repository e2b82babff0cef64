"""The store's rows: every SQL statement that reads or writes them, but for those of conversations.

Runs in the worker thread, inside the transaction that `Transactions` has opened, and knows nothing of it.
Whatever changes a count changes the tally as well, which the transaction takes back if it fails. A new
kind of write is one method here and one line in `apply`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from ..errors import RedeliveredError
from ..money import AcknowledgeAlarms, AlarmTold, MovePayment, PutPayment, RaiseAlarm
from ..seams import (
    Accept,
    Acceptance,
    Accepted,
    Acknowledge,
    AddReceivers,
    AdvanceBroadcast,
    Arrival,
    Beginning,
    ChatAtArrival,
    Consume,
    DropBroadcast,
    Forgotten,
    InboxRow,
    KeepRaw,
    OpenBroadcast,
    PutData,
    PutSetting,
    Quota,
    Redelivered,
    TurnBroadcast,
    Write,
)
from ..wire.ids import ChatId, SenderId
from .admission import admit_begun, admit_writes, decided
from .broadcasts import BroadcastTables
from .journal_tables import LIVE, JournalTables
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
from .schema import get_meta, put_meta

_NOTE_NEW: Final = (
    "INSERT INTO deliveries (key, at, once, acknowledged) VALUES (?, ?, ?, NULL) ON CONFLICT (key) DO NOTHING"
)
_CHATS: Final = 16_384


@final
class Tables:
    """The rows of one store file, and their counts.

    Attributes:
        retention: how long what is left over is kept.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._sql = connection
        self.tally = Tally()
        self.retention = Retention()
        self.journals = JournalTables(connection, self.tally)
        self.money = MoneyTables(connection)
        self.broadcasts = BroadcastTables(connection)
        # Chats in which one sender was seen and no other, each with that one.
        self._alone: dict[ChatId, SenderId] = {}

    # --- writing

    def accept(
        self,
        arrival: Arrival,
        quota: Quota,
        also: Sequence[Write],
        taking: Callable[[InboxRow], Sequence[Write]] | None,
        beginning: Beginning | None,
        now: int,
    ) -> Acceptance:
        """Take an event in, unless it is here already or there is no room."""
        chat_id, refusal = arrival.chat_id, self.tally.refusal(arrival.chat_id, len(arrival.body), quota)
        if not self._is_new(arrival, noting=refusal is None):
            return Redelivered()
        if refusal is not None:
            return refusal
        for write in also:
            self.apply(write, now)
        group, parked = self._is_group(arrival), self.journals.has(chat_id)
        begun = None
        if beginning is not None:
            waiting, position = self.tally.waiting(chat_id), self.journals.position
            chat = ChatAtArrival(waiting, parked, group, partial(self.data, chat_id), position)
            begun = admit_begun(beginning(chat))
        seq = self._sql.execute(
            "INSERT INTO inbox (chat_id, at, content_type, body, begun) VALUES (?, ?, ?, ?, ?)",
            (chat_id, arrival.at, arrival.content_type, arrival.body, begun),
        ).lastrowid
        assert seq is not None
        self.tally.count_event(chat_id, len(arrival.body), sign=1)
        row = InboxRow(seq, chat_id, arrival.at, arrival.content_type, arrival.body, group, parked, begun)
        if taking is not None:
            for write in admit_writes(taking(row)):
                self.apply(write, now)
        return Accepted(row)

    def undo(self, mark: int = 0) -> None:
        """Take the tally back to its mark, as the transaction was, and drop what is remembered of senders."""
        self.tally.undo(mark)
        self._alone.clear()

    def apply(self, write: Write, now: int) -> None:
        """Do one write."""
        match write:
            case Consume():
                self._consume(write)
            case Acknowledge():
                self._acknowledge(write, now)
            case KeepRaw():
                self._keep_raw(write)
            case PutSetting():
                self._put_setting(write)
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
                    self.apply(one, now)
            case OpenBroadcast() | AddReceivers() | AdvanceBroadcast() | TurnBroadcast() | DropBroadcast():
                self.broadcasts.apply(write)
            case _:
                self.journals.apply(write)

    def sweep(self, now: int, *, most: int = 5_000) -> None:
        """Delete what was kept for long enough; at most so many of each, to keep the batch short."""
        old = cutoff(now)
        for once, before in ((0, old.repeatable), (1, old.once)):
            self._sql.execute(
                "DELETE FROM deliveries WHERE key IN"
                " (SELECT key FROM deliveries WHERE once = ? AND at < ? LIMIT ?)",
                (once, before, most),
            )
        raw: list[tuple[int]] = self._sql.execute(
            "DELETE FROM raw WHERE at < ? RETURNING length(body)", (now - self.retention.raw,)
        ).fetchall()
        self._lost_raw(raw)
        self.journals.drop_ended(now - self.retention.crashed, most=most // 50)

    def note_alive(self, now: int) -> None:
        """Write that the machine is up, which is all that bounds when it crashed."""
        put_meta(self._sql, "alive", str(now))

    def doubt_last_acknowledgements(self) -> None:
        """Take back the acknowledgements of the last second before a crash of the machine.

        The crash came after the time at which the machine is last known to have been up. A store that has
        not noted that time tells no better than by its newest delivery.
        """
        alive = get_meta(self._sql, "alive")
        self._sql.execute(
            "UPDATE deliveries SET acknowledged = NULL WHERE acknowledged >="
            " coalesce(?, (SELECT max(max(at, coalesce(acknowledged, 0))) FROM deliveries)) - ?",
            (None if alive is None else int(alive), UNSURE_BEFORE_A_CRASH),
        )

    def _consume(self, write: Consume) -> None:
        for seq in write.seqs:
            row: tuple[int, int] | None = self._sql.execute(
                "DELETE FROM inbox WHERE seq = ? RETURNING chat_id, length(body)", (seq,)
            ).fetchone()
            if row is not None:
                self.tally.count_event(ChatId(row[0]), row[1], sign=-1)

    def _acknowledge(self, write: Acknowledge, now: int) -> None:
        self._sql.executemany(
            "UPDATE deliveries SET acknowledged = ? WHERE key = ? AND acknowledged IS NULL",
            [(now, key) for key in write.keys],
        )
        self.note_alive(now)

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
            "INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", (write.name, write.value)
        )

    def _put_data(self, write: PutData) -> None:
        if write.value is None:
            self._sql.execute("DELETE FROM data WHERE chat_id = ? AND key = ?", (write.chat_id, write.key))
        else:
            self._sql.execute(
                "INSERT OR REPLACE INTO data (chat_id, key, value) VALUES (?, ?, ?)",
                (write.chat_id, write.key, write.value),
            )

    def _is_new(self, arrival: Arrival, *, noting: bool) -> bool:
        """Tell whether an arrival isn't here already; with `noting`, note the key of one that isn't."""
        if arrival.key is None:
            return True
        delivery = (arrival.key, arrival.at, int(arrival.once))
        # Most keys are new: one statement finds that out, and notes it.
        if noting and self._sql.execute(_NOTE_NEW, delivery).rowcount:
            return True
        row: tuple[int, int] | None = self._sql.execute(
            "SELECT at, acknowledged IS NOT NULL FROM deliveries WHERE key = ?", (arrival.key,)
        ).fetchone()
        if is_redelivery(arrival, None if row is None else Delivery(at=row[0], acknowledged=bool(row[1]))):
            return False
        if noting:
            self._sql.execute(
                "INSERT OR REPLACE INTO deliveries (key, at, once, acknowledged) VALUES (?, ?, ?, NULL)",
                delivery,
            )
        return True

    def _is_group(self, arrival: Arrival) -> bool:
        """Note the sender, and tell whether two different ones were ever seen in this chat."""
        chat_id, sender_id = arrival.chat_id, arrival.sender_id
        known = self._alone.get(chat_id)
        if known is not None and sender_id in (None, known):
            return False
        if sender_id is not None:
            self._sql.execute(
                "INSERT INTO senders (chat_id, first_sender) VALUES (?, ?) ON CONFLICT (chat_id)"
                " DO UPDATE SET several = 1 WHERE several = 0 AND first_sender <> excluded.first_sender",
                (chat_id, sender_id),
            )
        several: tuple[int] | None = self._sql.execute(
            "SELECT several FROM senders WHERE chat_id = ?", (chat_id,)
        ).fetchone()
        if several is not None and several[0]:
            self._alone.pop(chat_id, None)
            return True
        if sender_id is not None:
            if len(self._alone) >= _CHATS:
                self._alone.clear()
            self._alone[chat_id] = sender_id
        return False

    def forget(self, chat_id: ChatId) -> Forgotten:
        """Delete everything of a chat."""
        seqs: list[tuple[int]] = self._sql.execute(
            "SELECT seq FROM inbox WHERE chat_id = ?", (chat_id,)
        ).fetchall()
        self._consume(Consume(tuple(seq for (seq,) in seqs)))
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
            f" LEFT JOIN senders ON senders.chat_id = inbox.chat_id {where} ORDER BY seq LIMIT ?",
            (*values, limit),
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
        rows: list[tuple[int, str]] = self._sql.execute(
            "SELECT chat_id, value FROM data WHERE key = ? AND (? IS NULL OR chat_id > ?)"
            " ORDER BY chat_id LIMIT ?",
            (key, after, after, limit),
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
