"""The corpus: scenes, each with all inputs and outputs of a bot during the scene.

A file has the records of one release. The file begins with the store's schema, the store's rows before the
first message, and digests of the bot's code. Then come the scenes, each as a list in the order of time:

```
== ask_number, 1 refused    a scene
uses Chat.ask, Chat.send    the operations that its code called, and their arguments that have defaults
@ 10000                     milliseconds since the start
< 1 [type, body]            the platform posts the first event
<= 1                        the bot has answered it
> sendMessage [...]         the bot asks something of the platform: the fields, the status, the answer
.                           a transaction of the store:
+ conversations {...}         a row that is new
~ conversations [key] {...}   columns of one that have changed
- conversations [key]         one that is gone
J 7000001 4 1                 a row of a journal: its conversation, its place, so many records, each a line
j 7000001 5 1                 such a row, gone in the same transaction
```

Numbers of the inbox, which are also conversations' numbers, are above `NUMBERS`, and no other numbers are. A
run after a cut gives other numbers, so a comparison must recognize them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from triobot.engine.records import CUT, OUTCOMES

FOLDER: Final = Path(__file__).parent / "recorded"
"""A file a release, by its version."""

NUMBERS: Final = 7_000_000
BEGAN: Final = 1_798_880_400_000
"""When each scene begins, in wall milliseconds: a Saturday morning."""

CODE: Final = frozenset({"sources", "sites", "deployed"})
"""Tables of the bot's own code: a file of the corpus is played under other code."""
_OF_CODE: Final = frozenset({"rests", "build"})
"""Columns of a conversation that are about that code."""
_NOT_KEPT: Final = CODE | {"meta", "alarms", "raw"}
"""Tables of what nobody notices who talks to a bot."""
_NO_CUT: Final = frozenset({"deliveries", "settings", "payments", "payment_moves"})
"""What is noted beside the conversations: a cut behind it alone is the one before it."""

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = dict[str, dict[Row, Row]]


@attrs.frozen
class JournalRow:
    """Records that were added to a journal together.

    Attributes:
        place: of the first.
        stays: they were there when the transaction was over.
    """

    conversation: int
    place: int
    lines: Sequence[str]
    stays: bool = True


@attrs.frozen
class Change:
    """A row that a transaction made, changed or deleted.

    Attributes:
        key: None for a new one.
        values: by column, those that changed; None: the row is gone.
    """

    table: str
    key: Row | None
    values: Mapping[str, Any] | None


@attrs.frozen
class Stored:
    """One transaction."""

    changes: Sequence[Change]
    journals: Sequence[JournalRow]

    @property
    def is_cut(self) -> bool:
        """Return whether it has moved a conversation, or what comes to one."""
        changes = (one for one in self.changes if one.table != "inbox" or one.key is None)
        return bool(self.journals) or any(change.table not in _NO_CUT for change in changes)


@attrs.frozen
class Posted:
    """The platform posts an event."""

    number: int
    content_type: str
    body: str


@attrs.frozen
class Answered:
    """The bot has answered an event."""

    number: int


@attrs.frozen
class Asked:
    """The bot asks something of the platform.

    Attributes:
        fields: what it gives, by name.
        status, answer: what it gets.
    """

    path: str
    fields: Mapping[str, str]
    status: int
    answer: str

    @property
    def line(self) -> str:
        """Return what is asked, in a line."""
        return f"{self.path} {dump(self.fields)}"


@attrs.frozen
class At:
    """Time has passed; milliseconds since the start."""

    time: int


Entry: TypeAlias = At | Posted | Answered | Asked | Stored


@attrs.frozen
class Take:
    """What was recorded of one scene.

    Attributes:
        uses: the operations that its code called.
    """

    name: str
    uses: Sequence[str]
    entries: Sequence[Entry]

    @property
    def cuts(self) -> Sequence[int]:
        """Return the places behind which a kill leaves another store than before."""
        return [
            place for place, entry in enumerate(self.entries, 1) if isinstance(entry, Stored) and entry.is_cut
        ]

    @property
    def bodies(self) -> Mapping[int, str]:
        """Return the bodies of the events that were posted, by their numbers."""
        return {one.number: one.body for one in self.entries if isinstance(one, Posted)}

    def time_at(self, place: int) -> int:
        """Return the milliseconds since the start that had passed."""
        return max((one.time for one in self.entries[:place] if isinstance(one, At)), default=0)

    def journals(self, first: int, last: int | None = None) -> Mapping[int, list[str]]:
        """Return the records that were added from one place up to another, by conversation."""
        found: dict[int, list[str]] = {}
        for entry in self.entries[first:last]:
            for row in entry.journals if isinstance(entry, Stored) else ():
                found.setdefault(row.conversation, []).extend(row.lines)
        return found


