"""The rows of conversations, journals and effects.

As in `statements`, the code is called in the worker thread inside a transaction. Every statement for an event
finds its rows by a primary key or an index. Resting conversations without a wake time are only in the index
by chat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, assert_never

from ..seams.journals import (
    AcceptedChange,
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
    KeepCode,
    KeepIntent,
    KeepResult,
    ParkConversation,
    PutRested,
    PutStanding,
    RunKind,
    TakeInHand,
    WakeEarlier,
)
from ..seams.writes import JournalConflictError
from ..wire.ids import ChatId, SenderId
from .code_rows import CodeTables
from .rules import Tally
from .sql import Sql, as_text

_Row: TypeAlias = tuple[
    int, int, str, RunKind, str, int | None, str | None, int, int, int | None,
    str | None, str | None, int, int, int, int, int | None, str | None, int,
]  # fmt: skip

FITS: Final = (
    "?2 = coalesce((SELECT n + size FROM journal WHERE conversation = ?1 ORDER BY n DESC LIMIT 1), 0)"
    " AND EXISTS (SELECT 1 FROM conversations WHERE id = ?1 AND ended_at IS NULL)"
)
"""SQL condition: position ``?2`` is the end of the journal of conversation ``?1``, and the conversation has
not ended.
"""
# One statement finds the end of the journal, compares the position, and inserts the row. If the position is
# wrong, `n` is null, and OR IGNORE skips the row. If the position is right, no row with this key exists. An
# INSERT with a SELECT would need a temporary table for each row, because the SELECT reads the table of the
# INSERT.
APPEND: Final = (
    "INSERT OR IGNORE INTO journal (conversation, n, size, records)"
    f" VALUES (?1, CASE WHEN {FITS} THEN ?2 END, ?3, ?4)"
)
_BEGIN: Final = (
    "INSERT INTO conversations (id, chat_id, route, kind, version, sender_id, key, unfinished,"
    " wake_at, started_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
_STAND: Final = (
    "UPDATE conversations SET unfinished = ?, wake_at = ?,"
    " in_hand = CASE WHEN ? = 1 THEN in_hand ELSE 0 END, updated_at = ? WHERE id = ? AND ended_at IS NULL"
)
_REST: Final = "UPDATE conversations SET rests = ?, build = ? WHERE id = ? AND ended_at IS NULL"
_POSITION: Final = (
    "coalesce((SELECT n + size FROM journal WHERE conversation = id ORDER BY n DESC LIMIT 1), 0)"
)
_SELECT: Final = (
    f"SELECT id, chat_id, {as_text('route, kind, version')}, sender_id, {as_text('key')}, run, unfinished,"
    f" wake_at, {as_text('parked, error')}, in_hand, {_POSITION}, started_at, updated_at, ended_at,"
    f" {as_text('rests')}, build"
    " FROM conversations"
)
_OF_CHAT: Final = f"{_SELECT} WHERE chat_id = ? AND ended_at IS NULL ORDER BY id"
_ENDED: Final = (
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
    "SELECT wake_at FROM conversations"
    " WHERE wake_at IS NOT NULL AND parked IS NULL AND ended_at IS NULL AND wake_at > ?"
    " ORDER BY wake_at LIMIT 1"
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
"""SQL condition: a chat has conversations that have not ended. The placeholder is the chat's id."""


class OneByOneError(Exception):
    """Several rows can't be written together: the caller must roll back, and write the rows one by one."""


def _standing(write: PutStanding) -> tuple[object, ...]:
    return int(write.unfinished), write.wake_at, int(write.unfinished), write.at, write.conversation


