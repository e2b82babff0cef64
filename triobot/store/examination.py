"""What can be wrong in a store's file, beyond what SQLite itself looks at.

Runs in a worker thread, and only reads. Each problem is one line without content.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

MOST: Final = 20
"""Problems of one sort that are told; the rest of them is one more line."""

# The sentence, and the query that finds whom it is true of.
_RULES: Final[tuple[tuple[str, str], ...]] = (
    (
        "the journal of conversation {} has a gap or an overlap",
        "SELECT DISTINCT conversation FROM (SELECT conversation, n, lag(n + size)"
        " OVER (PARTITION BY conversation ORDER BY n) AS expected FROM journal)"
        " WHERE expected IS NOT NULL AND n <> expected",
    ),
    (
        "a journal row of conversation {} doesn't hold as many records as it says",
        "SELECT DISTINCT conversation FROM journal"
        " WHERE size <> length(records) - length(replace(records, char(10), '')) + 1",
    ),
    (
        "the journal of conversation {} doesn't begin at 0",
        "SELECT id FROM conversations WHERE run = 1"
        " AND coalesce((SELECT min(n) FROM journal WHERE conversation = id), 0) <> 0",
    ),
    (
        "there are records of conversation {}, which doesn't exist",
        "SELECT DISTINCT conversation FROM journal WHERE conversation NOT IN (SELECT id FROM conversations)",
    ),
    (
        "there are effects of conversation {}, which doesn't exist",
        "SELECT DISTINCT conversation FROM effects WHERE conversation NOT IN (SELECT id FROM conversations)",
    ),
    (
        "conversation {} has a number that the inbox has yet to give",
        "SELECT id FROM conversations"
        " WHERE id > coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'inbox'), 0)",
    ),
    (
        "conversation {} has ended, and yet something of it is under way",
        "SELECT id FROM conversations WHERE ended_at IS NOT NULL AND (unfinished OR wake_at IS NOT NULL)",
    ),
)


def examine(connection: sqlite3.Connection) -> list[str]:
    """What is wrong in this store; nothing in a good one."""
    found = [line for line in _integrity(connection) if line != "ok"]
    if found:
        return found  # what lies in damaged pages says nothing about the rest
    if not _has_conversations(connection):
        return []
    return [line for sentence, query in _RULES for line in _broken(connection, sentence, query)]


def _integrity(connection: sqlite3.Connection) -> list[str]:
    try:
        rows: list[tuple[str]] = connection.execute(f"PRAGMA integrity_check({MOST})").fetchall()
    except sqlite3.DatabaseError as error:
        return [f"SQLite can't read it: {error}"]
    return [line for (line,) in rows]


def _has_conversations(connection: sqlite3.Connection) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'conversations'").fetchone()
    return found is not None


def _broken(connection: sqlite3.Connection, sentence: str, query: str) -> Iterator[str]:
    found: list[tuple[int]] = connection.execute(f"{query} LIMIT {MOST + 1}").fetchall()
    for (conversation,) in found[:MOST]:
        yield sentence.format(conversation)
    if len(found) > MOST:
        yield f"and more of this: {sentence.format('...')}"