@attrs.frozen(eq=False)
class Release:
    """All that one release recorded.

    Attributes:
        schema: of its store, in SQL.
        base: the rows that were there before anybody said anything, by table.
        code: digests of the code that was recorded, by what is defined in it.
    """

    schema: Sequence[str]
    base: Mapping[str, Sequence[Row]]
    code: Mapping[str, str]
    takes: Sequence[Take]


# --- the rows of a store


def columns_of(sql: sqlite3.Connection, table: str) -> tuple[list[str], list[int]]:
    """Return the columns of a table, and which of them are its key."""
    found = sql.execute(f"PRAGMA table_info('{table}')").fetchall()
    return [one[1] for one in found], [
        place for _, place in sorted((one[5], one[0]) for one in found if one[5])
    ]


def rows_of(sql: sqlite3.Connection) -> Rows:
    """Read all rows, by table and key."""
    found: Rows = {}
    named = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    for (table,) in sql.execute(named).fetchall():
        if table not in _NOT_KEPT:
            _, keys = columns_of(sql, table)
            rows = sql.execute(f'SELECT * FROM "{table}"').fetchall()
            found[table] = {tuple(row[key] for key in keys): row for row in rows}
    return found


def changes_between(
    sql: sqlite3.Connection, before: Rows, now: Rows, bodies: Mapping[bytes, int]
) -> Iterator[Change]:
    """Tell what a transaction did to the rows.

    Args:
        bodies: numbers of events that were posted, by what they are in the inbox.
    """
    for table, rows in now.items():
        columns, _ = columns_of(sql, table)
        for key, row in rows.items():
            if (old := before[table].get(key)) is None:
                pairs = zip(columns, row, strict=True)
                values = {
                    name: _plain(value, bodies)
                    for name, value in pairs
                    if value is not None and name not in _OF_CODE
                }
                yield Change(table, None, values)
            elif old != row:
                both = zip(columns, old, row, strict=True)
                values = {
                    name: _plain(new, bodies)
                    for name, was, new in both
                    if was != new and name not in _OF_CODE
                }
                if values:
                    yield Change(table, key, values)
        for key in before[table]:
            if key not in rows:
                yield Change(table, key, None)


def apply(sql: sqlite3.Connection, stored: Stored, bodies: Mapping[int, str]) -> None:
    """Do again what a transaction did.

    Args:
        bodies: of the events that were posted, by their numbers.
    """
    for change in stored.changes:
        columns, keys = columns_of(sql, change.table)
        where = " AND ".join(f'"{columns[key]}" = ?' for key in keys)
        if change.values is None:
            sql.execute(f'DELETE FROM "{change.table}" WHERE {where}', change.key or ())
            continue
        values = {name: _real(value, bodies) for name, value in change.values.items()}
        if change.key is None:
            names, marks = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
            sql.execute(f'INSERT INTO "{change.table}" ({names}) VALUES ({marks})', tuple(values.values()))
        else:
            put = ", ".join(f'"{name}" = ?' for name in values)
            sql.execute(f'UPDATE "{change.table}" SET {put} WHERE {where}', (*values.values(), *change.key))
    for row in stored.journals:
        if row.stays:
            values = (row.conversation, row.place, len(row.lines), "\n".join(row.lines))
            sql.execute("INSERT INTO journal (conversation, n, size, records) VALUES (?, ?, ?, ?)", values)


def _plain(value: Any, bodies: Mapping[bytes, int]) -> Any:
    if not isinstance(value, bytes):
        return value
    return {"event": bodies[value]} if value in bodies else {"bytes": value.decode("latin-1")}


def _real(value: Any, bodies: Mapping[int, str]) -> Any:
    if not isinstance(value, dict):
        return value
    return bodies[value["event"]].encode() if "event" in value else value["bytes"].encode("latin-1")


