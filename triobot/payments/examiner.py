"""Carries out what is due for one payment, one thing after another.

Waits for nothing but the books and the hands that it is given, so that a simulation can run it as it is, and
stop it anywhere as a crash would.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, assert_never, final

from ..base.frozen import guarded
from ..wire.ids import RefId
from .books import Books
from .entry import Entry
from .facts import PaymentAnswer, Plain
from .schedule import Clock, due


@final
@guarded
class Hands:
    """What reaches beyond the books.

    Attributes:
        ask: asks the platform; no failure is raised, an answer that can't be read is "unknown".
        remove: takes the button away from the user's screen. Returns False if that failed; None if something
            about the payment came that can't wait for it.
        deliver: hands captured money to the aside for its item, once "delivered" is stored; False if none is.
    """

    ask: Callable[[Entry, Literal["verify", "inquire"]], Awaitable[PaymentAnswer]]
    remove: Callable[[Entry], Awaitable[bool | None]]
    deliver: Callable[[Entry], Awaitable[bool]]


@final
@guarded
class Happen:
    """Time brings this fact."""

    clock: Clock


Step: TypeAlias = Happen | Literal["verify", "inquire", "remove", "deliver"]


def next_step(entry: Entry, now: int) -> Step | None:
    """Return the first thing to do for an entry; None if nothing is due."""
    clock = due(entry)
    if clock is not None and clock[0] <= now:
        return Happen(clock[1])
    if entry.deliver_at is not None and entry.deliver_at <= now:
        return "deliver"
    if entry.check_at is not None and entry.check_at <= now:
        return entry.ask
    if entry.remove_at is not None and entry.remove_at <= now:
        return "remove"
    return None


async def work_on(id_: RefId, books: Books, hands: Hands, now: Callable[[], int]) -> None:
    """Do all that is due for one entry; returns when nothing is, or when what was done changed nothing."""
    before = -1
    while (entry := await books.read(id_)) is not None and entry.revision != before:
        before, step = entry.revision, next_step(entry, now())
        match step:
            case None:
                return
            case Happen(clock):
                await books.move(id_, Plain(clock), may_fail=True)
            case "verify":
                await _examine(entry, books, hands)
            case "inquire":
                await books.move(id_, await hands.ask(entry, "inquire"))
            case "remove":
                gone = await hands.remove(entry)
                if gone is not None:
                    await books.move(id_, Plain("removed" if gone else "remove_failed"))
            case "deliver":
                if not await hands.deliver(entry):
                    await books.move(id_, Plain("no_handler"), may_fail=True)
            case _:
                assert_never(step)


async def _examine(entry: Entry, books: Books, hands: Hands) -> None:
    """Verify; and inquire after anything but a yes."""
    begun = await books.move(entry.id, Plain("verify_begun"), may_fail=True)
    if begun is None or not begun.moved:
        return
    verified = await hands.ask(begun.entry, "verify")
    if verified.word == "verified":
        await books.move(entry.id, verified)
        return
    # Both in one commit: what a verify says decides nothing before the inquiry has answered.
    await books.move(entry.id, verified, await hands.ask(begun.entry, "inquire"))
