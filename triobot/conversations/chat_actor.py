"""The actor of a chat routes the chat's events, and starts and ends the chat's conversations.

An idle chat has no `ChatActor`, and takes no memory. A chat's waiting events are in its `Mailbox`, and its
running conversations are in its `RunningSet`. `ChatRouting` reads both to decide about an event, and
`ChatActor` carries the decision out. A chat is *behind* while its mailbox is full and further events wait in
the inbox. Then urgent events are handled before older events. These events are urgent: ignored events,
leaves, interrupts, starts of asides, stops, an operator's orders, and events that end a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from math import inf
from operator import is_
from typing import Final, assert_never, final

import attrs
import trio

from ..base.frozen import guarded
from ..engine import Diverged, End
from ..seams.writes import PutData, Write
from ..wire.events import Join, Leave, Message
from ..wire.ids import ChatId, SenderId
from .beginnings import DueStart, Successor
from .calls.signals import Halt, Order, is_signal
from .charges.paid import abandon
from .conversation import Conversation, Ending
from .data import JOINED, joined
from .mailbox import Mailbox, ends
from .refusals import Refusals
from .revival.crash_counts import LOOKED_AT
from .routes.routing import (
    BOARD,
    Decision,
    Delivery,
    Drop,
    Expire,
    Give,
    Queue,
    Start,
    Taken,
    Unfit,
    Wait,
    Watch,
    interrupts,
    is_beside,
)
from .running.failures import parting
from .running_set import ChatRouting, RunningSet
from .shared import Shared

# Number of asides that may run in a chat; further asides wait until a running aside ends. Sleeping asides,
# such as reminders, count as running.
ASIDES: Final = 64


@final
@guarded
class DispatcherCalls:
    """Functions of the dispatcher that a chat's actor calls; the first argument is the actor.

    Attributes:
        start: register a conversation in the chat, and start its task.
        room: read more of a chat's inbox rows once the chat's full mailbox has room again.
        over: drop an idle chat from memory.
    """

    start: Callable[[ChatActor, Conversation], None]
    room: Callable[[ChatActor], None]
    over: Callable[[ChatActor], None]


@final
class ChatActor:
    """The actor of a chat that has conversations or waiting events.

    Attributes:
        mailbox: the chat's waiting events, and the chat's position in the inbox.
        running: the chat's running conversations.
        loading: whether the conversations are being loaded from the store; during the loading, no event is
            routed.
        born: time when the chat came into memory, in wall milliseconds.
        routing: object that decides about the chat's events.
        sender: the sender of the newest event.
        kept: the chat's data.
    """

    def __init__(self, shared: Shared, calls: DispatcherCalls, chat_id: ChatId, cursor: int) -> None:
        self.shared, self.calls, self.chat_id = shared, calls, chat_id
        self.mailbox: Final = Mailbox(cursor, cursor)
        self.work: Final = shared.work
        self.loading, self.born = False, 0
        self.services: Final = shared.services
        self.sender: SenderId | None = None
        self.running: Final = RunningSet(shared.table)
        self.kept: Final = shared.keeping.kept(chat_id)
        self.routing: Final = ChatRouting(shared, chat_id, self.kept, self.mailbox, self.running)

    @property
    def is_empty(self) -> bool:
        """Whether the chat has no conversations and no waiting events."""
        anything = self.running.live or self.running.asides or self.mailbox.waiting
        return not (anything or self.mailbox.behind or self.loading)

    @property
    def can_evict(self) -> bool:
        """Whether the chat can be evicted: no event is queued, and all the chat's conversations wait."""
        idle = not (self.mailbox.waiting or self.mailbox.behind or self.is_empty)
        return idle and self.running.is_waiting

    @cached_property
    def refusals(self) -> Refusals:
        """Handler of the events that no conversation takes."""
        return Refusals(self.shared, self.chat_id, self.kept, self.running, self.routing)

    # --- incoming events

    def deliver(self, delivery: Delivery, *, ahead: bool = False) -> bool:
        """Route an event. Return False if the event has to wait in the inbox.

        An event has to wait if the mailbox has no room, or if `ahead` is true and the event isn't urgent.

        Args:
            ahead: whether earlier events of the chat still wait. If so, the event is handled only if it is
                urgent. An interrupt makes all earlier events useless, in the inbox as well as in the mailbox.
        """
        # No `finally` resets this entry. An error here ends the process, and the next start of the bot reads
        # the event's row from the entry.
        self.shared.crashes.at_work[LOOKED_AT] = delivery.seq
        handled = delivery.seq in self.mailbox.passed or self._deliver(delivery, ahead)
        self.shared.crashes.at_work[LOOKED_AT] = 0
        if ahead and handled:
            self.mailbox.passed |= {delivery.seq}
            self.calls.room(self)
        elif handled:
            self.mailbox.cursor = delivery.seq
        elif not ahead:
            self.mailbox.behind = True
        return handled

    def _deliver(self, delivery: Delivery, ahead: bool) -> bool:
        event, routing = delivery.event, self.routing
        routing.group |= delivery.group
        self.sender = None if event.sender is None else event.sender.id
        if (why := routing.too_late(delivery)) is not None:
            self.refusals.drop(delivery, why)
            return True
        if isinstance(event, Join):
            self.work.commits.consumed((), [joined(self.chat_id)])
        if isinstance(event, Leave) and not routing.group:
            self.end_all(delivery.seq)
            self.work.commits.consumed((), [PutData(self.chat_id, JOINED, None)])
            decision = routing.decide(delivery, at_rest=True)
        else:
            # The event is read from the inbox a second time: the first time, `deliver` got it with `ahead`.
            again = self.mailbox.behind and not (ahead or self.loading)
            owner = self.running.owner_of(event)
            if isinstance(event, Leave) and owner is not None and not again:
                self._drop_earlier(delivery, owner, "left")
                self._end(self.running.live[owner], Ending.STOPPED)
            decision = routing.jump(delivery) if ahead else routing.decide(delivery)
        if isinstance(decision, Queue):
            if (answer := self.refusals.queue(delivery)) is None:
                return True
            if isinstance(answer, Queue):
                if ahead or not (is_signal(event) or routing.has_room):
                    return False
                if is_signal(event) and None not in self.running.live:
                    self.work.count("signal_kept")
            decision = answer
        self._act(decision, delivery)
        return True

    def _act(self, decision: Decision, delivery: Delivery) -> None:
        match decision:
            case Drop(why, say):
                self.refusals.drop(delivery, why, say)
            case Expire():
                self.refusals.expire(delivery)
            case Queue():
                self.mailbox.put(delivery)
            case Start():
                self._start(decision, delivery)
            case Give(taker, answer):
                if (conversation := self.running.who_has(taker)) is not None:
                    taker.give(delivery, answer)
                    conversation.bring(delivery)
                event = delivery.event
                asked = None if isinstance(event, Message) else self.refusals.question_of(event)
                if asked is not None and isinstance(answer, Taken):
                    self.shared.answers.answered(asked, delivery.at)
            case Halt():
                if self.mailbox.behind:
                    self.mailbox.halted(delivery.seq, decision)
                stops = partial(ends, decision)
                for queued in [*self.mailbox.take_out(stops), *self.running.take_out(stops)]:
                    self.refusals.drop(queued, "stopped")
                self._stop(delivery, [one for one in self.running.all() if one.facts.ended_by(decision)])
            case Order(conversation=number, end=True, say=say):
                owed = self.shared.cleanup.tell(self.chat_id, number, say)
                self._stop(delivery, [one for one in self.running.all() if one.facts.seq == number], owed)
            case Order(conversation=number):
                self.work.commits.consumed([delivery.seq])
                parked = any(one.seat.parked for one in self.running.all() if one.facts.seq == number)
                if parked and delivery.at > self.born:
                    self.shared.crashes.retry(number, self.chat_id)
            case _:
                assert_never(decision)

    def _start(self, start: Start, delivery: Delivery) -> None:
        if is_beside(start) and len(self.running.asides) >= ASIDES:
            self.work.count("aside_waits")
            self.running.asides_due = [*self.running.asides_due, DueStart(start, delivery)]
            return
        owner = None if is_beside(start) else self.running.owner_for(start, delivery.event)
        if interrupts(start):
            # An interrupt makes earlier events useless, even if they are still queued.
            self._drop_earlier(delivery, owner)
        live = None if is_beside(start) else self.running.live.get(owner)
        if live is None:
            self.calls.start(self, Conversation.of(self.shared, self.kept, start, delivery, owner))
        else:
            start = attrs.evolve(start, interrupted=live.facts.route.name)
            live.heir = DueStart(start, delivery)
            self._end(live, Ending.INTERRUPTED, delivery.at, delivery.seq)

    def _stop(
        self, delivery: Delivery, conversations: Sequence[Conversation], also: Sequence[PutData] = ()
    ) -> None:
        """End conversations because of `delivery`, which is a stop or an operator's order.

        The writes `also` are stored in the unit that consumes `delivery`.
        """
        for conversation in conversations:
            if conversation.seat.parked and not conversation.facts.beside:
                self._drop_earlier(delivery, conversation.facts.owner, "typed_while_parked")
            self._end(conversation, Ending.STOPPED)
        self.work.commits.consumed([delivery.seq], also)  # after the writes of the ends

    def _drop_earlier(self, delivery: Delivery, owner: SenderId | None, why: str = "interrupted") -> None:
        """Drop queued events for the owner's conversation that are older than `delivery`, except signals."""
        self.mailbox.ended(owner, delivery.seq)
        mine = self.mailbox.take_out(partial(self.routing.is_overtaken, owner, delivery.seq))
        live = self.running.live.get(owner)
        if live is not None and live.heir is not None:
            mine.append(live.heir.delivery)
            live.heir = None
        for earlier in mine:
            self.refusals.drop(earlier, why)

    # --- queued events for a conversation

    def offer_queued(self, conversation: Conversation, taker: Wait | Watch, *, resting: bool = False) -> None:
        """Offer the queued events to `taker`, which takes the first event that fits.

        `taker` is a wait or block that opens, or a wait in which the task comes to rest.

        Args:
            resting: whether the task rests in the wait. If so, the wait's `otherwise` handles events that
                don't fit.
        """
        if not resting:
            self.running.opens(conversation, taker)
        if conversation.replaying:
            return  # on replay, the journal decides which event the wait or block takes
        if self.mailbox.shown is not None:
            self._show(conversation, taker)
        for watch in conversation.seat.watches:
            if watch.cut():
                self.free(conversation, watch)
        if self.mailbox.waiting and not _cancelled():
            for delivery in self.mailbox.waiting:
                if not taker.open:
                    break
                decision = self.routing.offer(delivery, conversation, taker, resting=resting)
                if not isinstance(decision, Queue):
                    self.mailbox.take_out(partial(is_, delivery))
                    self._act(decision, delivery)
        if self.mailbox.behind:
            self.calls.room(self)

    def free(self, conversation: Conversation, watch: Watch) -> None:
        """Route the event that a block took again, unless a record names the event.

        The block ends for another reason, perhaps much later: a shield inside the block may delay the end.
        """
        taken, watch.taken = watch.taken, None
        if taken is not None and conversation.run is not None and conversation.run.withdraw(taken[0].seq):
            self.give_back(conversation, taken[0], jumps=True)

    def bring_queued(self, conversation: Conversation) -> set[int]:
        """Deliver a conversation's queued events to the run, for `Chat.drain`. Return these events' rows."""
        if _cancelled():
            return set()
        self._show(conversation)
        brought = self.mailbox.take_out(partial(self.routing.drains, conversation))
        for queued in brought:
            conversation.bring(queued)
        self.calls.room(self)
        return {queued.seq for queued in brought}

    def give_back(self, conversation: Conversation, delivery: Delivery, *, jumps: bool = False) -> None:
        """Route an event again. The wait or block that got the event has ended without taking the event.

        Args:
            jumps: whether the event was to end a block. If so, an urgent event is handled at once.
        """
        if self.work.cut:
            return
        ending, owner = conversation.ending, self.running.owner_of(delivery.event)
        decision = self.routing.jump(delivery) if jumps and ending is None else Queue()
        if isinstance(decision, Queue):
            question = self.refusals.question_of(delivery.event)
            # A board takes several taps, so a returned tap doesn't reopen a board's question.
            if question is not None and not question.startswith(BOARD):
                self.shared.answers.reopened(question)
            if ending is not None and self.mailbox.overtaken(delivery, owner):
                self.refusals.drop(delivery, ending.value)
                return
            if not self.running.is_for(delivery, conversation) or conversation in self.running.asides:
                decision = self.routing.decide(delivery)
        self._act(decision, delivery)

    # --- queued events of a revived conversation

    def _show(self, conversation: Conversation, opening: Wait | Watch | None = None) -> None:
        """Route the waiting events that came before the turn that is repeated after a restart."""
        if (run := conversation.run) is None:
            return
        for delivery in self.mailbox.unseen(conversation, conversation.facts.seq, run.now()):
            self.routing.group |= delivery.group
            if self.mailbox.is_full or not self.running.is_for(delivery, conversation):
                continue
            self.shared.crashes.at_work[LOOKED_AT] = delivery.seq
            decision = self.routing.decide(delivery)
            self.shared.crashes.at_work[LOOKED_AT] = 0
            if isinstance(decision, Queue | Give):
                # A wait or block that was open before this turn gets the event, even if this turn opens
                # another wait.
                if isinstance(decision, Give) and (
                    decision.taker is opening or isinstance(decision.answer, Unfit)
                ):
                    decision = Queue()  # for the wait that opens, an older event may be queued
                self._act(decision, delivery)
                self.mailbox.found(delivery)
                # Set here, because `deliver` may not get the event: the event may be consumed before the
                # chat's rows are read again.
                self.sender = None if delivery.event.sender is None else delivery.event.sender.id

    # --- ends

    def came_to(self, conversation: Conversation, end: End) -> Exception | None:
        """Store the end of a conversation's code; park the conversation if code and journal differ.

        Return the author's error, if any.
        """
        if (writer := conversation.writer) is not None and writer.ends:
            writer.written = self._write_end(conversation, writer.ends)
        if isinstance(end, Diverged):
            self.park(conversation, parting(end.error, end.failure, conversation.parted_at))
        return conversation.came_to(end)

    def park(self, conversation: Conversation, because: str) -> None:
        """Park a conversation: keep the conversation in its chat, without a task.

        A conversation that is already being ended ends now instead, because an interrupt
        doesn't wait for corrected code.
        """
        conversation.seat.parked = True
        if (ending := conversation.ending) is None:
            self.refusals.park(conversation, because)
        else:
            conversation.ending = None
            self._end(conversation, ending)

    def _end(
        self, conversation: Conversation, ending: Ending, at: int | None = None, by: int | None = None
    ) -> None:
        """End a conversation; see `Conversation.end`. A parked conversation ends at once."""
        if (writes := conversation.end(ending, at, by)) is not None:
            self._write_end(conversation, writes)
            abandon(self.shared, self.chat_id, conversation.facts.id, conversation.facts.key)
            self.refusals.over(conversation)
            self.ended(conversation)

    def _write_end(self, conversation: Conversation, writes: Sequence[Write]) -> int:
        """Add to the commit queue the writes that end a conversation. Return the unit's number.

        If an interrupt follows, the interrupt's conversation begins in the same unit. With two units, after a
        crash between them, the interrupt's first record couldn't name the ended conversation. If the ended
        conversation is a payment's aside, the waiting charge gets the result in the same unit, so that charge
        and ledger agree.
        """
        giving, writer = conversation.giving, conversation.writer

        def add(more: Sequence[Write]) -> int:
            return self.work.commits.add([*writes, *more], writer)

        # While the store may still refuse an early event, the charge isn't notified here. The ledger notifies
        # the charge later, when the unit is stored.
        if giving is not None and giving.ending is not None and self.kept.ahead is None:
            waiting = self.running.waiting_for(conversation)
            if waiting is not None and (its := waiting.writer) is not None:
                waiting.seat.awaited[giving.paid.id](giving.ending)
                return its.flush(within=add)
        due, owner = conversation.heir, conversation.facts.owner
        if due is not None:
            heir = Conversation.of(self.shared, self.kept, due.start, due.delivery, owner)
            heir.make_run(self)
            assert heir.writer is not None
            end = heir.writer.flush(begin=True, within=add)
            self.calls.start(self, heir)
            return end
        return add(())

    def end_all(self, before: int) -> Sequence[Conversation]:
        """End all conversations without a message: the user has left, or the chat is to be forgotten.

        Queued events and starts are also dropped, even if open payments keep the chat from being forgotten.
        Return the conversations.

        Args:
            before: events before this row count as too late; later events are for conversations that begin
                after this call.
        """
        self.mailbox.left(before)
        for earlier in [*self.mailbox.take_out(), *self.running.take_out(lambda _: True)]:
            self.refusals.drop(earlier, "left")
        self.services.outbox.drop(self.chat_id)
        ending = self.running.all()
        for conversation in ending:
            self._end(conversation, Ending.LEFT)
        return ending

    def ended(self, conversation: Conversation) -> None:
        """Handle a conversation's end: start the successor, or route again the events queued for it."""
        if conversation.ending is None or self.work.cut:
            return
        if self.mailbox.shown is not None and self.mailbox.shown[0] is conversation:
            self.mailbox.shows_no_more()
        owner, kept_for = conversation.facts.owner, self.running.kept_for
        beside = conversation in self.running.asides
        if beside or conversation is self.running.live.get(owner):
            # No interrupt has replaced the conversation. Compute `mine` before the removal, because an
            # event's owner depends on the live conversations.
            waiting = self.mailbox.waiting
            mine = self.running.queued_for(conversation, waiting) if waiting else ()
            due = self.running.remove(conversation)
            again = mine and (beside or due is None)
            queued = self.mailbox.take_out(mine.__contains__) if again else ()
            # Drop messages that were queued only for this aside, while the aside was parked.
            typed = [one for one in queued if beside and isinstance(one.event, Message) and not kept_for(one)]
            for one in queued:
                if one in typed:
                    self.refusals.drop(one, "typed_while_parked")
                else:
                    # These events were queued before, so there is room for them.
                    self._act(self.routing.decide(one), one)
            if due is not None:
                begin = due if isinstance(due, Successor) else None
                following = Conversation.of(self.shared, self.kept, due.start, due.delivery, owner, begin)
                self.calls.start(self, following)
        if self.mailbox.behind:
            self.calls.room(self)
        if self.is_empty:
            self.calls.over(self)


def _cancelled() -> bool:
    """Return whether the current task is cancelled. If so, queued events must be left for other tasks."""
    return trio.current_effective_deadline() == -inf
