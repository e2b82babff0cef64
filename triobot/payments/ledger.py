"""The ledger: from an entry and a fact, computes the next entry, its duties, alarms and notices. Pure.

The table defines the next state, the taker, the duties and the alarms. This module updates the entry's other
fields, so that the new entry alone defines what to do next and when. No duty is carried out before the entry
is stored.
"""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never, final

import attrs

from ..base.alarm_kinds import AlarmKind
from ..base.frozen import guarded
from ..seams.money import PaymentNotice as Notice
from ..seams.money import PaymentOutcome as Outcome
from . import schedule
from .entry import CAPTURED, NOTHING, Entry, Said, Taker
from .facts import (
    REFUSED,
    TRY_AGAIN,
    UNTAKEN,
    UNVERIFIED,
    USED,
    Adopted,
    ClockSet,
    Fact,
    FactName,
    Hint,
    PaymentAnswer,
    SendOk,
    name_of,
)
from .table import Duty, Transition, When, find


@final
@guarded
class Moved:
    """A move of an entry. The caller must store the new entry before it carries out any duty.

    Attributes:
        fact: the fact's name in the table.
        row: the row of the table for this state and fact.
        due: the duties due now. The entry's own fields contain these duties too, for a restart after a crash.
        alarms: alarms for the operator.
    """

    before: Entry
    entry: Entry
    fact: FactName
    row: Transition
    due: tuple[Duty, ...]
    alarms: tuple[AlarmKind, ...]

    @property
    def notice(self) -> Notice | None:
        """Notice of this move for the waiting conversation; None without a notice."""
        waits = self.before.taker == "conversation" or self.before.state in ("verified", "delivered")
        news = self.entry.news if waits and self.row.outcome is not None else None
        return news if news is not None and news.revision in (0, self.entry.revision) else None


@final
@guarded
class Impossible:
    """The refusal of a fact for which the table has no row.

    The entry stays unchanged. The caller counts the refusal and raises an alarm.
    """

    entry: Entry
    fact: FactName


Outcomes: TypeAlias = Moved | Impossible

_LONGEST_LINK: Final = 2_100
"""Largest number of characters of a link. Longer links are dropped: a callback may contain anything."""

_EXAMINED: Final = frozenset({"inquire_error", "inquire_400"})
_CLEARS: Final = _EXAMINED | {"inquire_early"}
"""Facts that show, after a restored backup, that the payment isn't captured."""
_UNANSWERED: Final = frozenset({"inquire_unknown", "inquire_403", "inquire_seen", "inquire_early"})


def move(entry: Entry, fact: Fact, now: int) -> Outcomes:
    """Apply a fact that happened at `now`; return the move, or `Impossible` if the fact is refused. Pure."""
    name = name_of(entry, fact, now)
    row = find(entry.state, name)
    if row is None or not _allowed(entry, name):
        return Impossible(entry, name)
    after = _with_fact(entry, fact, name, now)
    after = attrs.evolve(
        after,
        state=row.next or entry.state,
        taker=_taker(entry, row),
        late=entry.late if entry.wanted or row.taker != "somebody" else "handler",
        revision=entry.revision + 1,
    )
    after = _with_state(entry, after, name, now)
    due: tuple[Duty, ...] = tuple(one.duty for one in row.due if _holds(one.when, entry, after, fact, now))
    after, done = _with_duties(entry, after, fact, name, due, now)
    raised = (one for one in row.tell if _holds(one.when, entry, after, fact, now))
    alarms: tuple[AlarmKind, ...] = tuple(one.kind for one in raised)
    return Moved(entry, _with_word(entry, after, row, fact), name, row, done, alarms)


