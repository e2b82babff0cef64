"""The ledger: what becomes of a payment, whatever happens to it and in whatever order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from payments_rig import ANY_FACT, MINUTE, PRICE, START, after, button, fact, invoice

from tests.payments.drawing import alarms, page
from tests.payments.table_words import FACTS, OUTCOMES, WHEN
from tests.samples import examples
from triobot.base.alarm_kinds import ABOUT, AlarmKind
from triobot.payments import schedule
from triobot.payments.entry import CAPTURED, ENDED, STATES, Entry
from triobot.payments.facts import Adopted, Hint, PaymentAnswer, SendOk
from triobot.payments.ledger import Impossible, Moved, Notice, move
from triobot.payments.table import TABLE
from triobot.wire.ids import ChatId, InvoiceId, MessageId

ENTRIES = st.builds(
    lambda make, late: make(late=late),
    st.sampled_from([button, invoice]),
    st.sampled_from(["handler", "nobody"]),
)
STEPS = st.lists(
    st.tuples(ANY_FACT, st.sampled_from([0, 1_000, MINUTE, 25 * MINUTE, 90 * MINUTE])), max_size=40
)


def told(entry: Entry, name: str, at: int = START) -> Moved:
    outcome = move(entry, fact(name), at)
    assert isinstance(outcome, Moved)
    return outcome


# --- whatever happens


@settings(max_examples=examples(200), deadline=None)
@given(entry=ENTRIES, steps=STEPS)
def test_no_order_of_events_breaks_a_law(entry: Entry, steps: list[tuple[object, int]]) -> None:
    """Captured is never verified again, error is never believed alone, and what ends has been watched."""
    now, clear = START, False
    for what, pause in steps:
        now += pause
        before, outcome = entry, move(entry, what, now)  # type: ignore[arg-type]
        if isinstance(outcome, Impossible):
            assert outcome.entry == before
            continue
        entry = outcome.entry
        assert entry.revision == before.revision + 1
        assert (entry.id, entry.amount, entry.currency) == (before.id, before.amount, before.currency)
        assert entry.item == before.item or outcome.fact == "forgotten"
        if before.state in CAPTURED:
            assert entry.state in (*CAPTURED, "resolved")
            assert entry.captured == before.captured
        if before.settled_at is not None and entry.state == "settled":
            assert entry.settled_at == before.settled_at
        if entry.state in (*CAPTURED, *ENDED) or not (entry.wanted and entry.verifiable):
            assert "verify" not in outcome.due
            assert entry.check_at is None or entry.state == "verifying"
            assert not (entry.state == "verifying" and entry.check_at is not None and entry.ask == "verify")
        if entry.state == "verified" and before.state == "verifying":
            assert entry.captured == entry.amount
            assert outcome.fact == "verify_ok" or before.seen_at is not None
        if before.state == "verifying" and entry.state == "check":
            assert isinstance(what, PaymentAnswer)
            assert what.to == "inquire"
        if entry.state == "lapsed" and before.state != "lapsed":
            assert before.ended_at is not None
            assert outcome.fact == "life_over"
        if outcome.notice is not None:
            assert before.taker == "conversation"
        clear = clear or entry.clean
        if entry.state in ("open", "unsure", "check", "closing") and entry.wanted and entry.verifiable:
            # Whoever reads it after a crash looks at it again in time.
            assert entry.check_at is not None or entry.sent_at is None
            assert entry.check_at is None or entry.check_at <= now + schedule.SWEEP


@settings(max_examples=examples(100), deadline=None)
@given(entry=ENTRIES, steps=STEPS)
def test_a_start_takes_every_entry_further(entry: Entry, steps: list[tuple[object, int]]) -> None:
    """A crash after any move: the start finds a row for it, and what was due is due again."""
    now = START
    for what, pause in steps:
        now += pause
        outcome = move(entry, what, now)  # type: ignore[arg-type]
        if isinstance(outcome, Moved):
            entry = outcome.entry
        again = told(entry, "restart", now).entry
        if entry.state in ("verifying", "verified", "delivered"):
            assert schedule.due_at(again) is not None
        told(entry, "restored", now)


def test_the_table_is_whole() -> None:
    """No state, fact, condition or outcome is without a row, and each kind of alarm is explained."""
    assert {state for row in TABLE for state in row.states} == set(STATES)
    assert {fact for row in TABLE for fact in row.facts} == set(FACTS)
    assert {one.when for row in TABLE for one in (*row.due, *row.tell)} == set(WHEN)
    assert {row.outcome for row in TABLE} - {None} == set(OUTCOMES)
    assert {one.kind for row in TABLE for one in row.tell} <= set(ABOUT)
    assert set(ABOUT) == set(get_args(AlarmKind))


def test_the_page_is_drawn_from_the_rows() -> None:
    """`python -m tests.payments.drawing > docs/ledger.md` after a change; with `alarms` the other one."""
    assert (Path(__file__).parents[2] / "docs" / "alarms.md").read_text(encoding="utf-8") == alarms()
    assert (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8") == page()


# --- one by one


def test_paid_in_the_chat() -> None:
    """Sent, said to be paid, verified, delivered, settled."""
    entry = after(button(), "send_begun", "send_ok", "callback")
    assert (entry.state, entry.check_at) == ("check", START)

    paid = told(after(entry, "verify_begun"), "verify_ok")
    assert paid.notice == Notice("paid", captured=PRICE)
    assert set(paid.due) == {"deliver", "remove"}
    assert (paid.entry.taker, paid.entry.deliver_at, paid.entry.ending) == ("handler", START, None)
    had = after(paid.entry, "delivered")
    assert (had.state, had.ending) == ("delivered", None)
    given = after(had, "settled")
    assert (given.state, given.ending) == ("settled", "given")


def test_error_is_not_believed_before_an_inquiry() -> None:
    """The answer to a verify that captured may have been lost: then only the inquiry knows."""
    entry = after(button(), "send_begun", "send_ok", "callback", "verify_begun", "verify_error")

    assert (entry.state, entry.ask) == ("verifying", "inquire")
    assert after(entry, "inquire_error").state == "check"


def test_an_inquiry_alone_grants_nothing() -> None:
    """Its "verified" may mean paid: a verify in between must have had nothing to capture."""
    entry = after(button(), "send_begun", "send_ok", "callback", "verify_begun", "verify_unknown")
    seen = told(entry, "inquire_ok")
    assert (seen.entry.state, seen.entry.ask) == ("verifying", "verify")

    assert after(seen.entry, "verify_begun", "verify_ok").state == "verified"
    again = after(seen.entry, "verify_begun", "verify_unknown")
    assert after(again, "inquire_ok").state == "verifying"
    again = after(seen.entry, "verify_begun", "verify_error")
    assert after(again, "inquire_ok").state == "verified"


@pytest.mark.parametrize(
    ("seen_at", "error_at", "again_at", "state"),
    [
        (10, 50, 59, "verified"),  # the hour isn't over: it can't have gone back
        (10, 66, 77, "verifying"),  # it may have gone back, and was paid once more
        (10, 12, 12, "verified"),
        (10, 66, 66, "verifying"),
        (66, 66, 66, "verifying"),  # paid, gone back and paid once more within a moment
    ],
)
def test_who_pays_once_more_after_the_refund_has_not_been_captured(
    seen_at: int, error_at: int, again_at: int, state: str
) -> None:
    """A "verified" of the inquiry on both sides of an error is proof only if no refund fits between them."""
    entry = after(button(), "send_begun", "send_ok", "callback", "verify_begun", "verify_unknown")
    entry = after(entry, "inquire_ok", at=START + seen_at * MINUTE)
    entry = after(entry, "verify_begun", "verify_error", at=START + error_at * MINUTE)
    entry = after(entry, "inquire_ok", at=START + again_at * MINUTE)
    assert entry.state == state
    if state == "verifying":
        assert (entry.ask, entry.check_at) == ("verify", START + again_at * MINUTE)
        # The first error shows that nothing waited: what was paid since can't have gone back within its hour.
        in_time = after(entry, "verify_begun", "verify_error", at=START + (error_at + 54) * MINUTE)
        assert after(in_time, "inquire_ok", at=START + 300 * MINUTE).state == "verified"
        late = after(entry, "verify_begun", "verify_error", at=START + (error_at + 56) * MINUTE)
        assert after(late, "inquire_ok", at=START + (error_at + 56) * MINUTE).state == "verifying"


@pytest.mark.parametrize("lost", [False, True])
def test_late_money_is_known_to_be_taken_once_nothing_can_be_paid(lost: bool) -> None:
    """Until then somebody may pay again and again, and an inquiry may see each of the payments."""
    entry = attrs.evolve(after(button(late="nobody"), "send_begun", "send_ok"), lost=lost)
    entry = after(entry, "verify_begun", "taker_gone", "verify_unknown", "inquire_unknown")
    assert entry.taker == "nobody"
    entry = after(entry, "inquire_ok", at=START + MINUTE)
    entry = after(entry, "inquire_ok", at=START + 90 * MINUTE)
    assert entry.state == "verifying"
    assert after(entry, "inquire_ok", at=START + 24 * 60 * MINUTE).state == "verifying"
    assert after(entry, "inquire_ok", at=START + (24 * 60 + 1) * MINUTE).state == "verified"
    entry = after(entry, "removed", at=START + 90 * MINUTE)
    over = START + (90 + 75 + (24 * 60 if lost else 0)) * MINUTE
    entry = after(entry, "inquire_ok", at=over - 1)
    assert entry.state == "verifying"
    assert after(entry, "inquire_ok", at=over).state == "verified"


def test_a_decline_is_believed_after_an_examination_that_began_behind_it() -> None:
    """Declined while a verify is on its way: that one began too early."""
    entry = after(button(), "send_begun", "send_ok", "callback", "verify_begun", "1003", "verify_error")
    early = told(entry, "inquire_error")
    assert early.notice is None
    assert "verify" in early.due

    late = told(after(early.entry, "verify_begun", "verify_error"), "inquire_error")
    assert late.notice == Notice("retry", 1003)


@pytest.mark.parametrize("code", [1001, 1003, 1005, 1006])
def test_who_did_not_pay_is_told_once_it_is_certain(code: int) -> None:
    """1001: for good. Else that the button can be pressed again; once, and not if a claim comes behind it."""
    hinted = told(after(button(), "send_begun", "send_ok"), str(code))
    assert hinted.notice is None
    asked = after(hinted.entry, "verify_begun", "verify_error")
    clean = told(asked, "inquire_error")
    assert clean.notice is not None
    assert (clean.notice.outcome, clean.notice.code) == ("declined" if code == 1001 else "retry", code)
    assert told(after(clean.entry, "verify_begun", "verify_error"), "inquire_error").notice is None
    later = after(hinted.entry, "callback", "verify_begun", "verify_error")
    assert told(later, "inquire_error").notice is None
    paid = told(after(hinted.entry, "verify_begun"), "verify_ok").notice
    assert paid is not None and paid.outcome == "paid"


@pytest.mark.parametrize("code", [None, 77])
def test_a_failure_that_says_so_needs_no_code_that_we_know(code: int | None) -> None:
    """Unless it says that it failed, it may be a success."""
    sent = after(button(), "send_begun", "send_ok")
    for failed in (True, False):
        hint = Hint(code, ChatId(1001), MessageId(5), failed=failed)
        asked = after(sent, hint, "verify_begun", "verify_error")
        assert (told(asked, "inquire_error").notice is not None) is failed


def test_who_presses_a_paid_button_again_rings_no_alarm() -> None:
    """The platform takes no second payment; but a used number that nobody said was paid is our mistake."""
    open_ = after(button(), "send_begun", "send_ok")
    paid, asked = after(open_, "callback"), after(open_, "callback", "verify_begun")
    for entry in (paid, asked):
        assert told(entry, "1003").alarms == ()
        assert told(entry, "1001").alarms == ("declined_by_code",)
    assert told(open_, "1003").alarms == ("declined_by_code",)


@pytest.mark.parametrize("code", [1000, 1003])
def test_a_no_from_elsewhere_is_only_looked_into(code: int) -> None:
    """Somebody forwarded the button, or knows its number and nothing else."""
    entry = after(button(), "send_begun", "send_ok")
    other, same = Hint(code, ChatId(7), MessageId(5)), Hint(code, ChatId(1001), MessageId(5))
    for hint, heard in ((other, False), (attrs.evolve(same, message_id=MessageId(6)), False), (same, True)):
        hinted = move(entry, hint, START)
        assert isinstance(hinted, Moved)
        assert "verify" in hinted.due
        told_ = told(after(hinted.entry, "verify_begun", "verify_error"), "inquire_error")
        assert bool(hinted.notice or told_.notice) is heard
    unsure = after(button(), "send_begun", "send_unknown")
    assert after(unsure, other).message_id is None
    assert after(unsure, same).message_id == MessageId(5)
    # The answer to the first send was lost, and it was sent again: two buttons, one number.
    twice = attrs.evolve(entry, lost=True)
    hinted = move(twice, Hint(1000, ChatId(1001), MessageId(4)), START)
    assert isinstance(hinted, Moved)
    assert hinted.notice is not None


@pytest.mark.parametrize("answer", ["unknown", "403"])
def test_a_decline_waits_for_a_clear_answer(answer: str) -> None:
    """No answer that can't be read decides anything."""
    entry = after(button(), "send_begun", "send_ok", "1003", "verify_begun", f"verify_{answer}")

    assert told(entry, "inquire_error").notice is None


