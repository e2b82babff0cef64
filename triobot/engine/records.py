"""Records: the entries of a journal, each a JSON array.

A record begins with a tag and the time of its turn in wall milliseconds; `Record` lists the further fields.
The first record is the start. In the first turn after the clock was set, the time is a list of three numbers:
the time, the total milliseconds by which the clock had been set, and the milliseconds of this total that
`Host.jumped` doesn't include (`times_of`).

An operation's id is an int in the main branch and a text in a child's. The id ``"3/1.2"`` is the second
operation of the first child of the nursery that has the id 3. In a part (`Run.part`), the part's name is put
before the number: ``"hook.2"``, ``"hook.3/1.2"``.

Most records are *turns*. Turns are stored in the order in which things happened, and a replay repeats this
order. The other records are found by their turn, operation or key, so the order of these records means
nothing.

Values and errors are recorded as nodes, which a `Codec` encodes and decodes. Live code also gets its values
through the codec. So an `except KeyError` that works live also works on replay. The code never gets the
recorded object itself, and so can't change that object.
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
"""Version of the format; the last field of a start record."""

Id: TypeAlias = "int | str"
"""An operation's number in its branch; for a child, the number follows the child's path."""

Node: TypeAlias = Any
"""The recorded form of a value: something that JSON can hold."""

Record: TypeAlias = "list[Any]"
"""One record, by its tag:

```
S time fn args seed format           the start
D time id kind print value [row sites]   an operation is done; `row` is the event that a wait took, or 0
E time id kind print error [row sites]   an operation failed
C time id kind print [null 0 sites]      an effect was cut short by a block that ended
F time block row value               a block ended: by an event, or by its deadline (row and value null)
I time row turn why                  an interrupt; `turn`: the turn that was cut in a foreign await, or null
Z time error                         the end
A time fn args                       the end of a run that goes on as another function

N time turn key [value]              a read of shared data in this turn; no value: there was no data
P time turn key n                    the nth write under this key in this turn
R time id kind print tag value [sites]   an effect's outcome, before its turn can come
Q time id kind print [null 0 sites]      an effect that must not happen twice, about to begin
O time turn key value                the result of a `Run.note` or `Run.drain` in this turn
V time patch                         the run's first call of `patched` with this patch
```

The last six kinds of records are not turns.
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
"""Records that are stored by operation, not in order. So the store can count effects without an outcome."""
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
"""For each tag, the types of the fields that follow the tag in every record."""


@final
class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""Placeholder for shared data that doesn't exist; a `Put` with this node deletes the data."""


@final
class Put(NamedTuple):
    """A write of shared data, durable together with its record.

    Attributes:
        node: the recorded form of the value, or `ABSENT`.
    """

    key: str
    node: Node | Absent


_encoder: Final = json.JSONEncoder(separators=(",", ":"))
_make: Final[Any] = getattr(json.encoder, "c_make_encoder", None)
# JSONEncoder would make this function again for each value. Each turn writes values, so the function is made
# once here.
_chunks: Final[Callable[[object, int], Iterable[str]]] = (
    (lambda value, level: (_encoder.encode(value),))
    if _make is None
    else _make(
        None, _encoder.default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
    )
)


_scan: Final[Callable[[str, int], tuple[Any, int]]] = cast("Any", json.JSONDecoder()).scan_once


def encode_record(value: Node) -> str:
    """Encode a record, or another node, as one line of JSON in ASCII."""
    return "".join(_chunks(value, 0))


def decode_record(line: str) -> Record:
    """Decode a record from its line.

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
        pass  # raises the error below
    raise UnreadableRecordError("this is no record of a journal")


def check_journal(records: Sequence[Record]) -> None:
    """Check that a journal begins with a start record that this program can read.

    Raises:
        UnreadableRecordError: the journal has no start record, or another version's start record.
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
    """Return the time of a journal's last turn, and the milliseconds by which the clock had been set.

    Returns:
        The time in wall milliseconds, the total milliseconds by which the clock had been set, and the
        milliseconds of this total that `Host.jumped` doesn't include.
    """
    turns: list[int | list[int]] = [
        record[1] for record in records if record[0] in TURNS or record[0] == START
    ]
    last: int | list[int] = turns[-1]
    set_by: list[int] = next((time[1:] for time in reversed(turns) if isinstance(time, list)), [0, 0])
    return [last if isinstance(last, int) else last[0], *set_by]


