"""The rows of broadcasts: their tables and SQL statements.

An outcome is counted only if its statement changes a row. So an outcome that is written twice is counted
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never, final

from ..seams.broadcasts import (
    AddReceivers,
    AdvanceBroadcast,
    BroadcastJob,
    BroadcastState,
    BroadcastStatus,
    BroadcastWrite,
    DropBroadcast,
    OpenBroadcast,
    Outcome,
    Receiver,
    TurnBroadcast,
)
from ..wire.ids import ChatId
from .sql import Sql

CREATE_BROADCASTS: Final = (
    # No message has been sent to receivers at positions above `meant`. `last` is the highest used position.
    """CREATE TABLE broadcasts (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,
        at INTEGER NOT NULL,
        state TEXT NOT NULL,
        content TEXT NOT NULL,
        meant INTEGER NOT NULL DEFAULT 0,
        last INTEGER NOT NULL DEFAULT 0,
        total INTEGER NOT NULL DEFAULT 0,
        sent INTEGER NOT NULL DEFAULT 0,
        gone INTEGER NOT NULL DEFAULT 0,
        failed INTEGER NOT NULL DEFAULT 0,
        unknown INTEGER NOT NULL DEFAULT 0
    )""",
    """CREATE TABLE receivers (
        n INTEGER NOT NULL,
        position INTEGER NOT NULL,
        chat_id INTEGER NOT NULL,
        gone INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (n, position)
    ) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX receivers_chat ON receivers (n, chat_id)",
)


def stop_after_restore(sql: Sql) -> None:
    """Stop all running broadcasts after a restore or a failover.

    The outcomes of the latest messages may be missing, so a running broadcast would send some messages twice.
    """
    sql.execute(
        "UPDATE broadcasts SET state = 'stopped', content = '', unknown = unknown +"
        " (SELECT count(*) FROM receivers WHERE receivers.n = broadcasts.n AND gone = 0)"
        " WHERE state IN ('sending', 'stopping')"
    )
    sql.execute(
        "DELETE FROM receivers WHERE gone = 0 AND n IN (SELECT n FROM broadcasts WHERE state = 'stopped')"
    )