def test_what_nobody_wants_goes_back_by_itself() -> None:
    """``late="refund"``: not verifying is the only refund there is, so a late callback only alarms."""
    gone = after(button(late="nobody"), "send_begun", "send_ok", "taker_gone", "removed")
    assert (gone.taker, gone.check_at) == ("handler", START)
    entry = after(gone, "verify_begun", "verify_error", "inquire_error")
    late = told(entry, "callback", START + MINUTE)

    assert late.alarms == ("paid_will_lapse",)
    assert late.entry.check_at is None
    assert isinstance(move(late.entry, fact("verify_begun"), START + MINUTE), Impossible)


def test_a_second_payment_is_left_to_go_back() -> None:
    """Verifying would capture it."""
    entry = after(
        button(), "send_begun", "send_ok", "callback", "verify_begun", "verify_ok", "delivered", "settled"
    )
    same = told(entry, "callback", START + MINUTE)
    later = told(entry, "callback", START + 11 * MINUTE)
    elsewhere = move(entry, Hint(None, ChatId(1001), MessageId(6)), START)

    assert (same.due, same.alarms) == ((), ())
    assert (later.due, later.alarms) == ((), ("maybe_paid_again",))
    assert isinstance(elsewhere, Moved)
    assert elsewhere.alarms == ("maybe_paid_again",)


