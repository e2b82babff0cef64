"""Beginnings, journals and waiting operations of conversations, as the store has them.

A conversation's beginning is the conversation's first record. The row of the event that began the
conversation may contain the first record. Until the conversation's own rows are stored, only the event's row
stores the conversation.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final, get_args

import attrs

from ...base.frozen import frozen, guarded
from ...engine import Record, begun, decode_record, encode_record
from ...engine.core import EFFECT
from ...engine.core import Operation as OpenOperation
from ...engine.records import (
    FORMAT,
    INTERRUPTED,
    OUTCOMES,
    START,
    TURNS,
    Id,
    check_journal,
    time_of,
)
from ...errors import NondeterminismError, UnreadableRecordError, UnrecordableError
from ...seams.inbox import InboxRow
from ...seams.journals import (
    AppendRecords,
    BeginConversation,
    ConversationId,
    ConversationRow,
    Journal,
    RunKind,
)
from ...seams.values import reading
from ...seams.writes import Consume, Write
from ...wire.events import Event, Join
from ...wire.ids import ChatId, SenderId
from ..calls.signals import Call, Place, asked_of, stored_event
from ..codec import CODEC
from ..routes.declarations import Route, Table
from ..routes.routing import Delivery, Start, Wait

if TYPE_CHECKING:
    from ...store import Store

log: Final = logging.getLogger("triobot.conversations")

_PAGE: Final = 256
_PLACES: Final = 9
"""Length of a row's stored beginning: the first record, the route's kind and version, and the owner."""

Opening: TypeAlias = tuple[Start, Delivery]
"""Opening of a conversation: the start, and the event that caused the start."""


# --- the beginning


@final
@frozen
class StartedWith:
    """Input of a starting conversation.

    Attributes:
        at: the event's time of arrival.
        value: the value that the route's filter made of the event.
        args: arguments of the route's function, besides the chat.
        interrupted: name of the route that ended because of an interrupt, just before this start.
    """

    event: Event
    at: int
    value: object = attrs.field(repr=False)
    args: tuple[object, ...] = attrs.field(default=(), repr=False)
    interrupted: str | None = None


_SEED_BYTES: Final = 16
_SITES: Final = 7
"""Index of the sites in a record."""


def open_run(
    route: Route, opening: StartedWith, now: int, jumped: int, *, untold: bool = False
) -> tuple[Record, object, UnrecordableError | None]:
    """Make a conversation's first record.

    Args:
        now: wall milliseconds.
        jumped: total jumps of the time of day, in milliseconds, as counted by the clock that returned `now`.
        untold: whether to omit an input that is just a platform's event; `tell` adds the input later.

    Returns:
        The record, the value that the code gets, and None. If the input can't be recorded: a record without
            input, the unchanged value, and the error that the conversation must raise.
    """
    value, seed = opening.value, os.urandom(_SEED_BYTES).hex()
    # If the code's value is the platform's event itself, the event is recorded only once: decoding restores
    # both.
    same = value is opening.event and type(value).__module__ == Join.__module__
    if untold and same and not opening.args:
        return begun(route.name, time=now, seed=seed, codec=CODEC, jumped=jumped), value, None
    begins = partial(begun, route.name, time=now, seed=seed, codec=CODEC, jumped=jumped)
    values: list[object] = [opening.event, opening.at, opening.interrupted]
    try:
        if not same or opening.args:
            values += [value, list(opening.args)]
        record = begins(*values)
        if not same:
            value = CODEC.value_of(record[3][3])
    except UnrecordableError as error:
        return begins(), value, error
    return record, value, None


def tell(first: Record, event: Event, at: int) -> None:
    """Add the input to a first record without input; see `untold` in `open_run`."""
    if not first[3]:
        first[3] = [CODEC.node_of(one) for one in (event, at, None)]


@reading("its beginning")
def read_opening(start: Record) -> StartedWith:
    """Decode the input of a conversation from its first record.

    Raises:
        UnreadableRecordError: the record has no input, or the input can't be decoded.
    """
    if not start[3]:
        raise UnreadableRecordError("what it was started with could not be written down")
    values: list[Any] = [CODEC.value_of(node) for node in start[3]]
    event, at, interrupted, *more = values
    value, args = more or (event, ())
    return StartedWith(event, int(at), value, tuple(args), interrupted)


# --- a beginning in the row of its event


async def write_out(store: Store) -> int:
    """Create a row for each conversation that an earlier process stored only in the first event's row.

    An unreadable beginning stays in the event's row, and the event is routed like a new event. Return the
    number of the newest row in the inbox, or 0 for an empty inbox.
    """
    newest = 0
    while rows := await store.backlog(after=newest, limit=_PAGE):
        newest = rows[-1].seq
        writes: list[Write] = []
        for row in rows:
            journal = None if row.begun is None else begun_journal(row)
            if journal is not None:
                it = journal.row
                begin = BeginConversation(
                    it.id, it.chat_id, it.route, it.version, it.started_at, it.kind, it.sender_id
                )
                writes += [begin, AppendRecords(it.id, 0, journal.records), Consume((row.seq,))]
        if writes:
            await store.commit(*writes)
    return newest


def begun_journal(row: InboxRow) -> Journal | None:
    """Return the journal of the conversation that begins in this row; None without a readable beginning."""
    if row.begun is None:
        return None
    try:
        first, kind, version, owner = _read(row)
    except UnreadableRecordError as error:
        log.warning("event %d of chat %s is taken as new: %s", row.seq, row.chat_id, error)
        return None
    it = begun_row(row.seq, row.chat_id, first, kind, version, owner)
    return Journal(it, 0, (encode_record(first),), {})


def begun_row(
    seq: int,
    chat_id: ChatId,
    first: Record,
    kind: RunKind,
    version: int,
    owner: SenderId | None,
) -> ConversationRow:
    """Return the row of a conversation with only a first record."""
    return ConversationRow(
        id=ConversationId(seq),
        chat_id=chat_id,
        route=first[2],
        kind=kind,
        version=str(version),
        sender_id=owner,
        started_at=time_of(first),
        updated_at=time_of(first),
    )


def _read(row: InboxRow) -> tuple[Record, RunKind, int, SenderId | None]:
    parts = decode_record(row.begun or "")
    first, (kind, version, owner) = parts[:-3], parts[-3:]
    known = kind in get_args(RunKind) and isinstance(owner, int | None) and first[2] and time_of(first) >= 0
    if len(parts) != _PLACES or parts[0] != START or not known:
        raise UnreadableRecordError("this is no beginning of a conversation")
    if first[5] != FORMAT:
        raise UnreadableRecordError(f"it has format {first[5]!r}; this program reads {FORMAT}")
    if not first[3]:  # the row's body has the event
        event = stored_event(row)
        if event is None:
            raise UnreadableRecordError("its event can't be read")
        tell(first, event, row.at)
    return first, cast("RunKind", kind), version, cast("SenderId | None", owner)


# --- stored conversations


@final
@frozen
class Stored:
    """Row and records from which a conversation is revived."""

    row: ConversationRow
    records: Sequence[Record] = attrs.field(repr=False)

    @property
    def interrupted_by(self) -> int | None:
        """Inbox row of an interrupt that was ending the conversation, or None."""
        return next((record[2] for record in self.records if record[0] == INTERRUPTED), None)


def why_unfit(row: ConversationRow, table: Table) -> str | None:
    """Return the reason why no route in the table fits a stored conversation; None if a route fits."""
    route = table.named(row.route)
    if route is None:
        return f"the bot has no route {row.route!r}; if it has a new name, give it formerly=({row.route!r},)"
    if row.version != str(route.version):
        return f"{row.route} is version {route.version}, its journal {row.version}"
    return None


def fitting(stored: Stored, table: Table) -> Opening:
    """Return a stored conversation's opening.

    Raises:
        NondeterminismError: the table has no fitting route, so the conversation must be parked.
        UnreadableRecordError: the beginning can't be decoded.
    """
    route = table.named(stored.row.route)
    because = why_unfit(stored.row, table)
    if route is None or because is not None:
        raise NondeterminismError("0", because or "")
    return _opening_of(stored, route)


def read_journal(journal: Journal) -> list[Record]:
    """Return a journal's records, followed by the effects' results that were stored beside the records.

    Raises:
        UnreadableRecordError: a record can't be decoded.
    """
    records = [decode_record(line) for line in journal.records]
    done = {record[2] for record in records if record[0] in OUTCOMES}
    for effect in journal.effects.values():
        line = effect.intent if effect.result is None else effect.result
        if line is not None and (known := decode_record(line))[2] not in done:
            records.append(known)
    return records


@reading("its journal")
def read_stored(journal: Journal) -> Stored:
    """Decode a journal.

    Raises:
        UnreadableRecordError: the journal can't be decoded.
    """
    return Stored(journal.row, read_journal(journal))


@reading("its beginning")
def _opening_of(stored: Stored, route: Route) -> Opening:
    check_journal(stored.records)
    given = read_opening(stored.records[0])
    call = asked_of(given.event)
    row = stored.row
    if row.run > 1:  # an earlier function continued as this route's function
        place = Place.LIVE if row.sender_id is None else Place.SENDER
        place = Place.BESIDE if row.kind in ("aside", "job") else place
        call = Call(row.chat_id, route.name, given.args, given.value, given.event.sender, row.key, place)
    start = Start(route, given.value, call if isinstance(call, Call) else None, given.interrupted)
    return start, Delivery(stored.row.id, given.event, given.at)


# --- the operations at which a stored conversation waits


def sites_of(record: Record) -> Sequence[int]:
    """Return the sites of a record, its own site last; empty if none is known."""
    found: int | list[int] = record[_SITES] if len(record) > _SITES else 0
    return found if isinstance(found, list) else [found] if found else []


@final
@guarded
class Rested:
    """Operation at which a conversation waited when the conversation's row was stored.

    Attributes:
        kind: kind of the operation; empty if unknown.
        keys: digest of the button keys that a question showed; empty for a question without buttons.
    """

    id: Id
    kind: str
    sites: Sequence[int]
    keys: str = ""


def write_rests(position: int, operations: Sequence[OpenOperation], last: object) -> str | None:
    """Encode a conversation's waiting operations for its row; None if the journal implies the operations.

    The journal implies a single waiting operation with the last record's site, as in an `ask`, and a single
    running effect.

    Args:
        position: the next record's position. Readers ignore the text if the row has another position.
        last: sites of the last record.
    """
    if len(operations) == 1:
        (op,) = operations
        if op.nature is EFFECT or (op.sites == last and type(op.id) is int and not _keys_of(op)):
            return None
    rests = [
        f'[{op.id if type(op.id) is int else json.dumps(op.id)},"{op.kind}",{op.sites},"{_keys_of(op)}"]'
        for op in operations
        if op.sites
    ]
    return f"[{position},[{','.join(rests)}]]" if rests else None


def moved_rests(position: int, stored: Stored) -> str | None:
    """Encode the row's waiting operations again, for a new position in the journal."""
    rests = [attrs.astuple(one) for one in read_rests(stored.row, stored.records).values()]
    return json.dumps((position, rests)) if rests else None


