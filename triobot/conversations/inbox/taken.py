"""What a conversation takes with its event: the event's row stands for the record, until that is written.

It stands for it as long as the journal ends where it did when the event was stored; once another record is
there, the event is one like any other. What a crash leaves is written out by the next process (`written_out`)
as a turn that is not known to have ended: it runs again, from the event on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, cast, final

import attrs

from ...journal.records import FORMAT, Done, OperationId, Outcome, Unended, Value, encode_record
from ...journals import AppendRecords, ConversationId, ConversationRow, Journal, PutStanding
from ...seams import Consume, InboxRow, Write
from ...values import encode_value
from ..running.taking import KIND, taken_text
from ..running.waits import Delivery
from .consumption import stored_event

_UNREADABLE: Final = '[1,{"class":["an event that this program could not read",{}]}]'


@final
@attrs.frozen
class TakenWith:
    """Who takes an event, and how.

    Attributes:
        position: of the record that says so.
        operation: what takes it.
        time: of the turn in which it does.
        value: as what, in a tuple, as text of `triobot.values`; None: as the event that it is.
    """

    conversation: ConversationId
    position: int
    operation: OperationId
    time: int
    value: str | None = attrs.field(repr=False)

    def words(self) -> str:
        """Encode what is stored with the event, besides the event."""
        return json.dumps([FORMAT, *attrs.astuple(self)])


def taken_with(row: InboxRow) -> TakenWith | None:
    """Decode what takes this event; return None if its row doesn't say so, or can't be read."""
    if row.begun is None:
        return None
    try:
        parts = cast("object", json.loads(row.begun))
    except ValueError:
        return None
    if not isinstance(parts, list) or len(cast("list[object]", parts)) != 6:
        return None
    version, conversation, position, operation, time, value = cast(
        "tuple[int, int, int, str, int, str | None]", tuple(cast("list[object]", parts))
    )
    if version != FORMAT:
        return None
    return TakenWith(ConversationId(conversation), position, OperationId(operation), time, value)


def with_taken(journal: Journal, rows: Sequence[InboxRow]) -> Journal:
    """Append to a journal the record that one of these rows stands for, if one does."""
    for row in rows:
        if (done := _done(row, journal.row)) is not None:
            records = _torn(done)
            it = attrs.evolve(journal.row, unfinished=True, position=journal.row.position + len(records))
            return attrs.evolve(journal, row=it, records=(*journal.records, *records))
    return journal


def written_out(row: InboxRow, conversations: Sequence[ConversationRow]) -> Sequence[Write]:
    """Return the writes that put this row's record into its journal; none if it stands for none of these."""
    for it in conversations:
        if (done := _done(row, it)) is not None:
            return (
                AppendRecords(it.lease, it.id, it.position, _torn(done)),
                PutStanding(it.lease, it.id, done.time, unfinished=True, wake_at=it.wake_at),
                Consume((row.seq,)),
            )
    return ()


def _torn(done: Done) -> tuple[str, ...]:
    return encode_record(done), encode_record(Unended(done.time))


def _done(row: InboxRow, it: ConversationRow) -> Done | None:
    """Return the record that this row stands for in this conversation's journal, if it does."""
    taken = taken_with(row)
    if taken is None or (taken.conversation, taken.position) != (it.id, it.position) or it.ended_at:
        return None
    event = stored_event(row)
    if event is None:
        # What came of it may have been seen: whoever can't read it can't go on, and is parked.
        outcome: Outcome = Value(_UNREADABLE)
    else:
        delivery = Delivery(row.seq, event, row.at)
        value = encode_value((event,)) if taken.value is None else taken.value
        outcome = Value(taken_text(delivery, value))
    return Done(taken.time, taken.operation, KIND, "", outcome, row.seq)
