"""Reads a bot's journals: from the running bot, or from the store of a stopped bot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, cast, final

import trio

from ..base.clock import SystemClock
from ..cli.consulting import gather, stamp_of
from ..emulator.views import JsonObject
from ..errors import TriobotError
from ..operator.api import Tell
from ..operator.routes import Question
from ..runtime.settings import Settings
from ..store import open_store
from ..wire.ids import ChatId
from .errors import TravelError
from .travel.same_answers import Replacement

_MOST: Final = 1_000
"""Maximum number of a chat's conversations, or payments, in one answer."""

Marks = Callable[[int], Sequence[JsonObject]]


@final
class StoredJournals:
    """Access to a bot's journals.

    Args:
        ask: sends a request to the running bot, or answers the request from the store of a stopped bot.
        marks: returns the kills, restarts and failures of the bot's process since a wall time.
        settings: the bot's settings, used to write to the store while the bot is down; None forbids writes.
        opening: semaphore with the value 1, shared by all tasks that open the store of a stopped bot; None
            makes a new semaphore.

    Attributes:
        marks: the argument `marks`.
    """

    def __init__(
        self,
        ask: Callable[[Question, Tell], Awaitable[object]],
        marks: Marks,
        settings: Settings | None = None,
        opening: trio.Semaphore | None = None,
    ) -> None:
        self._ask = ask
        self._settings = settings
        # Each request for a stopped bot's journals opens the store, so only one request runs at a time.
        self._opening = trio.Semaphore(1) if opening is None else opening
        self.marks = marks

    async def conversations(self, chat_id: int) -> Sequence[JsonObject]:
        """Return the rows of a chat's conversations, oldest first."""
        return await self._lines(
            {"ask": "journals.list", "chat_id": chat_id, "limit": _MOST, "crashed": True}
        )

    async def every(self, after: int, limit: int) -> Sequence[JsonObject]:
        """Return the rows of at most `limit` conversations of all chats, with numbers above `after`."""
        return await self._lines({"ask": "journals.list", "after": after, "limit": limit})

    async def waiting(self) -> Sequence[JsonObject]:
        """Return the rows of the open conversations that aren't parked, the most recently changed last."""
        rows, after = list[JsonObject](), 0
        while page := await self.every(after, _MOST):
            rows += page
            after = cast("int", page[-1]["conversation"])
        open_now = [row for row in rows if row["ended_at"] is None and row["parked_because"] is None]
        return sorted(open_now, key=lambda row: cast("int", row["updated_at"]))

    async def journal(self, conversation: int) -> Sequence[JsonObject]:
        """Return the journal of a conversation: its row, records and effects."""
        return await self._lines({"ask": "journals.show", "conversation": conversation})

    async def code(self) -> Sequence[JsonObject]:
        """Return the recorded builds of the bot's code, and their sources."""
        return await self._lines({"ask": "journals.code"})

    async def end(self, conversation: int) -> None:
        """Order the end of a conversation. The order is durable when this method returns."""
        await self._lines({"ask": "journals.end", "conversation": conversation})

    async def has_payments(self, chat_id: int, conversation: int) -> bool:
        """Whether the conversation has requested a payment in this chat."""
        asked: dict[str, object] = {"ask": "payments.list", "chat": chat_id, "limit": _MOST}
        # Payments are sorted by their random ids, so the newest payment may be in any of the answers.
        while rows := (await self._lines(asked))[0]["payments"]:
            payments = cast("Sequence[JsonObject]", rows)
            if any(row["conversation"] == conversation for row in payments):
                return True
            asked["after"] = payments[-1]["ref"]
        return False

    async def put(self, instead: Replacement, chat_id: int) -> None:
        """Replace a conversation in the store of a stopped bot by `instead`, in one commit."""
        if (settings := self._settings) is None:
            raise TravelError("nothing is written here", refused=True)
        async with self._opening:
            try:
                stamp = stamp_of(settings)
                async with open_store(settings.store, stamp=stamp, clock=SystemClock(), visit=True) as store:
                    await store.commit(*instead.writes(ChatId(chat_id)))
            except (TriobotError, OSError) as error:
                raise TravelError(str(error)) from error

    async def _lines(self, question: Question) -> list[JsonObject]:
        try:
            async with self._opening:
                return cast("list[JsonObject]", await gather(self._ask, question))
        except (TriobotError, OSError) as error:
            raise TravelError(str(error)) from error
