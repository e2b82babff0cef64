"""What a conversation is given without a record, and is the same on replay: time, chance and old ways."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime, tzinfo

from ..conversation import Conversation


class Replayed:
    """The part of `Chat` that takes the place of clocks and dice. None of it waits."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def now(self, tz: tzinfo = UTC) -> datetime:
        """Return when what this conversation waited for came. It stands still until the next operation."""
        self._conversation.check_task()
        return datetime.fromtimestamp(self._conversation.journal.now() / 1000, tz)

    def random(self) -> random.Random:
        """Return dice that fall the same way after a restart; each call gives others. Not for secrets.

        Example:
            >>> async def toss(chat: Chat) -> None:
            ...     await chat.send(chat.random().choice(["Heads", "Tails"]))
        """
        self._conversation.check_task()
        return self._conversation.journal.random()

    def uuid(self) -> uuid.UUID:
        """Return a unique id; made before a step, it is the step's idempotency key."""
        self._conversation.check_task()
        return self._conversation.journal.uuid()

    def patched(self, patch: str) -> bool:
        """Return whether to go the new way where code has changed: False for what went the old way before.

        A conversation that was there before keeps to the old way where it went it; all others are True from
        then on.

        Args:
            patch: a name for the change, once in the whole program.
        """
        self._conversation.check_task()
        return self._conversation.journal.patched(patch)
