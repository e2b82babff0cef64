"""The dispatcher: passes accepted events to their chats, in order.

The inbox reader returns the events, the registry has the chats, and tasks run the conversations. The
dispatcher routes the events, and starts and stops the tasks. A chat with a full mailbox is *behind*: the
chat's further events, up to the inbox reader's cursor, are read from the inbox again later. Such a chat
delays no other chat.
"""

from __future__ import annotations

from typing import final

import trio

from ..base.alarm_kinds import Alarm
from ..base.authors import came_by_signal, split
from ..errors import StoreFullError
from ..seams.inbox import InboxRow
from ..wire.events import Event
from ..wire.ids import ChatId
from .calls.chat_calls import ChatCalls
from .calls.signals import Call, Halt, asked_of, stored_event
from .charges.paid import is_the_ledgers
from .conversation import Services
from .inbox_reader import InboxReader
from .jobs import SETTING, JobClock
from .registry import ChatRegistry
from .revival.crash_counts import CrashCounts
from .revival.reviving import unreadable
from .revival.stored import write_out
from .routes.declarations import RouteKind, Table
from .routes.routing import Delivery, Wait, Watch, known
from .shared import Shared
from .tasks import ConversationTasks


@final
class Dispatcher:
    """Routes the events of all chats.

    Attributes:
        inbox: reader of the events to route.
        tasks: tasks of the running conversations.
        chats: chats in memory.
    """

    def __init__(self, services: Services, table: Table, *, username: str | None = None) -> None:
        shared = self.shared = Shared(services, table, username)
        self.services, self.table = services, table
        self.commits, self.work, self.keeping = shared.commits, shared.work, shared.keeping
        inbox = self.inbox = InboxReader(shared)
        tasks = self.tasks = ConversationTasks(shared)
        self.work.cut_all = tasks.cut_all
        chats = self.chats = ChatRegistry(shared, inbox, tasks)
        shared.chat_calls = ChatCalls(services, table, self.commits, inbox.offer, self.hurry)
        shared.crashes = CrashCounts(services, self.work, shared.cleanup, chats.retry)
        self.chat_calls, self.crashes = shared.chat_calls, shared.crashes
        self._scope = trio.CancelScope(shield=True)

    def hurry(self, row: InboxRow) -> None:
        """Route at once a stop, or the start of an interrupt, that a conversation of the same chat stored.

        Without this method, a conversation that ends itself would continue until the bot routes the row. If
        the program stopped before that, the revived conversation would continue to its next wait.
        """
        actor, event = self.chats.actors.get(row.chat_id), known(self.table, stored_event(row))
        if row.seq <= self.inbox.cursor or actor is None or actor.loading or event is None:
            return
        asked = asked_of(event)
        route = self.table.named(asked.name) if isinstance(asked, Call) and actor.running.live else None
        if isinstance(asked, Halt) or (route is not None and route.kind is RouteKind.INTERRUPT):
            self.inbox.skip(row.seq)
            actor.deliver(Delivery(row.seq, event, row.at, row.group), ahead=True)
            if not actor.mailbox.behind:
                actor.mailbox.passed -= {row.seq}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled.

        Events that aren't consumed by the end stay in the inbox, and the next process routes them.

        Cancellation: *atomic*: no event is lost; the writes of handled events are flushed, with a deadline.
        """
        with self.services.clock.telling(self._jumped):
            try:
                await self._run_watched(task_status)
            except BaseException as error:
                if (rest := split(error)[1]) is None or came_by_signal(rest):
                    self.crashes.acquit()
                raise
            finally:
                self.crashes.look_no_more()

    async def _run_watched(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as guard:
            guard.start_soon(self._cut_when_cancelled)
            try:
                # Shielded from the caller's cancellation: `_cut_when_cancelled` first evicts all
                # conversations, and then cancels this scope.
                with self._scope:
                    async with trio.open_nursery() as nursery:
                        self.work.nursery = nursery
                        self.chats.waking.begin()
                        nursery.start_soon(self.tasks.or_cut, self.work.keep_tasks)
                        nursery.start_soon(self.tasks.or_cut, self.commits.keep_flushing)
                        await self.tasks.or_cut(self.write_out)
                        await self.tasks.or_cut(self._begin_code)
                        await self.tasks.or_cut(self.crashes.begin)
                        await self.tasks.or_cut(self.shared.cleanup.begin)
                        nursery.start_soon(self.tasks.or_cut, self.chats.catching_up.keep_up)
                        nursery.start_soon(self.tasks.or_cut, self.shared.timers.keep_time)
                        nursery.start_soon(self.tasks.or_cut, self.crashes.live_on)
                        nursery.start_soon(self.tasks.or_cut, self.chats.waking.revive_unfinished)
                        nursery.start_soon(self.tasks.or_cut, self.chats.waking.keep_reviving)
                        if self.table.jobs or await self.services.store.setting(SETTING):
                            jobs = self.tasks.jobs = JobClock(self.shared)
                            nursery.start_soon(self.tasks.or_cut, jobs.keep_time)
                        task_status.started()
                        await self.tasks.or_cut(self._route_events)
            finally:
                self.work.stopping = self.work.cut = True
                self.chats.waking.end()
                await self.commits.flush_at_the_end()
            guard.cancel_scope.cancel()

    async def _begin_code(self) -> None:
        """Store the running code's modules, if the last process ran other code."""
        code, store = self.services.code, self.services.store
        if code is not None and (new := await code.begin(store, self.services.clock.now())) is not None:
            self.commits.add([new])

    async def _cut_when_cancelled(self) -> None:
        """Evict all conversations before any coroutine is cancelled: a stop must not end conversations."""
        try:
            await trio.sleep_forever()
        finally:
            self.tasks.cut_all()
            self._scope.cancel()

    async def _route_events(self) -> None:
        while True:
            self._route(*await self.inbox.receive())

    def _route(self, row: InboxRow, event: Event | None) -> None:
        if self.work.stopping or is_the_ledgers(self.services, row.seq, event):
            return
        if (event := known(self.table, event)) is None:
            unreadable(self.shared, row)
            return
        actor = self.chats.actor_for(row)
        actor.mailbox.latest = row.seq
        if actor.loading:
            return
        actor.deliver(Delivery(row.seq, event, row.at, row.group), ahead=actor.mailbox.behind)
        if actor.is_empty:
            self.chats.drop(actor)

    def _jumped(self, by: int) -> None:
        for conversation in self.tasks.running:
            takers: list[Wait | Watch] = [*conversation.seat.waits, *conversation.seat.watches]
            for taker in takers:
                taker.since += by
            if conversation.run is not None:
                conversation.run.shift(by)
        self.chats.waking.jumped(by)

    async def end_chat(self, chat_id: ChatId) -> None:
        """End all conversations of a chat that is to be forgotten. Return when the chat's writes are stored.

        Cancellation: *atomic*: the conversations end anyway.
        """
        await trio.lowlevel.checkpoint()
        actor = self.chats.actors.get(chat_id)
        ending = () if actor is None else actor.end_all(actor.mailbox.latest + 1)
        self.shared.cleanup.forget(chat_id)
        while not self.tasks.running.keys().isdisjoint(ending):
            await self.tasks.fewer.park()
        await self.commits.wait_written()
        self.keeping.drop(chat_id)

    # --- conversations of earlier processes

    async def write_out(self) -> None:
        """Store the rows and journals of conversations whose beginning is stored only in an event's row.

        An earlier process stored these beginnings. Must be called before any chat is loaded. If the store is
        full, an alarm is raised, and the writing is tried again.
        """
        while self.inbox.from_before < 0:
            try:
                self.inbox.from_before = await write_out(self.services.store)
            except StoreFullError as error:
                # Nothing else may start before the writing has succeeded: otherwise these conversations would
                # begin a second time.
                text = f"the store can't be written, so the bot can't start: {error.remedy}"
                self.services.raise_alarm(Alarm("store_unwritable", "store", text))
                await trio.sleep(1)

    # --- stopping

    async def drain(self) -> None:
        """Stop routing events, and wait until every conversation waits or is over.

        Cancellation: *atomic*; conversations that are still busy are evicted.
        """
        self.work.stopping = True
        self.crashes.note_lived()
        while self.work.busy:
            await self.work.less_busy.park()

    async def oldest(self) -> int | None:
        """Return when the oldest waiting event began to wait, in wall milliseconds; None if no event waits.

        An event waits until it is routed, or until its chat is loaded. Events that were routed, and wait for
        the code of their conversation, don't count.
        """
        inbox, actors = self.inbox, self.chats.actors
        rows = await self.services.store.backlog(after=inbox.cursor, limit=1) if inbox.behind else ()
        since = [row.at for row in rows] + [actor.born for actor in actors.values() if actor.loading]
        return min((at for at in [*since, self.work.held_up_at] if at is not None), default=None)