def _allowed(entry: Entry, name: FactName) -> bool:
    """Return whether a fact may change an entry, by the conditions that the table doesn't contain."""
    match name:
        case "verify_begun":
            return entry.wanted and entry.verifiable
        case "invoice_adopted":
            return entry.kind == "invoice" and entry.invoice_id is None
        case "life_over" | "operator_resolved":
            # A payment isn't closed while a conversation waits for it.
            return entry.ended_at is not None or entry.state in CAPTURED
        case _:
            return True


def _taker(entry: Entry, row: Transition) -> Taker:
    match row.taker:
        case None:
            return entry.taker
        case "late":
            return entry.late if entry.taker == "conversation" else entry.taker
        case "last":
            # One last verify follows now, in case the user paid in time and the callback was lost.
            asked = entry.verifiable and entry.ask == "verify"
            return entry.taker if entry.taker != "conversation" else "handler" if asked else entry.late
        case "once" | "once_more":
            over = entry.taker == "handler" and (row.taker == "once" or not _anew(entry))
            return entry.late if over else entry.taker
        case "handler" | "nobody":
            return row.taker
        case "somebody":
            return entry.taker if entry.wanted else "handler"


def _with_fact(entry: Entry, fact: Fact, name: FactName, now: int) -> Entry:
    match fact:
        case SendOk(message_id, invoice_id, twice):
            if entry.gone_at is not None and message_id not in (None, entry.message_id):
                # The message was sent twice, and the removed button belongs to the other message.
                entry = attrs.evolve(entry, gone_at=None, remove_failures=0)
            return attrs.evolve(
                entry,
                lost=entry.lost or twice,
                message_id=message_id or entry.message_id,
                invoice_id=invoice_id or entry.invoice_id,
            )
        case Adopted(invoice_id):
            return attrs.evolve(
                entry, invoice_id=invoice_id, hinted_at=now, claimed_at=now, hinted=True, tries=0
            )
        case Hint():
            return _hinted(entry, fact, name, now)
        case PaymentAnswer():
            return _answered(entry, fact, name, now)
        case ClockSet(by):
            return schedule.clock_set(entry, by, now)
        case _:
            return _clocked(entry, name, now)


def _hinted(entry: Entry, hint: Hint, name: FactName, now: int) -> Entry:
    if hint.code not in UNTAKEN:
        entry = attrs.evolve(entry, claims=entry.claims + 1)
    if entry.state in CAPTURED:
        return attrs.evolve(entry, hinted_at=now)
    warned = tuple(kind for kind in entry.warned if kind != "hint_age_30min")
    shown_as = hint.message_id if hint.chat_id == entry.chat_id else None
    if entry.lost and entry.gone_at is not None and shown_as not in (None, entry.message_id):
        # The button was on the screen twice, and the user pressed the button of the other message.
        entry = attrs.evolve(entry, message_id=None, gone_at=None, remove_failures=0)
    hinted = attrs.evolve(
        entry,
        hinted_at=now,
        hinted=True,
        tries=0,
        # The callback proves that the button was on the screen.
        gone_at=None if entry.state in ("refused", "void") else entry.gone_at,
        # After a send without an answer, the callback shows the message's id.
        message_id=entry.message_id or shown_as,
        payer=hint.payer or entry.payer,
    )
    if name == "declined_retry":
        return hinted
    no = None if _elsewhere(entry, hint) else hint.code
    if name == "declined_final":
        return hinted if no is None else attrs.evolve(hinted, decline=no)
    if hint.failed and not _elsewhere(entry, hint):
        no = hint.code or TRY_AGAIN
    elif no not in UNVERIFIED:
        no = None
    return attrs.evolve(hinted, claimed_at=now, warned=warned, decline=no, said=None)


