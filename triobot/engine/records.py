"""Records: what a journal holds, one JSON array of places each.

Each begins with a tag and the time of its turn in wall milliseconds; `Record` lists the places. The first one
is the start. In the first turn after the clock was set the time is a list: the time, by how much the clock
had been set in all, and how much of that no host saw (`times_of`). An operation's id is an int in the main
branch and a text in a child's: ``"3/1.2"`` is the second operation of the first child of the nursery that has
the id 3.

Most records are *turns*: their order is the order in which things happened, and replay repeats it. The others
stand beside them. They are found by what they are about, and their places in the journal mean nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias, cast, final

from ..errors import UnreadableRecordError

FORMAT: Final = 1
"""The version of the format, the last place of a start."""

Id: TypeAlias = "int | str"
"""The number of an operation in its branch; in a child the child's path stands before it."""

Node: TypeAlias = Any
"""What JSON can hold: the recorded form of a value."""

Record: TypeAlias = "list[Any]"
"""One record, by its tag:

```
S time fn args seed format           the start
D time id kind print value [row]     an operation is done; `row` is the event that a wait took
E time id kind print error [row]     an operation failed
C time id kind print                 an effect was cut short by a block that ended
F time block row value               a block ended: by an event, or by its deadline (both are null)
I time row turn why                  an interrupt; `turn` only if it cut that turn in a foreign await
Z time error                         the end
A time fn args                       the end, and it goes on as another function

N time turn key [value]              what the code read in this turn; no value: nothing was there
P time turn key n                    the code wrote under this key in this turn, for the nth time
R time id kind print tag value       an effect's outcome whose turn can't come yet
Q time id kind print                 an effect that must not happen twice is about to begin
O time turn key value                what the world was asked for in this turn
V time patch                         the code asked for this patch first here
```

The last six stand beside the turns.
"""

START: Final = "S"
DONE: Final = "D"
FAILED: Final = "E"
CUT: Final = "C"
FIRED: Final = "F"
INTERRUPTED: Final = "I"
ENDED: Final = "Z"
CONTINUED: Final = "A"
READ: Final = "N"
WROTE: Final = "P"
KNOWN: Final = "R"
INTENDED: Final = "Q"
NOTED: Final = "O"
PATCHED: Final = "V"

TURNS: Final = frozenset((DONE, FAILED, CUT, FIRED, INTERRUPTED, ENDED, CONTINUED))
OUTCOMES: Final = frozenset((DONE, FAILED, CUT))
ENDS: Final = frozenset((ENDED, CONTINUED))
_BESIDE: Final = frozenset((READ, WROTE, KNOWN, INTENDED, NOTED, PATCHED))


@final
class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""Stands for shared data that isn't there; in a `Put` it deletes."""


@final
class Put(NamedTuple):
    """A write of shared data, durable together with the record that it is appended with.

    Attributes:
        node: the recorded form of the value, or `ABSENT`.
    """

    key: str
    node: Node | Absent


_encoder: Final = json.JSONEncoder(separators=(",", ":"))
_make: Final[Any] = getattr(json.encoder, "c_make_encoder", None)
# What JSONEncoder makes anew for each value; each turn writes some, so it is made once.
_chunks: Final[Callable[[object, int], Iterable[str]]] = (
    (lambda value, level: (_encoder.encode(value),))
    if _make is None
    else _make(
        None, _encoder.default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
    )
)


_scan: Final[Callable[[str, int], tuple[Any, int]]] = cast("Any", json.JSONDecoder()).scan_once


def encode(value: Node) -> str:
    """Write a node as JSON in ASCII."""
    return "".join(_chunks(value, 0))


encode_record: Final = encode
"""Writes a record as one line."""


def decode_record(line: str) -> Record:
    """Read a record from its line.

    Raises:
        UnreadableRecordError: the line is no record.
    """
    try:
        record, end = _scan(line, 0)
    except (ValueError, RecursionError, StopIteration):
        raise UnreadableRecordError("this is no record of a journal") from None
    if type(record) is not list or end != len(line):
        raise UnreadableRecordError("this is no record of a journal")
    return record  # pyright: ignore[reportUnknownVariableType]


def check_journal(records: Sequence[Record]) -> None:
    """Check that a journal begins as one that this program reads.

    Raises:
        UnreadableRecordError: it has no start, or another version's.
    """
    start = records[0] if records else []
    if len(start) < 5 or start[0] != START:
        raise UnreadableRecordError("a journal begins with its start")
    if start[5:6] != [FORMAT]:
        raise UnreadableRecordError(f"the journal has format {start[5:6]}; this program reads [{FORMAT}]")
    for record in records:
        if record[0] not in TURNS and record[0] not in _BESIDE and record is not start:
            raise UnreadableRecordError(f"this program knows no record {record[0]!r}")


def time_of(record: Record) -> int:
    """Return the time of a record's turn, in wall milliseconds."""
    time: int | list[int] = record[1]
    return time if isinstance(time, int) else time[0]


def times_of(records: Sequence[Record]) -> list[int]:
    """Return of a journal's last turn: its time, by how much the clock had been set, and what no host saw."""
    turns: list[int | list[int]] = [
        record[1] for record in records if record[0] in TURNS or record[0] == START
    ]
    last: int | list[int] = turns[-1]
    set_by: list[int] = next((time[1:] for time in reversed(turns) if isinstance(time, list)), [0, 0])
    return [last if isinstance(last, int) else last[0], *set_by]


def drawn(seed: str, id: Id, size: int) -> bytes:
    """Return the bytes that an operation draws: the same each time, and hard to guess."""
    return blake2b(f"{seed}:{id}".encode(), digest_size=size).digest()


def differs(recorded: str, now: str) -> bool:
    """Return whether two fingerprints tell that an operation has other arguments than before.

    A fingerprint is a name and a digest, or either alone; what one of the two doesn't say is not compared.
    """
    if recorded == now:
        return False
    one, other = recorded.partition(" "), now.partition(" ")
    return any(mine and theirs and mine != theirs for mine, theirs in zip(one, other, strict=True))