def test_a_second_word_of_a_payment_is_told_where_a_first_one_may_have_been_captured() -> None:
    """The answer to a verify was lost, and it may have captured what came before: then it is no double."""
    sent = after(button(), "send_begun", "send_ok", "callback", "verify_begun")
    sure, doubtful = after(sent, "verify_ok"), after(sent, "verify_unknown", "inquire_early")
    doubtful = after(doubtful, "verify_begun", "verify_ok")

    assert told(sure, "callback", START + MINUTE).alarms == ()
    assert told(doubtful, "callback", START + MINUTE).alarms == ("maybe_paid_again",)
    # Found by the sweep, its own callback comes last.
    late = after(button(), "send_begun", "send_ok", "verify_begun", "verify_unknown", "inquire_early")
    found = after(late, "verify_begun", "verify_ok")
    first = told(found, "callback", START + MINUTE)
    assert first.alarms == ()
    assert told(first.entry, "callback", START + MINUTE).alarms == ("maybe_paid_again",)


@pytest.mark.parametrize("end", ["verify_ok", "taker_gone"])
def test_a_button_that_is_shown_once_more_goes_too(end: str) -> None:
    """The answer to a send was lost, and its callback told where it is; so the second one comes after it."""
    sent = after(button(), "send_begun", "callback", "verify_begun", end)
    gone = after(sent, "removed")
    assert gone.gone_at is not None
    again = move(gone, SendOk(MessageId(6), twice=True), START)
    assert isinstance(again, Moved)
    assert again.due == ("remove",)
    assert (again.entry.message_id, again.entry.gone_at) == (MessageId(6), None)
    # The same one, told once more, is gone.
    same = told(gone, "send_ok")
    assert (same.due, same.entry.gone_at) == ((), gone.gone_at)


