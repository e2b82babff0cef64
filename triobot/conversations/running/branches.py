"""Tasks of conversations, kinds of operations, and fingerprints of operations.

A task that runs a conversation's code is one of the conversation's branches. `code_tasks` contains the tasks
of all conversations. So a function that conversations must not call can detect such a call, and raise an
error with the author's line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

import attrs
import trio

from ...engine import Run
from ...engine.records import Id
from ...errors import ForeignTaskError
from ...wire.content import LocalFile, Media
from ...wire.ids import MessageId, RefId
from ...wire.operations import Operation, SendMessage
from ..inspection.closed import Closed
from .lines import calling_line

_NO_FILE: Final = " -"
_ANY: Final = "any text"
_NO_MARKUP: Final = "'reply_keyboard': None, 'inline_keyboard': None, 'form': None"
# Plain values: equal values count as the same. Other values may be handles, such as a step's connection.
_PLAIN: Final = frozenset({str, bytes, int, float, bool, Decimal, UUID, date, datetime, timedelta})


class OperationKind(Enum):
    """Kind of a conversation's operation: a wait, an effect, or a structure such as a scope."""

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


class Onlooker:
    """Listener for a dry run. The methods here do nothing; subclasses override the methods that they need."""

    def looks(self, run: Run) -> None:
        """Called before each turn, and at the journal's end, when all tasks wait."""

    def begins(self, id: Id, kind: OperationKind) -> None:
        """Called when an operation or a block begins."""

    def sends(self, id: Id, operation: Operation[object]) -> None:
        """Called when an operation passes a request to the outbox."""

    def tidies(self, message_id: MessageId) -> None:
        """Called when a question is over, so that the message shows no buttons any more."""

    def charges(self, number: RefId, *, waits: bool) -> None:
        """Called when the charge for payment `number` begins to wait (`waits`), and when the charge ends."""


code_tasks: Final[dict[trio.lowlevel.Task, int]] = {}
"""Trio tasks that run a conversation's code now, with the conversation's number."""
step_tasks: Final[set[trio.lowlevel.Task]] = set()
"""Tasks that run a step's body now. A step may call functions that are forbidden to a conversation."""


def refuse_conversations(what: str, instead: str) -> None:
    """Raise an error if a conversation's own code calls the function `what`. A step's body may call `what`.

    Args:
        what: the called function, for the error's text.
        instead: the function that a conversation must use.

    Raises:
        ForeignTaskError: the current task belongs to a conversation, and runs no step.
    """
    try:
        task = trio.lowlevel.current_task()
    except RuntimeError:  # no task: called outside of Trio
        return
    if task in code_tasks and task not in step_tasks:
        raise ForeignTaskError(f"{calling_line()}: {what} inside a conversation; use {instead}")


# --- fingerprints: distinguish changed operations without storing their texts


def fingerprint(operation: Operation[object]) -> str:
    """Return a request's fingerprint: two words, separated by a blank.

    For most requests, the first word is a digest, and the second word is ``-``. For a request with a local
    file, the first word is empty, and the second word is a digest. This digest includes the file's name, but
    not the folder, because a moved bot sends the same file. Earlier versions wrote only a first word: a
    digest that included the folder. A word that is missing in a journal is not compared.
    """
    if (
        type(operation) is SendMessage
        and type(operation.content) is str
        and not (operation.reply_keyboard or operation.inline_keyboard or operation.form)
    ):
        # Most requests have only a text: build their fingerprint's input without `asdict`, which takes
        # longer.
        text = f"{{'chat_id': {operation.chat_id!r}, 'content': {operation.content!r}, {_NO_MARKUP}}}"
        return _digest(text) + _NO_FILE
    value = cast("attrs.AttrsInstance", operation)
    media: object = getattr(operation, "content", None)
    if isinstance(media, Media) and isinstance(media.source, LocalFile):
        return f" {_digest(repr(attrs.asdict(value, value_serializer=_without_folder)))}"
    return _digest(repr(attrs.asdict(value))) + _NO_FILE


def prints_of(operation: Any) -> Callable[[str], str]:
    """Return a function that computes the operation's fingerprint with another text as content.

    A check tries all texts of a module. So the operation's digest input is computed once, at the first call.
    """

    @cache
    def around() -> Sequence[str]:
        shown = repr(attrs.asdict(attrs.evolve(operation, content=_ANY)))
        return shown.partition(repr(_ANY))[::2]

    return lambda text: _digest(repr(text).join(around())) + _NO_FILE


def _without_folder(instance: object, attribute: object, value: object) -> object:
    return value.name if isinstance(instance, LocalFile) and isinstance(value, Path) else value


def fingerprint_of_call(fn: object, args: Sequence[object]) -> str:
    """Return the name of a step's function, and a digest of the arguments that are plain values.

    Return only the function's name if an argument comes from a resource that isn't open, because the
    argument's value is unknown.
    """
    name = "" if isinstance(fn, Closed) else getattr(fn, "__qualname__", type(fn).__name__)
    plain = [(number, arg) for number, arg in enumerate(args) if type(arg) in _PLAIN]
    if not plain or any(isinstance(arg, Closed) for arg in args):
        return f"{name}"
    return f"{name} {_digest(repr(plain))}"


def _digest(shown: str) -> str:
    return hashlib.blake2b(shown.encode("utf-8", "replace"), digest_size=8).hexdigest()
