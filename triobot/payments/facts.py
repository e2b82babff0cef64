"""Facts: the events in a payment's life, as values; each fact has a name in the ledger's table.

The page `docs/ledger.md` explains each name in a sentence.

Facts come from the outbox, the platform's callbacks, the answers to verify and inquiry, the conversation,
clocks, starts of the program, and operators.
"""

from __future__ import annotations

import secrets
from typing import Final, Literal, TypeAlias, assert_never, cast, final

import attrs

from ..base.frozen import guarded
from ..wire.events import Sender
from ..wire.ids import ChatId, InvoiceId, MessageId, RefId, as_ref_id
from .entry import UNPAID, Entry

PlainName: TypeAlias = Literal[
    "send_begun",
    "send_never_left",
    "send_refused",
    "send_unknown",
    "verify_begun",
    "removed",
    "remove_failed",
    "taker_gone",
    "delivered",
    "settled",
    "handler_failed",
    "no_handler",
    "hint_age_30min",
    "unchecked_20min",
    "unsettled_1day",
    "life_over",
    "restart",
    "restored",
    "stood_still",
    "parked",
    "operator_verify",
    "operator_redeliver",
    "operator_settled",
    "operator_resolved",
    "forgotten",
]
FactName: TypeAlias = Literal[
    PlainName,
    "send_ok",
    "invoice_adopted",
    "callback",
    "declined_retry",
    "declined_final",
    "verify_ok",
    "verify_wrong",
    "verify_error",
    "verify_unknown",
    "verify_400",
    "verify_403",
    "inquire_seen",
    "inquire_ok",
    "inquire_wrong",
    "inquire_error",
    "inquire_early",
    "inquire_unknown",
    "inquire_400",
    "inquire_403",
    "captured_before",
    "restored_unnamed",
    "clock_set",
]

NOT_ENOUGH: Final = 1000
TRY_AGAIN: Final = 1004
RETRY: Final = frozenset({NOT_ENOUGH, TRY_AGAIN})
USED: Final = 1003
REFUSED: Final = frozenset({1001, 1002})
FINAL: Final = REFUSED | {USED}
UNVERIFIED: Final = frozenset({1005, 1006})
UNTAKEN: Final = frozenset({NOT_ENOUGH, USED})
"""Codes that mean that no money left the wallet; after every other decline, money may have left the wallet.
"""
LINGER: Final = 5 * 60 * 1_000
"""Time after a verify's start in which a verify without an answer may still reach the platform."""
WINDOW: Final = 60 * 60 * 1_000
"""Time from a payment until the platform returns unverified money (interface section 1)."""
AFTERLIFE: Final = 75 * 60 * 1_000
"""Time after the last possible payment until uncaptured money has certainly gone back to the user: an hour,
and 15 minutes for clock differences.
"""
BUTTON_LIFE: Final = 24 * 60 * 60 * 1_000
"""Time in which users may press a button that possibly exists and can't be removed."""


@final
@guarded
class Plain:
    """A fact without any value besides its name."""

    name: PlainName


@final
@guarded
class SendOk:
    """The fact that the platform accepted a send, with the button's message id or the invoice's id.

    Attributes:
        twice: whether an earlier attempt may have arrived too.
    """

    message_id: MessageId | None = None
    invoice_id: InvoiceId | None = None
    twice: bool = False


@final
@guarded
class Adopted:
    """The lost id of this entry's invoice was found: the platform names the entry's amount for the id."""

    invoice_id: InvoiceId


@final
@guarded
class Hint:
    """A callback: a positive or negative hint. Anyone who knows the webhook's address can send a callback.

    Attributes:
        code: a payCallback's code; None without a code.
        failed: whether the callback itself reports a failure, whatever its code means.
        chat_id, message_id: chat and message of the pressed button, according to the callback.
        payer: user who pressed, according to the callback.
        charge_url: link for a top-up, according to the callback.
    """

    code: int | None
    chat_id: ChatId
    message_id: MessageId | None = None
    payer: Sender | None = attrs.field(default=None, repr=False)
    charge_url: str | None = attrs.field(default=None, repr=False)
    failed: bool = False


@final
@guarded
class ClockSet:
    """The time of day was set by `by` milliseconds: forward while the program ran, or back."""

    by: int


