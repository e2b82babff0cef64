"""A conversation failed: what is logged, who is told, and what the user hears.

An author's error ends its own conversation and nothing else. Logs name the conversation, the chat and the
author's line; never the error's own text, which may hold what a user wrote.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from ..errors import ForbiddenError, TriobotError
from ..seams import Alarm
from ..wire.operations import SendMessage
from .lines import failing_line

if TYPE_CHECKING:
    from .conversation import Conversation

log: Final = logging.getLogger("triobot.conversations")


def report(conversation: Conversation, failure: BaseExceptionGroup[Exception]) -> bool:
    """Log and count a failure; False if it is only that the user has left or blocked the bot."""
    errors = list(_leaves(failure))
    chat_id, name = conversation.life.chat_id, conversation.route.name
    if conversation.left or all(isinstance(error, ForbiddenError) for error in errors):
        conversation.house.count("gone")
        return False
    conversation.house.count("crashed")
    for error in errors:
        kind, line = type(error).__name__, failing_line(error.__traceback__)
        log.error("conversation %s of chat %s failed: %s at %s", name, chat_id, kind, line)
        log.debug("%s", "".join(traceback.format_tb(error.__traceback__)))
        text = f"conversation {name} failed with {kind} at {line}; users are told to start again"
        conversation.services.raise_alarm(Alarm("conversation_crashed", f"{name} {line}", text))
    return True


async def apologize(conversation: Conversation) -> None:
    """Say that something went wrong, once, in the words of the bot's texts."""
    services, chat_id = conversation.services, conversation.life.chat_id
    if not services.texts.apology:
        return
    conversation.house.working(1)
    try:
        await services.outbox.perform(SendMessage(chat_id, services.texts.apology))
    except TriobotError as error:
        log.warning("the apology to chat %s was not sent: %s", chat_id, type(error).__name__)
    finally:
        conversation.house.working(-1)


def _leaves(failure: BaseExceptionGroup[Exception]) -> Generator[Exception]:
    for error in failure.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield error
