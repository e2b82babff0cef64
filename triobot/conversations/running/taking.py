"""How a conversation takes events: its waits are opened, given something, looked at and closed.

A wait is open from before its question is sent. What it is given lies in the run's mailbox until the task
parks; only then does a record take it. Until then it can be given back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from ...wire.events import Event, Press
from ..codec import CODEC
from ..routes.filters import Setting
from .branches import OperationKind
from .waits import Delivery, Hint, OtherwisePolicy, Taken, Unfit, Wait

if TYPE_CHECKING:
    from ..conversation import Conversation


KIND: Final = "receive"
"""As what a wait is recorded."""


def open_wait(
    there: Conversation,
    look: Callable[[Event, Setting], object | None],
    otherwise: OtherwisePolicy | Hint,
    *,
    question: bool = False,
    token: str = "",
    also: Callable[[Event, Setting], object | None] | None = None,
) -> Wait:
    """Begin to take events, before anything is sent; `close_wait` it however it ends."""
    there.check_task()
    wait = Wait(look, otherwise, question, token, also, owner=there.owner, bring=there.bring)
    there.waits.append(wait)
    reopen_wait(there, wait)
    return wait


def reopen_wait(there: Conversation, wait: Wait) -> None:
    """Take events again: another one than the last is wanted."""
    if wait.open:
        there.life.offer_queued(there, wait)


def close_wait(there: Conversation, wait: Wait) -> None:
    """Stop taking events; what was given and not looked at goes back to the chat."""
    there.waits.remove(wait)
    look_again(there, wait)


def look_again(there: Conversation, wait: Wait) -> None:
    """Route again what the wait was given and has not looked at: what it takes has changed."""
    given = list(wait.ready.values())
    wait.ready.clear()
    if there.dead:
        return  # the events wait in the inbox
    for answer in given:
        if there.run.withdraw(answer.delivery.seq) and answer.delivery.seq:
            there.life.give_back(there, answer.delivery)


async def next_answer(there: Conversation, wait: Wait) -> Taken | Unfit:
    """Wait for the next event that the wait takes, or that doesn't fit.

    Raises: what the author's filter raised on an event.

    Cancellation: *atomic*: an event is returned, or it is next for another wait.
    """
    there.enter(OperationKind.RECEIVE)
    if not (there.replaying or there.dead):
        wait.rests, wait.around = True, there.around
        if wait.parking is not None:
            wait.parking()
        if wait.open:
            there.life.offer_queued(there, wait, parking=True)
    try:
        event, seq, at, value, *failed = await there.run.wait(KIND, wait.takes)
    finally:
        wait.rests, wait.around = False, ()
    delivery = Delivery(cast("int", seq), cast("Event", event), cast("int", at))
    wait.ready.pop(delivery.seq, None)
    if failed:
        raise CODEC.error_of(failed[0])
    if value is None:
        return Unfit(delivery)
    if isinstance(delivery.event, Press):
        there.take_press(delivery.event)
    return Taken(delivery, cast("tuple[object]", value)[0])