def id_in(prefix: str, n: int) -> Id:
    """Return the id of an operation: the prefix (path of the branch, or name of the part), then `n`."""
    return f"{prefix}{n}" if prefix else n


def drawn(seed: str, id: Id, size: int) -> bytes:
    """Return the random bytes of an operation: the same each time, and hard to guess."""
    return blake2b(f"{seed}:{id}".encode(), digest_size=size).digest()


def path_of(id: Id) -> str:
    """Return the path of an operation's branch; empty for the main branch, even in a part."""
    path, dot, _ = str(id).rpartition(".")
    return path + dot if "/" in path else ""


# --- values and errors as nodes: what an operation returns or raises, live as well as on replay


Raises: TypeAlias = Sequence[type[Exception]]
"""An author's own error classes, which are raised unchanged."""

PLAIN: Final = frozenset((str, int, float, bool, type(None)))
"""Types of nodes that need no decoding: the node is the value, and can't be changed."""

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
    """Encodes values and errors as nodes, and decodes them. Subclasses must define `dump` and `load`.

    An error is recorded with its class and arguments if its class is builtin, one of Trio's or the engine's,
    or one of `errors`. The error's cause, traceback and ``__notes__`` are lost. An error that can't be
    recorded becomes a `StepError` with the error's text.

    Args:
        errors: further error classes, by the names to record; each class is called with the error's `args`.
        largest: largest number of characters of a recorded value.
    """

    def __init__(
        self, errors: Mapping[str, type[Exception]] | None = None, *, largest: int = 16_000_000
    ) -> None:
        self._classes = {**_OWN, **(errors or {})}
        self._names = {cls: name for name, cls in self._classes.items()}
        self._largest = largest

    # --- defined by subclasses

    def dump(self, value: object) -> Node:
        """Return the node of a value that is neither None, a bool, a small number nor a short ASCII text.

        Raises:
            UnrecordableError: no node exists from which `load` could make the value again.
        """
        raise NotImplementedError

    def load(self, node: Node) -> object:
        """Return a fresh value from a node that `dump` made.

        Raises:
            UnreadableRecordError: this program can't decode the node.
        """
        raise NotImplementedError

    def is_frozen(self, value: object) -> bool:
        """Return whether a value and the copy that `load` makes from the value's node are interchangeable.

        If so, live code gets the value itself. If not, live code gets the copy, as on replay. False is always
        safe.
        """
        return False

    # --- values

    def node_of(self, value: object) -> Node:
        """Return the node, the JSON form in the journal, of a value.

        Raises:
            UnrecordableError: the value can't be recorded, or is too large.
        """
        if value is None or value is True or value is False:
            return value
        if type(value) is int and -_MOST < value < _MOST:
            return value
        if type(value) is str and value.isascii() and len(value) < _LONG:
            return value
        node = self.dump(value)
        if len(encode_record(node)) > self._largest:
            rule = f"a record holds at most {self._largest} characters; keep what is long elsewhere"
            raise UnrecordableError(type(value).__name__, "value", rule)
        return node

    def value_of(self, node: Node) -> object:
        """Return the value that a node stands for."""
        return node if type(node) in PLAIN else self.load(node)

    # --- errors

    def node_of_error(self, error: Exception, raises: Raises = ()) -> Node:
        """Return the node of an error; if the node would be too large, a node of only the error's text."""
        try:
            node = self._error_node(error, tuple(raises))
            if len(encode_record(node)) <= self._largest:
                return node
        except BaseException as failed:
            contained(failed)  # the error's class or attributes may raise anything
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
        """Return a fresh error from a node.

        Raises:
            UnreadableRecordError: this program doesn't know the error's class.
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
                # The error is made without the class's `__init__`, which may take other parameters.
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
