"""Entries and facts for the tests of the ledger."""

from __future__ import annotations

import attrs
from hypothesis import strategies as st

from triobot.payments.entry import Entry
from triobot.payments.facts import Adopted, Fact, Hint, PaymentAnswer, Plain, SendOk
from triobot.payments.ledger import Moved, move
from triobot.wire.ids import ChatId, InvoiceId, MessageId, RefId

START = 1_700_000_000_000
MINUTE = 60_000
DAY = 24 * 60 * MINUTE

PRICE = 250_000


def button(**changes: object) -> Entry:
    """A payment button that a conversation is about to send."""
    entry = Entry(
        id=RefId("1234567890123456"),
        kind="button",
        chat_id=ChatId(1001),
        amount=PRICE,
        currency="IRR",
        item="[1, null]",
        text="Pizza",
        owner="7/3",
        taker="conversation",
        late="handler",
        made_at=START,
        expires_at=START + DAY,
    )
    return attrs.evolve(entry, **changes)  # type: ignore[arg-type]


def invoice(**changes: object) -> Entry:
    """An invoice that a conversation is about to send."""
    return button(**{"kind": "invoice", **changes})


def after(entry: Entry, *facts: Fact | str, at: int = START) -> Entry:
    """The entry after these facts; names stand for plain ones, and for answers with the right amount."""
    for given in facts:
        outcome = move(entry, fact(given), at)
        assert isinstance(outcome, Moved), (entry.state, given)
        entry = outcome.entry
    return entry


def fact(given: Fact | str) -> Fact:
    """A fact by a short name, such as ``verify_ok``, ``1003`` or ``callback``."""
    if not isinstance(given, str):
        return given
    if given == "callback" or given.isdigit():
        return Hint(None if given == "callback" else int(given), ChatId(1001), MessageId(5))
    if given == "send_ok":
        return SendOk(message_id=MessageId(5))
    if given == "created":
        return SendOk(invoice_id=InvoiceId("i-1"))
    asked, _, word = given.partition("_")
    answers: dict[str, Fact] = {
        "ok": PaymentAnswer(asked, "verified", PRICE),  # type: ignore[arg-type]
        "wrong": PaymentAnswer(asked, "verified", PRICE + 1),  # type: ignore[arg-type]
        "error": PaymentAnswer(asked, "error"),  # type: ignore[arg-type]
        "unknown": PaymentAnswer(asked, "unknown"),  # type: ignore[arg-type]
        "400": PaymentAnswer(asked, "400"),  # type: ignore[arg-type]
        "403": PaymentAnswer(asked, "403"),  # type: ignore[arg-type]
    }
    if asked in ("verify", "inquire") and word in answers:
        return answers[word]
    return Plain(given)  # type: ignore[arg-type]


ANY_FACT = st.sampled_from(
    [
        *("send_begun", "send_ok", "send_never_left", "send_refused", "send_unknown", "created"),
        *("callback", "1000", "1001", "1003", "1004", "1005", "77"),
        "verify_begun",
        *(f"{to}_{word}" for to in ("verify", "inquire") for word in ("ok", "wrong", "error", "unknown")),
        *("verify_400", "verify_403", "inquire_400", "inquire_403"),
        *("removed", "remove_failed", "taker_gone", "delivered", "settled", "handler_failed", "no_handler"),
        *("parked_10min", "hint_age_30min", "unchecked_20min", "unsettled_1day", "life_over", "restart"),
        *("restored", "operator_verify", "operator_redeliver", "operator_settled", "operator_resolved"),
        "forgotten",
    ]
).map(fact) | st.just(Adopted(InvoiceId("i-9")))
