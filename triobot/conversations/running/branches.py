"""The tasks of a conversation, and what their operations are.

A task that runs a conversation's code is one of its branches; which task is whose is known here, so that a
door that is not for conversations can tell, and name the line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias, cast
from uuid import UUID

import attrs
import trio

from ...engine import Run
from ...engine.records import Id
from ...errors import ForeignTaskError
from ...seams.money import Charge
from ...wire.content import LocalFile, Media
from ...wire.ids import MessageId, RefId
from ...wire.operations import Operation, SendMessage
from ..inspection.closed import Closed
from .lines import calling_line

_NO_FILE: Final = " -"
_ANY: Final = "any text"
_NO_MARKUP: Final = "'reply_keyboard': None, 'inline_keyboard': None, 'form': None"
# What is nothing but its value. All else may be a handle on the world, which a step may well be given.
_PLAIN: Final = frozenset({str, bytes, int, float, bool, Decimal, UUID, date, datetime, timedelta})


class OperationKind(Enum):
    """What an operation of a conversation is: it waits, it has an effect, or it shapes the code."""

    RECEIVE = "receive"
    SLEEP = "sleep"
    SEND = "send"
    ANSWER = "answer"
    TYPING = "typing"
    STEP = "step"
    VERIFY = "verify"
    SCOPE = "scope"
    NURSERY = "nursery"
    SIGNAL = "signal"
    START = "start"
    STOP = "stop"
    GET = "get"
    SET = "set"
    UPDATE = "update"
    CONTINUE = "continue"
    CHARGE = "charge"
    BROADCAST = "broadcast"


ChargeStands: TypeAlias = Callable[[], tuple[Charge, bool]]
"""Tells what a charge asks for, and whether it knows by now that it is paid."""


class Onlooker:
    """Looks on while a journal is run again, dry; what is not overridden goes unseen."""

    def looks(self, run: Run) -> None:
        """Look: a turn is about to begin, or the journal ends here, and everything rests."""

    def begins(self, id: Id, kind: OperationKind) -> None:
        """Note that an operation begins, or a block."""

    def sends(self, id: Id, operation: Operation[object]) -> None:
        """Note what an operation hands to the outbox."""

    def tidies(self, message_id: MessageId) -> None:
        """Note that a question is over, and its message shows no buttons any more."""

    def charges(self, number: RefId, stands: ChargeStands | None) -> None:
        """Note that a charge has opened this payment, and tells how it stands; with None that it is over."""


code_tasks: Final[dict[trio.lowlevel.Task, int]] = {}
"""Trio's tasks that run a conversation's code now, each with the conversation's number."""
step_tasks: Final[set[trio.lowlevel.Task]] = set()
"""Those in which a step's body runs: that may do what the conversation's own code may not."""


def refuse_conversations(what: str, instead: str) -> None:
    """Refuse a door that is not for a conversation's own code. A step's body may use it.

    Args:
        what: the door.
        instead: what a conversation uses in its place.

    Raises:
        ForeignTaskError: the current task is a conversation's, and runs no step.
    """
    try:
        task = trio.lowlevel.current_task()
    except RuntimeError:  # no task: somebody looks before or after the run
        return
    if task in code_tasks and task not in step_tasks:
        raise ForeignTaskError(f"{calling_line()}: {what} inside a conversation; use {instead}")


# --- what tells a reworded operation from the recorded one, without its words


def fingerprint(operation: Operation[object]) -> str:
    """Return a digest of what is sent, and whether a file of this machine is in it.

    Of such a file the folder doesn't count, since a bot that has moved sends the same. Journals of earlier
    versions have it in their digest. So a digest without the folder stands in the second place, to which they
    have nothing to compare; where no file is sent, a mark there tells the two kinds of sends apart.
    """
    if (
        type(operation) is SendMessage
        and type(operation.content) is str
        and not (operation.reply_keyboard or operation.inline_keyboard or operation.form)
    ):
        # Nothing but text: that is what most of all are.
        text = f"{{'chat_id': {operation.chat_id!r}, 'content': {operation.content!r}, {_NO_MARKUP}}}"
        return _digest(text) + _NO_FILE
    value = cast("attrs.AttrsInstance", operation)
    media: object = getattr(operation, "content", None)
    if isinstance(media, Media) and isinstance(media.source, LocalFile):
        return f" {_digest(repr(attrs.asdict(value, value_serializer=_without_folder)))}"
    return _digest(repr(attrs.asdict(value))) + _NO_FILE


def prints_of(operation: Any) -> Callable[[str], str]:
    """Return what gives the fingerprint that an operation would have with another text as its content.

    A check tries all texts of a module: so no operation is made for each, and none before the first.
    """

    @cache
    def around() -> Sequence[str]:
        shown = repr(attrs.asdict(attrs.evolve(operation, content=_ANY)))
        return shown.partition(repr(_ANY))[::2]

    return lambda text: _digest(repr(text).join(around())) + _NO_FILE


def _without_folder(instance: object, attribute: object, value: object) -> object:
    return value.name if isinstance(instance, LocalFile) and isinstance(value, Path) else value


def fingerprint_of_call(fn: object, args: Sequence[object]) -> str:
    """Return the name of what a step calls, and a digest of those arguments that are plain values.

    What a resource gives that isn't open can't be told, and is left out.
    """
    name = "" if isinstance(fn, Closed) else getattr(fn, "__qualname__", type(fn).__name__)
    plain = [(number, arg) for number, arg in enumerate(args) if type(arg) in _PLAIN]
    if not plain or any(isinstance(arg, Closed) for arg in args):
        return f"{name}"
    return f"{name} {_digest(repr(plain))}"


def _digest(shown: str) -> str:
    return hashlib.blake2b(shown.encode("utf-8", "replace"), digest_size=8).hexdigest()