def _answered(entry: Entry, answer: PaymentAnswer, name: FactName, now: int) -> Entry:
    if answer.to == "verify":
        said: Said = "error" if answer.word in ("error", "400") else "unknown"
        doubt_at = entry.asked_at if answer.word == "unknown" else entry.doubt_at
        entry = attrs.evolve(entry, verify_said=said, doubt_at=doubt_at)
    elif name == "inquire_seen":
        seen_at = now if _anew(entry) else entry.seen_at
        # A verify's "error" proves that no money waited for its capture.
        clean_at = entry.asked_at if entry.verify_said == "error" else entry.clean_at
        entry = attrs.evolve(entry, seen_at=seen_at, verify_said=None, clean_at=clean_at)
    if name in ("verify_ok", "verify_wrong", "inquire_ok", "inquire_wrong", "captured_before"):
        return attrs.evolve(entry, captured=answer.amount)
    return entry


def _anew(entry: Entry) -> bool:
    """Return whether an inquiry's "verified" is the first for this payment, or the first since a verify
    said "error".
    """
    return entry.seen_at is None or entry.verify_said == "error"


def _clocked(entry: Entry, name: FactName, now: int) -> Entry:
    match name:
        case "send_begun":
            return attrs.evolve(entry, sent_at=entry.sent_at or now, gone_at=None)
        case "verify_begun":
            return attrs.evolve(
                entry, asked_at=now, verify_said=None, hinted=False, clean=False, ask="inquire", check_at=now
            )
        case "send_unknown":
            return attrs.evolve(entry, lost=True)
        case "removed":
            return attrs.evolve(entry, gone_at=entry.gone_at or now, remove_at=None)
        case "send_refused" | "send_never_left":
            # The message of an unsure entry may have arrived by an earlier send.
            never = entry.state in ("sending", "closing") and not entry.lost and entry.claimed_at is None
            return attrs.evolve(entry, gone_at=now) if never else entry
        case "remove_failed":
            return attrs.evolve(entry, remove_failures=entry.remove_failures + 1)
        case "handler_failed":
            return attrs.evolve(entry, failures=entry.failures + 1, redelivered=True)
        case "unchecked_20min":
            warned = tuple(kind for kind in entry.warned if kind != name)
            return attrs.evolve(entry, warned=(*warned, name), blind_at=now)
        case "hint_age_30min" | "unsettled_1day":
            return attrs.evolve(entry, warned=(*entry.warned, name))
        case "restored" | "restored_unnamed":
            # After the backup was made, the last process may have sent requests that are still in flight.
            return attrs.evolve(
                entry,
                uncertain=True,
                lost=entry.lost or entry.state in ("prepared", "sending"),
                sent_at=entry.sent_at or entry.made_at,
                seen_at=None,
                verify_said=None,
                doubt_at=now,
            )
        case "operator_redeliver":
            return attrs.evolve(entry, failures=0, redelivered=True, held=False)
        case "restart" | "stood_still":
            # An extra examination follows, and adds one to `tries`. This examination must not change the
            # pauses between the regular examinations, so one is subtracted here.
            return attrs.evolve(entry, watched_at=now, tries=max(0, entry.tries - 1))
        case "delivered":
            return attrs.evolve(entry, delivered_at=now, deliver_at=None)
        case "forgotten":
            return attrs.evolve(entry, item=NOTHING, text="-", payer=None)
        case "no_handler":
            return attrs.evolve(entry, deliver_at=None)
        case _:
            return entry


