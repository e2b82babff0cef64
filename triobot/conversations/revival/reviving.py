"""Load chats from the store, and deliver the events that wait for them.

A conversation is replayed up to its journal's end, and then continues with new events. A chat's events wait
until all conversations of the chat are loaded, so each event gets the same receiver as without a restart. A
chat with a full mailbox is *behind*: the chat's further events stay in the inbox. These events are read in
portions, one portion of each chat in turn. So a flooded chat delays no other chat.

A conversation that can't be replayed with the current code is *parked*. A parked conversation keeps its
journal and its position in the chat. An operator gets an alarm, and the user gets one message. An interrupt
still ends a parked conversation. Every start of the bot tries to replay a parked conversation again. But a
conversation that crashed the process repeatedly is only tried with other code, or after a while
(`crash_counts`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, cast, final

import attrs
import trio

from ...base.alarm_kinds import Alarm
from ...errors import NondeterminismError, RecordError, UnreadableRecordError
from ...seams.inbox import InboxRow
from ...seams.journals import ConversationRow, ParkConversation
from ...seams.patience import await_store
from ...seams.rooms import is_chat, place_name
from ...seams.values import decode_value
from ...wire.events import Event, Join
from ..beginnings import DueStart, Replay
from ..calls.signals import CALL, ROOM_SIGNAL, SIGNAL, Call, Halt, Order, Signal, asked_of, stored_event
from ..chat_actor import ChatActor
from ..conversation import Conversation, Ending
from ..routes.declarations import Route, RouteKind
from ..routes.filters import Filter, Setting, is_payment
from ..routes.routing import Delivery, Start, interrupts, known
from ..routes.schedules import Tick
from ..running.failures import give_up
from ..shared import Shared
from .crash_counts import CRASHES
from .stored import Stored, fitting, read_stored

log: Final = logging.getLogger("triobot.conversations")

PAGE: Final = 256
TOGETHER: Final = 16
"""Number of chats that load at the same time. With a database server, a load waits for several replies."""
HOLDS_UP: Final = 1.0
"""Maximum number of seconds for which a chat waits for `TOGETHER` loading chats, which may hang in the bot's
code."""
PROMPT: Final = 1.0
"""Seconds after which a load stops waiting for a conversation that was replayed but is still busy."""
HANGS: Final = 60.0
"""Seconds without progress of a replay, after which the conversation is parked: the code hangs."""


async def revive(actor: ChatActor, waiting: Sequence[Delivery]) -> None:
    """Revive a chat's stored conversations.

    Args:
        waiting: the chat's waiting events.
    """
    store, code, crashes = actor.services.store, actor.services.code, actor.shared.crashes
    # Asides come first. Only the conversation that is revived last may take waiting events in its repeated
    # turn.
    found = await await_store(partial(store.conversations, actor.chat_id))
    rows = sorted(found, key=lambda row: row.kind != "aside")
    if any(row.parked_because is not None for row in rows):
        actor.refusals.recall(await await_store(partial(store.data, actor.chat_id)))
    healed = list[Conversation]()
    for row in rows:
        if row.parked_because is not None and _is_to_end(row, waiting):
            _place_parked(actor, row)
            continue
        if crashes.condemns(row):
            because = f"the code of {row.route} was at work each of the {CRASHES} times that the program died"
            actor.refusals.park(_place_parked(actor, row), because, error=crashes.build)
            continue
        journal = await await_store(partial(store.journal, row.id))
        if journal is None:
            continue
        try:
            stored = read_stored(journal)
            opening = fitting(stored, actor.shared.table)
            changed = None if code is None else await code.compare(store, row, stored.records)
        except (NondeterminismError, UnreadableRecordError) as error:
            actor.refusals.park(_place_parked(actor, row), error.what)
            continue
        begin = Replay(stored, changed)
        conversation = Conversation.of(actor.shared, actor.kept, *opening, row.sender_id, begin)
        _follow(actor, conversation, stored, waiting)
        if row is rows[-1] and row.parked_because is None and stored.interrupted_by is None:
            actor.mailbox.shown = conversation, waiting
        actor.work.count("revived")
        actor.calls.start(actor, conversation)
        await _stand(conversation)
        if row.parked_because is not None and not conversation.seat.parked:
            _heal(actor, conversation)
            healed.append(conversation)
    # Asides come last: the live conversations decide first which messages were typed for them.
    for conversation in sorted(healed, key=lambda one: one.facts.beside):
        # Drop waiting messages that don't answer a question on the screen.
        for delivery in actor.routing.typed_while_parked(conversation, waiting):
            actor.mailbox.passed |= {delivery.seq}
            actor.refusals.drop(delivery, "typed_while_parked")


def _is_to_end(row: ConversationRow, waiting: Sequence[Delivery]) -> bool:
    """Whether an operator has ordered to end a parked conversation without running its code."""
    orders = [delivery.event for delivery in waiting]
    return any(
        isinstance(order, Order) and order.end and order.conversation == row.id
        for order in cast("list[object]", orders)
    )


def _heal(actor: ChatActor, conversation: Conversation) -> None:
    """Unpark a conversation."""
    replay = conversation.replay
    assert replay is not None
    actor.refusals.over(conversation)
    row = replay.stored.row
    replay.stored = attrs.evolve(replay.stored, row=attrs.evolve(row, parked_because=None))
    if (writer := conversation.writer) is not None and not writer.over:
        writer.write([ParkConversation(row.id, writer.now(), None)])


async def _pending(actor: ChatActor, after: int) -> Sequence[InboxRow]:
    read = partial(actor.services.store.pending, actor.chat_id, after=after, limit=PAGE)
    return await await_store(read)


def _follow(
    actor: ChatActor, conversation: Conversation, stored: Stored, waiting: Sequence[Delivery]
) -> None:
    """If an interrupt was ending the conversation, schedule the interrupt's route for after the end."""
    delivery = next((one for one in waiting if one.seq == stored.interrupted_by), None)
    if delivery is None:
        return
    actor.routing.group |= delivery.group
    decision = actor.routing.jump(delivery)
    if isinstance(decision, Start) and interrupts(decision):
        conversation.ending = Ending.INTERRUPTED
        decision = attrs.evolve(decision, interrupted=conversation.facts.route.name)
        conversation.heir = DueStart(decision, delivery)
        actor.mailbox.passed |= {delivery.seq}


