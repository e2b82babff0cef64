"""How a conversation takes events: its waits are opened, given something, looked at and closed.

A wait is open from before its question is sent. What it is given then lies in it until the task parks; only
then is it recorded, and consumed with that record. Until then it can be given back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from ...journal.records import OperationId
from ...seams import Consume
from ...values import encode_value, with_member
from ...wire.events import Event, Press
from ..routes.filters import Setting
from .branches import OperationKind
from .waits import Broken, Delivery, Hint, OtherwisePolicy, Taken, Unfit, Wait

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
    wait = Wait(look, otherwise, question, token, also, owner=there.owner)
    there.waits.append(wait)
    reopen_wait(there, wait)
    return wait


def reopen_wait(there: Conversation, wait: Wait) -> None:
    """Take events again: another one than the last is wanted."""
    if wait.hints:
        wait.answer = wait.hints.pop(0)
    there.life.offer_queued(there, wait)


def close_wait(there: Conversation, wait: Wait) -> None:
    """Stop taking events; what was given and not looked at goes back to the chat."""
    there.waits.remove(wait)
    look_again(there, wait)


def look_again(there: Conversation, wait: Wait) -> None:
    """Route again what the wait was given and has not looked at; for a change in what it takes."""
    given = [*([wait.answer] if wait.answer is not None else []), *wait.hints]
    wait.answer = None
    wait.hints.clear()
    for answer in given:
        there.life.give_back(there, answer.delivery)


def taken_value(delivery: Delivery, value: object) -> tuple[object, ...]:
    """Return the value to record when a wait takes an event as `value`."""
    return (delivery.event, delivery.seq, delivery.at, (value,))


def taken_text(delivery: Delivery, value: str) -> str:
    """Return the same as text, from a value encoded in a tuple, whose class this program need not know."""
    return with_member(encode_value(taken_value(delivery, None)[:-1]), value)


async def next_answer(there: Conversation, wait: Wait) -> Taken | Unfit:
    """Wait for the next event that the wait takes, or that doesn't fit.

    Raises: what the author's filter raised on an event.

    Cancellation: *atomic*: an event is returned, or it is next for another wait.
    """
    there.enter(OperationKind.RECEIVE)
    try:
        answer = cast("tuple[Event, int, int, object]", await there.journal.wait(KIND, wait))
    except Exception:
        wait.answer = None
        raise
    finally:
        wait.parked_as = None
    wait.answer = None
    event, seq, at, value = answer  # see `taken_value`
    delivery = Delivery(seq, event, at)
    if value is None:
        return Unfit(delivery)
    if isinstance(event, Press):
        there.take_press(event)
    return Taken(delivery, cast("tuple[object]", value)[0])


def park_wait(there: Conversation, wait: Wait, id: OperationId) -> None:
    """Note that the task waits for nothing else: give it what has come, or look at what is queued."""
    wait.parked_as = id
    wait.given = partial(_complete, there)
    if wait.parking is not None:
        wait.parking()
    if wait.answer is None:
        there.life.offer_queued(there, wait, parking=True)
    else:
        _complete(there, wait)


def _complete(there: Conversation, wait: Wait) -> None:
    if wait.parked_as is None or wait.answer is None:
        return
    delivery, answer = wait.answer.delivery, wait.answer
    value: object = None
    match answer:
        case Taken(_, taken):
            value = taken_value(delivery, taken)
        case Unfit():
            value = (delivery.event, delivery.seq, delivery.at, None)
        case Broken(_, error):
            value = error
    there.stirred()
    # What has no row in the inbox has no number either: a payment's news.
    moves = [Consume((delivery.seq,))] if delivery.seq else []
    seq, at, turn = delivery.seq or None, delivery.at, delivery.turn
    there.journal.complete(wait.parked_as, value, stamp=at, event=seq, moves=moves, time=turn)
