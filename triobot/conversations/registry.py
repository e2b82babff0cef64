"""The chats in memory: one `ChatLife` for each chat in which something goes on.

A chat comes into memory with an event, or is loaded from the store. It leaves memory when nothing goes on
in it any more, or is evicted: if there are too many chats, those go in which nothing happened for longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, final

from ..seams.inbox import InboxRow
from ..wire.ids import ChatId
from .conversation import Conversation
from .doors.calls import Halt
from .inbox_reader import InboxReader
from .inspection.portrait import Portrait, portray
from .life import ChatLife, DispatcherCalls
from .revival.reviving import CatchingUp, park
from .shared import Shared
from .tasks import ConversationTasks
from .timers import Waking

KEPT: Final = 10_000
"""Chats in memory; above this number, waiting chats are evicted."""
LOOKED_AT: Final = 32


@final
class ChatRegistry:
    """Registry of the chats in memory.

    Attributes:
        lives: the chats by number; the chat with the newest event is the last.
        catching_up: loads chats, and reads on for chats that are behind.
        waking: has chats loaded at their conversations' deadlines.
    """

    def __init__(self, shared: Shared, inbox: InboxReader, tasks: ConversationTasks) -> None:
        self._shared, self._inbox, self._tasks, self._work = shared, inbox, tasks, shared.work
        self.lives: dict[ChatId, ChatLife] = {}
        self.catching_up = CatchingUp(shared)
        self.waking = Waking(shared.services, shared.commits, shared.timers, self.recall)
        start, room = tasks.start, self.catching_up.room
        self._calls = DispatcherCalls(
            start=start, let_go=self.let_go, park=park, room=room, over=self.drop, take_back=self.take_back
        )

    def life_for(self, row: InboxRow) -> ChatLife:
        """Return the chat of an event's row, and make it the chat with the newest event.

        A new chat is loaded, unless the row says that the store has no conversation of the chat.
        """
        if (life := self.lives.get(row.chat_id)) is None:
            life = self.create(row.chat_id, row.seq - 1)
            if row.parked or self._inbox.is_outdated(row) or self._shared.table.asks_kept:
                self._load(life)
        else:
            self.lives[row.chat_id] = self.lives.pop(row.chat_id)
        return life

    def create(self, chat_id: ChatId, cursor: int, now: int | None = None) -> ChatLife:
        """Add a chat that isn't in memory, in place of a chat that can be evicted if there are too many."""
        life = self.lives[chat_id] = ChatLife(self._shared, self._calls, chat_id, cursor)
        life.born = self._shared.services.clock.now() if now is None else now
        if len(self.lives) > KEPT:
            # Evict the first chat that can be evicted, among the chats with the oldest events.
            longest = islice(self.lives.values(), LOOKED_AT)
            if leaves := next((one for one in longest if one.may_leave), None):
                self.evict(leaves)
        return life

    def evict(self, life: ChatLife) -> None:
        """Remove a chat from memory; the chat's conversations stay in the store."""
        self.drop(life)
        for conversation in life.places.all():
            conversation.evict()
            self._shared.timers.wake_at(conversation, None)
        self._inbox.outdate()
        self._work.count("evicted")
        self.waking.look_again()

    # --- loading chats

    def _load(self, life: ChatLife) -> None:
        life.loading = life.mailbox.behind = True
        life.loads_at = self._shared.services.clock.now()
        self.catching_up.room(life)

    def recall(self, chat_id: ChatId) -> None:
        """Load a chat from the store, unless it is in memory."""
        if chat_id not in self.lives and not self._work.stopping:
            self._load(self.create(chat_id, 0))

    def retry(self, chat_id: ChatId) -> None:
        """Reload a chat from the store, as soon as none of its conversations is busy."""
        if self._work.nursery is not None and not self._work.cut:
            self._work.nursery.start_soon(self._retry, chat_id)

    async def _retry(self, chat_id: ChatId) -> None:
        life = self.lives.get(chat_id)
        while life is not None and not life.may_come_back:
            await self._work.less_busy.park()
            if self.lives.get(chat_id) is not life:
                return  # dropped, or reloaded already
        self._bring_back(chat_id)

    def take_back(self, life: ChatLife, units: int) -> None:
        """Reload a chat from the store: events that it took early, from unit `units` on, aren't stored."""
        for conversation in life.places.all():
            if conversation.writer is not None:
                conversation.writer.take_back(units)
            conversation.evict()
        self._bring_back(life.chat_id)

    def _bring_back(self, chat_id: ChatId) -> None:
        if self._work.stopping:
            return
        if (life := self.lives.get(chat_id)) is not None:
            self.evict(life)
            life.mailbox.behind = False  # stops the old object's catching up
        again = self.create(chat_id, 0)
        if life is not None:
            again.routing.group, again.sender = life.routing.group, life.sender
        again.mailbox.latest = self._inbox.cursor
        self._load(again)

    def let_go(self, conversation: Conversation) -> None:
        """Stop waiting for a coroutine that doesn't end.

        The conversation is parked, so the chat can go on.
        """
        self._tasks.gone(conversation)
        if not self._work.cut and self.lives.get(conversation.life.chat_id) is conversation.life:
            conversation.park("its code catches every cancellation (BaseException), and does not end")

    def runs(self, halt: Halt) -> bool:
        """Return whether `halt` would stop something in its chat."""
        return (life := self.lives.get(halt.chat_id)) is not None and life.routing.runs(halt)

    def is_behind(self, chat_id: ChatId) -> bool:
        """Return whether events of a chat may wait in the inbox only."""
        return self._inbox.behind or ((life := self.lives.get(chat_id)) is not None and life.mailbox.behind)

    def drop(self, life: ChatLife) -> None:
        """Remove a chat from memory in which nothing goes on any more."""
        if self.lives.get(life.chat_id) is life:
            del self.lives[life.chat_id]
            self._shared.keeping.drop(life.chat_id)

    def portraits(self, limit: int) -> Sequence[Portrait]:
        """Describe at most `limit` chats in memory, those with the newest events first."""
        when, newest = self._shared.timers.when, reversed(self.lives.values())
        return [portray(life, when) for life in islice(newest, limit)]