def without_sites(record: Any) -> Any:
    """Leave out from which of the author's lines a record came."""
    if record[0] not in OUTCOMES or len(record) < 7:
        return record
    return record[:5] if record[0] == CUT else record[:7] if record[6] else record[:6]


# --- the file


def dump(value: object) -> str:
    """Write a value as the file has it."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def write_release(release: Release) -> Iterator[str]:
    """Write a release, line by line."""
    yield "# Journals of all operations, as this release recorded them: python -m tests.journals.record"
    yield "# A scene that is here is never edited. tests/journals/corpus.py says what the lines mean."
    for statement in release.schema:
        yield f"schema {dump(statement)}"
    for table, rows in release.base.items():
        for row in rows:
            yield f"base {table} {dump(row)}"
    for name, digest in release.code.items():
        yield f"code {name} {digest}"
    for take in release.takes:
        yield ""
        yield f"== {take.name}"
        yield f"uses {', '.join(take.uses)}"
        for entry in take.entries:
            yield from _write_entry(entry)


def _write_entry(entry: Entry) -> Iterator[str]:
    match entry:
        case At(time):
            yield f"@ {time}"
        case Posted(number, content_type, body):
            yield f"< {number} {dump([content_type, body])}"
        case Answered(number):
            yield f"<= {number}"
        case Asked(path, fields, status, answer):
            yield f"> {path} {dump([fields, status, answer])}"
        case Stored(changes, journals):
            yield "."
            for change in changes:
                if change.key is None:
                    yield f"+ {change.table} {dump(change.values)}"
                elif change.values is None:
                    yield f"- {change.table} {dump(change.key)}"
                else:
                    yield f"~ {change.table} {dump(change.key)} {dump(change.values)}"
            for row in journals:
                yield f"{'J' if row.stays else 'j'} {row.conversation} {row.place} {len(row.lines)}"
                yield from row.lines


def read_release(text: str) -> Release:
    """Read a release."""
    schema: list[str] = []
    base: dict[str, list[Row]] = {}
    takes: list[Take] = []
    lines = iter(text.splitlines())
    code: dict[str, str] = {}
    name, entries = "", list[Entry]()
    for line in lines:
        kind, _, rest = line.partition(" ")
        match kind:
            case "schema":
                schema.append(json.loads(rest))
            case "base":
                table, _, row = rest.partition(" ")
                base.setdefault(table, []).append(tuple(json.loads(row)))
            case "code":
                defined, _, digest = rest.partition(" ")
                code[defined] = digest
            case "==":
                name = rest
            case "uses":
                entries = []
                takes.append(Take(name, rest.split(", "), entries))
            case "" | "#":
                pass
            case _:
                _read_entry(kind, rest, lines, entries)
    return Release(schema, base, code, takes)


def _read_entry(kind: str, rest: str, lines: Iterator[str], entries: list[Entry]) -> None:
    first, _, behind = rest.partition(" ")
    stored = entries[-1] if entries else None
    match kind:
        case "@":
            entries.append(At(int(rest)))
        case "<":
            entries.append(Posted(int(first), *json.loads(behind)))
        case "<=":
            entries.append(Answered(int(rest)))
        case ">":
            entries.append(Asked(first, *json.loads(behind)))
        case ".":
            entries.append(Stored([], []))
        case "+" | "-" | "~":
            assert isinstance(stored, Stored)
            key: Row | None = None
            decoder = json.JSONDecoder()
            if kind != "+":
                found, end = decoder.raw_decode(behind)
                key, behind = tuple(found), behind[end:].lstrip()
            values = None if kind == "-" else json.loads(behind)
            entries[-1] = attrs.evolve(stored, changes=[*stored.changes, Change(first, key, values)])
        case "J" | "j":
            assert isinstance(stored, Stored)
            place, many = map(int, behind.split())
            row = JournalRow(int(first), place, [next(lines) for _ in range(many)], stays=kind == "J")
            entries[-1] = attrs.evolve(stored, journals=[*stored.journals, row])
        case _:
            raise AssertionError(f"no line of a corpus begins with {kind!r}")


def releases() -> Iterable[Path]:
    """Return the files of the corpus."""
    return sorted(FOLDER.glob("*.txt"))
