"""Where an event goes: one table, tried from the top; the first that takes the event has it.

    1  an ignored event                      counted and dropped
    2  an open `move_on_when` block          ends it; the newest one that takes it, of all conversations
    3  an interrupt                          ends the live conversation, then is the live one
    4  an aside                              runs beside it
    5  an open question, by its own buttons or form
    6  the newest open wait that takes it, among all conversations of the chat
    7  a press of an open question by somebody whom it didn't ask: dropped without a word;
       a press or form of a question that is over: answered "expired"
    8  a live conversation: its mailbox while it is busy, the wait's `otherwise` while it waits
    9  a conversation's start; a leave starts none
    10 nobody: counted

Rows 1 to 4 go ahead of what is queued. A block that opens looks at what is queued, too.

A signal is never unasked: where an event would be dropped, or told to be unfit, it waits in the mailbox for a
later wait, whether or not a conversation lives; asides look there for signals, too.

Payments' callbacks go to the charge that waits for them, or to nobody. A leave in a private chat ends
whatever runs there before it walks the table.

Pure: it looks and says; whoever asks acts. A route's or a block's filter that fails is told to
`failed` and takes nothing; a wait's is that wait's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, final

import attrs

from ..wire.events import Event, Leave, Message, Press, Submission
from .filters import Filter, Setting
from .routes import Route, Table
from .signals import is_signal
from .waits import Otherwise, Wait, Watch, is_payment

_QUESTION: Final = re.compile(r"q[a-z2-7]{8}\.", re.ASCII)

FilterFailed: TypeAlias = Callable[[str, Exception], None]
"""Told the name of a filter, and the error that it raised."""


def token_of(event: Event) -> str | None:
    """The token of the question whose button was pressed, or None."""
    if isinstance(event, Press) and isinstance(event.value, str) and _QUESTION.match(event.value):
        return event.value[:9]
    return None


@final
@attrs.frozen
class Drop:
    """Forget it, and count it under this word."""

    why: str


@final
@attrs.frozen
class Start:
    """Start this route with this value, in the way of its kind."""

    route: Route
    value: object = attrs.field(repr=False)


@final
@attrs.frozen
class Give:
    """Wake this wait with this value. Only a payment's callback is given to a wait that isn't open."""

    wait: Wait
    value: object = attrs.field(repr=False)


@final
@attrs.frozen
class End:
    """End this block with this value."""

    watch: Watch
    value: object = attrs.field(repr=False)


@final
@attrs.frozen
class Break:
    """Wake this wait: its filter failed."""

    wait: Wait
    error: Exception = attrs.field(repr=False)


@final
@attrs.frozen
class Tell:
    """Wake this wait: something came that doesn't fit."""

    wait: Wait


@final
@attrs.frozen
class Queue:
    """Into the mailbox, for a later wait."""


@final
@attrs.frozen
class Expire:
    """A press or a form of a question that is over."""


Decision: TypeAlias = Drop | Start | End | Give | Break | Tell | Queue | Expire


def decide(
    event: Event,
    setting: Setting,
    table: Table,
    waits: Sequence[Wait],
    live: Sequence[Wait] | None,
    failed: FilterFailed,
    *,
    jumped: bool = False,
    watches: Sequence[Watch] = (),
) -> Decision:
    """Say where an event goes.

    Args:
        waits: the waits of all conversations of the chat, newest first.
        live: those of the live conversation (asides don't count), or None if there is none.
        failed: told of filters that raise.
        jumped: the first rows were tried when it came (`jump`): routes' filters run once.
        watches: the open blocks that an event may end, of all conversations, newest first.
    """
    if is_payment(event):
        # Not an author's filter: one that takes anything would swallow somebody's money.
        charges = (wait for wait in waits if wait.question)
        return _first(event, setting, charges) or Drop("payment_without_charge")
    # A block that opened since the event came has not seen it.
    jumping = end(event, setting, watches, failed) if jumped else jump(event, setting, table, failed, watches)
    if jumping is not None:
        return jumping
    waiting = [wait for wait in waits if wait.open]
    given = _first(event, setting, (wait for wait in waiting if wait.question))
    given = given or _first(event, setting, waiting, also=True)
    if given is not None:
        return given
    if token_of(event) is not None or isinstance(event, Submission):
        return _over(event, waits)
    if live is not None:
        return _unasked(event, live)
    if not isinstance(event, Leave):
        for route in table.conversations:
            if (value := _look(route.filter, event, setting, failed)) is not None:
                return Start(route, value)
    if is_signal(event):
        return Queue()
    return Expire() if isinstance(event, Press) else Drop("nobody")


def jump(
    event: Event, setting: Setting, table: Table, failed: FilterFailed, watches: Sequence[Watch] = ()
) -> Drop | Start | End | None:
    """Say whether an event goes ahead of what waits in the chat, and where to: the table's first rows."""
    for ignored in table.ignored:
        if _look(ignored, event, setting, failed) is not None:
            return Drop("ignored")
    if (ended := end(event, setting, watches, failed)) is not None:
        return ended
    for route in (*table.interrupts, *table.asides):
        if (value := _look(route.filter, event, setting, failed)) is not None:
            return Start(route, value)
    return None


def end(event: Event, setting: Setting, watches: Iterable[Watch], failed: FilterFailed) -> End | None:
    """Say which open block an event ends."""
    for watch in watches:
        if watch.taken is not None:
            continue
        if (value := _look(watch, event, setting, failed)) is not None:
            return End(watch, value)
    return None


def offer(event: Event, setting: Setting, wait: Wait) -> Give | Break | None:
    """Say whether one wait takes an event."""
    return _first(event, setting, (wait,), also=True)


def unfit(event: Event, wait: Wait) -> Decision:
    """What a parked wait does with an event that it doesn't take: only a person's message is worth a word."""
    if wait.otherwise is Otherwise.KEEP or is_signal(event):
        return Queue()
    if isinstance(event, Press | Submission):
        return _over(event, (wait,))
    if wait.otherwise is Otherwise.DROP or not isinstance(event, Message):
        return Drop("unasked")
    return Tell(wait)


def _first(
    event: Event, setting: Setting, waits: Iterable[Wait], *, also: bool = False
) -> Give | Break | None:
    for wait in waits:
        try:
            value = wait.look(event, setting)
            if value is None and also and wait.also is not None:
                value = wait.also(event, setting)
        except Exception as error:
            if wait.open:
                return Break(wait, error)
        else:
            if value is not None:
                return Give(wait, value)
    return None


def _look(
    taken: Filter[object] | Watch, event: Event, setting: Setting, failed: FilterFailed
) -> object | None:
    try:
        return taken.look(event, setting)
    except Exception as error:
        failed(taken.name, error)
        return None


def _over(event: Event, waits: Iterable[Wait]) -> Drop | Expire:
    token = token_of(event)
    if token is not None and any(wait.token == token for wait in waits):
        return Drop("not_asked")
    return Expire()


def _unasked(event: Event, waits: Iterable[Wait]) -> Decision:
    """What becomes of an event that the live conversation did not ask for."""
    parked = next((wait for wait in waits if wait.parked), None)
    return Queue() if parked is None else unfit(event, parked)
