"""A conversation as it is in the store: what it was started with, and its journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, final

import attrs

from ...errors import NondeterminismError, UnreadableRecordError
from ...journal.records import Record, Row
from ...journal.records import Start as StartRecord
from ...journals import ConversationRow, Journal
from ...values import decode_value
from ...wire.events import Event
from ..doors.calls import Call, asked_of
from ..routes.declarations import Route, Table
from ..routes.routing import Start
from ..running.waits import Delivery
from .journaling import read_journal


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


def why_unfit(row: ConversationRow, table: Table) -> str | None:
    """Why a conversation can't be revived with this code, by its row; None if its journal decides."""
    route = table.named(row.route)
    if route is None:
        return f"the bot has no route {row.route!r}; if it has a new name, give it formerly=({row.route!r},)"
    if row.version != str(route.version):
        return f"{row.route} is version {route.version}, its journal {row.version}"
    return None


def fitting(stored: Stored, table: Table) -> tuple[Route, Opening]:
    """The route of a stored conversation, and what it was started with.

    Raises:
        NondeterminismError: it would be parked.
        UnreadableRecordError: this program can't read it.
    """
    route = table.named(stored.row.route)
    because = why_unfit(stored.row, table)
    if route is None or because is not None:
        raise NondeterminismError("0", because or "")
    opening = opening_of(stored, route)
    if opening is None:
        raise NondeterminismError("0", "what it was started with could not be written down")
    return route, opening


def survives(stored: Stored, table: Table) -> bool:
    """Whether a conversation goes on after a start, or is parked; else it ends then, with a word."""
    route = table.named(stored.row.route)
    if route is None or why_unfit(stored.row, table) is not None:
        return True
    return route.durable and opening_of(stored, route) is not None


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
