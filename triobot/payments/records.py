"""Conversion between entries and store rows, and the alarm rows of a move."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from ..base.alarm_kinds import Alarm, AlarmKind, text_of
from ..errors import UnreadableRecordError
from ..seams.money import AcknowledgeAlarms, PaymentNotice, PaymentRow, PutPayment, RaiseAlarm
from ..seams.values import decode_value, encode_value, expect, register
from ..wire.events import Sender
from .entry import Entry, State
from .facts import WINDOW, FactName
from .ledger import Impossible, Moved
from .schedule import due_at, urgency, verify_by

register(Entry, name="triobot.payment")
register(PaymentNotice, name="triobot.PaymentNotice")
expect(Sender)

SHARED: Final[Mapping[AlarmKind, str]] = {
    "sweep_blind": "sweep",
    "token_or_chat_refused": "403",
    "foreign_payment": "foreign",
}
"""Keys of alarms that many payments may raise for the same cause; these payments share one alarm."""

_OWED: Final[tuple[AlarmKind, ...]] = (
    "captured_without_taker",
    "captured_but_parked",
    "handler_keeps_failing",
    "captured_not_fulfilled",
    "granted_before_maybe",
)
# For each state and fact: the alarms that are acknowledged automatically when a payment reaches the state or
# gets the fact.
_OVER: Final[Mapping[State | FactName, tuple[AlarmKind, ...]]] = {
    "verified": ("paid_maybe_unverified", "verify_refused", "paid_will_lapse", "lapsed_after_hint"),
    "settled": _OWED,
    "resolved": (*_OWED, "amount_mismatch", "button_still_live", "id_unknown"),
    "removed": ("button_still_live",),
    "invoice_adopted": ("id_unknown",),
}


def row_of(entry: Entry) -> PaymentRow:
    captured = entry.captured is not None and entry.verified_at is not None
    return PaymentRow(
        entry.id,
        entry.revision,
        entry.state,
        f"{entry.kind} {entry.currency}",
        entry.chat_id,
        entry.amount,
        entry.made_at,
        encode_value(entry),
        invoice_id=entry.invoice_id,
        due_at=due_at(entry),
        urgent=urgency(entry),
        captured=entry.captured if captured else None,
        captured_at=entry.verified_at if captured else None,
    )


def entry_of(row: PaymentRow) -> Entry:
    """Decode the entry of a row.

    Raises:
        UnreadableRecordError: the row is damaged, or another version of the bot wrote it.
    """
    try:
        if isinstance(entry := decode_value(row.record), Entry) and entry.id == row.id:
            return entry
        what = "it is a record of something else"
    except UnreadableRecordError as error:
        what = error.what
    raise UnreadableRecordError(f"the payment {row.id} is damaged, or another version's: {what}")


def writes_of(outcome: Moved | Impossible, now: int) -> Iterator[PutPayment | RaiseAlarm | AcknowledgeAlarms]:
    """Yield the writes of a move: the row, based on the revision that was read, and the alarms."""
    if isinstance(outcome, Impossible):
        what = f" ({outcome.entry.state}: {outcome.fact})"
        yield _alarm("impossible_transition", outcome.entry, now, what)
        return
    entry = outcome.entry
    # If no callback has claimed that the payment was paid, the store keeps only the last line of the
    # payment's history.
    folds = outcome.fact == "life_over" and entry.claimed_at is None
    yield PutPayment(row_of(entry), outcome.fact, now, folds)
    for kind in outcome.alarms:
        yield _alarm(kind, entry, now)
    over: tuple[AlarmKind, ...] = (
        *(_OVER.get(entry.state, ()) if entry.state != outcome.before.state else ()),
        *_OVER.get(outcome.fact, ()),
        *(("granted_before_maybe",) if outcome.before.held and not entry.held else ()),
        *(("paid_maybe_unverified",) if entry.clean and not outcome.before.clean else ()),
    )
    if over:
        yield AcknowledgeAlarms(over, entry.id, now)


def alarm_of(kind: AlarmKind, entry: Entry, what: str = "") -> Alarm:
    """Return an alarm about a payment.

    The alarm's text contains the amount, the event, the risk with its deadline, and the command to use.
    """
    money = f"{entry.amount:,} {entry.currency}"
    if kind == "amount_mismatch" and entry.captured is not None:
        money += f" asked for, {entry.captured:,} captured"
    if kind == "maybe_paid_again":
        what += _both(entry)
    text = f"payment {entry.id} of chat {entry.chat_id}, {money}: {text_of(kind, entry.id)}{what}"
    until = _back_from(kind, entry)
    if until is not None:
        text += f" What was paid may go back from {clock_time(until)} UTC on."
    return Alarm(kind, SHARED.get(kind, entry.id), text)


def _both(entry: Entry) -> str:
    """If two payments may have been captured, return a text with the times of both payments; otherwise
    return "".
    """
    known = [at for at in (entry.doubt_at, entry.verified_at, entry.hinted_at) if at is not None]
    if len(known) < 3 or entry.claims < 2:
        return ""
    lost, taken, said = map(clock_time, known)
    return (
        f" The verify of {lost} UTC, whose answer was lost, may have taken one payment, and another was "
        f"taken by {taken}; the last of {entry.claims} callbacks came at {said}."
    )


def _back_from(kind: AlarmKind, entry: Entry) -> int | None:
    """Return the first moment at which the platform may return the money."""
    match kind:
        case "paid_maybe_unverified" | "sweep_blind" | "verify_refused" | "token_or_chat_refused":
            return verify_by(entry)
        case "paid_will_lapse" | "callback_after_end" if entry.hinted_at is not None:
            return entry.hinted_at + WINDOW
        case _:
            return None


def clock_time(at: int) -> str:
    """Format a moment in UTC, for logs and people."""
    return dt.datetime.fromtimestamp(at / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M")


def _alarm(kind: AlarmKind, entry: Entry, now: int, what: str = "") -> RaiseAlarm:
    alarm = alarm_of(kind, entry, what)
    return RaiseAlarm(kind, alarm.key, alarm.text, now)


def numbered(entry: Entry) -> Entry:
    """Return a copy of a new entry, with revision 1."""
    return attrs.evolve(entry, revision=1)