class JournalTables:
    """The conversations of one store.

    Attributes:
        newest: returns the number of the newest event.
    """

    def __init__(self, connection: Sql, tally: Tally, newest: Callable[[], int]) -> None:
        self._sql = connection
        self._tally = tally
        self.code = CodeTables(connection)
        self.newest = newest

    # --- writing

    def apply(self, write: JournalWrite) -> None:
        match write:
            case BeginConversation():
                self._begin(write)
            case AppendRecords():
                self._append(write.conversation, write.position, write.records)
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
                self._update(write.conversation, "in_hand = in_hand + 1, updated_at = ?", (write.at,))
            case WakeEarlier():
                self._wake_earlier(write)
            case EndConversation():
                self._end(write)
            case PutRested(conversation, rests, build):
                self._update(conversation, "rests = ?, build = ?", (rests, build))
            case KeepCode():
                self.code.keep(write, self.newest())
            case AcceptedChange():
                self.code.accept(write, self.newest())
            case _:
                assert_never(write)

    def append_all(self, writes: Sequence[AppendRecords]) -> None:
        """Append records to many journals, as `apply` does for one journal.

        Raises:
            OneByOneError: the position of some records isn't the end of their journal.
        """
        rows = [(one.conversation, one.position, len(one.records), "\n".join(one.records)) for one in writes]
        self._do_all(APPEND, rows)

    def put_all_standing(self, writes: Sequence[PutStanding]) -> None:
        """Apply many PutStanding writes, as `apply` does for one write.

        Raises:
            OneByOneError: a conversation is over.
        """
        self._do_all(_STAND, [_standing(write) for write in writes])

    def put_all_rested(self, writes: Sequence[PutRested]) -> None:
        """Apply many PutRested writes, as `apply` does for one write.

        Raises:
            OneByOneError: a conversation is over.
        """
        self._do_all(_REST, [(one.rests, one.build, one.conversation) for one in writes])

    def _do_all(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if self._sql.executemany(statement, rows).rowcount != len(rows):
            raise OneByOneError

    def _begin(self, write: BeginConversation) -> None:
        begun = self._sql.execute(
            _BEGIN,
            (write.id, write.chat_id, write.route, write.kind, write.version, write.sender_id, write.key,
             write.wake_at, write.at, write.at),
        ).rowcount  # fmt: skip
        if not begun:
            raise JournalConflictError(write.id, "has begun already")
        self._tally.add("conversations", 1)

    def position(self, conversation: ConversationId) -> int | None:
        """Return the position of a conversation's next record; None for an ended or unknown conversation."""
        found: tuple[int] | None = self._sql.execute(
            f"SELECT {_POSITION} FROM conversations WHERE id = ? AND ended_at IS NULL", (conversation,)
        ).fetchone()
        return None if found is None else found[0]

    def _append(self, conversation: ConversationId, position: int, records: tuple[str, ...]) -> None:
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
        if not self._sql.execute(_STAND, _standing(write)).rowcount:
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
        # Append first, because `_append` checks the position; then delete the old records.
        self._append(write.conversation, write.position, write.records)
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
        args = write.because, write.error, write.at
        self._update(write.conversation, "parked = ?, error = ?, updated_at = ?", args)
        assert found is not None
        self._tally.add("parked", int(write.because is not None) - found[0])

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
        """Delete all rows of these conversations; return the number of records."""
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
        """Delete up to `most` conversations that ended before the time `before`. With `crashed=False`, keep
        conversations that ended with an error.
        """
        self._delete([id_ for (id_,) in self._sql.execute(_OVER, (before, int(crashed), most)).fetchall()])

    def keep_newest(self, many: int, *, most: int) -> None:
        """Delete conversations that ended well, except the newest `many`; at most `most` at once."""
        self._delete([id_ for (id_,) in self._sql.execute(_TOO_MANY, (most, many)).fetchall()])

    def forget(self, chat_id: ChatId) -> tuple[int, int]:
        """Delete the conversations of a chat; return the number of conversations and of records."""
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

    def conversations(self, chat_id: ChatId, *, ended: bool = False) -> list[ConversationRow]:
        """Return a chat's conversations that have not ended; with `ended`, only the chat's ended
        conversations.
        """
        return self._rows(_ENDED if ended else _OF_CHAT, (chat_id,))

    def journal(self, conversation: ConversationId) -> Journal | None:
        """Return all data of one conversation; None for an unknown conversation."""
        rows = self._rows(f"{_SELECT} WHERE id = ?", (conversation,))
        if not rows:
            return None
        parts: list[tuple[int, str]] = self._sql.execute(
            f"SELECT n, {as_text('records')} FROM journal WHERE conversation = ? ORDER BY n", (conversation,)
        ).fetchall()
        effects: list[tuple[str, int | None, str | None, int | None, str | None]] = self._sql.execute(
            f"SELECT {as_text('operation')}, intended_at, {as_text('intent')}, resulted_at,"
            f" {as_text('result')} FROM effects WHERE conversation = ?",
            (conversation,),
        ).fetchall()
        return Journal(
            row=rows[0],
            first=parts[0][0] if parts else 0,
            records=tuple("\n".join([part for _, part in parts]).split("\n")) if parts else (),
            effects={effect[0]: Effect(*effect[1:]) for effect in effects},
        )

    def unfinished(self, *, after: int, limit: int) -> list[ConversationRow]:
        """Return at most `limit` unfinished conversations with an id above `after`. Parked conversations are
        left out.
        """
        return self._rows(_UNFINISHED, (after, limit))

    def due(self, now: int, *, after: tuple[int, int] = (-1, -1), limit: int) -> list[ConversationRow]:
        """Return up to `limit` conversations with a wake time up to `now`, earliest first. Parked
        conversations are left out.

        Args:
            after: (wake_at, id) of the last conversation of the previous page.
        """
        return self._rows(_DUE, (now, *after, limit))

    def next_wake(self, *, after: int = -1) -> int | None:
        """Return the earliest wake time later than `after`, except wake times of parked conversations."""
        found: tuple[int] | None = self._sql.execute(_NEXT_WAKE, (after,)).fetchone()
        return None if found is None else found[0]

    def parked(self, *, after: int, limit: int) -> list[ConversationRow]:
        """Return at most `limit` parked conversations with an id above `after`."""
        return self._rows(_PARKED, (after, limit))

    def every(self, *, after: int, limit: int) -> list[ConversationRow]:
        """Return at most `limit` of all stored conversations, ended or not, with an id above `after`."""
        return self._rows(_EVERY, (after, limit))

    def unknown_effects(self) -> int:
        """Return the number of effects with an intent and no result."""
        # Each row has an intent, a result, or both. The index contains only the rows without a result.
        found: tuple[int] = self._sql.execute(
            "SELECT count(*) FROM effects INDEXED BY effects_unknown WHERE result IS NULL"
        ).fetchone()
        return found[0]

    def count(self) -> None:
        """Add the conversations that have not ended to the tally, which must be empty."""
        found: tuple[int, int] = self._sql.execute(
            "SELECT count(*), count(parked) FROM conversations WHERE ended_at IS NULL"
        ).fetchone()
        self._tally.add("conversations", found[0])
        self._tally.add("parked", found[1])

    def _rows(self, statement: str, values: tuple[int, ...]) -> list[ConversationRow]:
        found: list[_Row] = self._sql.execute(statement, values).fetchall()
        return [self._row(row) for row in found]

    def _row(self, row: _Row) -> ConversationRow:
        if row[0] < 1:
            raise LookupError("no conversation has such a number")
        return ConversationRow(
            id=ConversationId(row[0]),
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
            rests=row[17],
            build=row[18],
        )