def test_news_that_a_later_fact_has_overtaken_is_no_news() -> None:
    """A decline that nobody has read yet, and then a callback that says the payment was made."""
    failed = after(button(), "send_begun", "send_ok", "1001", "verify_begun", "verify_error", "inquire_error")
    assert failed.news == Notice("declined", 1001)
    claimed = after(failed, "callback")
    assert claimed.news is None
    assert after(claimed, "verify_begun", "verify_ok").news == Notice("paid", captured=PRICE)


def test_an_invoice_without_a_number_is_adopted() -> None:
    """Also once its conversation, which was told at once, has ended."""
    lost = told(after(invoice(), "send_begun"), "send_unknown")
    assert lost.notice is None
    assert lost.alarms == ("id_unknown",)
    closing = after(lost.entry, "taker_gone")
    assert closing.check_at is None

    adopted = move(closing, Adopted(InvoiceId("i-9")), START)
    assert isinstance(adopted, Moved)
    assert (adopted.entry.state, adopted.entry.taker, adopted.entry.check_at) == ("check", "handler", START)
    assert isinstance(move(adopted.entry, Adopted(InvoiceId("i-9")), START), Impossible)


@pytest.mark.parametrize("late", ["handler", "nobody"])
@pytest.mark.parametrize("gone", [(), ("taker_gone",)])
def test_captured_money_is_the_asides_whoever_waits(late: Any, gone: tuple[str, ...]) -> None:
    """Also what was to go back, if the verify was on its way when its conversation went."""
    asked = after(button(late=late), "send_begun", "send_ok", "callback", "verify_begun")
    paid = told(after(asked, *gone), "verify_ok")

    assert (paid.entry.state, paid.entry.taker, paid.entry.redelivered) == ("verified", "handler", False)
    assert paid.entry.deliver_at == START
    assert (paid.notice is None) == bool(gone)
    # And its conversation has nothing to give up any more.
    assert isinstance(move(paid.entry, fact("taker_gone"), START), Impossible)


