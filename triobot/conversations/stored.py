"""A conversation as it is in the store: what it was started with, and its journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, final

import attrs

from ..errors import UnreadableRecordError
from ..journal.records import Record, Row
from ..journal.records import Start as StartRecord
from ..journals import ConversationRow, Journal
from ..values import decode_value
from ..wire.events import Event
from .calls import Call, asked_of
from .declarations import Route
from .journaling import read_journal
from .routing import Start
from .waits import Delivery


@final
@attrs.frozen
class Stored:
    """What a conversation is revived from."""

    row: ConversationRow
    records: Sequence[Record] = attrs.field(repr=False)
    rows: Sequence[Row] = attrs.field(repr=False)


@final
@attrs.frozen
class Opening:
    """What a conversation was started with."""

    start: Start
    delivery: Delivery
    interrupted: str | None


def read_stored(journal: Journal) -> Stored:
    """Read a journal.

    Raises:
        UnreadableRecordError: this program can't.
    """
    records, rows = read_journal(journal)
    return Stored(journal.row, records, rows)


def opening_of(stored: Stored, route: Route) -> Opening | None:
    """What it was started with; None if that could not be recorded.

    Raises:
        UnreadableRecordError: this program can't read it.
    """
    if not stored.records or not isinstance(first := stored.records[0], StartRecord):
        return None
    told = decode_value(first.event)
    if told is None:
        return None
    told = cast("dict[str, object]", told) if isinstance(told, dict) else {}
    at = told.get("at")
    if not isinstance(at, int) or "event" not in told:
        raise UnreadableRecordError("this is no beginning of a conversation")
    event = cast("Event", told["event"])
    call = asked_of(event)
    # An event that was taken as it is isn't written twice.
    value = told.get("value", event)
    start = Start(route, value, call if isinstance(call, Call) else None)
    return Opening(start, Delivery(stored.row.id, event, at), cast("str | None", told.get("interrupted")))
