"""What a journal holds: one line of JSON text a record, in the order of the turns.

Not recorded is whatever running the code again brings back: that an operation began, that a scope was
entered, deadlines, an author's own `cancel`, the cancellation of parked waits, a nursery's failure, the start
and the join of children, `now`, `random` and `uuid`. A wait of a linear conversation costs one record.

Beside the journal, unordered, are rows by operation: `Result` (known, but not yet given to the conversation)
and `Intended` (about to leave). They are not turns: a result becomes one when it is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, NewType, TypeAlias, cast, final, get_args

import attrs

from ..errors import UnreadableRecordError, UnrecordableError
from ..journals import LARGEST_RECORD
from ..values import decode_value, encode_value, register
from ..wire.results import Sent

FORMAT: Final = 1
"""The version of the journal's format. Old journals are read for ever, or refused with both numbers."""

OperationId = NewType("OperationId", str)
"""A branch's path and its counter, such as ``3`` or ``2/1.4``. Scopes and nurseries count as well."""


def drawn(seed: str, id: OperationId, size: int) -> bytes:
    """The bytes that this operation draws: the same each time, and nobody can guess them."""
    return blake2b(f"{seed}:{id}".encode(), digest_size=size).digest()


def place_of(id: OperationId) -> tuple[str, int]:
    """The path of an operation's branch, and its number there."""
    path, dot, n = id.rpartition(".")
    return path + dot, int(n)


# --- outcomes


class _Late:
    """The text of a plain value, written only if somebody reads it: of what ends well nobody does."""

    __slots__ = ("plain",)
    plain: object

    def __getattr__(self, name: str) -> str:
        if name != "text" or not self.is_plain:
            raise AttributeError(name)
        object.__setattr__(self, name, encode_value(self.plain))
        return self.text

    @property
    def is_plain(self) -> bool:
        """Whether the value itself is here: one that nobody can change."""
        try:
            object.__getattribute__(self, "plain")
        except AttributeError:
            return False
        return True


@final
@attrs.frozen
class Value(_Late):
    """It came back with this, in the text of `triobot.values`."""

    text: str = attrs.field(repr=False)

    @classmethod
    def of(cls, value: object) -> Value:
        """A value of one of the types in `PLAIN`."""
        made = cls.__new__(cls)
        object.__setattr__(made, "plain", value)
        return made


PLAIN: Final = frozenset((Sent, str, int, bool, type(None)))
"""What can always be recorded, and comes back as it was."""


@final
@attrs.frozen
class Failed:
    """It raised this; `faults` reads the text."""

    text: str = attrs.field(repr=False)


@final
@attrs.frozen
class CutShort:
    """Its body was cancelled: a record of its own, for a body ends when it likes."""


Outcome: TypeAlias = Value | Failed | CutShort


# --- records; `time` is the turn's, in wall milliseconds, and smaller than the one before only if it jumped


@final
@attrs.frozen
class Start:
    """The first record.

    Attributes:
        fn: the route's name.
        version: of its code, as its author counts.
        args: what it was called with, as text of `triobot.values`.
        event: why it runs, in the same way.
        seed: secret; what is random in the conversation comes of it.
        data: what the chat kept then.
    """

    time: int
    fn: str
    version: int
    seed: str = attrs.field(repr=False)
    args: str = attrs.field(default="[1,[]]", repr=False)
    event: str = attrs.field(default="[1,null]", repr=False)
    data: Mapping[str, str] = attrs.field(factory=lambda: dict[str, str](), repr=False)


@final
@attrs.frozen
class Done:
    """A wait, an effect, a step or a sleep is over.

    Attributes:
        fingerprint: of its arguments; tells a reworded text from the recorded one.
        event: the inbox row that a wait took.
    """

    time: int
    id: OperationId
    kind: str
    fingerprint: str
    outcome: Outcome
    event: int | None = None


@final
@attrs.frozen
class Fired:
    """A scope was ended from outside: its deadline passed, or an event came.

    Attributes:
        mid: None between two turns; else the operation whose turn it cut in a foreign await.
        event: the inbox row that ended it.
        value: as what the event was taken, as text of `triobot.values`.
    """

    time: int
    scope: OperationId
    mid: OperationId | None = None
    event: int | None = None
    value: str | None = attrs.field(default=None, repr=False)