async def _stand(conversation: Conversation) -> None:
    """Wait for the end of a conversation's replay, up to a time limit. Until then the chat gets no events.

    The replayed code repeats waits that are not operations. Such a wait may take long, or never end.
    """
    replay = conversation.replay
    assert replay is not None
    settled, seconds, given = replay.settled, PROMPT, -1
    while True:
        with trio.move_on_after(seconds):
            await settled.wait()
        if conversation.run is None:
            await settled.wait()  # the conversation has not begun yet, because the store is slow
        if settled.is_set() or (run := conversation.run) is None or not conversation.replaying:
            return
        if given == run.journal.given:
            break  # a whole minute without a record: even a slow computer replays one record in a minute
        seconds, given = HANGS, run.journal.given
    # The replay doesn't end: the branch with the turn waits for something outside of the chat.
    give_up(run, "it went on here, and now waits for something that isn't the chat's")
    with trio.move_on_after(PROMPT):
        await settled.wait()


def _place_parked(actor: ChatActor, row: ConversationRow) -> Conversation:
    """Add a conversation to the chat as parked, without running the conversation's code."""
    route = actor.shared.table.named(row.route) or _unknown(row)
    # Stand-in for the first event, which is never read again. A room has no joins, so it gets a signal.
    begun = (
        Join(actor.chat_id, None) if is_chat(actor.chat_id) else cast("Event", Signal(actor.chat_id, None))
    )
    delivery = Delivery(row.id, begun, row.started_at)
    start, begin = Start(route, None), Replay(Stored(row, ()))
    conversation = Conversation.of(actor.shared, actor.kept, start, delivery, row.sender_id, begin)
    conversation.seat.parked = True
    actor.running.take(conversation)
    return conversation


def _unknown(row: ConversationRow) -> Route:
    async def nothing(_: object) -> None:
        raise AssertionError("a parked conversation doesn't run")

    def never(_: Event, __: Setting) -> None: ...

    return Route(RouteKind(row.kind), nothing, Filter(never, "nothing"), row.route)


# --- reading on


