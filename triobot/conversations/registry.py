"""The chats in memory: one `ChatActor` for each chat with conversations or waiting events.

An event or a deadline brings a chat into memory. Stored conversations of the chat are then loaded. A chat
without conversations and waiting events leaves memory. If there are too many chats, the chats with the oldest
events are evicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, final

from ..seams.inbox import InboxRow
from ..wire.ids import ChatId
from .chat_actor import ChatActor, DispatcherCalls
from .inbox_reader import InboxReader
from .inspection.portrait import Portrait, portray
from .revival.reviving import CatchingUp
from .shared import Shared
from .tasks import ConversationTasks
from .timers import Waking

KEPT: Final = 10_000
"""Number of chats in memory above which resting chats are evicted."""
LOOKED_AT: Final = 32


@final
class ChatRegistry:
    """Registry of the chats in memory.

    Attributes:
        actors: the chats by number; the chat with the newest event is the last.
        catching_up: loads chats, and reads further events of chats that are behind.
        waking: loads chats at their conversations' deadlines.
    """

    def __init__(self, shared: Shared, inbox: InboxReader, tasks: ConversationTasks) -> None:
        self._shared, self._inbox, self._tasks, self._work = shared, inbox, tasks, shared.work
        self.actors: dict[ChatId, ChatActor] = {}
        self.catching_up = CatchingUp(shared)
        self.waking = Waking(shared.services, shared.commits, shared.timers, self.recall)
        self._calls = DispatcherCalls(start=tasks.start, room=self.catching_up.room, over=self.drop)

    def actor_for(self, row: InboxRow) -> ChatActor:
        """Return the actor of the row's chat, and make it the last of `actors`.

        A chat that comes into memory is loaded, unless the row shows that the chat has nothing to load.
        """
        if (actor := self.actors.get(row.chat_id)) is None:
            actor = self.create(row.chat_id, row.seq - 1)
            if row.occupied or self._inbox.is_outdated(row) or self._shared.table.asks_kept:
                self._load(actor)
        else:
            self.actors[row.chat_id] = self.actors.pop(row.chat_id)
        return actor

    def create(self, chat_id: ChatId, cursor: int, now: int | None = None) -> ChatActor:
        """Add a chat that isn't in memory. If too many chats are in memory, evict a chat if possible."""
        actor = self.actors[chat_id] = ChatActor(self._shared, self._calls, chat_id, cursor)
        actor.born = self._shared.services.clock.now() if now is None else now
        if len(self.actors) > KEPT:
            # Evict the first chat that can be evicted, among the chats with the oldest events.
            longest = islice(self.actors.values(), LOOKED_AT)
            if leaves := next((one for one in longest if one.can_evict), None):
                self.evict(leaves)
        return actor

    def evict(self, actor: ChatActor) -> None:
        """Remove a chat from memory; the chat's conversations stay in the store."""
        self.drop(actor)
        for conversation in actor.running.all():
            conversation.evict()
            self._shared.timers.wake_at(conversation, None)
        self._inbox.outdate()
        self._work.count("evicted")
        self.waking.look_again()

    # --- loading chats

    def _load(self, actor: ChatActor) -> None:
        actor.loading = actor.mailbox.behind = True
        self.catching_up.room(actor)

    def recall(self, chat_id: ChatId) -> None:
        """Load a chat from the store, unless it is in memory."""
        if chat_id not in self.actors and not self._work.stopping:
            self._load(self.create(chat_id, 0))

    def retry(self, chat_id: ChatId) -> None:
        """Reload a chat from the store, as soon as none of its conversations is busy."""
        if self._work.nursery is not None and not self._work.cut:
            self._work.nursery.start_soon(self._retry, chat_id)

    async def _retry(self, chat_id: ChatId) -> None:
        actor = self.actors.get(chat_id)
        while actor is not None and (actor.loading or not actor.running.is_waiting):
            await self._work.less_busy.park()
            if self.actors.get(chat_id) is not actor:
                return  # the chat was dropped, or reloaded already
        self._bring_back(chat_id)

    def take_back(self, actor: ChatActor, units: int) -> None:
        """Reload a chat, because events that the chat took early could not be stored.

        Args:
            units: number of units that were added to the commit queue before these events.
        """
        for conversation in actor.running.all():
            if (writer := conversation.writer) is not None and writer.began_at >= units:
                writer.over, writer.lost = True, 1  # the conversation's first event isn't stored either
            conversation.evict()
        self._bring_back(actor.chat_id)

    def _bring_back(self, chat_id: ChatId) -> None:
        if self._work.stopping:
            return
        if (actor := self.actors.get(chat_id)) is not None:
            self.evict(actor)
            actor.mailbox.behind = False  # stops the old actor's catching up
        again = self.create(chat_id, 0)
        if actor is not None:
            again.routing.group, again.sender = actor.routing.group, actor.sender
        again.mailbox.latest = self._inbox.cursor
        self._load(again)

    def drop(self, actor: ChatActor) -> None:
        """Remove from memory an empty chat, or a chat that is being evicted."""
        if self.actors.get(actor.chat_id) is actor:
            del self.actors[actor.chat_id]
            self._shared.keeping.drop(actor.chat_id)

    def portraits(self, limit: int) -> Sequence[Portrait]:
        """Describe at most `limit` chats in memory, those with the newest events first."""
        return [portray(actor) for actor in islice(reversed(self.actors.values()), limit)]