@pytest.mark.parametrize(
    "facts",
    [
        ("delivered", "handler_failed"),
        ("delivered", "handler_failed", "delivered"),
        ("no_handler",),
        ("operator_settled",),
        ("delivered", "operator_settled"),
        ("delivered", "operator_resolved"),
        ("delivered", "operator_redeliver"),
        ("restored",),
    ],
)
def test_who_waits_for_the_goods_hears_that_they_come_otherwise(facts: tuple[str, ...]) -> None:
    """The aside gets the money again, or an operator has it; what comes of that is told to nobody."""
    entry = after(button(), "send_begun", "send_ok", "callback", "verify_begun", "verify_ok")
    notices: list[Notice | None] = []
    for one in facts:
        moved = told(entry, one)
        entry = moved.entry
        notices.append(moved.notice)
    assert entry.ending == "handed_over"
    assert Notice("handed_over", captured=PRICE) in [
        notice and attrs.evolve(notice, revision=0) for notice in notices
    ]
    if entry.state == "delivered":
        assert after(entry, "settled").ending == "given"


def test_an_aside_that_keeps_failing_is_given_up_with_an_alarm() -> None:
    """Ever later; after five times it is an operator's."""
    entry = after(button(), "send_begun", "send_ok", "callback", "verify_begun", "verify_ok")
    pauses: list[int | None] = []
    alarms: list[str] = []
    for _ in range(5):
        failed = told(after(entry, "delivered"), "handler_failed")
        entry = failed.entry
        pauses.append(entry.deliver_at and entry.deliver_at - START)
        alarms += failed.alarms
    assert pauses == [2_000, 30_000, 300_000, 3_600_000, None]
    assert alarms == ["handler_keeps_failing"]
    assert after(entry, "operator_redeliver").deliver_at == START


def test_a_button_that_stays_is_watched_for_ever() -> None:
    """A payment is watched until 75 minutes after its button has gone."""
    entry = after(button(), "send_begun", "send_ok", "taker_gone", "remove_failed")
    assert all(clock != "life_over" for _, clock in [schedule.due(entry) or (0, "")])

    gone = after(entry, "removed", at=START + MINUTE)
    assert (schedule.due(gone) or (0, "")) <= (START + 76 * MINUTE, "life_over")
    ends = schedule.due(after(gone, "verify_begun", "verify_error", "inquire_error", at=START + 70 * MINUTE))
    assert ends == (START + 76 * MINUTE, "life_over")


def test_a_late_callback_leaves_less_time() -> None:
    """A warning counts from the last moment at which it was certainly not paid."""
    entry = after(button(), "send_begun", "send_ok")
    late = after(entry, "callback", at=START + 50 * MINUTE)

    assert schedule.verify_by(late) == START + 60 * MINUTE
    warned = after(late, "unchecked_20min", at=START + 50 * MINUTE)
    assert schedule.due(warned) == (START + 51 * MINUTE, "hint_age_30min")