@final
class CatchingUp:
    """Loader of chats, and reader of the further events of chats that are behind (`Mailbox.behind`)."""

    def __init__(self, shared: Shared) -> None:
        self._shared, self._services, self._work = shared, shared.services, shared.work
        self._stalled: dict[ChatActor, None] = {}
        self._coming: set[ChatActor] = set()
        self._stall = trio.Event()
        self._back = trio.Event()

    def room(self, actor: ChatActor) -> None:
        """Schedule the load of a chat that is behind; if a loaded chat can queue more, schedule further
        reading.
        """
        if actor.mailbox.behind and (actor.loading or actor.routing.has_room):
            self._stalled[actor] = None
            self._stall.set()

    async def keep_up(self) -> None:
        """Load chats, and read further events of loaded chats that can queue more, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._stall.wait()
                self._stall = trio.Event()
                while self._stalled:
                    # Read up to `PAGE` waiting rows of each chat in turn: a flooded chat delays no other
                    # chat.
                    actor = next(iter(self._stalled))
                    del self._stalled[actor]
                    await self._work.until_not_too_busy()
                    if not actor.loading:
                        await self._catch_up(actor)
                    elif actor not in self._coming:
                        await self._come_back_beside(actor, nursery)

    async def _come_back_beside(self, actor: ChatActor, nursery: trio.Nursery) -> None:
        """Load a chat in another task; if many chats are being loaded, wait a short time for one of them."""
        self._coming.add(actor)
        self._back = trio.Event()
        nursery.start_soon(self._come_back, actor)
        if len(self._coming) >= TOGETHER:
            with trio.move_on_after(HOLDS_UP):
                await self._back.wait()

    async def _catch_up(self, actor: ChatActor) -> None:
        latest = actor.mailbox.latest
        rows: Sequence[InboxRow] = ()
        if actor.mailbox.cursor < latest:
            rows = await _pending(actor, actor.mailbox.cursor)
        if self._work.stopping or not actor.mailbox.behind:
            return
        for row in rows:
            if row.seq > latest:
                break  # the inbox reader will deliver this row
            delivery = self._delivery(row, says=row.seq not in actor.mailbox.passed)
            if delivery is not None and not actor.deliver(delivery):
                return  # stop until the chat can queue more
            actor.mailbox.cursor = row.seq
        else:
            if len(rows) == PAGE:
                self.room(actor)
                return
        actor.mailbox.caught_up(latest)
        if actor.mailbox.behind:
            self.room(actor)
        elif actor.is_empty:
            actor.calls.over(actor)

    async def _come_back(self, actor: ChatActor) -> None:
        """Load a chat from the store, then deliver its waiting events."""
        try:
            # Before the load, the last writes of this chat's earlier conversations must be stored.
            await self._work.commits.wait_for()
            await await_store(actor.kept.load)  # filters may read the chat's data
            waiting, after = list[Delivery](), actor.mailbox.cursor
            while rows := await _pending(actor, after):
                after = rows[-1].seq
                waiting += [found for row in rows if (found := self._delivery(row)) is not None]
            await revive(actor, waiting)
            actor.mailbox.shows_no_more()
            await self._look_at_those_that_waited(actor)
            actor.loading = False
            if not self._work.stopping:
                self.room(actor)
            for conversation in actor.running.all():
                if conversation.run is not None:
                    conversation.run.catching_up = False
                conversation.tick()
        finally:
            self._coming.discard(actor)
            self._back.set()

    async def _look_at_those_that_waited(self, actor: ChatActor) -> None:
        """Deliver waiting events in order. Once the mailbox is full, deliver only urgent events."""
        mailbox, seen, room = actor.mailbox, actor.mailbox.cursor, True
        while not self._work.stopping and seen < mailbox.latest:
            latest = mailbox.latest
            rows = await _pending(actor, seen)
            for row in rows:
                if row.seq > latest:
                    break
                if (delivery := self._delivery(row, says=room)) is None:
                    continue
                if not actor.deliver(delivery, ahead=not room):
                    room = False
            seen = min(rows[-1].seq, latest) if len(rows) == PAGE else latest
            if room:
                mailbox.cursor = seen

    def _delivery(self, row: InboxRow, *, says: bool = False) -> Delivery | None:
        """Return a row's event; None for the ledger's events, and for unreadable rows.

        Args:
            says: whether to report and consume an unreadable row.
        """
        event = known(self._shared.table, stored_event(row))
        if event is None and says:
            unreadable(self._shared, row)
        # The ledger got a payment's row when the row was routed, and consumes the row.
        ledgers = self._services.payments is not None and event is not None and is_payment(event)
        return None if event is None or ledgers else Delivery(row.seq, event, row.at, row.group)


def unreadable(shared: Shared, row: InboxRow) -> None:
    """Consume an unreadable row. An unreadable signal or call stays in the inbox, and raises an alarm."""
    work = shared.work
    call = asked_of(stored_event(row))
    if isinstance(call, Call) and isinstance(call.value, Tick):
        # The bot has no such job any more; a job that is declared again starts anew.
        work.count("tick_of_gone_job")
        work.commits.consumed([row.seq])
        return
    if row.content_type in (SIGNAL, ROOM_SIGNAL, CALL):
        # The row waits in the inbox for another version of the bot, which can read the row.
        work.count("unknown_signal")
        what = "a call" if row.content_type == CALL else "a signal"
        try:
            asked = decode_value(row.body.decode())
            why = f"the bot has no route {asked.name!r}" if isinstance(asked, Call | Halt) else "it is none"
            if row.content_type == ROOM_SIGNAL:
                why = f"the bot has no room {cast('tuple[str, str, object]', asked)[0]!r}"
        except (RecordError, UnicodeDecodeError) as error:
            why = error.what if isinstance(error, UnreadableRecordError) else "it is no record"
        text = f"{what} in {place_name(row.chat_id)} can't be read, and waits in the inbox ({row.seq}): {why}"
        log.warning("%s", text)
        shared.services.raise_alarm(Alarm("signal_unreadable", what, text))
    else:
        work.count("unreadable")
        work.commits.consumed([row.seq])
