"""Carries out the due duties of one payment, one after the other.

The module waits only for the stored entries (`Entries`) and for the functions in `Hands`. So a simulation can
use the module unchanged, and stop the code at any point, like a crash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, final

from ..base.frozen import guarded
from ..wire.ids import RefId
from .entries import Entries
from .entry import Entry
from .facts import PaymentAnswer, Plain
from .schedule import Clock, due


@final
@guarded
class Hands:
    """The functions that act outside the store.

    Attributes:
        ask: sends a verify or inquiry; a failure is not raised, but returned as "unknown", like an unreadable
            answer.
        remove: removes the button from the user's screen. Returns False on failure; None if a more urgent
            duty of the payment cancelled the attempt.
        deliver: starts the aside that gives the payment's item. The same transaction stores "delivered".
            Returns False if no route accepts the item.
    """

    ask: Callable[[Entry, Literal["verify", "inquire"]], Awaitable[PaymentAnswer]]
    remove: Callable[[Entry], Awaitable[bool | None]]
    deliver: Callable[[Entry], Awaitable[bool]]


Step: TypeAlias = Clock | Literal["verify", "inquire", "remove", "deliver"]
"""A duty, or a fact caused by time alone."""


def next_step(entry: Entry, now: int) -> Step | None:
    """Return the first due step for an entry; None if no step is due."""
    clock = due(entry)
    if clock is not None and clock[0] <= now:
        return clock[1]
    if entry.deliver_at is not None and entry.deliver_at <= now:
        return "deliver"
    if entry.check_at is not None and entry.check_at <= now:
        return entry.ask
    if entry.remove_at is not None and entry.remove_at <= now:
        return "remove"
    return None


async def work_on(id_: RefId, entries: Entries, hands: Hands, now: Callable[[], int]) -> None:
    """Carry out all due steps of an entry; return when no step is due, or when a step changed nothing."""
    before = -1
    while (entry := await entries.read(id_)) is not None and entry.revision != before:
        before, step = entry.revision, next_step(entry, now())
        match step:
            case None:
                return
            case "verify":
                await _examine(entry, entries, hands)
            case "inquire":
                await entries.move(id_, await hands.ask(entry, "inquire"))
            case "remove":
                gone = await hands.remove(entry)
                if gone is not None:
                    await entries.move(id_, Plain("removed" if gone else "remove_failed"))
            case "deliver":
                if not await hands.deliver(entry):
                    await entries.move(id_, Plain("no_handler"), may_fail=True)
            case clock:
                await entries.move(id_, Plain(clock), may_fail=True)


async def _examine(entry: Entry, entries: Entries, hands: Hands) -> None:
    """Verify, and also inquire unless the verify said "verified"."""
    begun = await entries.move(entry.id, Plain("verify_begun"), may_fail=True)
    if begun is None:
        return
    verified = await hands.ask(begun.entry, "verify")
    if verified.word == "verified":
        await entries.move(entry.id, verified)
        return
    # Store both answers in one commit: a verify's answer decides nothing before the inquiry's answer.
    await entries.move(entry.id, verified, await hands.ask(begun.entry, "inquire"))
