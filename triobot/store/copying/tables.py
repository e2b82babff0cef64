"""Which rows a copy takes, and to which shard each goes.

Rows keep their numbers. An event's number is its conversation's, and journals, payments, keys of signals and
what chats keep name it; all numbers of a bot's shards differ, and new ones are larger than each. Only numbers
that nothing names are given anew: those of unreadable requests and of broadcasts.

What is a chat's goes to the chat's shard, and everything else to the home shard. An alarm goes to the shard
of the payment that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, final

import attrs

from ...errors import StoreCorruptError
from ...shards import home_of, shard_of
from ...wire.ids import ChatId
from ..sql import Sql
from .broadcasts import BroadcastParts

Row: TypeAlias = tuple[Any, ...]
Placed: TypeAlias = tuple[int, Row]
"""A row, and the shard that gets it."""

_MOST_ROWS: Final = 2_000
_MOST_BYTES: Final = 4 * 1024 * 1024


@final
class Division:
    """How the rows of all sources are divided.

    Args:
        sources: what runs statements in each shard that is copied, in their order.
        shards: how many the copy has.

    Attributes:
        home: the shard of what is the whole bot's.
        broadcasts: where each broadcast stands in all sources.
    """

    def __init__(self, sources: Sequence[Sql], shards: int) -> None:
        self.sources = sources
        self.shards = shards
        self.home = home_of(shards)
        self.broadcasts = BroadcastParts(sources, shards)

    def of_chat(self, chat_id: int) -> int:
        """Return the shard of a chat, or of another place."""
        return shard_of(ChatId(chat_id), self.shards)

    def numbered(self, source: int, number: int) -> int:
        """Return the number in place of one that each source has for itself."""
        return number * len(self.sources) + source

    def chat_of(self, statement: str, value: object) -> int | None:
        """Return what a statement that looks for a chat finds in the first source that has it."""
        for sql in self.sources:
            if (found := sql.execute(statement, (value,)).fetchone()) is not None:
                return int(found[0])
        return None


Place: TypeAlias = Callable[[Division, int, Row], Iterable[Placed]]
"""Returns where a row of a source goes, as what; it has the table's columns, and behind them its chat."""
Count: TypeAlias = Callable[[Division], int]


@final
@attrs.frozen
class CopiedTable:
    """A table of a store, as a copy sees it.

    Attributes:
        name: of the table.
        key: the columns in whose order it is read.
        rest: its other columns.
        place: says where a row goes.
        weight: roughly how many bytes of a row can be many, in SQL.
        chat: the chat of a row, in SQL; NULL if it has none.
        expected: counts the rows that the copy is to have; None: as many as the sources.
    """

    name: str
    key: tuple[str, ...]
    rest: tuple[str, ...]
    place: Place
    weight: str = "0"
    chat: str = "NULL"
    expected: Count | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Return all columns."""
        return self.key + self.rest

    def pages(self, sql: Sql, after: Sequence[Any] | None) -> Iterator[Sequence[Row]]:
        """Yield the rows behind this key, in order, as many together as memory is to hold at once."""
        key, marks = ", ".join(self.key), ", ".join("?" * len(self.key))
        columns = f"SELECT {', '.join(self.columns)}, {self.chat} FROM {self.name}"
        while True:
            behind = () if after is None else tuple(after)
            where = f" WHERE ({key}) > ({marks})" if behind else ""
            found: list[Row] = sql.execute(
                f"SELECT {key}, {self.weight} FROM {self.name}{where} ORDER BY {key} LIMIT {_MOST_ROWS}",
                behind,
            ).fetchall()
            if not found:
                return
            until = _within(found)
            up_to = f"{where} {'AND' if behind else 'WHERE'} ({key}) <= ({marks})"
            rows: list[Row] = sql.execute(f"{columns}{up_to} ORDER BY {key}", (*behind, *until)).fetchall()
            yield rows
            after = until

    def count(self, sql: Sql) -> int:
        """Return how many rows there are."""
        return int(sql.execute(f"SELECT count(*) FROM {self.name}").fetchone()[0])

    def count_expected(self, division: Division) -> int:
        """Return how many rows the copy is to have."""
        if self.expected is not None:
            return self.expected(division)
        return sum(self.count(sql) for sql in division.sources)

    @property
    def insert(self) -> str:
        """Return what puts a row in, unless it is there."""
        marks = ", ".join("?" * len(self.columns))
        return f"INSERT INTO {self.name} ({', '.join(self.columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING"


def _within(found: Sequence[Row]) -> Row:
    """Return the key of the last row that a page has room for."""
    size = 0
    for at, row in enumerate(found):
        size += int(row[-1])
        if size > _MOST_BYTES:
            return found[max(at - 1, 0)][:-1]
    return found[-1][:-1]


# --- where rows go


def _with_chat(division: Division, source: int, row: Row) -> Iterator[Placed]:
    if row[-1] is None:
        raise StoreCorruptError(
            f"what belongs to {row[0]} is there, and {row[0]} isn't: the store is damaged (`triobot store"
            " check`); restore a backup, and copy that"
        )
    yield division.of_chat(row[-1]), row[:-1]


def _delivered(division: Division, source: int, row: Row) -> Iterator[Placed]:
    """A key is a word, the chat, and what tells it from others; of an order the conversation's number."""
    word, _, rest = str(row[0]).partition(":")
    number = rest.partition(":")[0]
    if not number.removeprefix("-").isdecimal():
        chat = None
    elif word == "order":
        chat = division.chat_of("SELECT chat_id FROM conversations WHERE id = ?", int(number))
    else:
        chat = int(number)
    # Without a chat it decides nothing any more: its conversation is over.
    yield division.home if chat is None else division.of_chat(chat), row[:-1]