def _with_state(before: Entry, after: Entry, name: FactName, now: int) -> Entry:
    """Set the times, doubts and duties that follow from the change of state."""
    if after.taker != "conversation" and before.taker == "conversation":
        after = attrs.evolve(after, ended_at=now)
    if before.state == "delivered" and after.state == "verified":
        after = attrs.evolve(after, redelivered=True, delivered_at=None)
    if name == "restart" and after.state == "verifying" and after.ask == "inquire" and not after.verify_said:
        # A request of the previous process may still be in flight.
        after = attrs.evolve(after, doubt_at=after.asked_at)
    if name == "inquire_early":
        certain = after.verify_said == "error"
        after = attrs.evolve(after, seen_at=None, clean_at=after.asked_at if certain else after.clean_at)
    if before.uncertain and before.state == "verifying" and name in _CLEARS:
        after = attrs.evolve(after, uncertain=False)
    if after.state in ("verified", "delivered") and name in ("captured_before", "restored"):
        after = attrs.evolve(after, held=True, deliver_at=None)
    if name in _EXAMINED:
        certain = after.verify_said == "error"
        after = attrs.evolve(
            after,
            seen_at=None,
            ask="verify",
            clean=certain,
            clean_at=after.asked_at if certain else after.clean_at,
            warned=() if certain else after.warned,
            # If certainly nothing was captured, earlier callbacks and doubts don't count any more.
            claims=0 if certain and not after.hinted else after.claims,
            doubt_at=None if certain else after.doubt_at,
        )
    match after.state:
        case "verified" | "mismatch" if before.state == "verifying":
            return attrs.evolve(after, verified_at=now, check_at=None, decline=None, warned=())
        case "settled":
            return attrs.evolve(after, settled_at=after.settled_at or now, check_at=None, deliver_at=None)
        case "lapsed" | "refused" | "void" | "resolved":
            gone = now if after.state in ("refused", "void") else after.gone_at
            return attrs.evolve(after, gone_at=gone, check_at=None, remove_at=None, deliver_at=None)
        case "prepared":
            return attrs.evolve(after, check_at=None)  # the user can't pay yet, so no examination is due
        case "unsure":
            return attrs.evolve(after, lost=True)
        case "verifying" if not after.wanted and after.ask == "verify":
            return attrs.evolve(after, ask="inquire")
        case _:
            return after


def _with_duties(
    before: Entry, after: Entry, fact: Fact, name: FactName, due: tuple[Duty, ...], now: int
) -> tuple[Entry, tuple[Duty, ...]]:
    """Set the due times of the duties; return the new entry, and the duties that apply to the entry."""
    done: list[Duty] = []
    if name in _EXAMINED or name in _UNANSWERED:
        after = attrs.evolve(
            after, check_at=_when(schedule.next_check(after, now), after), tries=after.tries + 1
        )
    for duty in due:
        match duty:
            case "verify":
                if not (after.wanted and after.verifiable):
                    # A verify may still have captured the payment, so inquiries continue until the outcome is
                    # known.
                    after = attrs.evolve(
                        after, check_at=after.check_at if after.state == "verifying" else None
                    )
                    continue
                # A repeated "verified" of an inquiry leaves the time of the next verify unchanged. In all
                # other cases, verify at once. The first "verified" shows that the platform answers again, and
                # the payment's hour may be nearly over.
                again = after.check_at if name == "inquire_seen" and not _anew(before) else now
                after = attrs.evolve(after, check_at=again, ask="verify")
            case "examine" | "inquire":
                if not after.verifiable:
                    continue
                # A wanted payment is verified again: the money is captured, or the answer is "error". An
                # unwanted payment is only inquired about. A payment restored from a backup is also only
                # inquired about: after the backup, the money may have been captured, and the goods given.
                verified = duty == "examine" and after.wanted and not after.uncertain
                asked = duty == "examine" or name == "restored"
                later = after.check_at if name in _UNANSWERED else now
                # Repeated callbacks, starts and clock changes must not replace a due verify by an inquiry
                # forever.
                ask = "verify" if verified else "inquire" if asked else after.ask
                after = attrs.evolve(after, check_at=later, ask=ask)
            case "remove":
                if after.kind != "button" or after.message_id is None or after.gone_at is not None:
                    continue
                after = attrs.evolve(after, remove_at=_remove_at(after, name, now))
            case "deliver":
                after = attrs.evolve(after, deliver_at=None if after.held else _deliver_at(after, name, now))
                if after.deliver_at is None:
                    continue
            case "send" | "offer_top_up":
                pass
            case _:
                assert_never(duty)
        done.append(duty)
    if after.check_at is None and after.state in schedule.WATCHED and after.sent_at is not None:
        after = attrs.evolve(after, check_at=_when(now + schedule.SWEEP, after))
    return after, tuple(done)