AnswerWord: TypeAlias = Literal["verified", "error", "unknown", "400", "403"]


@final
@guarded
class PaymentAnswer:
    """Answer to a verify or inquiry. `amount` is set if the platform named it, and always for "verified"."""

    to: Literal["verify", "inquire"]
    word: AnswerWord
    amount: int | None = None


Fact: TypeAlias = Plain | SendOk | Adopted | Hint | PaymentAnswer | ClockSet


def name_of(entry: Entry, fact: Fact, now: int) -> FactName:
    """Return a fact's name in the table. The name may depend on the entry."""
    match fact:
        case Plain("restored") if entry.state in UNPAID and not entry.verifiable:
            return "restored_unnamed"
        case Plain(name):
            return name
        case ClockSet():
            return "clock_set"
        case SendOk():
            return "send_ok"
        case Adopted():
            return "invoice_adopted"
        case Hint(code=code):
            return "declined_retry" if code in RETRY else "declined_final" if code in FINAL else "callback"
        case PaymentAnswer():
            said = _verified(entry, fact) if fact.to == "verify" else _inquired(entry, fact, now)
            found = entry.uncertain and said in ("verify_ok", "inquire_ok")
            return "captured_before" if found else said
        case _:
            assert_never(fact)


def _verified(entry: Entry, answer: PaymentAnswer) -> FactName:
    if answer.word == "verified":
        return "verify_ok" if answer.amount == entry.amount else "verify_wrong"
    return cast("FactName", f"verify_{answer.word}")


def _inquired(entry: Entry, answer: PaymentAnswer, now: int) -> FactName:
    match answer.word:
        case "verified":
            if not _is_proof(entry, now):
                return "inquire_seen"
            return "inquire_ok" if answer.amount == entry.amount else "inquire_wrong"
        case "error" | "400" if entry.doubt_at is not None and now < entry.doubt_at + LINGER:
            return "inquire_early"
        case word:
            return cast("FactName", f"inquire_{word}")


def _is_proof(entry: Entry, now: int) -> bool:
    """Return whether another "verified" of the inquiry proves a capture.

    The interface doesn't define whether "verified" means paid or captured. Suppose that a verify between two
    such answers said "error". Then the verify had nothing to capture. Either the payment was captured, or the
    money went back before the verify, and the user paid again after the verify. Uncaptured money goes back to
    the user an hour after the payment. So the second case is impossible if the verify was sent less than an
    hour after a moment at which no money waited. The "error" itself proves that no money waited. So a second
    "error" between such answers always completes the proof.

    A payment whose taker is "nobody" isn't verified. For such a payment, "verified" proves a capture once any
    uncaptured money has gone back and the user can't pay again. If the button can't be removed, a day of
    "verified" answers without a callback is the proof: nobody pays the same button every hour for a day.
    """
    if entry.seen_at is None:
        return False
    if entry.verify_said == "error" and entry.asked_at is not None:
        return entry.asked_at + LINGER < unpaid_until(entry) + WINDOW
    day = max(entry.seen_at, entry.claimed_at or 0) + BUTTON_LIFE
    return not entry.wanted and now >= (over_at(entry) or day)


def unpaid_until(entry: Entry) -> int:
    """Return the latest known moment at which no paid money waited for its capture."""
    known = [at for at in (entry.clean_at, entry.sent_at) if at is not None]
    return max(known, default=entry.made_at)


def over_at(entry: Entry) -> int | None:
    """Return when certainly no paid money waits for its capture any more, and the user can't pay.

    None while a conversation waits, or while the button exists.
    """
    gone = entry.expires_at if entry.kind == "invoice" else entry.gone_at
    if gone is None or entry.ended_at is None:
        return None
    # If the message was sent a second time after a lost answer, another button may exist, which can't be
    # removed.
    twice = BUTTON_LIFE if entry.lost and entry.kind == "button" else 0
    return max(gone, entry.ended_at, entry.claimed_at or 0) + AFTERLIFE + twice


def new_ref_id() -> RefId:
    """Return a random number of 16 digits, the first between 1 and 8.

    The number is valid as base64 text, is alphanumeric, and is below 2**53. The digits come from the system's
    random generator, never from a row's number: after a restored backup, used numbers must not come again.
    """
    return as_ref_id(str(10**15 + secrets.randbelow(8 * 10**15)))