def _at_home(division: Division, source: int, row: Row) -> Iterator[Placed]:
    yield division.home, (division.numbered(source, row[0]), *row[1:-1])


_ALARM: Final = ("kind", "key", "text", "first", "last", "count", "told", "acknowledged")
_ONE_ALARM: Final = f"SELECT {', '.join(_ALARM)} FROM alarms WHERE kind = ? AND key = ?"


def _same_alarms(division: Division, source: int, row: Row) -> Sequence[Row]:
    """Return this alarm of all sources; nothing, if one before this has it and has told of all."""
    found: list[Row] = []
    for other, sql in enumerate(division.sources):
        one: Row | None = row[:-1] if other == source else sql.execute(_ONE_ALARM, row[:2]).fetchone()
        if one is not None and other < source:
            return ()
        if one is not None:
            found.append(one)
    return found


def _alarmed(division: Division, source: int, row: Row) -> Iterator[Placed]:
    if not (same := _same_alarms(division, source, row)):
        return
    chat = division.chat_of("SELECT chat_id FROM payments WHERE id = ?", row[1])
    yield division.home if chat is None else division.of_chat(chat), merged_alarm(same)


def merged_alarm(same: Sequence[Row]) -> Row:
    """Return what several shards have raised as one: open if one is, and untold if one of those is."""
    rows = [dict(zip(_ALARM, row, strict=True)) for row in same]
    unseen = [row for row in rows if row["acknowledged"] is None]
    told = [row["told"] for row in unseen or rows]
    newest = max(rows, key=lambda row: int(row["last"]))
    return (
        *same[0][:2],
        newest["text"],
        min(row["first"] for row in unseen or rows),
        newest["last"],
        sum(row["count"] for row in unseen or rows),
        None if None in told else max(told),
        None if unseen else max(row["acknowledged"] for row in rows),
    )


def _count_alarms(division: Division) -> int:
    return sum(
        1
        for source, sql in enumerate(division.sources)
        for page in ALARMS.pages(sql, None)
        for row in page
        if _same_alarms(division, source, row)
    )


def _broadcast(division: Division, source: int, row: Row) -> Iterator[Placed]:
    yield from enumerate(division.broadcasts.divided(source, row[0]))


def _received(division: Division, source: int, row: Row) -> Iterator[Placed]:
    n, position, chat_id, gone, _ = row
    if (where := division.broadcasts.found(source, n)) is not None:
        yield division.of_chat(chat_id), (where.n, where.moved(position), chat_id, gone)


# --- the tables

ALARMS: Final = CopiedTable(
    "alarms", ("kind", "key"), _ALARM[2:], _alarmed, "length(text)", expected=_count_alarms
)

TABLES: Final = (
    CopiedTable(
        "conversations",
        ("id",),
        (
            *("chat_id", "route", "kind", "version", "sender_id", "key", "run", "unfinished", "wake_at"),
            *("parked", "error", "in_hand", "started_at", "updated_at", "ended_at"),
        ),
        _with_chat,
        chat="chat_id",
    ),
    CopiedTable(
        "journal",
        ("conversation", "n"),
        ("size", "records"),
        _with_chat,
        "length(records)",
        "(SELECT chat_id FROM conversations WHERE conversations.id = journal.conversation)",
    ),
    CopiedTable(
        "effects",
        ("conversation", "operation"),
        ("intended_at", "intent", "resulted_at", "result"),
        _with_chat,
        "coalesce(length(intent), 0) + coalesce(length(result), 0)",
        "(SELECT chat_id FROM conversations WHERE conversations.id = effects.conversation)",
    ),
    CopiedTable(
        "inbox",
        ("seq",),
        ("chat_id", "at", "content_type", "body", "begun"),
        _with_chat,
        "length(body) + coalesce(length(begun), 0)",
        "chat_id",
    ),
    CopiedTable("deliveries", ("key",), ("at", "once", "acknowledged"), _delivered),
    CopiedTable("senders", ("chat_id",), ("first_sender", "several"), _with_chat, chat="chat_id"),
    CopiedTable("data", ("chat_id", "key"), ("value",), _with_chat, "length(value)", "chat_id"),
    CopiedTable(
        "payments",
        ("id",),
        (
            *("revision", "state", "grouped", "chat_id", "amount", "made_at", "record", "invoice_id"),
            *("due_at", "urgent", "captured", "captured_at"),
        ),
        _with_chat,
        "length(record)",
        "chat_id",
    ),
    CopiedTable(
        "payment_moves",
        ("id", "revision"),
        ("at", "fact", "state"),
        _with_chat,
        chat="(SELECT payments.chat_id FROM payments WHERE payments.id = payment_moves.id)",
    ),
    ALARMS,
    CopiedTable(
        "broadcasts",
        ("n",),
        (
            *("key", "at", "state", "content", "meant", "last"),
            *("total", "sent", "gone", "failed", "unknown"),
        ),
        _broadcast,
        "length(content)",
        expected=lambda division: division.broadcasts.count() * division.shards,
    ),
    CopiedTable(
        "receivers",
        ("n", "position"),
        ("chat_id", "gone"),
        _received,
        expected=lambda division: division.broadcasts.count_receivers(),
    ),
    CopiedTable("raw", ("n",), ("at", "reason", "content_type", "body"), _at_home, "length(body)"),
)
"""In this order: what can't be read is found before much is copied."""
