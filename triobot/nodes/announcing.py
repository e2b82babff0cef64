"""A broadcast over all shards: a part in each, under one key; its status is their sum.

Each part is a broadcast of its shard, which goes on by itself whatever becomes of the others. The part at the
key's own shard is opened first and begun last: a second start waits there for the first, and what makes the
whole broadcast one that was started is that this part was. If a start is cut off between two parts, those
that have begun go on, and the next start with the key begins the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator
from typing import Final, cast, final
from uuid import uuid4

import attrs
import trio

from ..broadcast import INSTEAD_OF_TELLING
from ..conversations.running.branches import refuse_conversations
from ..conversations.services import Also, OnDoubt
from ..errors import StoreError
from ..outbox import Announcement, Broadcasts
from ..outbox.broadcasts import PIECE
from ..seams import BroadcastStatus, check_key
from ..shards import home_of_key, shard_of
from ..wire.content import Content
from ..wire.ids import ChatId
from ..wire.markup import InlineKeyboard
from .doors import Doors
from .frames import AddToPart, EndPart, OpenPart, ReadBroadcast, ReadGone, StopBroadcast
from .owners import sum_of

_PATIENCE: Final = 2.0


@final
@attrs.frozen
class SpreadAnnouncing:
    """The live door to broadcasts of a store in shards.

    Attributes:
        outside: its caller is none of the bot's conversations; else it is refused.
    """

    _doors: Doors = attrs.field(repr=False)
    _broadcasts: Broadcasts = attrs.field(repr=False)
    outside: bool = False

    async def start(
        self,
        key: str,
        content: Content,
        keyboard: InlineKeyboard | None,
        on_unknown: OnDoubt,
        audience: AsyncIterable[ChatId],
        also: Also | None = None,
    ) -> bool:
        """Begin to tell an audience; see `triobot.Broadcast.start`. No one transaction has all its parts."""
        self._check("start")
        check_key(key)
        shards, home = self._doors.shards, home_of_key(key, self._doors.shards)
        uploaded = await self._broadcasts.uploaded(Announcement(content, keyboard, on_unknown))
        said, session = uploaded.dump(), uuid4().hex
        opened: list[int] = []
        try:
            opened.append(home)
            if not await self._doors.ask(home, OpenPart(session, key, said)):
                opened.clear()
                return False
            # A part that was begun by a start that was cut off keeps the receivers that it has.
            wanted = {home}
            for shard in range(shards):
                if shard != home:
                    opened.append(shard)
                    if await self._doors.ask(shard, OpenPart(session, key, said)):
                        wanted.add(shard)
            await self._capture(session, audience, wanted)
            for shard in reversed(opened):
                if shard in wanted and not await self._doors.ask(shard, EndPart(session)):
                    raise _cut_off()
            opened.clear()
        finally:
            with trio.move_on_after(_PATIENCE, shield=True):
                # Else a capture would stand open in other shards, and refuse the next start with this key.
                for shard in opened:
                    await self._doors.ask(shard, EndPart(session, given_up=True))
        return True

    async def _capture(self, session: str, audience: AsyncIterable[ChatId], wanted: set[int]) -> None:
        pieces: dict[int, list[ChatId]] = {shard: [] for shard in wanted}
        async for chat_id in audience:
            piece = pieces.get(shard_of(chat_id, self._doors.shards))
            if piece is None:
                continue
            piece.append(chat_id)
            if len(piece) == PIECE:
                await self._add(session, shard_of(chat_id, self._doors.shards), piece)
        for shard, piece in pieces.items():
            if piece:
                await self._add(session, shard, piece)

    async def _add(self, session: str, shard: int, piece: list[ChatId]) -> None:
        if not await self._doors.ask(shard, AddToPart(session, tuple(piece))):
            raise _cut_off()
        piece.clear()

    async def status(self, key: str) -> BroadcastStatus:
        """Read how far it is: the sum of its parts."""
        self._check("status")
        parts = await self._doors.ask_all(ReadBroadcast(key))
        return sum_of([cast("BroadcastStatus", part) for part in parts])

    async def stop(self, key: str, also: Also | None = None) -> bool:
        """Tell nobody more, in any shard."""
        self._check("stop")
        return any(await self._doors.ask_all(StopBroadcast(key)))

    def gone(self, key: str) -> AsyncIterator[ChatId]:
        """Iterate over those who have left, one shard after the other."""
        self._check("gone")
        return GoneEverywhere(self._doors, key)

    def _check(self, what: str) -> None:
        if self.outside:
            refuse_conversations(f"Broadcast.{what}()", INSTEAD_OF_TELLING)


def _cut_off() -> StoreError:
    return StoreError(
        "a process that has a part of this broadcast has ended while its receivers were written down; start"
        " it again with the same key, and nobody is told twice"
    )


@final
class GoneEverywhere:
    """The receivers in all shards who have left, as far as is known; each once."""

    def __init__(self, doors: Doors, key: str) -> None:
        self._doors = doors
        self._key = key
        self._shard = self._after = 0
        self._page = deque[tuple[int, ChatId]]()

    def __aiter__(self) -> GoneEverywhere:
        return self

    async def __anext__(self) -> ChatId:
        while not self._page:
            if self._shard == self._doors.shards:
                raise StopAsyncIteration
            page = await self._doors.ask(self._shard, ReadGone(self._key, self._after))
            self._page.extend(cast("list[tuple[int, ChatId]]", page))
            if self._page:
                self._after = self._page[-1][0]
            else:
                self._shard, self._after = self._shard + 1, 0
        return self._page.popleft()[1]