def test_the_schedule_after_a_callback() -> None:
    """At once, after 2 s, 10 s, a minute, five minutes; then with the sweep."""
    entry = after(button(), "send_begun", "send_ok", "callback")
    pauses: list[int] = []
    for _ in range(6):
        entry = after(entry, "verify_begun", "verify_error", "inquire_error")
        pauses.append((entry.check_at or 0) - START)

    assert pauses == [2_000, 10_000, 60_000, 300_000, schedule.SWEEP, schedule.SWEEP]


@pytest.mark.parametrize("hint", ["callback", "1000", "1001", "1003", "1005"])
def test_a_callback_waits_for_no_pause(hint: str) -> None:
    """While the outcome of a verify is unknown, it is asked about at once: who has paid waits for that."""
    silent = after(button(), "send_begun", "send_ok", "callback", "verify_begun", "verify_unknown")
    for _ in range(9):
        silent = after(silent, "inquire_unknown")
    assert silent.check_at == START + schedule.UNCLEAR
    hinted = told(silent, hint, START + MINUTE)
    assert "inquire" in hinted.due
    assert (hinted.entry.state, hinted.entry.ask) == ("verifying", "inquire")
    assert hinted.entry.check_at == START + MINUTE
    # Nor for another, once that has an answer; and a payment that nobody wants is only asked about.
    assert after(hinted.entry, "inquire_error", at=START + 6 * MINUTE).check_at == START + 6 * MINUTE
    unwanted = told(attrs.evolve(silent, taker="nobody"), hint, START + MINUTE)
    assert (unwanted.entry.ask, unwanted.entry.check_at) == ("inquire", START + MINUTE)


def test_callbacks_keep_no_verify_from_its_turn() -> None:
    """Whoever knows a payment's number may post as many as they like."""
    lost = after(button(), "send_begun", "send_ok", "callback", "verify_begun", "verify_unknown")
    early = after(lost, "inquire_error", "callback")

    assert (early.state, early.ask, early.check_at) == ("verifying", "verify", START)


@pytest.mark.parametrize("inquiry", ["inquire_error", "inquire_ok", "inquire_unknown"])
def test_a_start_spends_no_try_and_keeps_a_verify_s_turn(inquiry: str) -> None:
    """Killed in each verify, or deployed before each next one: the goods wait for the last pause alone."""
    lost = after(button(), "send_begun", "send_ok", "callback", "verify_begun")
    for second in range(50):
        asked = after(lost, "restart", at=START + second)
        assert (asked.ask, asked.check_at, asked.tries) == ("inquire", START + second, 0)
        lost = after(asked, "inquire_ok", "verify_begun", at=START + second)
    for _ in range(9):
        lost = after(lost, "inquire_unknown")
    late = after(lost, inquiry)
    asked = after(late, "restart", at=START + 1_000)
    assert (asked.ask, asked.check_at) == (late.ask, START + 1_000)
    assert asked.tries == late.tries - 1


def test_a_verify_that_was_answered_is_in_no_doubt_after_a_start() -> None:
    """Its answer is in the row; only one that a kill has cut may have captured without a word."""
    begun = after(button(), "send_begun", "send_ok", "callback", "verify_begun")
    assert after(begun, "restart", at=START + 1).doubt_at == START
    answered = after(begun, "verify_error", "inquire_unknown")
    assert after(answered, "restart", at=START + 1).doubt_at is None


def test_what_is_certainly_not_paid_ends_all_doubt() -> None:
    """What was said and what was sent before took nothing: the next payment is the first."""
    lost = after(button(), "send_begun", "send_ok", "callback", "verify_begun", "verify_unknown")
    early = after(lost, "inquire_error", "verify_begun", "verify_error")
    assert (early.doubt_at, early.claims) == (START, 1)
    late = START + 6 * MINUTE
    clean = after(early, "inquire_error", at=late)
    assert (clean.doubt_at, clean.claims) == (None, 0)
    paid = told(after(clean, "callback", "verify_begun", at=late), "verify_ok", late)
    assert paid.alarms == ()
    assert told(paid.entry, "callback", late).alarms == ()


