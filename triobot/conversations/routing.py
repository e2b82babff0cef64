"""Where an event goes: one table, tried from the top; the first that takes the event has it.

    1  an ignored event                      counted and dropped
    2  an interrupt                          ends the live conversation, then is the live one
    3  an aside                              runs beside it
    4  an open question, by its own buttons or form
    5  the newest open wait that takes it, among all conversations of the chat
    6  a press or form of a question that is over: answered "expired", once more if it was a double click
    7  a live conversation: its mailbox while it is busy, the wait's `otherwise` while it waits
    8  a conversation's start
    9  nobody: counted

Payments' callbacks go to the charge that waits for them, or to nobody. A leave in a private chat ends
whatever runs there before it walks the table.

Pure: it looks and says; whoever asks acts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, final

import attrs

from ..wire.events import Event, Leave, Message, Press, Submission
from .filters import Setting
from .routes import Route, Table
from .waits import Otherwise, Wait, is_payment

_QUESTION: Final = re.compile(r"q[a-z2-7]{8}\.", re.ASCII)


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
    """Wake this wait with this value."""

    wait: Wait
    value: object = attrs.field(repr=False)


@final
@attrs.frozen
class Tell:
    """Wake this wait: something came that doesn't fit."""

    wait: Wait


@final
@attrs.frozen
class Queue:
    """Into the live conversation's mailbox."""


@final
@attrs.frozen
class Expire:
    """A press or a form of a question that is over."""


Decision: TypeAlias = Drop | Start | Give | Tell | Queue | Expire


def decide(
    event: Event,
    setting: Setting,
    table: Table,
    waits: Sequence[Wait],
    live: Sequence[Wait] | None,
) -> Decision:
    """Say where an event goes.

    Args:
        waits: the open waits of all conversations of the chat, newest first; the parked have a `sleeper`.
        live: those of the live conversation (asides don't count), or None if there is none.
    """
    if is_payment(event):
        given = _first(event, setting, waits)
        return given if given is not None else Drop("payment_without_charge")
    for ignored in table.ignored:
        if ignored.look(event, setting) is not None:
            return Drop("ignored")
    for route in (*table.interrupts, *table.asides):
        if (value := route.filter.look(event, setting)) is not None:
            return Start(route, value)
    given = _first(event, setting, (wait for wait in waits if wait.question)) or _first(event, setting, waits)
    if given is not None:
        return given
    if token_of(event) is not None or isinstance(event, Submission):
        return Expire()
    if live is not None:
        return _unasked(event, live)
    for route in table.conversations:
        if not isinstance(event, Leave) and (value := route.filter.look(event, setting)) is not None:
            return Start(route, value)
    return Expire() if isinstance(event, Press) else Drop("nobody")


def _first(event: Event, setting: Setting, waits: Iterable[Wait]) -> Give | None:
    for wait in waits:
        if wait.open and (value := wait.look(event, setting)) is not None:
            return Give(wait, value)
    return None


def _unasked(event: Event, waits: Sequence[Wait]) -> Decision:
    """What becomes of an event that the live conversation did not ask for."""
    parked = next((wait for wait in waits if wait.open and wait.sleeper is not None), None)
    if parked is None or parked.otherwise is Otherwise.KEEP:
        return Queue()
    return unfit(event, parked)


def unfit(event: Event, wait: Wait) -> Decision:
    """What a wait does with an event that it doesn't take: only a person's message is worth a word."""
    if wait.otherwise is Otherwise.KEEP:
        return Queue()
    if isinstance(event, Press):
        return Expire()
    if wait.otherwise is Otherwise.DROP or not isinstance(event, Message):
        return Drop("unasked")
    return Tell(wait)
