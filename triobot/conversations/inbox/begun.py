"""What began with its event: the event's row stands for the first record, until something else is written.

Most conversations end well before anything of them has to be known; then that row is all that was ever
stored of them, and it is consumed. One that comes to rest, or does more than one thing, is written out by
itself (`ConversationWorld`). What was under way when the last process ended is written out by the next one,
before anything else happens there, so that it is revived as every other conversation. For operators it is one
all along (`begun_journal`). So it is with rows that stand for a later record (`taken`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Final, TypeAlias, cast

from ...errors import UnreadableRecordError
from ...journal.records import FORMAT, encode_record
from ...journal.records import Start as StartRecord
from ...journals import (
    AppendRecords,
    BeginConversation,
    ConversationId,
    ConversationRow,
    Journal,
    Lease,
    RunKind,
)
from ...seams import Consume, InboxRow, Store, Write
from ...values import encode_value
from ...wire.ids import SenderId
from ..doors.calls import Call, asked_of
from ..revival.opening import Opened, beside
from . import taken
from .consumption import stored_event
from .taken import taken_with

log: Final = logging.getLogger("triobot.conversations")

_PAGE: Final = 256

_Begun: TypeAlias = tuple[int, str, RunKind, int, SenderId | None, int, str, str | None, dict[str, str], int]


def words_of(opened: Opened, kind: RunKind, owner: SenderId | None) -> str:
    """Encode what is stored with the event of a conversation that begins, besides the event."""
    first = opened.first
    event = first.event if opened.told is None else None
    told = [FORMAT, first.fn, kind, first.version, owner, first.time, first.seed, event]
    return json.dumps([*told, first.data, opened.jumped])


async def write_out(store: Store) -> int:
    """Write out what began in an earlier run and was under way at its end; returns the newest row's number.

    A row that can't be read stays, as that of an event which waits.
    """
    newest = 0
    while rows := await store.backlog(after=newest, limit=_PAGE):
        newest = rows[-1].seq
        if writes := [write for row in rows for write in await _written_out(row, store)]:
            await store.commit(*writes)
    return newest


async def _written_out(row: InboxRow, store: Store) -> Sequence[Write]:
    lease = store.lease(row.chat_id)
    if lease is None or row.begun is None:
        return ()
    if taken_with(row) is not None:
        return taken.written_out(row, await store.conversations(row.chat_id))
    journal = begun_journal(row, lease)
    if journal is None:
        return ()
    it = journal.row
    return (
        BeginConversation(
            it.lease, it.id, it.chat_id, it.route, it.version, it.started_at, it.kind, it.sender_id, it.key
        ),
        AppendRecords(it.lease, it.id, 0, journal.records),
        Consume((row.seq,)),
    )


def begun_journal(row: InboxRow, lease: Lease, epoch: int = 0) -> Journal | None:
    """Return the journal of the conversation that this row stands for; None if it stands for none."""
    if row.begun is None or taken_with(row) is not None:
        return None
    try:
        version, fn, kind, code, owner, time, seed, told, data, jumped = _read(row.begun)
        if version != FORMAT:
            raise UnreadableRecordError(f"it has format {version!r}; this program reads {FORMAT}")
        event = stored_event(row)
        if event is None:
            raise UnreadableRecordError("its event can't be read")
        if told is None:
            told = encode_value({"event": event, "interrupted": None, "at": row.at})
    except UnreadableRecordError as error:
        log.warning("event %d of chat %s is taken as new: %s", row.seq, row.chat_id, error)
        return None
    start = StartRecord(time, fn, code, seed, event=told, data=data)
    records = tuple(map(encode_record, [start, *beside(start, jumped)]))
    it = ConversationRow(
        id=ConversationId(row.seq),
        lease=lease,
        chat_id=row.chat_id,
        route=fn,
        kind=kind,
        version=str(code),
        sender_id=owner,
        key=asked.key if isinstance(asked := asked_of(event), Call) else None,
        run=1,
        unfinished=True,
        wake_at=None,
        parked_because=None,
        error=None,
        in_hand=0,
        position=len(records),
        epoch=epoch,
        started_at=time,
        updated_at=time,
    )
    return Journal(it, 0, records, {})


def _read(text: str) -> _Begun:
    try:
        parts: object = json.loads(text)
    except ValueError:
        parts = None
    if not isinstance(parts, list) or len(cast("list[object]", parts)) != 10:
        raise UnreadableRecordError("this is no beginning of a conversation")
    return cast("_Begun", tuple(cast("list[object]", parts)))
