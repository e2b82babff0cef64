"""The time line of a journal that was exported with its contents redacted; no code can be replayed.

The time line has the people's acts with their times, and the operations with outcomes. The time line has no
texts, no lines of code and no variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast, final

import trio

from ...conversations.inspection.replay_state import ReplayState
from ...emulator.exchange import TravelError
from ...emulator.views import JsonObject
from ...engine import Record
from ...engine.records import (
    CONTINUED,
    CUT,
    ENDED,
    FAILED,
    FIRED,
    INTERRUPTED,
    OUTCOMES,
    START,
    decode_record,
    time_of,
)
from ...wire.rules import JsonValue
from .notches import FORMAT
from .passes import NOTHING_YET, Passed
from .past import notch_starts
from .told import dot_of
from .twin import packed_window
from .twins import told_row

_LETTERS: Final = re.compile(r"<(\d+) characters>")
_EVENTS: Final = {
    "Message": "message",
    "Press": "press",
    "Submission": "form",
    "Join": "join",
    "Leave": "leave",
    "PayCallback": "payment",
    "InvoiceCallback": "payment",
    "PaymentNews": "payment",
    "PaymentArrived": "payment",
    "Signal": "signal",
    "Call": "call",
}
_ID: Final = "p1"


@final
class RedactedJournal:
    """The view of one redacted journal, with the methods of `emulator.exchange.Looks`.

    Args:
        lines: lines of the export.

    Raises:
        TriobotError: another version wrote the export.
    """

    def __init__(self, lines: Sequence[Mapping[str, object]]) -> None:
        self._row = cast("JsonObject", dict(lines[0]))
        records = [decode_record(str(line["record"])) for line in lines if "record" in line]
        self._passed = _passed(self._row, records)

    async def conversations(self, chat_id: int) -> JsonValue:
        """Return the export's conversation, if it is in this chat."""
        await trio.lowlevel.checkpoint()
        told: JsonObject = {**told_row(self._row), "state": self._passed.head["state"]}
        return {"conversations": [told] if chat_id == self._row["chat_id"] else []}

    async def open(self, chat_id: int, conversation: int) -> JsonValue:
        """Return the id of the only pass."""
        await trio.lowlevel.checkpoint()
        if (chat_id, conversation) != (self._row["chat_id"], self._row["conversation"]):
            raise TravelError("this chat has no such conversation")
        return {"id": _ID}

    def passed(self, id: str) -> JsonObject:
        """Return the head of the pass."""
        if id != _ID:
            raise TravelError("this pass is gone: open it again", gone=True)
        return {**self._passed.head, "id": id}

    async def notches(self, id: str, start: int, end: int) -> bytes:
        """Return some notches, as compressed JSON."""
        await trio.lowlevel.checkpoint()
        self.passed(id)
        return packed_window(self._passed, start, end)

    async def path(self, id: str, start: int, end: int) -> bytes:
        """Raise TravelError: there is no code."""
        await trio.lowlevel.checkpoint()
        raise TravelError("no line is known here")

    async def source(self, id: str, source: int) -> bytes:
        """Raise TravelError: there are no sources."""
        await trio.lowlevel.checkpoint()
        raise TravelError("there is no such source")

    async def value(self, id: str, notch: int, branch: str, frame: int, name: str) -> JsonValue:
        """Raise TravelError: there are no variables."""
        await trio.lowlevel.checkpoint()
        raise TravelError("there is no such variable")

    async def close(self, id: str) -> None:
        """Do nothing: the only pass stays."""
        await trio.lowlevel.checkpoint()


def _passed(row: JsonObject, records: Sequence[Record]) -> Passed:
    places = notch_starts(records)
    notches = [_notch(n, place, records[place]) for n, place in enumerate(places)]
    notches[0] |= {"whole": True, "f": {}, "v": {}, "parked": [], "blocks": [], "data": {}}
    parked = row.get("parked_because")
    head: JsonObject = {
        "format": FORMAT,
        **{name: row[name] for name in ("chat_id", "conversation", "route", "kind", "started_at")},
        "sender_id": None,
        "state": told_row(row, records)["state"],
        "because": row.get("error") if parked is None else f"{parked}: {row.get('error') or ''}",
        "records": len(records),
        "notches": len(notches),
        "first": 0,
        "hidden": True,
        "redacted": True,
        **NOTHING_YET,
    }
    return Passed(head, notches, (), ReplayState())


def _notch(n: int, place: int, record: Record) -> JsonObject:
    tag = record[0]
    notch: JsonObject = {"n": n, "t": time_of(record), "r": place, "id": "", "k": "begin", "dot": "begin"}
    came = _came(record)
    if tag in (ENDED, CONTINUED):
        failed = tag == ENDED and record[2] is not None
        return notch | {"k": "end" if tag == ENDED else "continued", "dot": "crash" if failed else "end"}
    if tag != START:
        kind = "fired" if tag == FIRED else "interrupt"
        if tag in OUTCOMES:
            kind = str(record[3]).partition(" ")[0]
        notch |= {"k": kind, "dot": dot_of(record, came)}
    if tag in OUTCOMES or tag == FIRED:
        notch["id"] = str(record[2])
    if came is not None:
        notch["in"] = came
    return notch


def _came(record: Record) -> JsonObject | None:
    """Return the redacted event or outcome that began a turn; None if there is none."""
    tag = record[0]
    if tag == START:
        return _event(record[3][0]) if record[3] else None
    if tag == INTERRUPTED:
        return {"what": "interrupt", "text": str(record[4])}
    if tag == FIRED:
        told = {"what": "timeout", "text": ""} if record[4] is None else _event(record[4])
        return {**told, "block": str(record[2])}
    if tag in (FAILED, CUT):
        return {"what": "error" if tag == FAILED else "cut", "text": ""}
    if tag not in OUTCOMES:
        return None
    kind = str(record[3]).partition(" ")[0]
    if kind == "receive":
        return _event(record[5])
    if kind in ("send", "answer"):
        return None
    return {"what": "timeout" if kind == "sleep" else "result", "text": ""}


def _event(node: JsonValue) -> JsonObject:
    match node:
        case {"said": [_, text, *_]} | {"heard": [_, text, *_]}:
            return {"what": "message", "text": "", **_letters(text)}
        case {"tuple": [first, *_]}:
            return _event(first)
        case {"class": [str(name), {"content": content}]} if name.endswith(".Message"):
            return {"what": "message", "text": "", **_letters(content)}
        case {"class": [str(name), *_]}:
            return {"what": _EVENTS.get(name.rpartition(".")[2], "event"), "text": ""}
        case _:
            return {"what": "event", "text": ""}


def _letters(text: JsonValue) -> JsonObject:
    found = _LETTERS.fullmatch(text) if isinstance(text, str) else None
    return {} if found is None else {"letters": int(found[1])}