def _when(at: int, entry: Entry) -> int | None:
    return at if entry.verifiable and (entry.wanted or entry.state == "verifying") else None


def _remove_at(entry: Entry, name: FactName, now: int) -> int:
    if name != "remove_failed":
        return now
    then = schedule.rarely(entry, now, schedule.HOUR)
    return now + schedule.pause(schedule.REMOVE_PAUSES, entry.remove_failures - 1, then)


def _deliver_at(entry: Entry, name: FactName, now: int) -> int | None:
    if name != "handler_failed":
        return now
    if entry.failures >= schedule.TRIES:
        return None
    return now + schedule.pause(schedule.DELIVER_PAUSES, entry.failures - 1, schedule.HOUR)


def _with_word(before: Entry, after: Entry, row: Transition, fact: Fact) -> Entry:
    """Store a retry or decline notice for the waiting conversation; `Entry.news` computes other notices."""
    waits = before.taker == "conversation"
    if waits and row.outcome == "retry" and isinstance(fact, Hint) and not _elsewhere(before, fact):
        url = None if len(fact.charge_url or "") > _LONGEST_LINK else fact.charge_url
        return attrs.evolve(after, said=Notice("retry", fact.code, url, revision=after.revision))
    # Only an examination that began after the callback confirms a decline.
    if waits and row.outcome == "declined" and after.decline is not None and after.clean and not after.hinted:
        # "retry": the payment is unpaid, but the user may press again.
        word: Outcome = "declined" if after.decline in REFUSED else "retry"
        said = Notice(word, after.decline, revision=after.revision)
        return attrs.evolve(after, decline=None, said=said)
    waits = after.taker == "conversation" and after.state in schedule.ON_SCREEN
    return after if waits else attrs.evolve(after, said=None)


def _holds(when: When, before: Entry, after: Entry, fact: Fact, now: int) -> bool:
    match when:
        case "always":
            return True
        case "invoice":
            return after.kind == "invoice"
        case "claimed":
            return after.claimed_at is not None
        case "unwanted":
            return not after.wanted
        case "ended_or_captured":
            return after.taker != "conversation" or after.state in CAPTURED
        case "hinted_since":
            return after.hinted
        case "fifth_time":
            counts = ((before.failures, after.failures), (before.remove_failures, after.remove_failures))
            return any(was < now_ == schedule.TRIES for was, now_ in counts)
        case "late_or_elsewhere":
            again = before.doubt_at is not None and after.claims > 1
            return isinstance(fact, Hint) and (again or _is_another(before, fact, now))
        case "perhaps_twice":
            return after.claims > 1 and after.doubt_at is not None
        case "orphan":
            return after.kind == "button" and after.message_id is None
        case "not_again":
            again = isinstance(fact, Hint) and fact.code == USED
            return not (again and before.claimed_at is not None)
        case "next":
            return before.ask == "verify"
        case "orphan_found":
            return after.taker != "conversation" and before.message_id != after.message_id
        case _:
            assert_never(when)


def _elsewhere(entry: Entry, hint: Hint) -> bool:
    """Return whether a callback is for a button that this bot didn't send for the payment.

    The user may have pressed a forwarded message, or a forger may know only the payment's number. If the
    message was sent twice, the bot sent both buttons. Without a message id, only the chat is compared.
    """
    known = None not in (hint.message_id, entry.message_id) and not entry.lost
    return hint.chat_id != entry.chat_id or (known and hint.message_id != entry.message_id)


def _is_another(entry: Entry, hint: Hint, now: int) -> bool:
    late = entry.verified_at is not None and now > entry.verified_at + schedule.SECOND_PAYMENT
    return late or _elsewhere(entry, hint)
