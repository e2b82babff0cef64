"""The ledger's table, as data: what becomes of a payment when something happens to it.

The code (`ledger.move`), the property tests, the simulation and the page in the documentation read these
rows; there is no other copy. A pair of state and fact that isn't here is refused, counted and alarmed, and
the entry stays as it was. What is due is done only after the entry is stored.

Three laws. What is known to be captured is never verified again: that would capture a second payment. No
``error`` of verify is believed without an inquiry. An entry is watched until 75 minutes after its button has
gone, and a day longer if it may be on the screen twice: before that it can still be paid.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, final

import attrs

from ..alarm_kinds import AlarmKind
from ..money import PaymentOutcome as Outcome
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
]

WHEN: Final[dict[When, str]] = {
    "always": "",
    "invoice": "of an invoice",
    "claimed": "if a callback ever claimed that it was paid",
    "unwanted": "if nobody would take it",
    "ended_or_captured": "if nobody waits, or it is captured",
    "hinted_since": "at once if a callback came since that verify was begun",
    "fifth_time": "at the fifth time",
    "late_or_elsewhere": "if ten minutes after the capture, from another message, or once more although an "
    "earlier verify may have captured the first",
    "perhaps_twice": "if said to be paid twice, and an earlier verify may have captured the first",
    "orphan": "of a button whose message nobody knows",
    "not_again": "unless it is 1003 after a callback that claimed it was paid: who pays twice hears it",
    "orphan_found": "if nobody waits, and the callback is the first to name this message of it",
}

OUTCOMES: Final[dict[Outcome, str]] = {
    "refused": "RefusedError",
    "unknown": "DeliveryUnknownError of an invoice; a button is waited for",
    "retry": "the user is told, and a way to top up offered; waits on",
    "declined": "PaymentDeclinedError, or once a fresh button after 1003",
    "mismatch": "AmountMismatchError",
    "paid": "Paid",
    "handed_over": "PaymentHandedOverError: the aside for the item, or an operator, has it",
}


@final
@attrs.frozen
class Due:
    """Something to do after the entry is stored."""

    duty: Duty
    when: When = "always"


@final
@attrs.frozen
class Tell:
    """An alarm for the operator."""

    kind: AlarmKind
    when: When = "always"


@final
@attrs.frozen
class Row:
    """What becomes of an entry in one of these states when one of these facts comes.

    Attributes:
        next: the state behind it; None to stay.
        taker: who takes it from here on: whoever was named for late money, or the aside.
        outcome: what a conversation that waits for it gets, if one does.
    """

    states: tuple[State, ...]
    facts: tuple[FactName, ...]
    next: State | None = None
    due: tuple[Due, ...] = ()
    taker: Literal["late", "handler", "somebody", "heir"] | None = None
    outcome: Outcome | None = None
    tell: tuple[Tell, ...] = ()


_ON_SCREEN: Final[tuple[State, ...]] = ("sending", "open", "unsure")
_WATCHED: Final[tuple[State, ...]] = (*_ON_SCREEN, "closing", "check")
_LIVE: Final[tuple[State, ...]] = (*_WATCHED, "verifying")
_SENT: Final[tuple[State, ...]] = ("check", "verifying", "closing", *CAPTURED)

_VERIFY: Final = (Due("verify"),)
_INQUIRE: Final = (Due("inquire"),)
_FOUND: Final = (Due("remove", "orphan_found"),)

TABLE: Final[tuple[Row, ...]] = (
    # --- sending
    Row(("prepared",), ("send_begun",), "sending"),
    Row(("prepared",), ("restart",), due=(Due("send"),)),
    Row(("prepared",), ("taker_gone",), "void"),
    Row(
        ("prepared",),
        ("callback", "declined_retry", "declined_final"),
        tell=(Tell("callback_before_send"),),
    ),
    Row(("sending",), ("send_ok",), "open"),
    Row(("sending",), ("send_never_left",), "prepared", due=(Due("send"),)),
    Row(("sending",), ("send_refused",), "refused", outcome="refused"),
    Row(("sending",), ("send_unknown",), "unsure", outcome="unknown", tell=(Tell("id_unknown", "invoice"),)),
    Row(
        ("sending",),
        ("restart",),
        "unsure",
        due=_VERIFY,
        outcome="unknown",
        tell=(Tell("id_unknown", "invoice"),),
    ),
    # --- sent again: the same ref_id, so at most one of the two buttons can be paid
    Row(("unsure",), ("send_begun", "send_never_left")),
    Row(("unsure",), ("send_ok",), "open"),
    Row(("unsure",), ("send_refused",), outcome="refused"),
    Row(("unsure",), ("send_unknown",), outcome="unknown"),
    # --- the send's own answer, when something overtook it
    Row(_SENT, ("send_begun",)),
    Row(_SENT, ("send_ok",), due=(Due("remove", "ended_or_captured"),)),
    Row(("check", "verifying", *CAPTURED), ("send_unknown",)),
    Row(
        ("closing",),
        ("send_unknown",),
        tell=(Tell("button_still_live", "orphan"), Tell("id_unknown", "invoice")),
    ),
    Row(
        ("check", "closing"),
        ("send_refused", "send_never_left"),
        due=_VERIFY,
        tell=(Tell("callback_before_send", "claimed"),),
    ),
    Row(
        ("verifying", *CAPTURED),
        ("send_refused", "send_never_left"),
        tell=(Tell("callback_before_send", "claimed"),),
    ),
    # --- an invoice whose creation answer was lost
    Row(
        ("unsure", "check", "closing", "lapsed"),
        ("invoice_adopted",),
        "check",
        due=_VERIFY,
        tell=(Tell("adopted"),),
    ),
    # --- on the user's screen
    Row(
        _WATCHED,
        ("callback",),
        "check",
        due=(*_VERIFY, *_FOUND),
        tell=(Tell("paid_will_lapse", "unwanted"),),
    ),
    Row(
        _ON_SCREEN,
        ("declined_retry",),
        "check",
        due=(*_VERIFY, Due("offer_top_up")),
        outcome="retry",
    ),
    Row(("check",), ("declined_retry",), due=(*_VERIFY, Due("offer_top_up"), *_FOUND), outcome="retry"),
    Row(("closing",), ("declined_retry",), due=(*_VERIFY, *_FOUND)),
    Row(
        _WATCHED,
        ("declined_final",),
        "check",
        due=(*_VERIFY, *_FOUND),
        tell=(Tell("declined_by_code", "not_again"),),
    ),
    Row(_WATCHED, ("verify_begun",), "verifying"),
    Row(("open", "unsure", "closing", "check"), ("restart", "stood_still"), due=_VERIFY),
    Row(
        ("sending", "open", "check"), ("taker_gone",), "closing", due=(*_VERIFY, Due("remove")), taker="late"
    ),
    Row(
        ("unsure",),
        ("taker_gone",),
        "closing",
        due=(*_VERIFY, Due("remove")),
        taker="late",
        tell=(Tell("button_still_live", "orphan"),),
    ),
    Row(_WATCHED, ("hint_age_30min",), due=_VERIFY, tell=(Tell("paid_maybe_unverified"),)),
    Row(_WATCHED, ("unchecked_20min",), due=_VERIFY, tell=(Tell("sweep_blind"),)),
    Row(
        ("verifying",),
        ("hint_age_30min",),
        due=_INQUIRE,
        tell=(Tell("paid_maybe_unverified"),),
    ),
    Row(("verifying",), ("unchecked_20min",), due=_INQUIRE, tell=(Tell("sweep_blind"),)),
    Row((*_LIVE, *CAPTURED, "resolved"), ("removed",)),
    Row(
        (*_LIVE, *CAPTURED),
        ("remove_failed",),
        due=(Due("remove"),),
        tell=(Tell("button_still_live", "fifth_time"),),
    ),
    Row(
        ("resolved",),
        ("remove_failed", "send_begun", "send_ok", "send_unknown", "send_refused", "send_never_left"),
    ),
    Row(("closing", "check"), ("life_over",), "lapsed", tell=(Tell("lapsed_after_hint", "claimed"),)),
    # --- a verify is in flight, or may have been; the intent is stored before the request
    Row(("verifying",), ("verify_begun",)),
    Row(
        ("verifying",),
        ("verify_ok",),
        "verified",
        due=(Due("deliver"), Due("remove")),
        outcome="paid",
        tell=(Tell("maybe_paid_again", "perhaps_twice"),),
    ),
    Row(
        ("verifying",),
        ("verify_wrong", "inquire_wrong"),
        "mismatch",
        due=(Due("remove"),),
        outcome="mismatch",
        tell=(Tell("amount_mismatch"), Tell("maybe_paid_again", "perhaps_twice")),
    ),
    Row(("verifying",), ("verify_error", "verify_unknown"), due=_INQUIRE),
    Row(("verifying",), ("verify_400",), due=_INQUIRE, tell=(Tell("verify_refused", "claimed"),)),
    Row(("verifying",), ("verify_403", "inquire_403"), due=_INQUIRE, tell=(Tell("token_or_chat_refused"),)),
    Row(("verifying",), ("inquire_seen",), due=_VERIFY),
    Row(
        ("verifying",),
        ("inquire_ok",),
        "verified",
        due=(Due("deliver"), Due("remove")),
        outcome="paid",
        tell=(Tell("maybe_paid_again", "perhaps_twice"),),
    ),
    Row(
        ("verifying",),
        ("inquire_error", "inquire_400"),
        "check",
        due=(Due("verify", "hinted_since"),),
        outcome="declined",
    ),
    Row(("verifying",), ("inquire_early",), due=(Due("examine"),)),
    Row(("verifying",), ("inquire_unknown", "restart", "stood_still"), due=_INQUIRE),
    Row(
        ("verifying",),
        ("callback",),
        due=(*_INQUIRE, *_FOUND),
        tell=(Tell("paid_will_lapse", "unwanted"),),
    ),
    Row(
        ("verifying",),
        ("declined_retry",),
        due=(*_INQUIRE, Due("offer_top_up"), *_FOUND),
        outcome="retry",
    ),
    Row(
        ("verifying",),
        ("declined_final",),
        due=(*_INQUIRE, *_FOUND),
        tell=(Tell("declined_by_code", "not_again"),),
    ),
    Row(("verifying",), ("taker_gone",), due=(Due("remove"),), taker="late"),
    # --- captured
    Row(("verified",), ("delivered",), "delivered"),
    Row(("verified",), ("restart",), due=(Due("deliver"),)),
    Row(("verified",), ("taker_gone",), due=(Due("deliver"),), taker="heir"),
    Row(("verified",), ("no_handler",), tell=(Tell("captured_without_taker"),)),
    Row(
        ("verified",),
        ("parked_10min",),
        due=(Due("deliver"),),
        taker="handler",
        outcome="handed_over",
        tell=(Tell("captured_but_parked"),),
    ),
    Row(("delivered",), ("delivered",)),
    Row(("delivered",), ("settled",), "settled"),
    Row(("delivered",), ("restart",), due=(Due("deliver"),)),
    Row(("delivered",), ("taker_gone",), "verified", due=(Due("deliver"),), taker="heir"),
    Row(
        ("delivered",),
        ("handler_failed",),
        "verified",
        due=(Due("deliver"),),
        tell=(Tell("handler_keeps_failing", "fifth_time"),),
    ),
    Row(("delivered",), ("unsettled_1day",), tell=(Tell("captured_not_fulfilled"),)),
    Row(("settled",), ("settled",)),
    # --- once captured, never verified again: a second payment lapses, and goes back by itself
    Row(CAPTURED, ("callback",), tell=(Tell("maybe_paid_again", "late_or_elsewhere"),)),
    Row(CAPTURED, ("declined_retry", "declined_final")),
    Row(("settled", "mismatch"), ("taker_gone",)),
    Row(("settled", "mismatch", *ENDED), ("restart", "restored")),
    # --- a backup was restored: what was open in it may have been captured and granted since. So the inquiry
    # goes first; what it says is paid was captured before, for all that is known, and an operator looks. What
    # isn't paid goes on: nobody has given anything for it.
    Row(UNPAID, ("restored",), "verifying", due=(*_INQUIRE, Due("remove", "ended_or_captured"))),
    Row(
        ("verifying",),
        ("captured_before",),
        "verified",
        due=(Due("remove"),),
        taker="heir",
        outcome="handed_over",
        tell=(Tell("granted_before_maybe"), Tell("maybe_paid_again", "perhaps_twice")),
    ),
    Row(("prepared", "sending"), ("restored_unnamed",), "unsure", outcome="unknown"),
    Row(("unsure", "check", "closing"), ("restored_unnamed",)),
    Row(
        ("verified", "delivered"),
        ("restored",),
        "verified",
        taker="heir",
        outcome="handed_over",
        tell=(Tell("granted_before_maybe"),),
    ),
    # --- the machine's clock: what is due is due at once, and nothing was in the future; or all is later
    Row((*_LIVE, "verified", "delivered"), ("clock_set_back", "clock_set_forward")),
    # --- whoever has the money can't go on with it
    Row(("verified", "delivered"), ("parked",), tell=(Tell("captured_but_parked"),)),
    # --- ended, and something still points at it
    Row(
        ("lapsed", "refused", "void"),
        ("callback", "declined_final"),
        "check",
        due=(*_VERIFY, Due("remove")),
        taker="late",
        tell=(Tell("callback_after_end"), Tell("paid_will_lapse", "unwanted")),
    ),
    Row(("resolved",), ("callback", "declined_final"), tell=(Tell("callback_after_end"),)),
    Row(ENDED, ("declined_retry", "taker_gone")),
    # --- an operator
    Row(
        ("open", "unsure", "closing", "check", "lapsed", "refused", "void"),
        ("operator_verify",),
        "check",
        due=_VERIFY,
        taker="somebody",
    ),
    Row(("verifying",), ("operator_verify",), due=_INQUIRE, taker="somebody"),
    Row(
        ("verified", "delivered"),
        ("operator_redeliver",),
        "verified",
        due=(Due("deliver"),),
        taker="handler",
        outcome="handed_over",
    ),
    Row(("verified", "delivered"), ("operator_settled",), "settled", outcome="handed_over"),
    Row(("verified", "delivered", "mismatch"), ("operator_resolved",), "resolved", outcome="handed_over"),
    Row(("closing", "check"), ("operator_resolved",), "resolved"),
    Row(("settled", *ENDED), ("forgotten",)),
)


def find(state: State, fact: FactName) -> Row | None:
    """Return the transition for this pair, or None: then the fact is refused."""
    return INDEX.get((state, fact))


def _index() -> dict[tuple[State, FactName], Row]:
    found: dict[tuple[State, FactName], Row] = {}
    for row in TABLE:
        for state in row.states:
            for fact in row.facts:
                assert (state, fact) not in found, f"two rows for {state}, {fact}"
                found[state, fact] = row
    return found


INDEX: Final = _index()