def test_a_restored_backup_grants_nothing_in_silence() -> None:
    """What was captured before is for an operator; its conversation is told that somebody else has it."""
    entry = after(button(), "send_begun", "send_ok", "callback")
    restored = told(entry, "restored")
    assert (restored.due, restored.notice, restored.entry.ask) == (("inquire",), None, "inquire")
    assert told(restored.entry, "restored").due == ("inquire",)

    seen = after(restored.entry, "inquire_ok", "verify_begun")
    for how in (told(seen, "verify_ok"), told(after(seen, "verify_error"), "inquire_ok")):
        assert (how.fact, how.alarms) == ("captured_before", ("granted_before_maybe",))
        assert how.notice == Notice("handed_over", captured=PRICE)
        assert (how.entry.taker, how.entry.held, how.entry.deliver_at) == ("handler", True, None)
        assert (how.entry.uncertain, "deliver" in how.due) == (True, False)


def test_what_was_not_paid_before_a_restored_backup_goes_on() -> None:
    """Nobody has given anything for it: its button stays, and its conversation waits for it."""
    entry = after(button(), "send_begun", "send_ok", "restored", "inquire_error")
    assert (entry.taker, entry.uncertain, entry.remove_at) == ("conversation", False, None)
    paid = told(after(entry, "callback", "verify_begun"), "verify_ok")
    assert (paid.entry.taker, paid.entry.held, paid.alarms) == ("handler", False, ())
    assert paid.notice == Notice("paid", captured=PRICE)
    # Whoever sent it then may be forgotten, so another button of it may be there.
    assert after(button(), "send_begun", "restored").lost
    # Of whose conversation nothing is left, the button goes.
    gone = told(after(button(late="nobody"), "send_begun", "send_ok", "restored"), "taker_gone")
    assert gone.due == ("remove",)
    assert told(after(gone.entry, "removed"), "restored").due == ("inquire",)


def test_an_invoice_that_a_backup_can_t_name() -> None:
    """It may have been sent after the backup was made: its conversation hears that nobody knows."""
    restored = told(after(invoice(), "send_begun"), "restored")
    assert (restored.fact, restored.entry.state) == ("restored_unnamed", "unsure")
    assert restored.row.outcome == "unknown"
    assert (restored.entry.taker, restored.entry.lost) == ("conversation", True)


def test_what_never_left_is_not_asked_about() -> None:
    """The platform knows nothing of it until it is sent again."""
    entry = after(button(), "send_begun", "send_never_left")

    assert (entry.state, entry.check_at) == ("prepared", None)


def test_a_payment_that_is_seen_is_verified_at_once() -> None:
    """After a silence that may have lasted nearly an hour; seen again and again, ever later."""
    silent = after(button(), "send_begun", "send_ok", "callback", "verify_begun", "verify_unknown")
    for _ in range(9):
        silent = after(silent, "inquire_unknown")
    seen = after(silent, "inquire_ok", at=START + MINUTE)
    assert seen.check_at == START + MINUTE
    again = after(seen, "verify_begun", "verify_unknown", "inquire_ok", at=START + MINUTE)
    assert again.check_at == START + MINUTE + schedule.UNCLEAR


def test_a_verify_that_was_given_up_may_still_arrive() -> None:
    """So an inquiry's error ends nothing for five minutes; what nobody wants is asked about until then."""
    lost = after(button(late="nobody"), "send_begun", "send_ok", "callback", "verify_begun", "verify_unknown")
    gone = after(lost, "taker_gone", "inquire_error")
    assert (gone.state, gone.ask) == ("verifying", "inquire")
    assert gone.check_at is not None

    assert after(gone, "inquire_error", at=START + 5 * MINUTE).state == "check"
    captured = after(gone, "inquire_ok", "inquire_ok", "removed", at=START + MINUTE)
    assert captured.state == "verifying"
    assert after(captured, "inquire_ok", at=START + 80 * MINUTE).state == "verified"


def test_what_is_wanted_is_verified_again_meanwhile() -> None:
    """The payment's hour goes on."""
    lost = after(button(), "send_begun", "send_ok", "callback", "verify_begun", "verify_unknown")
    early = after(lost, "inquire_error")

    assert (early.state, early.ask, early.check_at) == ("verifying", "verify", START + 2_000)
    assert after(early, "verify_begun", "verify_ok").state == "verified"


def test_an_invoice_whose_answer_is_lost_after_its_conversation() -> None:
    """Its number is unknown then, too."""
    entry = after(invoice(), "send_begun", "taker_gone")

    assert told(entry, "send_unknown").alarms == ("id_unknown",)