@final
class BroadcastTables:
    """The rows of broadcasts in a store; used inside the open transaction."""

    def __init__(self, connection: Sql) -> None:
        self._sql = connection

    def apply(self, write: BroadcastWrite) -> None:
        match write:
            case OpenBroadcast():
                self._open(write)
            case AddReceivers(key, chats):
                self._add(key, chats)
            case AdvanceBroadcast():
                self._advance(write)
            case TurnBroadcast(key, state):
                self._turn(key, state)
            case DropBroadcast(key):
                if (n := self._number(key, "capturing")) is not None:
                    self._sql.execute("DELETE FROM receivers WHERE n = ?", (n,))
                    self._sql.execute("DELETE FROM broadcasts WHERE n = ?", (n,))
            case _:
                assert_never(write)

    def _number(self, key: str, *states: str) -> int | None:
        row: tuple[int] | None = self._sql.execute(
            f"SELECT n FROM broadcasts WHERE key = ? AND state IN ({', '.join('?' * len(states))})",
            (key, *states),
        ).fetchone()
        return None if row is None else row[0]

    def _open(self, write: OpenBroadcast) -> None:
        if (n := self._number(write.key, "capturing")) is not None:
            self._sql.execute("DELETE FROM receivers WHERE n = ?", (n,))
            self._sql.execute("DELETE FROM broadcasts WHERE n = ?", (n,))
        self._sql.execute(
            "INSERT INTO broadcasts (key, at, state, content) VALUES (?, ?, 'capturing', ?)"
            " ON CONFLICT DO NOTHING",
            (write.key, write.at, write.content),
        )

    def _add(self, key: str, chats: Sequence[ChatId]) -> None:
        if (n := self._number(key, "capturing")) is None:
            return
        last: tuple[int] = self._sql.execute("SELECT last FROM broadcasts WHERE n = ?", (n,)).fetchone()
        position = last[0]
        for chat_id in chats:
            position += self._sql.execute(
                "INSERT INTO receivers (n, position, chat_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (n, position + 1, chat_id),
            ).rowcount
        self._sql.execute(
            "UPDATE broadcasts SET last = ?, total = total + ? WHERE n = ?", (position, position - last[0], n)
        )

    def _advance(self, write: AdvanceBroadcast) -> None:
        if (n := self._number(write.key, "sending", "stopping")) is None:
            return
        self._sql.execute("UPDATE broadcasts SET meant = ?1 WHERE n = ?2 AND meant < ?1", (write.meant, n))
        counts = dict.fromkeys(Outcome, 0)
        for position, outcome in write.outcomes.items():
            counts[outcome] += self._settle(n, position, outcome)
        self._sql.execute(
            "UPDATE broadcasts SET sent = sent + ?, gone = gone + ?, failed = failed + ?,"
            " unknown = unknown + ?, last = last + ? WHERE n = ?",
            (*(counts[outcome] for outcome in Outcome), n),
        )

    def _settle(self, n: int, position: int, outcome: Outcome) -> int:
        match outcome:
            case Outcome.GONE:
                statement = "UPDATE receivers SET gone = 1 WHERE n = ?1 AND position = ?2 AND gone = 0"
            case Outcome.AGAIN:
                # Move the receiver to the end: behind `last`, and behind the receivers that the same write
                # has moved.
                statement = (
                    "UPDATE receivers SET position = 1 + (SELECT max(place) FROM"
                    " (SELECT last AS place FROM broadcasts WHERE n = ?1"
                    " UNION ALL SELECT max(position) FROM receivers WHERE n = ?1) AS places)"
                    " WHERE n = ?1 AND position = ?2 AND gone = 0"
                )
            case _:
                statement = "DELETE FROM receivers WHERE n = ?1 AND position = ?2 AND gone = 0"
        return self._sql.execute(statement, (n, position)).rowcount

    def _turn(self, key: str, state: str) -> None:
        if (n := self._number(key, "capturing", "sending", "stopping")) is None:
            return
        self._sql.execute("UPDATE broadcasts SET state = ? WHERE n = ?", (state, n))
        if state == "stopping":
            self._sql.execute(
                "DELETE FROM receivers WHERE n = ?1"
                " AND position > (SELECT meant FROM broadcasts WHERE n = ?1)",
                (n,),
            )
        elif state != "sending":
            self._sql.execute("DELETE FROM receivers WHERE n = ? AND gone = 0", (n,))
            self._sql.execute("UPDATE broadcasts SET content = '' WHERE n = ?", (n,))

    def forget(self, chat_id: ChatId) -> int:
        """Delete a chat's rows.

        Subtract 1 from the total of each broadcast that has no outcome for the chat.
        """
        rows: list[tuple[int, int]] = self._sql.execute(
            "DELETE FROM receivers WHERE chat_id = ? RETURNING n, gone", (chat_id,)
        ).fetchall()
        self._sql.executemany(
            "UPDATE broadcasts SET total = total - 1 WHERE n = ?", [(n,) for n, gone in rows if not gone]
        )
        return len(rows)

    # --- reading

    def jobs(self) -> list[BroadcastJob]:
        """Return all broadcasts, in the order in which they were started."""
        return self._jobs("ORDER BY n", ())

    def job(self, key: str) -> BroadcastJob | None:
        """Return the broadcast with this key, or None."""
        return next(iter(self._jobs("WHERE key = ?", (key,))), None)

    def _jobs(self, where: str, values: tuple[str, ...]) -> list[BroadcastJob]:
        rows: list[tuple[str, int, str, int, BroadcastState, int, int, int, int, int]] = self._sql.execute(
            "SELECT key, at, content, meant, state, total, sent, gone, failed, unknown"
            f" FROM broadcasts {where}",
            values,
        ).fetchall()
        return [
            BroadcastJob(key, at, content, meant, BroadcastStatus(state, *counts))
            for key, at, content, meant, state, *counts in rows
        ]

    def receivers(self, key: str, *, after: int, limit: int, gone: bool = False) -> list[Receiver]:
        """Return receivers at positions above `after`: without `gone`, the receivers without an outcome; with
        `gone`, the receivers with the outcome `Outcome.GONE`.
        """
        rows: list[tuple[int, int]] = self._sql.execute(
            "SELECT position, chat_id FROM receivers WHERE n = (SELECT n FROM broadcasts WHERE key = ?)"
            " AND position > ? AND gone = ? ORDER BY position LIMIT ?",
            (key, after, int(gone), limit),
        ).fetchall()
        return [Receiver(position, ChatId(chat_id)) for position, chat_id in rows]
