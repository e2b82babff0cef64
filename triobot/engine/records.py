"""Records: what a journal holds, one JSON array of places each.

Each begins with a tag and the time of its turn in wall milliseconds; `Record` lists the places. The first one
is the start. In the first turn after the clock was set the time is a list: the time, by how much the clock
had been set in all, and how much of that no host saw (`times_of`). An operation's id is an int in the main
branch and a text in a child's: ``"3/1.2"`` is the second operation of the first child of the nursery that has
the id 3. In a part (`Run.part`) the part's name stands before the number: ``"hook.2"``, ``"hook.3/1.2"``.

Most records are *turns*: their order is the order in which things happened, and replay repeats it. The others
stand beside them. They are found by what they are about, and their places in the journal mean nothing.

Values and errors are in them as nodes, which a `Codec` makes and reads. Live code gets its values through it,
too: an `except KeyError` that works today works in tomorrow's replay, and what the code changes is never the
very object that was recorded.
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias, cast, final

import trio

from ..base.authors import contained, kind_of, text_of
from ..errors import (
    ExitError,
    ForeignTaskError,
    NonDurableCancelError,
    StepError,
    UnreadableRecordError,
    UnrecordableError,
)

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
D time id kind print value [row sites]   an operation is done; `row` is the event that a wait took, or 0
E time id kind print error [row sites]   an operation failed
C time id kind print [null 0 sites]      an effect was cut short by a block that ended
F time block row value               a block ended: by an event, or by its deadline (both are null)
I time row turn why                  an interrupt; `turn` only if it cut that turn in a foreign await
Z time error                         the end
A time fn args                       the end, and it goes on as another function

N time turn key [value]              what the code read in this turn; no value: nothing was there
P time turn key n                    the code wrote under this key in this turn, for the nth time
R time id kind print tag value [sites]   an effect's outcome whose turn can't come yet
Q time id kind print [null 0 sites]      an effect that must not happen twice is about to begin
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
EFFECTS: Final = frozenset((INTENDED, KNOWN))
"""What is kept by operation and not in order: so the store can count effects of unknown outcome."""
_TIME: Final = (int, list)
_ID: Final = (int, str)
_FIRST: Final[Mapping[str, tuple[type | tuple[type, ...], ...]]] = {
    START: (_TIME, str, list, str),
    **dict.fromkeys((DONE, FAILED), (_TIME, _ID, str, str, object)),
    **dict.fromkeys((CUT, INTENDED), (_TIME, _ID, str, str)),
    FIRED: (_TIME, _ID, object, object),
    NOTED: (_TIME, _ID, str, object),
    INTERRUPTED: (_TIME, (int, type(None)), object, str),
    ENDED: (_TIME, object),
    CONTINUED: (_TIME, str, list),
    KNOWN: (_TIME, _ID, str, str, str, object),
    READ: (_TIME, _ID, str),
    WROTE: (_TIME, _ID, str, int),
    PATCHED: (_TIME, str),
}
"""The types of what stands behind a tag, as far as every record has it."""


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
        first, time = _FIRST[record[0]], record[1]
        fits = end == len(line) and len(record) > len(first) and all(map(isinstance, record[1:], first))
        if fits and (type(time) is int or [type(one) for one in time] == [int, int, int]):
            return cast("Record", record)
    except (ValueError, RecursionError, StopIteration, LookupError, TypeError):
        pass  # as what doesn't fit
    raise UnreadableRecordError("this is no record of a journal")


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


def id_in(prefix: str, n: int) -> Id:
    """Return the id of an operation: its number, behind its branch's path or its part."""
    return f"{prefix}{n}" if prefix else n


def drawn(seed: str, id: Id, size: int) -> bytes:
    """Return the bytes that an operation draws: the same each time, and hard to guess."""
    return blake2b(f"{seed}:{id}".encode(), digest_size=size).digest()


def path_of(id: Id) -> str:
    """Return the path of the branch of an operation; empty for the main one, whose parts have names."""
    path, dot, _ = str(id).rpartition(".")
    return path + dot if "/" in path else ""


# --- values and errors as nodes: what an operation returns or raises, live as well as on replay


Raises: TypeAlias = Sequence[type[Exception]]
"""An author's own error classes that come back as themselves."""

PLAIN: Final = frozenset((str, int, float, bool, type(None)))
"""Types of nodes that are values as they are: nothing can change them."""

_LONG: Final = 100_000
_MOST: Final = 2**63

_OWN: Final[Mapping[str, type[Exception]]] = {
    cls.__name__: cls
    for cls in (
        *(ExitError, ForeignTaskError, NonDurableCancelError, StepError),
        *(UnrecordableError, UnreadableRecordError),
    )
} | {
    f"trio.{cls.__name__}": cls
    for cls in (
        trio.TooSlowError,
        trio.BusyResourceError,
        trio.ClosedResourceError,
        trio.BrokenResourceError,
        trio.EndOfChannel,
        trio.WouldBlock,
    )
}


