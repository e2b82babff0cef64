"""The dispatcher: takes accepted events to their chats, in order, and knows when it is behind.

One cursor runs over the inbox. While the memory channel keeps up, events come through it; once it was full,
everything comes from the inbox until that has been read to its end. A chat whose mailbox is full is behind
in the same way, by itself, and delays nobody else.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Final, final

import trio

from ..errors import ForeignTaskError, ProtocolError, RefusedError, StoreFullError, TransportError
from ..seams import Alarm, Consume, InboxRow
from ..wire.decode import decode_event
from ..wire.events import Event
from ..wire.ids import ChatId
from ..wire.operations import Operation
from .chat import Chat
from .conversation import Conversation, Services
from .life import ChatLife
from .lines import calling_line
from .routes import Table
from .waits import Delivery

log: Final = logging.getLogger("triobot.conversations")

CHANNEL: Final = 1024
PAGE: Final = 256
BUSY: Final = 10_000
"""Conversations that may be working at once; above it, events wait in the inbox."""
_FLUSH_DEADLINE: Final = 10.0


@final
class Dispatcher:
    """Runs the conversations of all chats."""

    def __init__(self, services: Services, table: Table, *, username: str | None = None) -> None:
        self._services = services
        self._table = table
        self._username = username
        self._lives: dict[ChatId, ChatLife] = {}
        self._running: set[Conversation] = set()
        # Rows given to a conversation and not yet deleted; and those deleted before the cursor came to them.
        self._taken: set[int] = set()
        self._early: set[int] = set()
        self._busy = 0
        self._done: list[int] = []
        self._counts: Counter[str] = Counter()
        self._sender, self._receiver = trio.open_memory_channel[tuple[InboxRow, Event]](CHANNEL)
        # Behind from the start: what the last process left in the inbox comes first.
        self._behind = True
        self._cursor = 0
        self._newest = 0
        self._stalled: deque[ChatLife] = deque()
        self._work = trio.Event()
        self._flush = trio.Event()
        self._changed = trio.lowlevel.ParkingLot()
        self._stopping = False
        self._nursery: trio.Nursery | None = None

    # --- from the inbox

    def offer(self, row: InboxRow, event: Event) -> None:
        """Take an accepted event, in the order of acceptance; never waits.

        When the channel is full the event stays in the inbox only, and is read from there.
        """
        if self._stopping:
            return
        if not self._behind:
            try:
                self._sender.send_nowait((row, event))
            except trio.WouldBlock:
                self._behind = True
                self._counts["fell_behind"] += 1
            else:
                return
        self._newest = max(self._newest, row.seq)
        self._work.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled. What is not consumed then is in the inbox, and is routed again.

        Cancellation: *atomic*: no event is lost; what had been handled is flushed, with a deadline.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._keep_flushing)
                nursery.start_soon(self._catch_up_chats)
                task_status.started()
                await self._dispatch()
        finally:
            self._stopping = True
            # Shielded, so that events that were dealt with are not dealt with again after a clean stop.
            with trio.move_on_after(_FLUSH_DEADLINE, shield=True):
                await self._flush_done()

    async def _dispatch(self) -> None:
        while True:
            await self._from_channel()
            await self._from_backlog()

    async def _from_channel(self) -> None:
        """Route what comes through the channel, until it is empty and more is in the inbox only."""
        while True:
            try:
                row, event = self._receiver.receive_nowait()
            except trio.WouldBlock:
                if self._behind:
                    return
                row, event = await self._next()
            await self._until_not_too_busy()
            self._route(row, event)
            self._cursor = max(self._cursor, row.seq)

    async def _next(self) -> tuple[InboxRow, Event]:
        return await self._receiver.receive()

    async def _from_backlog(self) -> None:
        """Route what is in the inbox, until nothing is left that came later."""
        while True:
            newest = self._newest
            rows = await self._services.store.backlog(after=self._cursor, limit=PAGE)
            for row in rows:
                await self._until_not_too_busy()
                self._route(row, _decoded(row))
                self._cursor = row.seq
            if not rows:
                # Rows up to `newest` were durable before the read: what it did not show is gone already.
                self._cursor = max(self._cursor, newest)
                if self._newest == newest:
                    self._behind = False
                    return

    async def _until_not_too_busy(self) -> None:
        while self._busy > BUSY:
            await self._changed.park()

    def _route(self, row: InboxRow, event: Event | None) -> None:
        if row.seq in self._taken or row.seq in self._early:
            self._early.discard(row.seq)
            return
        if self._stopping:
            return
        if event is None:
            self._counts["unreadable"] += 1
            self.consumed([row.seq])
            return
        life = self._lives.get(row.chat_id)
        if life is None:
            life = self._lives[row.chat_id] = ChatLife(
                self, self._services, self._table, row.chat_id, self._username
            )
        life.latest = max(life.latest, row.seq)
        if life.behind:
            if life.jump(Delivery(row.seq, event)):
                self._taken.add(row.seq)
            return
        self._deliver(life, row, event)
        if life.idle:
            self.over(life)

    def _deliver(self, life: ChatLife, row: InboxRow, event: Event) -> bool:
        self._taken.add(row.seq)
        if not life.deliver(Delivery(row.seq, event), group=row.group):
            self._taken.discard(row.seq)
            life.behind = True
            return False
        life.cursor = row.seq
        return True

    # --- chats that are behind

    def room(self, life: ChatLife) -> None:
        """A chat that was behind has room again: read on."""
        if life not in self._stalled:
            self._stalled.append(life)
            self._work.set()

    async def _catch_up_chats(self) -> None:
        while True:
            while self._stalled:
                await self._catch_up(self._stalled.popleft())
            await self._work.wait()
            self._work = trio.Event()

    async def _catch_up(self, life: ChatLife) -> None:
        while life.behind and not self._stopping:
            latest = life.latest
            rows = await self._services.store.pending(life.chat_id, after=life.cursor, limit=PAGE)
            for row in rows:
                if row.seq in self._taken:
                    life.cursor = row.seq
                elif row.seq < life.interrupted_at:
                    self._taken.add(row.seq)
                    life.cursor = row.seq
                    self.count("interrupted")
                    self.consumed([row.seq])
                elif (event := _decoded(row)) is None:
                    self._taken.add(row.seq)
                    life.cursor = row.seq
                    self.consumed([row.seq])
                elif not self._deliver(life, row, event):
                    return
            if not rows:
                life.cursor = max(life.cursor, latest)
                life.behind = life.latest > latest
        if life.idle:
            self.over(life)

    # --- what a chat's life asks for

    def start(self, conversation: Conversation) -> None:
        """Run a conversation as a task."""
        if self._nursery is None or self._stopping:
            return
        self._running.add(conversation)
        self._counts["started"] += 1
        self._nursery.start_soon(self._run, conversation, name=conversation.route.name)

    async def _run(self, conversation: Conversation) -> None:
        try:
            await conversation.run(Chat(conversation))
        finally:
            self._running.discard(conversation)

    def consumed(self, seqs: Sequence[int]) -> None:
        """These inbox rows have been dealt with."""
        if seqs:
            self._done.extend(seqs)
            self._flush.set()

    def tidy(self, operation: Operation[object]) -> None:
        """Do this beside the conversations; nobody waits for its result."""
        if self._nursery is not None and not self._stopping:
            self._nursery.start_soon(self._tidy, operation)

    async def _tidy(self, operation: Operation[object]) -> None:
        try:
            await self._services.outbox.perform(operation)
        except (ProtocolError, RefusedError, TransportError) as error:
            self._counts["tidying_failed"] += 1
            log.info("tidying up with %s failed: %s", operation.path, type(error).__name__)

    @property
    def stopping(self) -> bool:
        """The program is about to stop."""
        return self._stopping

    def working(self, more: int) -> None:
        """This many more branches are at work, or fewer."""
        self._busy += more
        self._changed.unpark_all()

    def count(self, what: str) -> None:
        """Count what happened, by word."""
        self._counts[what] += 1

    def over(self, life: ChatLife) -> None:
        """Nothing goes on in this chat any more."""
        if self._lives.get(life.chat_id) is life:
            del self._lives[life.chat_id]

    # --- consumption, write-behind

    async def _keep_flushing(self) -> None:
        while True:
            await self._flush.wait()
            self._flush = trio.Event()
            while self._done:
                try:
                    await self._flush_done()
                except StoreFullError:
                    # Nothing is lost: the rows stay in the inbox, and are handled again after a restart.
                    self._services.raise_alarm(
                        Alarm("store_unwritable", "consume", "the store can't be written: free some space")
                    )
                    await trio.sleep(1)

    async def _flush_done(self) -> None:
        if not self._done:
            return
        done, self._done = self._done, []
        try:
            await self._services.store.commit(Consume(tuple(done)))
        except BaseException:
            self._done.extend(done)
            raise
        self._taken.difference_update(done)
        self._early.update(seq for seq in done if seq > self._cursor)

    # --- stopping

    async def drain(self) -> None:
        """Give out no more events, and wait until every conversation is parked or over.

        Cancellation: *atomic*; what is still busy then is cut.
        """
        self._stopping = True
        while self._busy:
            await self._changed.park()

    @property
    def counts(self) -> Mapping[str, int]:
        """What happened so far, by word."""
        return dict(self._counts)

    def refuse_conversations(self, what: str) -> None:
        """Refuse a door that is not for a conversation's own code.

        Raises:
            ForeignTaskError: the current task is a conversation's.
        """
        task = trio.lowlevel.current_task()
        if any(conversation.owns(task) for conversation in self._running):
            raise ForeignTaskError(
                f"{calling_line()}: {what} inside a conversation; use the chat's own methods"
            )

    @property
    def lag(self) -> int:
        """How far the cursor is behind the newest event, in inbox numbers."""
        return max(0, self._newest - self._cursor) if self._behind else 0

    @property
    def live(self) -> int:
        """Conversations that run now, parked or not."""
        return len(self._running)


def _decoded(row: InboxRow) -> Event | None:
    """The event of a stored row; None if this version can't read what an earlier one could."""
    try:
        return decode_event(row.content_type, row.body)
    except ProtocolError:
        return None