@final
@attrs.frozen
class Interrupted:
    """An interrupt ended the conversation."""

    time: int
    event: int | None = None
    why: str = "interrupted"
    mid: OperationId | None = None


@final
@attrs.frozen
class Patched:
    """The code asked for this patch first here."""

    time: int
    patch: str


@final
@attrs.frozen
class Noted:
    """In the middle of a turn the world was asked for something that it has now: no turn of its own."""

    time: int
    id: OperationId
    kind: str
    value: str = attrs.field(repr=False)


@final
@attrs.frozen
class DataPut:
    """Somebody else wrote into what the chat keeps."""

    time: int
    key: str
    value: str | None = attrs.field(repr=False)


@final
@attrs.frozen
class Jumped:
    """The time of day jumped: deadlines that were asked for as a length of time move with it.

    Attributes:
        by: milliseconds by which they move; forward is positive. 0 where a conversation begins.
        total: by how much it has jumped in all, as this conversation knows from here on.
    """

    time: int
    by: int
    total: int


@final
@attrs.frozen
class Unended:
    """The turn of the record before is not known to have come to rest: that record was durable by itself."""

    time: int


@final
@attrs.frozen
class Resumed:
    """A turn that was `Unended` ran once more from its beginning, and came to rest.

    Attributes:
        data: what the chat kept when it did, and the turn began with; None if that isn't known.
    """

    time: int
    data: Mapping[str, str] | None = attrs.field(default=None, repr=False)


@final
@attrs.frozen
class Ended:
    """The last record: it returned (None), or raised this."""

    time: int
    failure: str | None = attrs.field(default=None, repr=False)


@final
@attrs.frozen
class Continued:
    """The last record: it goes on as this, in a journal of its own."""

    time: int
    fn: str
    args: str = attrs.field(repr=False)


Record: TypeAlias = (
    Start
    | Done
    | Fired
    | Interrupted
    | Patched
    | Noted
    | DataPut
    | Jumped
    | Unended
    | Resumed
    | Ended
    | Continued
)


# --- beside the journal


@final
@attrs.frozen
class Result:
    """The outcome of an effect that is known, while its turn has not come."""

    id: OperationId
    time: int
    outcome: Outcome


@final
@attrs.frozen
class Intended:
    """An effect that is about to leave and must not leave twice by itself."""

    id: OperationId
    kind: str
    fingerprint: str


Row: TypeAlias = Result | Intended

for _cls in (Value, Failed, CutShort, *get_args(Record), *get_args(Row)):
    # By name and not by place: a journal outlives the module's.
    register(_cls, name=f"journal.{_cls.__name__}")


_ROOM: Final = LARGEST_RECORD - 64 * 1024
"""What is left for a value, beside whatever else is in its record."""


def recordable(value: object) -> str:
    """Write a value down, if a record can hold it.

    Raises:
        UnrecordableError: it is of a type that can't be written down, or takes too much room.
    """
    text = encode_value(value)
    # A record holds it as text in text, where a character takes at most two.
    if 2 * len(text) > _ROOM and len(encode_value(text)) > _ROOM:
        raise UnrecordableError(
            type(value).__name__,
            "value",
            f"a record holds at most {LARGEST_RECORD // 1024 // 1024} million characters; keep what is long "
            "elsewhere, in a file or a table of yours, and record where it is",
        )
    return text


def encode_record(record: Record | Row) -> str:
    """Write a record down, as one line."""
    return encode_value([FORMAT, record])


def decode_record(line: str) -> Record | Row:
    """Read what `encode_record` wrote.

    Raises:
        UnreadableRecordError: another version's format, or no record at all.
    """
    whole = decode_value(line)
    if not isinstance(whole, list) or len(parts := cast("list[object]", whole)) != 2:
        raise UnreadableRecordError("this is no record of a journal")
    version, record = parts
    if version != FORMAT:
        raise UnreadableRecordError(f"the journal has format {version!r}; this program reads {FORMAT}")
    if not isinstance(record, (*get_args(Record), *get_args(Row))):
        raise UnreadableRecordError("this is no record of a journal")
    return cast("Record | Row", record)
