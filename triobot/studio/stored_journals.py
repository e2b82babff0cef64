"""The journals of a bot, asked for at the running bot or in its store while that is down."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, cast, final

import trio

from ..base.clock import SystemClock
from ..cli.consulting import gather, stamp_of
from ..emulator.exchange import TravelError
from ..emulator.views import JsonObject
from ..errors import TriobotError
from ..operator.api import Tell
from ..operator.requests import AboutPayments, ListJournals, OrderEnd, ReadCode, Request, ShowJournal
from ..runtime.settings import Settings
from ..seams.journals import ConversationId
from ..store import open_store
from ..wire.ids import ChatId
from .travel.same_answers import Replacement

_MOST: Final = 1_000
"""Conversations, or payments, of a chat in one answer."""

Marks = Callable[[int], Sequence[JsonObject]]


@final
class StoredJournals:
    """Reads journals.

    Args:
        ask: carries a question to the running bot, or to its store while it is down.
        marks: returns when its process was killed and started again, since a wall time.
        settings: of the bot, for what is written while it is down; None: nothing is.
        opening: has room for one that opens the store of a bot which is down; None: nothing but this does.

    Attributes:
        marks: as above.
    """

    def __init__(
        self,
        ask: Callable[[Request, Tell], Awaitable[object]],
        marks: Marks,
        settings: Settings | None = None,
        opening: trio.Semaphore | None = None,
    ) -> None:
        self._ask = ask
        self._settings = settings
        # The store of a bot that is down is opened for each question, by one at a time.
        self._opening = trio.Semaphore(1) if opening is None else opening
        self.marks = marks

    async def conversations(self, chat_id: int) -> Sequence[JsonObject]:
        """Return the rows of a chat's conversations, in their order."""
        return await self._lines(ListJournals(ChatId(chat_id), limit=_MOST, crashed=True))

    async def every(self, after: int, limit: int) -> Sequence[JsonObject]:
        """Return the rows of so many conversations at most, of all chats, behind this one."""
        return await self._lines(ListJournals(after=after, limit=limit))

    async def waiting(self) -> Sequence[JsonObject]:
        """Return the rows of conversations that go on, those last for which something came last."""
        rows, after = list[JsonObject](), 0
        while page := await self._lines(ListJournals(after=after, limit=_MOST)):
            rows += page
            after = cast("int", page[-1]["conversation"])
        open_now = [row for row in rows if row["ended_at"] is None and row["parked_because"] is None]
        return sorted(open_now, key=lambda row: cast("int", row["updated_at"]))

    async def journal(self, conversation: int) -> Sequence[JsonObject]:
        """Return a journal: its row, its records, its effects."""
        return await self._lines(ShowJournal(ConversationId(conversation)))

    async def code(self) -> Sequence[JsonObject]:
        """Return what is known of the builds that ran, and their sources."""
        return await self._lines(ReadCode())

    async def end(self, conversation: int) -> None:
        """Have a conversation end, whatever it waits for; durable when this returns."""
        await self._lines(OrderEnd(ConversationId(conversation)))

    async def has_payments(self, chat_id: int, conversation: int) -> bool:
        """Return whether a conversation of this chat has asked for money."""
        asked: dict[str, object] = {"ask": "payments.list", "chat": chat_id, "limit": _MOST}
        # They come in the order of their ids, which are random: the newest may be on any page.
        while rows := await self._payments(asked):
            if any(row["conversation"] == conversation for row in rows):
                return True
            asked["after"] = rows[-1]["ref"]
        return False

    async def _payments(self, asked: Mapping[str, object]) -> Sequence[JsonObject]:
        [told] = await self._lines(AboutPayments({**asked}))
        return cast("Sequence[JsonObject]", told["payments"])

    async def put(self, instead: Replacement, chat_id: int) -> None:
        """Put what takes a conversation's place into the store of a bot that is down, in one commit."""
        async with self._opening:
            try:
                await self._put(instead, ChatId(chat_id))
            except (TriobotError, OSError) as error:
                raise TravelError(str(error)) from error

    async def _put(self, instead: Replacement, chat_id: ChatId) -> None:
        settings = self._settings
        if settings is None:
            raise TravelError("nothing is written here", refused=True)
        async with open_store(
            settings.store, stamp=stamp_of(settings), clock=SystemClock(), visit=True
        ) as store:
            await store.commit(*instead.writes(store.lease, chat_id))

    async def _lines(self, request: Request) -> list[JsonObject]:
        try:
            async with self._opening:
                return cast("list[JsonObject]", await gather(self._ask, request))
        except (TriobotError, OSError) as error:
            raise TravelError(str(error)) from error
