"""The dispatcher: it brings accepted events to their chats, in order.

A chat with a full mailbox is *behind* by itself, up to the cursor of the inbox reader, and delays no other
chat.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Final, final

import trio

from ..base.alarm_kinds import Alarm
from ..base.authors import came_by_signal, split
from ..errors import StoreFullError
from ..seams.inbox import InboxRow
from ..wire.events import Event
from ..wire.ids import ChatId
from .charges.paid import is_the_ledgers
from .conversation import Conversation, Services
from .doors.calls import Call, Halt, asked_of, stored_event
from .doors.elsewhere import Elsewhere
from .inbox_reader import InboxReader
from .inspection.portrait import Portrait, portray
from .jobs import SETTING, JobClock
from .life import ChatLife, DispatcherCalls
from .revival.care import Care
from .revival.reviving import CatchingUp, park, unreadable
from .revival.stored import write_out
from .routes.declarations import RouteKind, Table
from .routes.routing import Delivery, known
from .shared import Shared
from .tasks import ConversationTasks
from .timers import Waking

KEPT: Final = 10_000
"""Chats in memory; above this number, waiting chats are evicted."""
LOOKED_AT: Final = 32


@final
class Dispatcher:
    """Runs the conversations of all chats.

    Attributes:
        inbox: reads the events to route.
        tasks: run the conversations.
        lives: the chats in memory; the chat with the newest event is the last.
    """

    def __init__(self, services: Services, table: Table, *, username: str | None = None) -> None:
        shared = self.shared = Shared(services, table, username)
        self.services, self.table = services, table
        self.commits, self.work, self.keeping = shared.commits, shared.work, shared.keeping
        inbox = self.inbox = InboxReader(shared)
        tasks = self.tasks = ConversationTasks(shared)
        self.work.cut_all = tasks.cut_all
        shared.elsewhere = Elsewhere(services, table, inbox.offer, self._runs, self._is_behind, self.hurry)
        shared.care = Care(services, self.work, shared.tidying, self.retry)
        self.elsewhere, self.care = shared.elsewhere, shared.care
        self.lives: dict[ChatId, ChatLife] = {}
        self._waking = Waking(services, self.commits, shared.timers, self.recall)
        self._scope = trio.CancelScope(shield=True)
        self._catching_up = CatchingUp(shared)
        self._calls = DispatcherCalls(
            start=tasks.start,
            let_go=self.let_go,
            park=park,
            room=self._catching_up.room,
            over=self.over,
            take_back=self.take_back,
        )

    def hurry(self, row: InboxRow) -> None:
        """Route a call by a chat's own code at once if it ends a conversation there, perhaps the caller.

        Otherwise a caller that ends itself would continue until the row is routed. If the program stops
        before that, the caller would continue to its next wait.
        """
        life, event = self.lives.get(row.chat_id), known(self.table, stored_event(row))
        if row.seq <= self.inbox.cursor or life is None or life.loading or event is None:
            return
        asked = asked_of(event)
        route = self.table.named(asked.name) if isinstance(asked, Call) and life.places.live else None
        if isinstance(asked, Halt) or (route is not None and route.kind is RouteKind.INTERRUPT):
            self.inbox.skip(row.seq)
            self.elsewhere.coming.pop(row.seq, None)
            life.jump(Delivery(row.seq, event, row.at, row.group))
            if not life.mailbox.behind:
                life.mailbox.passed -= {row.seq}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled.

        Events that aren't consumed by the end stay in the inbox, and the next run routes them.

        Cancellation: *atomic*: no event is lost; the writes of handled events are flushed, with a deadline.
        """
        with self.services.clock.telling(self._jumped):
            try:
                await self._run_watched(task_status)
            except BaseException as error:
                if (rest := split(error)[1]) is None or came_by_signal(rest):
                    self.care.acquit()
                raise
            finally:
                self.care.look_no_more()

    async def _run_watched(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as guard:
            guard.start_soon(self._cut_when_cancelled)
            try:
                # Shielded from the caller's cancellation: the guard cancels this scope after it has evicted
                # all conversations.
                with self._scope:
                    async with trio.open_nursery() as nursery:
                        self.work.nursery = nursery
                        self._waking.begin()
                        nursery.start_soon(self._or_cut, self.work.keep_tasks)
                        nursery.start_soon(self._or_cut, self.commits.keep_flushing)
                        await self._or_cut(self.write_out)
                        await self._or_cut(self._begin_code)
                        await self._or_cut(self.care.begin)
                        await self._or_cut(self.shared.tidying.begin)
                        nursery.start_soon(self._or_cut, self._catching_up.keep_up)
                        nursery.start_soon(self._or_cut, self.shared.timers.keep_time)
                        nursery.start_soon(self._or_cut, self.care.live_on)
                        nursery.start_soon(self._or_cut, self._waking.revive_unfinished)
                        nursery.start_soon(self._or_cut, self._waking.keep_reviving)
                        if self.table.jobs or await self.services.store.setting(SETTING):
                            jobs = self.tasks.jobs = JobClock(self.shared)
                            nursery.start_soon(self._or_cut, jobs.keep_time)
                        task_status.started()
                        await self._or_cut(self._route_events)
            finally:
                self.work.stopping = self.work.cut = True
                self._waking.end()
                await self.commits.flush_at_the_end()
            guard.cancel_scope.cancel()

    async def _begin_code(self) -> None:
        """Store the running code's modules, if the last process ran other code."""
        code, store = self.services.code, self.services.store
        if code is not None and (new := await code.begin(store, self.services.clock.now())) is not None:
            self.commits.add([new])

    async def _cut_when_cancelled(self) -> None:
        """Evict all conversations before any coroutine is cancelled: a stop must not look like their end."""
        try:
            await trio.sleep_forever()
        finally:
            self.tasks.cut_all()
            self._scope.cancel()

    async def _or_cut(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a task that every conversation needs. If it fails, evict all conversations, and re-raise."""
        try:
            await work()
        except BaseException:
            self.tasks.cut_all()
            raise

    async def _route_events(self) -> None:
        while True:
            self._route(*await self.inbox.receive())

    def _route(self, row: InboxRow, event: Event | None) -> None:
        if self.work.stopping or is_the_ledgers(self.services, row.seq, event):
            return
        life = self.lives.get(row.chat_id)
        self.elsewhere.coming.pop(row.seq, None)
        if (event := known(self.table, event)) is None:
            unreadable(self.shared, row)
            return
        if life is None:
            life = self.new_life(row.chat_id, row.seq - 1)
            if row.parked or self.inbox.is_outdated(row) or self.table.asks_kept:
                self._load(life)
        else:
            self.lives[row.chat_id] = self.lives.pop(row.chat_id)  # the newest last
        life.mailbox.latest = row.seq
        if life.loading:
            return
        delivery = Delivery(row.seq, event, row.at, row.group)
        if life.mailbox.behind:
            life.jump(delivery)
        elif life.deliver(delivery):
            life.mailbox.cursor = row.seq
        else:
            life.mailbox.behind = True
        if life.idle:
            self.over(life)

    def new_life(self, chat_id: ChatId, cursor: int, now: int | None = None) -> ChatLife:
        life = self.lives[chat_id] = ChatLife(self.shared, self._calls, chat_id, cursor)
        life.born = self.services.clock.now() if now is None else now
        if len(self.lives) > KEPT:
            # Evict the first chat that can be evicted, among the chats with the oldest events.
            longest = islice(self.lives.values(), LOOKED_AT)
            if leaves := next((one for one in longest if one.may_leave), None):
                self.evict(leaves)
        return life

    def evict(self, life: ChatLife) -> None:
        """Remove a chat from memory; its conversations stay in the store."""
        del self.lives[life.chat_id]
        self.keeping.drop(life.chat_id)
        for conversation in life.places.all():
            conversation.evict()
            self.shared.timers.wake_at(conversation, None)
        self.inbox.outdate()
        self.work.count("evicted")
        self._waking.look_again()

    # --- loading chats

    def _load(self, life: ChatLife) -> None:
        life.loading = life.mailbox.behind = True
        life.loads_at = self.services.clock.now()
        self._catching_up.room(life)

    def recall(self, chat_id: ChatId) -> None:
        """Load a chat from the store, unless it is in memory."""
        if chat_id not in self.lives and not self.work.stopping:
            self._load(self.new_life(chat_id, 0))

    def retry(self, chat_id: ChatId) -> None:
        """Reload a chat from the store, as soon as none of its conversations is busy."""
        if self.work.nursery is not None and not self.work.cut:
            self.work.nursery.start_soon(self._retry, chat_id)

    async def _retry(self, chat_id: ChatId) -> None:
        life = self.lives.get(chat_id)
        while life is not None and not life.may_come_back:
            await self.work.less_busy.park()
            if self.lives.get(chat_id) is not life:
                return  # dropped, or reloaded already
        if not self.work.stopping:
            self._bring_back(chat_id)

    def take_back(self, life: ChatLife, units: int) -> None:
        """Reload a chat from the store: events that it took early, from unit `units` on, aren't stored."""
        for conversation in life.places.all():
            if conversation.writer is not None:
                conversation.writer.take_back(units)
            conversation.evict()
        if not self.work.stopping:
            self._bring_back(life.chat_id)

    def _bring_back(self, chat_id: ChatId) -> None:
        if (life := self.lives.get(chat_id)) is not None:
            self.evict(life)
            life.mailbox.behind = False  # stops the old object's catching up
        again = self.new_life(chat_id, 0)
        if life is not None:
            again.routing.group, again.sender = life.routing.group, life.sender
        again.mailbox.latest = self.inbox.cursor
        self._load(again)

    def _jumped(self, by: int) -> None:
        for conversation in self.tasks.running:
            conversation.shift(by)
        self._waking.jumped(by)

    # --- running conversations

    def let_go(self, conversation: Conversation) -> None:
        """Stop waiting for a coroutine that doesn't end.

        Its conversation is parked, so the chat can go on.
        """
        self.tasks.gone(conversation)
        if not self.work.cut and self.lives.get(conversation.life.chat_id) is conversation.life:
            conversation.park("its code catches every cancellation (BaseException), and does not end")

    def _runs(self, halt: Halt) -> bool:
        life = self.lives.get(halt.chat_id)
        return life is not None and life.routing.runs(halt)

    def _is_behind(self, chat_id: ChatId) -> bool:
        life = self.lives.get(chat_id)
        return self.inbox.behind or (life is not None and life.mailbox.behind)

    def over(self, life: ChatLife) -> None:
        """Drop an idle chat from memory."""
        if self.lives.get(life.chat_id) is life:
            del self.lives[life.chat_id]
            self.keeping.drop(life.chat_id)

    async def end_chat(self, chat_id: ChatId) -> None:
        """End all conversations of a chat that is to be forgotten. Return when all its writes are stored.

        Cancellation: *atomic*: the conversations end anyway.
        """
        await trio.lowlevel.checkpoint()
        life = self.lives.get(chat_id)
        ending = () if life is None else life.end_all(life.mailbox.latest + 1)
        self.shared.tidying.forget(chat_id)
        while not self.tasks.running.isdisjoint(ending):
            await self.tasks.fewer.park()
        await self.commits.wait_written(chat_id)
        self.keeping.drop(chat_id)

    # --- conversations of earlier processes

    async def write_out(self) -> None:
        """Store the rows and journals of conversations that an earlier process began in an event's row.

        This comes before any chat is loaded. A full store raises an alarm, and is tried again.
        """
        while self.inbox.from_before < 0:
            try:
                self.inbox.from_before = await write_out(self.services.store)
            except StoreFullError as error:
                # Nothing else may start before this has succeeded: these conversations would begin anew.
                text = f"the store can't be written, so the bot can't start: {error.remedy}"
                self.services.raise_alarm(Alarm("store_unwritable", "store", text))
                await trio.sleep(1)

    # --- stopping

    async def drain(self) -> None:
        """Stop routing events, and wait until every conversation waits or is over.

        Cancellation: *atomic*; conversations that are still busy are evicted.
        """
        self.work.stopping = True
        self.care.note_lived()
        while self.work.busy:
            await self.work.less_busy.park()

    async def oldest(self) -> int | None:
        """Return since when the oldest waiting event waits, in wall milliseconds; None if no event waits.

        An event waits until it is routed, or until its chat is loaded. Events that were routed, and wait for
        the code of their conversation, don't count.
        """
        inbox = self.inbox
        rows = await self.services.store.backlog(after=inbox.cursor, limit=1) if inbox.behind else ()
        since = [row.at for row in rows] + [life.loads_at for life in self.lives.values() if life.loading]
        held_up_at = self.work.held_up_at
        return min([*since, *([] if held_up_at is None else [held_up_at])], default=None)

    def portraits(self, limit: int) -> Sequence[Portrait]:
        """Describe at most `limit` chats in memory, the chats with the newest events first."""
        newest = islice(reversed(self.lives.values()), limit)
        return [portray(life, self.shared.timers.when) for life in newest]
