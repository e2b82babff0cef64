"""The payment table, as data: for each pair of state and fact, the next state, the duties and the alarms.

The code (`ledger.move`), the property tests, the simulation and the documentation page all read these rows;
no other copy exists. A pair of state and fact without a row is refused and counted, raises an alarm, and
leaves the entry unchanged. Duties are carried out only after the entry is stored.

Three laws:

- A payment known to be captured is never verified again: another verify would capture a second payment.
- After a verify's ``error``, an inquiry must confirm that the payment is unpaid. After a verify's answer was
  lost, an inquiry comes before the next verify. If no inquiry is answered for half an hour, the payment is
  verified anyway.
- A payment can still be paid until 75 minutes after its button was removed, and a day longer if the button
  may be on the screen twice. The entry is watched until the end of that time.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, final

from ..base.alarm_kinds import AlarmKind
from ..base.frozen import guarded
from ..seams.money import PaymentOutcome as Outcome
from .entry import CAPTURED, ENDED, UNPAID, State
from .facts import FactName

Duty: TypeAlias = Literal["send", "verify", "inquire", "examine", "remove", "deliver", "offer_top_up"]

When: TypeAlias = Literal[
    "always",
    "invoice",
    "claimed",
    "unwanted",
    "ended_or_captured",
    "hinted_since",
    "fifth_time",
    "late_or_elsewhere",
    "perhaps_twice",
    "orphan",
    "not_again",
    "orphan_found",
    "next",
]


@final
@guarded
class Due:
    """A duty to carry out after the entry is stored."""

    duty: Duty
    when: When = "always"


@final
@guarded
class TellOperator:
    """An alarm for the operator."""

    kind: AlarmKind
    when: When = "always"


@final
@guarded
class Transition:
    """The effect of one of `facts` on an entry in one of `states`.

    Attributes:
        next: the next state; None: the state stays the same.
        taker: the next taker; None: the taker stays the same. Some values depend on the current taker. Below,
            "A replaces B" means that A is the next taker if B is the current taker:

            - "late": the entry's `late` replaces a conversation.
            - "last": the aside for the item replaces a conversation, for one last verify. If no verify is
              possible, the entry's `late` replaces the conversation.
            - "once": the entry's `late` replaces the aside, because the last verify was answered or is
              impossible.
            - "once_more": as "once", but the aside stays the taker at an inquiry's first "verified", since a
              verify follows.
            - "somebody": the aside for the item replaces "nobody".
        outcome: the outcome that a waiting conversation gets.
    """

    states: tuple[State, ...]
    facts: tuple[FactName, ...]
    next: State | None = None
    due: tuple[Due, ...] = ()
    taker: Literal["late", "last", "once", "once_more", "handler", "somebody", "nobody"] | None = None
    outcome: Outcome | None = None
    tell: tuple[TellOperator, ...] = ()


_WATCHED: Final[tuple[State, ...]] = ("sending", "open", "unsure", "closing", "check")
_LIVE: Final[tuple[State, ...]] = (*_WATCHED, "verifying")
_SENT: Final[tuple[State, ...]] = ("check", "verifying", "closing", *CAPTURED)

_VERIFY: Final = (Due("verify"),)
_INQUIRE: Final = (Due("inquire"),)
_FOUND: Final = (Due("remove", "orphan_found"),)

TABLE: Final[tuple[Transition, ...]] = (
    # --- sending
    Transition(("prepared",), ("send_begun",), "sending"),
    Transition(("prepared",), ("restart",), due=(Due("send"),)),
    Transition(("prepared",), ("taker_gone",), "void"),
    Transition(
        ("prepared",),
        ("callback", "declined_retry", "declined_final"),
        tell=(TellOperator("callback_before_send"),),
    ),
    Transition(("sending",), ("send_ok",), "open"),
    Transition(("sending",), ("send_never_left",), "prepared", due=(Due("send"),)),
    Transition(("sending",), ("send_refused",), "refused", outcome="refused"),
    Transition(
        ("sending",),
        ("send_unknown",),
        "unsure",
        outcome="unknown",
        tell=(TellOperator("id_unknown", "invoice"),),
    ),
    Transition(
        ("sending",),
        ("restart",),
        "unsure",
        due=_VERIFY,
        outcome="unknown",
        tell=(TellOperator("id_unknown", "invoice"),),
    ),
    # --- the message is sent again with the same ref_id, so the user can pay at most one of the two buttons
    Transition(("unsure",), ("send_begun", "send_never_left")),
    Transition(("unsure",), ("send_ok",), "open"),
    Transition(("unsure",), ("send_refused",), outcome="refused"),
    Transition(("unsure",), ("send_unknown",), outcome="unknown"),
    # --- the answer to the send, after another fact has already changed the state
    Transition(_SENT, ("send_begun",)),
    Transition(_SENT, ("send_ok",), due=(Due("remove", "ended_or_captured"),)),
    Transition(("check", "verifying", *CAPTURED), ("send_unknown",)),
    Transition(
        ("closing",),
        ("send_unknown",),
        tell=(TellOperator("button_still_live", "orphan"), TellOperator("id_unknown", "invoice")),
    ),
    Transition(
        ("check", "closing"),
        ("send_refused", "send_never_left"),
        due=_VERIFY,
        tell=(TellOperator("callback_before_send", "claimed"),),
    ),
    Transition(
        ("verifying", *CAPTURED),
        ("send_refused", "send_never_left"),
        tell=(TellOperator("callback_before_send", "claimed"),),
    ),
    # --- an invoice whose creation answer was lost
    Transition(
        ("unsure", "check", "closing", "lapsed"),
        ("invoice_adopted",),
        "check",
        due=_VERIFY,
        tell=(TellOperator("adopted"),),
    ),
    # --- the button or invoice is on the user's screen
    Transition(
        _WATCHED,
        ("callback",),
        "check",
        due=(*_VERIFY, *_FOUND),
        tell=(TellOperator("paid_will_lapse", "unwanted"),),
    ),
    Transition(
        _WATCHED,
        ("declined_retry",),
        "check",
        due=(*_VERIFY, Due("offer_top_up"), *_FOUND),
        outcome="retry",
    ),
    Transition(
        _WATCHED,
        ("declined_final",),
        "check",
        due=(*_VERIFY, *_FOUND),
        tell=(TellOperator("declined_by_code", "not_again"),),
    ),
    Transition(_WATCHED, ("verify_begun",), "verifying"),
    Transition(("open", "unsure", "closing", "check"), ("restart", "stood_still"), due=_VERIFY, taker="once"),
    Transition(
        ("sending", "open", "check"), ("taker_gone",), "closing", due=(*_VERIFY, Due("remove")), taker="last"
    ),
    Transition(
        ("unsure",),
        ("taker_gone",),
        "closing",
        due=(*_VERIFY, Due("remove")),
        taker="last",
        tell=(TellOperator("button_still_live", "orphan"),),
    ),
    Transition(_WATCHED, ("hint_age_30min",), due=_VERIFY, tell=(TellOperator("paid_maybe_unverified"),)),
    Transition(_WATCHED, ("unchecked_20min",), due=_VERIFY, tell=(TellOperator("sweep_blind"),)),
    Transition(
        ("verifying",),
        ("hint_age_30min",),
        due=(Due("examine"),),  # without an answer to the inquiries, the sale would be lost
        tell=(TellOperator("paid_maybe_unverified"),),
    ),
    Transition(("verifying",), ("unchecked_20min",), due=_INQUIRE, tell=(TellOperator("sweep_blind"),)),
    Transition((*_LIVE, *CAPTURED, "resolved"), ("removed",)),
    Transition(
        (*_LIVE, *CAPTURED),
        ("remove_failed",),
        due=(Due("remove"),),
        tell=(TellOperator("button_still_live", "fifth_time"),),
    ),
    Transition(
        ("resolved",),
        ("remove_failed", "send_begun", "send_ok", "send_unknown", "send_refused", "send_never_left"),
    ),
    Transition(
        ("closing", "check"), ("life_over",), "lapsed", tell=(TellOperator("lapsed_after_hint", "claimed"),)
    ),
    # --- a verify is in flight, or may be in flight; the intent is stored before the request
    Transition(("verifying",), ("verify_begun",)),
    Transition(
        ("verifying",),
        ("verify_ok", "inquire_ok"),
        "verified",
        due=(Due("deliver"), Due("remove")),
        taker="handler",
        outcome="paid",
        tell=(TellOperator("maybe_paid_again", "perhaps_twice"),),
    ),
    Transition(
        ("verifying",),
        ("verify_wrong", "inquire_wrong"),
        "mismatch",
        due=(Due("remove"),),
        outcome="mismatch",
        tell=(TellOperator("amount_mismatch"), TellOperator("maybe_paid_again", "perhaps_twice")),
    ),
    Transition(("verifying",), ("verify_error", "verify_unknown", "verify_400"), due=_INQUIRE),
    Transition(
        ("verifying",),
        ("verify_403", "inquire_403"),
        due=_INQUIRE,
        taker="once",
        tell=(TellOperator("token_or_chat_refused"),),
    ),
    Transition(("verifying",), ("inquire_seen",), due=_VERIFY, taker="once_more"),
    Transition(
        ("verifying",),
        ("inquire_error",),
        "check",
        due=(Due("verify", "hinted_since"),),
        taker="once",
        outcome="declined",
    ),
    Transition(
        ("verifying",),
        ("inquire_400",),
        "check",
        due=(Due("verify", "hinted_since"),),
        taker="once",
        outcome="declined",
        tell=(TellOperator("verify_refused", "claimed"),),
    ),
    Transition(("verifying",), ("inquire_early",), due=(Due("examine"),), taker="once"),
    Transition(("verifying",), ("inquire_unknown", "restart", "stood_still"), due=_INQUIRE, taker="once"),
    Transition(
        ("verifying",),
        ("callback",),
        due=(*_INQUIRE, *_FOUND),
        tell=(TellOperator("paid_will_lapse", "unwanted"),),
    ),
    Transition(
        ("verifying",), ("declined_retry",), due=(*_INQUIRE, Due("offer_top_up"), *_FOUND), outcome="retry"
    ),
    Transition(
        ("verifying",),
        ("declined_final",),
        due=(*_INQUIRE, *_FOUND),
        tell=(TellOperator("declined_by_code", "not_again"),),
    ),
    Transition(("verifying",), ("taker_gone",), due=(Due("verify", "next"), Due("remove")), taker="last"),
    # --- captured: the aside for the item gives the goods, whether or not a conversation waited
    Transition(("verified",), ("delivered",), "delivered"),
    Transition(("verified",), ("restart",), due=(Due("deliver"),)),
    Transition(
        ("verified",), ("no_handler",), outcome="handed_over", tell=(TellOperator("captured_without_taker"),)
    ),
    Transition(("delivered",), ("delivered",)),
    # An aside got the payment, but can't continue with the current code.
    Transition(("delivered",), ("no_handler",), tell=(TellOperator("captured_but_parked"),)),
    Transition(("delivered",), ("settled",), "settled"),
    Transition(("delivered",), ("restart",), due=(Due("deliver"),)),
    Transition(
        ("delivered",),
        ("handler_failed",),
        "verified",
        due=(Due("deliver"),),
        outcome="handed_over",
        tell=(TellOperator("handler_keeps_failing", "fifth_time"),),
    ),
    Transition(("delivered",), ("unsettled_1day",), tell=(TellOperator("captured_not_fulfilled"),)),
    Transition(("settled",), ("settled",)),
    # --- captured payments are never verified again: an uncaptured second payment goes back to the user by
    # itself
    Transition(CAPTURED, ("callback",), tell=(TellOperator("maybe_paid_again", "late_or_elsewhere"),)),
    Transition(
        CAPTURED,
        ("declined_retry", "declined_final"),
        tell=(TellOperator("maybe_paid_again", "perhaps_twice"),),
    ),
    Transition(("mismatch",), ("taker_gone",)),
    Transition(("settled", "mismatch", *ENDED), ("restart", "restored")),
    # --- a backup was restored: open payments may have been captured and granted after the backup. So an
    # inquiry is sent before any verify. If the inquiry says "verified", the payment counts as captured before
    # the restore, and needs an operator. An unpaid payment continues: no goods were given for it.
    Transition(UNPAID, ("restored",), "verifying", due=(*_INQUIRE, Due("remove", "ended_or_captured"))),
    Transition(
        ("verifying",),
        ("captured_before",),
        "verified",
        due=(Due("remove"),),
        taker="handler",
        outcome="handed_over",
        tell=(TellOperator("granted_before_maybe"), TellOperator("maybe_paid_again", "perhaps_twice")),
    ),
    Transition(("prepared", "sending"), ("restored_unnamed",), "unsure", outcome="unknown"),
    Transition(("unsure", "check", "closing"), ("restored_unnamed",)),
    Transition(
        ("verified",), ("restored",), outcome="handed_over", tell=(TellOperator("granted_before_maybe"),)
    ),
    # The aside that got the payment continues, but its steps may not give goods any more.
    Transition(("delivered",), ("restored",), tell=(TellOperator("granted_before_maybe"),)),
    # --- the computer's clock. After the clock went back, all stored times that lie in the future are changed
    # to now. After the clock went forward, the stored times of past events move along.
    Transition((*_LIVE, "verified", "delivered"), ("clock_set",)),
    # --- the aside that has the payment can't continue
    Transition(("verified", "delivered"), ("parked",), tell=(TellOperator("captured_but_parked"),)),
    # --- the payment has ended, but a fact still arrives
    Transition(
        ("lapsed", "refused", "void"),
        ("callback", "declined_final"),
        "check",
        due=(*_VERIFY, Due("remove")),
        taker="late",
        tell=(TellOperator("callback_after_end"), TellOperator("paid_will_lapse", "unwanted")),
    ),
    Transition(("resolved",), ("callback", "declined_final"), tell=(TellOperator("callback_after_end"),)),
    Transition(ENDED, ("declined_retry", "taker_gone")),
    # --- an operator
    Transition(
        ("open", "unsure", "closing", "check", "lapsed", "refused", "void"),
        ("operator_verify",),
        "check",
        due=_VERIFY,
        taker="somebody",
    ),
    Transition(("verifying",), ("operator_verify",), due=(Due("examine"),), taker="somebody"),
    Transition(
        ("verified", "delivered"),
        ("operator_redeliver",),
        "verified",
        due=(Due("deliver"),),
        outcome="handed_over",
    ),
    Transition(
        ("verified", "delivered"), ("operator_settled",), "settled", taker="nobody", outcome="handed_over"
    ),
    Transition(
        ("verified", "delivered", "mismatch"),
        ("operator_resolved",),
        "resolved",
        taker="nobody",
        outcome="handed_over",
    ),
    Transition(("closing", "check"), ("operator_resolved",), "resolved"),
    Transition(("settled", *ENDED), ("forgotten",)),
)


def find(state: State, fact: FactName) -> Transition | None:
    """Return the row for a state and a fact; None: the fact is refused."""
    return INDEX.get((state, fact))


def _index() -> dict[tuple[State, FactName], Transition]:
    found: dict[tuple[State, FactName], Transition] = {}
    for row in TABLE:
        for state in row.states:
            for fact in row.facts:
                assert (state, fact) not in found, f"two rows for {state}, {fact}"
                found[state, fact] = row
    return found


INDEX: Final = _index()
