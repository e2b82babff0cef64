"""The failure classes, one row each."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_platform import bad_request, broken, forbidden, too_many, unknown, unreachable

from triobot.errors import DeliveryUnknownError, NotDeliveredError, RefusedError
from triobot.outbox.retry import Again, GiveUp, RetryRules, Suspect, Verdict, copy_for, judge
from triobot.seams.outbox import OnUnknown
from triobot.wire.operations import (
    AnswerCallback,
    CreateInvoice,
    DeleteMessage,
    EditMessage,
    InquirePayment,
    Operation,
    SendAction,
    SendMessage,
    VerifyPayment,
)

SEND = SendMessage(1, "hello")
EDIT = EditMessage(1, 2, "hello")
INVOICE = CreateInvoice(1, 1000, "tea")
VERIFY = VerifyPayment(1, "123")


def judged(operation: Operation[Any], error: Exception, **changes: Any) -> Verdict:
    facts: dict[str, Any] = {
        "on_unknown": OnUnknown.RESEND,
        "attempts": 1,
        "failing_for": 0.0,
        "doubtful": False,
        "rules": RetryRules(),
        "random": lambda: 0.5,
    }
    return judge(operation, error, **{**facts, **changes})


@pytest.mark.parametrize("operation", [SEND, EDIT, INVOICE, VERIFY, DeleteMessage(1, 2)])
@pytest.mark.parametrize("failure", [unreachable, too_many])
@pytest.mark.parametrize("on_unknown", OnUnknown)
def test_what_took_no_effect_is_tried_again(operation: Any, failure: Any, on_unknown: OnUnknown) -> None:
    assert judged(operation, failure(operation), on_unknown=on_unknown) == Again(0.5, False, False)


@pytest.mark.parametrize("failure", [unknown, broken])
def test_an_unknown_outcome_is_repeated_counted_or_told(failure: Any) -> None:
    for harmless in (EDIT, InquirePayment(1, "123")):
        for on_unknown in OnUnknown:
            verdict = judged(harmless, failure(harmless), on_unknown=on_unknown)
            assert verdict == Again(0.5, possible_repeat=False, unknown=True)
    assert judged(SEND, failure(SEND)) == Again(0.5, possible_repeat=True, unknown=True)
    for verdict in (
        judged(SEND, failure(SEND), on_unknown=OnUnknown.RAISE),
        judged(INVOICE, failure(INVOICE)),
        judged(VERIFY, failure(VERIFY)),
    ):
        assert isinstance(verdict, GiveUp) and isinstance(verdict.error, DeliveryUnknownError)


@pytest.mark.parametrize("operation", [SEND, EDIT, INVOICE, VERIFY])
def test_refusals_are_final_or_the_breakers(operation: Any) -> None:
    error = forbidden(operation)
    assert judged(operation, error) == Suspect(error)
    for status in (400, 404, 409, 413):
        refusal = RefusedError(operation.path, status)
        assert judged(operation, refusal) == GiveUp(refusal)
    wrong = bad_request(operation)
    assert judged(operation, wrong) == GiveUp(wrong)


@pytest.mark.parametrize("operation", [SendAction(1), AnswerCallback(1, "c")])
@pytest.mark.parametrize("failure", [unreachable, unknown, broken, too_many, forbidden])
def test_typing_and_answers_are_never_tried_again(operation: Any, failure: Any) -> None:
    error = failure(operation)
    assert judged(operation, error) == GiveUp(error)


def test_pauses_double_up_to_a_bound_with_jitter() -> None:
    pauses = [judged(SEND, unreachable(SEND), attempts=attempts) for attempts in range(1, 9)]
    assert [again.pause for again in pauses if isinstance(again, Again)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    for draw, pause in ((0.0, 1.0), (0.999, 2.998)):
        again = judged(SEND, unreachable(SEND), attempts=3, random=lambda draw=draw: draw)
        assert isinstance(again, Again) and again.pause == pytest.approx(pause)
    assert isinstance(judged(SEND, unreachable(SEND), attempts=10_000), Again)


def test_patience_ends_with_the_honest_error() -> None:
    error = unreachable(SEND)
    assert judged(SEND, error, failing_for=3600.0) == GiveUp(error)
    verdict = judged(SEND, error, failing_for=3600.0, doubtful=True)
    assert isinstance(verdict, GiveUp) and isinstance(verdict.error, DeliveryUnknownError)
    assert verdict.error.__cause__ is error
    assert judged(VERIFY, error, failing_for=30.0) == GiveUp(error), "the ledger has its own schedule"


def test_a_copied_error_says_the_same() -> None:
    error = RefusedError("sendMessage", 418, "short and stout", "t-1")
    error.__cause__ = ValueError("why")
    copied = copy_for(error)
    assert isinstance(copied, RefusedError) and copied is not error
    assert (str(copied), copied.__cause__) == (str(error), error.__cause__)
    assert isinstance(copy_for(NotDeliveredError("sendMessage", "closed")), NotDeliveredError)
