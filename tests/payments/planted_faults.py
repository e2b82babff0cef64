"""Mistakes that the simulation has to find: each is a plausible ledger, wrong in one law."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal, get_args
from unittest import mock

import attrs

from triobot.payments import examiner, facts, ledger
from triobot.payments.entry import Entry
from triobot.payments.facts import PaymentAnswer, Plain
from triobot.payments.table import INDEX, Due, Transition

Fault = Literal[
    "no_inquiry",
    "no_intent",
    "delivered_is_settled",
    "wrong_amount_is_right",
    "inquiry_is_proof",
    "captured_is_verified_again",
    "unwanted_is_verified",
    "taken_away_is_given",
    "restored_is_given",
    "who_waits_has_it",
    "failed_is_settled",
    "given_before_it_ends",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)


@contextmanager
def planted(fault: Fault | None) -> Generator[None]:
    """Run the block with this mistake in the code."""
    match fault:
        case None:
            yield
        case "no_inquiry":
            with mock.patch.object(examiner, "_examine", _without_inquiry):
                yield
        case "no_intent":
            with mock.patch.object(examiner, "_examine", _without_intent):
                yield
        case "delivered_is_settled":
            with _row("verified", "delivered", next="settled"):
                yield
        case "wrong_amount_is_right":
            with mock.patch.object(facts, "_verified", lambda entry, answer: _right(answer)):
                yield
        case "inquiry_is_proof":
            with mock.patch.object(facts, "_is_proof", lambda entry, now: True):
                yield
        case "captured_is_verified_again":
            with _row("settled", "callback", next="check", due=(Due("verify"),)):
                yield
        case "unwanted_is_verified":
            with mock.patch.object(ledger, "_taker", _somebody):
                yield
        case "taken_away_is_given":
            with mock.patch.object(Entry, "may_be_given", lambda entry, *, uncertain: not entry.held):
                yield
        case "restored_is_given":
            with mock.patch.object(Entry, "may_be_given", lambda entry, *, uncertain: True):
                yield
        case "who_waits_has_it":
            with _row("verifying", "verify_ok", taker=None):
                yield
        case "failed_is_settled":
            with _row("delivered", "handler_failed", next="settled", due=()):
                yield
        case "given_before_it_ends":
            with mock.patch.object(Entry, "ending", property(_as_soon_as_it_begins)):
                yield


@contextmanager
def _row(state: Any, fact: Any, **changes: Any) -> Generator[None]:
    row = INDEX[state, fact]
    changed = attrs.evolve(row, **changes)
    assert isinstance(changed, Transition)
    with mock.patch.dict(INDEX, {(state, fact): changed}):
        yield


async def _without_inquiry(entry: Any, entries: Any, hands: Any) -> None:
    """Believe what verify says: anything but a yes is a no."""
    begun = await entries.move(entry.id, Plain("verify_begun"), may_fail=True)
    if begun is None:
        return
    verified = await hands.ask(begun.entry, "verify")
    if verified.word == "verified":
        await entries.move(entry.id, verified)
    else:
        await entries.move(entry.id, PaymentAnswer("verify", "error"), PaymentAnswer("inquire", "error"))


async def _without_intent(entry: Any, entries: Any, hands: Any) -> None:
    """Verify first, and write it down when the answer is there."""
    hands.intends = False
    verified = await hands.ask(entry, "verify")
    facts_: list[Any] = [Plain("verify_begun"), verified]
    if verified.word != "verified":
        facts_.append(await hands.ask(entry, "inquire"))
    await entries.move(entry.id, *facts_, may_fail=True)


def _as_soon_as_it_begins(entry: Any) -> str | None:
    """Tell the charge that waits too early."""
    return "given" if entry.state in ("delivered", "settled") else None


def _somebody(entry: Any, row: Any) -> str:
    """Late money is taken whatever the author said."""
    return entry.taker if row.taker is None else "handler"


def _right(answer: PaymentAnswer) -> str:
    return {"verified": "verify_ok", "unknown": "verify_unknown", "error": "verify_error"}.get(
        answer.word, f"verify_{answer.word}"
    )