class Codec:
    """Turns values into nodes and back. Subclass it: `dump` and `load` are needed.

    An error is recorded by its class and arguments if it is a builtin one, one of Trio's, or one of `errors`;
    its cause, traceback and notes are lost. What can't be recorded becomes a `StepError` with its text.

    Args:
        errors: more error classes that can be made again of their arguments, by the names to record.
        largest: characters that a recorded value may take.
    """

    def __init__(
        self, errors: Mapping[str, type[Exception]] | None = None, *, largest: int = 16_000_000
    ) -> None:
        self._classes = {**_OWN, **(errors or {})}
        self._names = {cls: name for name, cls in self._classes.items()}
        self._largest = largest

    # --- what a subclass says

    def dump(self, value: object) -> Node:
        """Return the node of a value that is more than a number or a short text.

        Raises:
            UnrecordableError: nothing can be made of it that gives it back.
        """
        raise NotImplementedError

    def load(self, node: Node) -> object:
        """Return a fresh value of what `dump` made.

        Raises:
            UnreadableRecordError: this program knows no such value.
        """
        raise NotImplementedError

    def is_frozen(self, value: object) -> bool:
        """Return whether nobody could tell what `load` makes of a value's node from the value itself.

        Then code gets the value itself, otherwise what a replay would give it. False is always right.
        """
        return False

    # --- values

    def node_of(self, value: object) -> Node:
        """Return the node to record for a value.

        Raises:
            UnrecordableError: there is none, or it takes too much room.
        """
        if value is None or value is True or value is False:
            return value
        if type(value) is int and -_MOST < value < _MOST:
            return value
        if type(value) is str and value.isascii() and len(value) < _LONG:
            return value
        node = self.dump(value)
        if len(encode(node)) > self._largest:
            rule = f"a record holds at most {self._largest} characters; keep what is long elsewhere"
            raise UnrecordableError(type(value).__name__, "value", rule)
        return node

    def value_of(self, node: Node) -> object:
        """Return the value that a node stands for."""
        return node if type(node) in PLAIN else self.load(node)

    # --- errors

    def node_of_error(self, error: Exception, raises: Raises = ()) -> Node:
        """Return the node to record for an error: that of its text, if it takes too much room as a whole."""
        try:
            node = self._error_node(error, tuple(raises))
            if len(encode(node)) <= self._largest:
                return node
        except BaseException as failed:
            contained(failed)  # what its class, or what it holds, makes of being looked at
        return _text_of(error)

    def _error_node(self, error: Exception, raises: tuple[type[Exception], ...]) -> Node:
        cls = type(error)
        if cls is ExceptionGroup:
            group = cast("ExceptionGroup[Exception]", error)
            return ["group", group.message, [self.node_of_error(one, raises) for one in group.exceptions]]
        if (name := self._names.get(cls)) is not None or cls.__module__ == "builtins":
            return [name or cls.__name__, [self.node_of(arg) for arg in error.args]]
        if raises and isinstance(error, raises):
            attributes = {
                key: self.node_of(value) for key, value in vars(error).items() if key != "__notes__"
            }
            return ["raised", _full_name(cls), [self.node_of(arg) for arg in error.args], attributes]
        return _text_of(error)

    def error_of(self, node: Node, raises: Raises = ()) -> Exception:
        """Return the error that a node stands for, a fresh one each time.

        Raises:
            UnreadableRecordError: its class is not known here.
        """
        match cast("list[object]", node):
            case ["group", str() as message, members]:
                return ExceptionGroup(
                    message, [self.error_of(one, raises) for one in cast("list[object]", members)]
                )
            case ["raised", str() as name, args, attributes]:
                cls = next((cls for cls in _with_subclasses(raises) if _full_name(cls) == name), None)
                if cls is None:
                    return StepError(name.rpartition(".")[2], "its class is no longer among raises=")
                # Without its __init__, whose parameters need not be its arguments.
                error = cls.__new__(cls, *map(self.value_of, cast("list[object]", args)))
                known = cast("dict[str, object]", attributes)
                vars(error).update({key: self.value_of(one) for key, one in known.items()})
                return error
            case [str() as name, args]:
                found: object = self._classes.get(name) or getattr(builtins, name, None)
                if not (isinstance(found, type) and issubclass(found, Exception)):
                    raise UnreadableRecordError(f"this program knows no error {name!r}")
                return found(*map(self.value_of, cast("list[object]", args)))
            case _:
                raise UnreadableRecordError("this is no recorded error")


def _text_of(error: Exception) -> Node:
    if type(error) is StepError or type(error) is ExitError:
        kind, text = error.kind, error.text
    else:
        kind, text = kind_of(error), text_of(error)
    return ["StepError", [kind, text[:_LONG].encode(errors="replace").decode()]]


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _with_subclasses(classes: Raises) -> list[type[Exception]]:
    found: list[type[Exception]] = []
    for cls in classes:
        found += [cls, *_with_subclasses(cls.__subclasses__())]
    return found
