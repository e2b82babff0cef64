"""The tasks of a conversation, and what their operations are.

A task that runs a conversation's code is one of its branches; which task is whose is known here, so that a
door that is not for conversations can tell, and name the line.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, final

import attrs
import trio

from ...errors import ForeignTaskError
from .lines import calling_line


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


@final
@attrs.define(eq=False)
class CodeTask:
    """One task of a conversation.

    Attributes:
        name: empty for the coroutine itself.
        in_step: a step's body is running.
    """

    name: str
    in_step: bool = False


code_tasks: Final[dict[trio.lowlevel.Task, CodeTask]] = {}
"""Trio's tasks that run a conversation's code now."""


def refuse_conversations(what: str, instead: str) -> None:
    """Refuse a door that is not for a conversation's own code. A step's body may use it.

    Args:
        what: the door.
        instead: what a conversation uses in its place.

    Raises:
        ForeignTaskError: the current task is a conversation's, and runs no step.
    """
    try:
        branch = code_tasks.get(trio.lowlevel.current_task())
    except RuntimeError:  # no task: somebody looks before or after the run
        return
    if branch is not None and not branch.in_step:
        raise ForeignTaskError(f"{calling_line()}: {what} inside a conversation; use {instead}")
