"""Facts: the events in a payment's life, as values; the ledger's table has a name for each.

The page `docs/ledger.md` has a sentence about each name.

Facts come from the outbox, the platform's callbacks, the answers to verify and inquiry, the conversation,
clocks, starts of the program, and operators.
"""

from __future__ import annotations

import secrets
from typing import Final, Literal, TypeAlias, assert_never, final

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
    "clock_set_back",
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
    "clock_set_forward",
]

NOT_ENOUGH: Final = 1000
TRY_AGAIN: Final = 1004
RETRY: Final = frozenset({NOT_ENOUGH, TRY_AGAIN})
USED: Final = 1003
REFUSED: Final = frozenset({1001, 1002})
FINAL: Final = REFUSED | {USED}
UNVERIFIED: Final = frozenset({1005, 1006})
UNTAKEN: Final = frozenset({NOT_ENOUGH, USED})
"""Codes that mean that no money left the wallet; after every other decline money may have left."""
LINGER: Final = 5 * 60 * 1_000
"""Time after the start of a verify without an answer; until then the verify may reach the platform."""
WINDOW: Final = 60 * 60 * 1_000
"""Time from a payment until the platform returns unverified money (interface section 1)."""
AT_ONCE: Final = 60 * 1_000
"""Within this time, money can't go back to the user and be paid again."""
AFTERLIFE: Final = 75 * 60 * 1_000
"""Time after which no paid payment is still uncaptured: an hour, and 15 minutes for clock differences."""


@final
@guarded
class Plain:
    """A fact without any value besides its name."""

    name: PlainName


@final
@guarded
class SendOk:
    """The platform accepted the send: a button's message, or an invoice's id.

    Attributes:
        twice: whether an earlier attempt may have arrived too.
    """

    message_id: MessageId | None = None
    invoice_id: InvoiceId | None = None
    twice: bool = False


@final
@guarded
class Adopted:
    """An unknown invoice id belongs to this entry: the platform names the entry's amount for the id."""

    invoice_id: InvoiceId


@final
@guarded
class Hint:
    """A callback: a positive or negative hint. Anyone who knows the webhook's address can send a callback.

    Attributes:
        code: a payCallback's code; None without a code.
        failed: whether the callback itself reports a failure, whatever its code means.
        chat_id, message_id: place of the pressed button, according to the callback.
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
class SetForward:
    """The time of day was set forward by `by` milliseconds, while the program ran."""

    by: int


AnswerWord: TypeAlias = Literal["verified", "error", "unknown", "400", "403"]


@final
@guarded
class PaymentAnswer:
    """Answer to a verify or inquiry. `amount` is set if the platform named it, and always for "verified"."""

    to: Literal["verify", "inquire"]
    word: AnswerWord
    amount: int | None = None


Fact: TypeAlias = Plain | SendOk | Adopted | Hint | PaymentAnswer | SetForward


def name_of(entry: Entry, fact: Fact, now: int) -> FactName:
    """Return the table's name of a fact that happens to an entry."""
    match fact:
        case Plain("restored") if entry.state in UNPAID and not entry.verifiable:
            return "restored_unnamed"
        case Plain(name):
            return name
        case SetForward():
            return "clock_set_forward"
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
    match answer.word:
        case "verified":
            return "verify_ok" if answer.amount == entry.amount else "verify_wrong"
        case "error":
            return "verify_error"
        case "unknown":
            return "verify_unknown"
        case "400":
            return "verify_400"
        case "403":
            return "verify_403"


def _inquired(entry: Entry, answer: PaymentAnswer, now: int) -> FactName:
    match answer.word:
        case "verified":
            if not _is_proof(entry, now):
                return "inquire_seen"
            return "inquire_ok" if answer.amount == entry.amount else "inquire_wrong"
        case "error" | "400" if entry.doubt_at is not None and now < entry.doubt_at + LINGER:
            return "inquire_early"
        case "error":
            return "inquire_error"
        case "unknown":
            return "inquire_unknown"
        case "400":
            return "inquire_400"
        case "403":
            return "inquire_403"


def _is_proof(entry: Entry, now: int) -> bool:
    """Return whether another "verified" of the inquiry proves a capture.

    The interface doesn't define whether "verified" means paid or captured. Suppose that a verify between two
    such answers said "error". Then the verify had nothing to capture, because the payment was captured. There
    is only one other explanation: the money went back before the verify, and the user paid again after the
    verify. The other explanation is possible only an hour after the payment was certainly unpaid, and only if
    there was time between the three answers.

    A payment whose taker is "nobody" isn't verified. But uncaptured money goes back to the user within the
    hour, so a "verified" after the hour (`AFTERLIFE`) also proves a capture.
    """
    if entry.seen_at is None:
        return False
    if not entry.wanted and now >= entry.seen_at + AFTERLIFE:
        return True
    if entry.verify_said != "error" or entry.asked_at is None:
        return False
    too_early = entry.asked_at + LINGER < unpaid_until(entry) + WINDOW
    return too_early or max(entry.asked_at - entry.seen_at, now - entry.asked_at) <= AT_ONCE


def unpaid_until(entry: Entry) -> int:
    """Return the last moment at which the payment was certainly unpaid."""
    known = [at for at in (entry.clean_at, entry.sent_at) if at is not None]
    return max(known, default=entry.made_at)


def new_ref_id() -> RefId:
    """Return a random number of 16 digits, the first between 1 and 8.

    The number is valid as base64 text, is alphanumeric, and is below 2**53. The digits come from the system's
    random generator, never from a row's number: after a restored backup, used numbers must not come again.
    """
    return as_ref_id(str(10**15 + secrets.randbelow(8 * 10**15)))