def _keys_of(op: OpenOperation) -> str:
    wait = op.takes
    return wait.shown if isinstance(wait, Wait) else ""


def digest_of_keys(keys: Iterable[str]) -> str:
    """Return a digest of button keys, independent of the order."""
    return blake2b("\n".join(sorted(keys)).encode("utf-8", "replace"), digest_size=6).hexdigest()


def note_shown(op: OpenOperation, rested: Rested) -> bool:
    """Copy the stored digest of shown buttons to a question's wait.

    Return whether the question in the current code has other buttons.
    """
    wait = op.takes
    if not (isinstance(wait, Wait) and wait.keys and rested.keys):
        return False
    wait.shown = rested.keys
    return wait.shown != wait.keys


@reading("what is stored of where it stands")
def read_rests(row: ConversationRow, records: Sequence[Record]) -> Mapping[Id, Rested]:
    """Return the operations at which a conversation waited, by id.

    Raises:
        UnreadableRecordError: the row's entry can't be decoded.
    """
    position, rests = cast("tuple[int, list[tuple[Id, str, Any, str]]]", json.loads(row.rests or "[0,[]]"))
    if not rests or position != row.position:
        last = next((one for one in reversed(records) if one[0] in TURNS), None)
        if row.unfinished or last is None or type(last[2]) is not int or len(sites := sites_of(last)) != 1:
            return {}
        return {last[2] + 1: Rested(last[2] + 1, "", sites)}
    return {
        id: Rested(id, kind, cast("list[int]", sites) if isinstance(sites, list) else [sites], keys)
        for id, kind, sites, keys in rests
    }
