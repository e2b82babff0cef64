"""A chat with conversations or waiting events. `ChatActor` routes events, starts and ends conversations.

An idle chat has no `ChatActor`, and takes no memory. A chat's waiting events are in its `Mailbox`, its
running conversations in its `RunningSet`. `ChatRouting` reads both to decide about an event, and `ChatActor`
carries the decision out. A chat is *behind* while its mailbox is full and further events wait in the inbox.
Then urgent events (ignored events, leaves, interrupts, starts of asides, payments) are handled ahead of the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from math import inf
from operator import attrgetter, is_
from typing import Final, final

import attrs
import trio

from ..base.frozen import guarded
from ..engine import End
from ..seams.rooms import is_chat
from ..seams.writes import PutData, Write
from ..wire.events import Join, Leave, Message
from ..wire.ids import ChatId, SenderId
from .beginnings import Carried
from .calls.signals import Halt, Order, is_signal
from .charges.paid import abandon
from .conversation import Conversation, Ending, Parks
from .data import JOINED, joined
from .mailbox import Mailbox, ends
from .refusals import Refusals
from .revival.crash_counts import LOOKED_AT
from .routes import routing
from .routes.routing import BOARD, Decision, Delivery, Give, Queue, Start, Wait, Watch, is_beside
from .running_set import ChatRouting, RunningSet
from .shared import Shared

# Number of asides that may run in a chat; further asides wait for a free place. Sleeping asides, such as
# reminders, count as running.
ASIDES: Final = 64
_IS_WAITING: Final = attrgetter("is_waiting")


@final
@guarded
class DispatcherCalls:
    """The dispatcher's functions that a chat's actor calls, with itself as the first argument.

    Attributes:
        start: start a conversation's task.
        park: store that a conversation is parked, for the given reason.
        room: read more of the inbox for a chat whose mailbox was full, and has room again.
        over: drop an idle chat from memory.
        take_back: reload a chat from the store, because events that the chat took early weren't stored. The
            second argument is the number of units before these events.
    """

    start: Callable[[ChatActor, Conversation], None]
    park: Callable[[ChatActor, Conversation, str], None]
    room: Callable[[ChatActor], None]
    over: Callable[[ChatActor], None]
    take_back: Callable[[ChatActor, int], None]


@final
class ChatActor:
    """A chat with conversations or waiting events.

    Attributes:
        mailbox: the chat's waiting events, and its position in the inbox.
        running: the chat's running conversations.
        loading: whether the conversations are being loaded from the store; during the loading, no event is
            routed.
        loads_at: start of the loading, in wall milliseconds.
        born: time when the chat came into memory, in wall milliseconds.
        routing: decides about the chat's events.
        sender: the sender of the newest event.
        kept: the chat's data.
    """

    def __init__(self, shared: Shared, calls: DispatcherCalls, chat_id: ChatId, cursor: int) -> None:
        self.shared, self.calls, self.chat_id = shared, calls, chat_id
        self.mailbox: Final = Mailbox(cursor, cursor)
        self.work: Final = shared.work
        self.loading, self.loads_at, self.born = False, 0, 0
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
        """Whether the chat can be evicted: nothing waits, and all its conversations can be revived."""
        return not (self.mailbox.waiting or self.mailbox.behind or self.is_empty) and self.can_reload

    @property
    def can_reload(self) -> bool:
        """Whether a reload from the store would bring back everything that runs and waits here."""
        works = self.loading or self.running.next or self.running.asides_due
        return not works and all(map(_IS_WAITING, self.running.all()))

    @cached_property
    def refusals(self) -> Refusals:
        """Replies to events that no conversation takes."""
        return Refusals(self.shared, self.chat_id, self.kept)

    # --- incoming events

    def deliver(self, delivery: Delivery) -> bool:
        """Route an event. If the mailbox has no room, do nothing and return False."""
        # No `finally` clears the slot: an error here ends the process, and the next start reads the event's
        # row from the slot.
        self.shared.crashes.at_work[LOOKED_AT] = delivery.seq
        delivered = self._deliver(delivery)
        self.shared.crashes.at_work[LOOKED_AT] = 0
        return delivered

    def _deliver(self, delivery: Delivery) -> bool:
        self.routing.group |= delivery.group
        self.sender = None if delivery.event.sender is None else delivery.event.sender.id
        if delivery.seq in self.mailbox.passed:
            self.mailbox.passed -= {delivery.seq}
            return True
        if (why := self.routing.too_late(delivery)) is not None:
            self._drop(delivery, why)
            return True
        if isinstance(delivery.event, Join):
            self.work.commits.consumed((), [joined(self.chat_id)])
        if isinstance(delivery.event, Leave):
            jumped = self.mailbox.behind and not self.loading  # `jump` has ended the member's conversation
            if not (jumped and self.routing.group) and self._left(delivery):
                return True
        decision = self.routing.decide(delivery)
        if isinstance(decision, Queue) and self._meets_parked(delivery):
            return True
        if isinstance(decision, Queue) and is_signal(delivery.event):
            if None not in self.running.live:
                self.work.count("signal_kept")
        elif isinstance(decision, Queue) and not self.routing.has_room:
            return False
        self._act(decision, delivery)
        return True

    def jump(self, delivery: Delivery) -> None:
        """Handle an event ahead of its turn if the event is urgent. Called while the chat is behind.

        An interrupt makes all earlier events useless, in the inbox as well as in the mailbox.
        """
        self.shared.crashes.at_work[LOOKED_AT] = delivery.seq
        self._jump_ahead(delivery)
        self.shared.crashes.at_work[LOOKED_AT] = 0

    def _jump_ahead(self, delivery: Delivery) -> None:
        self.routing.group |= delivery.group
        if delivery.seq in self.mailbox.passed:
            return
        if isinstance(delivery.event, Leave) and self._left(delivery):
            pass
        elif (decision := self.routing.jump(delivery)) is not None:
            self._act(decision, delivery)
        elif not self._meets_parked(delivery):
            return
        if isinstance(delivery.event, Join):
            self.work.commits.consumed((), [joined(self.chat_id)])
        self.mailbox.passed |= {delivery.seq}
        self._made_room()

    def _act(self, decision: Decision, delivery: Delivery) -> None:
        match decision:
            case routing.Drop(why, say):
                self._drop(delivery, why, say)
            case Start():
                self._start(decision, delivery)
            case Give():
                self._give(decision, delivery)
            case Queue():
                self.mailbox.put(delivery)
            case routing.Expire():
                self.routing.advise(delivery, "expired")
                self.refusals.expire(delivery)
            case Halt():
                self._halt(decision, delivery)
            case Order():
                self._obey(decision, delivery)

    def _give(self, give: Give, delivery: Delivery) -> None:
        """Give an answer to the conversation with this wait or block, and mark the question as answered."""
        if (conversation := self.running.who_has(give.taker)) is not None:
            give.taker.give(delivery, give.answer)
            conversation.bring(delivery)
        event = delivery.event
        asked = None if isinstance(event, Message) else self.refusals.question_of(event)
        if asked is not None and isinstance(give.answer, routing.Taken):
            self.shared.answers.answered(asked, delivery.at)

    def _start(self, start: Start, delivery: Delivery) -> None:
        if is_beside(start):
            if len(self.running.asides) < ASIDES:
                self.start(Conversation.of(self.shared, self.kept, start, delivery))
            else:
                self.work.count("aside_waits")
                self.running.asides_due = [*self.running.asides_due, (start, delivery)]
            return
        owner = self.running.owner_for(start, delivery.event)
        if routing.interrupts(start):
            # An interrupt makes earlier events useless, even events that the interrupt has overtaken.
            self._drop_earlier(delivery, owner)
        live = self.running.live.get(owner)
        if live is None:
            self.start(Conversation.of(self.shared, self.kept, start, delivery, owner))
        else:
            self.running.next[owner] = (start, delivery)
            self._end(live, Ending.INTERRUPTED, delivery.at, delivery.seq)

    def start(self, conversation: Conversation) -> None:
        """Register a new conversation of the chat, and start its task."""
        self.running.take(conversation)
        self.calls.start(self, conversation)

    def _halt(self, halt: Halt, delivery: Delivery) -> None:
        if self.mailbox.behind:
            self.mailbox.halted(delivery.seq, halt)
        for conversation in self.running.live.values():
            if conversation.seat.parked and halt.ends(conversation.facts.route.name, conversation.facts.key):
                self._drop_earlier(delivery, conversation.facts.owner, "typed_while_parked")
        dropped = [*self.mailbox.take_out(partial(ends, halt)), *self.running.halt(halt)]
        for conversation in self.running.all():
            if halt.ends(conversation.facts.route.name, conversation.facts.key):
                self._end(conversation, Ending.STOPPED)
        for queued in dropped:
            self._drop(queued, "stopped")
        self.work.commits.consumed([delivery.seq])  # stored after the ends of these runs

    # --- while a conversation is parked

    def _meets_parked(self, delivery: Delivery) -> bool:
        """Tell the user if an event must wait for a parked conversation. Return whether the event is handled.

        A command is answered with an offer to leave the parked conversation. Neither the command nor a
        repetition that accepts the offer is queued.
        """
        conversation = self.running.live.get(self.running.owner_of(delivery.event))
        if conversation is not None and conversation.seat.parked and isinstance(delivery.event, Message):
            decision = self.refusals.answer(delivery, conversation.facts.seq, self.routing.afresh(delivery))
            if isinstance(decision, Start):
                self._drop_earlier(delivery, conversation.facts.owner)
                self.running.next[conversation.facts.owner] = (decision, delivery)
                self._end(conversation, Ending.INTERRUPTED, delivery.at)
            if not isinstance(decision, Queue):
                return True
        if waiting := self.running.kept_for(delivery):
            self.refusals.keep(delivery, waiting[0].facts.seq)
        return False

    def parked_no_more(self, conversation: Conversation) -> None:
        """Forget that a conversation was parked: it has been revived, or has ended."""
        self.shared.crashes.parked_no_more(conversation.facts.seq)
        others = any(other.seat.parked for other in self.running.all() if other is not conversation)
        self.refusals.over(conversation.facts.seq, last=not others)

    def heals(self, conversation: Conversation, waiting: Sequence[Delivery]) -> None:
        """Drop messages that came too early for a conversation that goes on after it was parked.

        Args:
            waiting: the events that came while the conversation was parked, in order.
        """
        for delivery in self.routing.typed_while_parked(conversation, waiting):
            self.mailbox.passed |= {delivery.seq}
            self._drop(delivery, "typed_while_parked")

    def _obey(self, order: Order, delivery: Delivery) -> None:
        """Carry out an operator's order about a parked conversation."""
        conversation = next((one for one in self.running.all() if one.facts.seq == order.conversation), None)
        if order.end:
            if conversation is not None:
                if conversation not in self.running.asides:
                    self._drop_earlier(delivery, conversation.facts.owner, "typed_while_parked")
                self._end(conversation, Ending.STOPPED)
            told: Sequence[PutData] = ()
            if order.say and is_chat(self.chat_id):
                told = self.shared.cleanup.tell(self.chat_id, order.conversation, order.say)
            self.work.commits.consumed([delivery.seq], told)
            return
        self.work.commits.consumed([delivery.seq])
        if conversation is not None and conversation.seat.parked and delivery.at > self.born:
            self.shared.crashes.retry(order.conversation, self.chat_id)

    def _left(self, delivery: Delivery) -> bool:
        """End the conversations that a user's leave ends. Return False if the event still has to be routed.

        In a group, a member's leave ends only the member's own conversation. In a private chat, a leave ends
        every conversation; after that, the leave can only start a route.
        """
        if self.routing.group:
            sender = delivery.event.sender
            if sender is not None and sender.id in self.running.live:
                self._drop_earlier(delivery, sender.id, "left")
                self._end(self.running.live[sender.id], Ending.STOPPED)
            return False
        self.end_all(delivery.seq)
        self.work.commits.consumed((), [PutData(self.chat_id, JOINED, None)])
        self._act(self.routing.decide_at_rest(delivery), delivery)
        return True

    def _drop_earlier(self, delivery: Delivery, owner: SenderId | None, why: str = "interrupted") -> None:
        """Drop queued events for the owner's conversation that are older than `delivery`, except signals."""
        self.mailbox.ended(owner, delivery.seq)
        mine = self.mailbox.take_out(partial(self.routing.is_overtaken, owner, delivery.seq))
        if owner in self.running.next:
            mine.append(self.running.next.pop(owner)[1])
        for earlier in mine:
            self._drop(earlier, why)

    def _drop(self, delivery: Delivery, why: str, say: str = "") -> None:
        self.routing.advise(delivery, why)
        self.refusals.drop(delivery, why, say)

    # --- queued events for a conversation

    def offer_queued(self, conversation: Conversation, wait: Wait, *, resting: bool = False) -> None:
        """Offer the queued events to a wait that has just opened. The first event that fits is the answer.

        Args:
            resting: whether the task rests in the wait. If so, the wait's `otherwise` handles events that
                don't fit.
        """
        if not resting:
            self.running.opens(conversation, wait)
        if conversation.replaying:
            return  # the journal has the answer
        if self.mailbox.shown is not None:
            self._show(conversation)
        if self.mailbox.waiting and not _cancelled():
            for delivery in self.mailbox.waiting:
                if not wait.open:
                    break
                decision = self.routing.offer(delivery, conversation, wait, resting=resting)
                if not isinstance(decision, Queue):
                    self.mailbox.take_out(partial(is_, delivery))
                    self._act(decision, delivery)
        if self.mailbox.behind and (resting or self.routing.has_room):
            self.calls.room(self)

    def open_watch(self, conversation: Conversation, watch: Watch) -> None:
        """Register a block that has just opened, and offer the queued events to it."""
        self.running.opens(conversation, watch)
        watch.owner = conversation.facts.owner
        conversation.seat.watches = [*conversation.seat.watches, watch]
        if conversation.replaying:
            return
        self._show(conversation)
        if (found := self.routing.end(conversation, watch)) is not None:
            self.mailbox.take_out(partial(is_, found[1]))
            self._act(*found)
            self._made_room()

    def bring_queued(self, conversation: Conversation) -> set[int]:
        """Deliver a conversation's queued events to its run, for `Chat.drain`. Return these events' rows."""
        if _cancelled():
            return set()
        self._show(conversation)
        brought = self.mailbox.take_out(partial(self.routing.drains, conversation))
        for queued in brought:
            conversation.bring(queued)
        self._made_room()
        return {queued.seq for queued in brought}

    def give_back(self, conversation: Conversation, delivery: Delivery, *, jumps: bool = False) -> None:
        """Route an event again, because the wait or block that got the event ended before taking it.

        Args:
            jumps: whether the event was to end a block. If so, an urgent event is handled at once.
        """
        if self.work.cut:
            return
        decision = self.routing.jump(delivery) if jumps and conversation.ending is None else None
        if decision is not None:
            self._act(decision, delivery)
            return
        question = self.refusals.question_of(delivery.event)
        # A board takes several taps, so a returned tap doesn't reopen a board's question.
        if question is not None and not question.startswith(BOARD):
            self.shared.answers.reopened(question)
        late = self.mailbox.overtaken(delivery, self.running.owner_of(delivery.event))
        if conversation.ending is not None and late:
            self._drop(delivery, conversation.ending.value)
        elif self.running.is_for(delivery, conversation) and conversation not in self.running.asides:
            self._act(Queue(), delivery)
        else:
            self._act(self.routing.decide(delivery), delivery)

    # --- queued events of a revived conversation

    def _show(self, conversation: Conversation) -> None:
        """Queue the waiting events that the repeated turn found in the queue before the restart."""
        if (run := conversation.run) is None:
            return
        for delivery in self.mailbox.unseen(conversation, conversation.facts.seq, run.now()):
            self.routing.group |= delivery.group
            if self.mailbox.is_full or not self.running.is_for(delivery, conversation):
                continue
            self.shared.crashes.at_work[LOOKED_AT] = delivery.seq
            try:
                decision = self.routing.decide(delivery)
            finally:
                self.shared.crashes.at_work[LOOKED_AT] = 0
            if isinstance(decision, Queue | Give):
                # A wait or block that was open before this turn gets the event, even if this turn opens
                # another wait.
                unfit = isinstance(decision, Give) and isinstance(decision.answer, routing.Unfit)
                self._act(Queue() if unfit else decision, delivery)
                self.mailbox.found(delivery)
                # `deliver` doesn't get an event that is consumed before the chat's rows are read again.
                self.sender = None if delivery.event.sender is None else delivery.event.sender.id

    # --- room

    def _made_room(self) -> None:
        if self.mailbox.behind and self.routing.has_room:
            self.calls.room(self)

    # --- ends

    def came_to(self, conversation: Conversation, end: End) -> Exception | None:
        """Store the end to which a conversation's code came, or park a conversation that can't go on.

        Return the author's error, if any.
        """
        if (writer := conversation.writer) is not None and writer.ends:
            writer.written = self._write_end(conversation, writer.ends)
        if isinstance(found := conversation.came_to(end), Parks):
            self.park(conversation, found.because)
            return None
        return found

    def park(self, conversation: Conversation, because: str) -> None:
        """Park a conversation: it stays in its chat, without a task.

        A conversation that is being ended already isn't parked. Instead it ends now, because an interrupt
        doesn't wait for corrected code.
        """
        conversation.seat.parked = True
        if (ending := conversation.ending) is None:
            self.calls.park(self, conversation, because)
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
            self.parked_no_more(conversation)
            self.ended(conversation)

    def _write_end(self, conversation: Conversation, writes: Sequence[Write]) -> int:
        """Add to the commit queue the writes that end a conversation. Return the unit's number.

        If an interrupt follows, the interrupt's conversation begins in the same unit. With two units, after a
        crash between them, the interrupt's first record couldn't name the ended conversation. If the ended
        conversation is the aside that delivers goods, the waiting charge gets the result in the same unit, so
        that charge and ledger agree.
        """
        giving, writer = conversation.giving, conversation.writer

        def add(more: Sequence[Write]) -> int:
            return self.work.commits.add([*writes, *more], writer)

        waiting = None if giving is None else self.running.waiting_for(conversation)
        if waiting is not None and giving is not None and giving.ending is not None:
            its = waiting.writer
            # While the store may still refuse an event, the charge isn't notified here: the ledger notifies
            # the charge after the unit is stored.
            if writer is not None and its is not None and not (writer.ahead or its.ahead):
                waiting.seat.awaited[giving.paid.id](giving.ending)
                return its.flush(within=add)
        owner = conversation.facts.owner
        due = self.running.next.get(owner)
        if due is not None and conversation is self.running.live.get(owner):
            heir = self.running.heirs[owner] = self._heir(conversation, *due)
            heir.make_run(self)
            if heir.writer is not None:
                return heir.writer.flush(begin=True, within=add)
        return add(())

    def end_all(self, before: int) -> Sequence[Conversation]:
        """End all conversations without a message: the user has left, or the chat is to be forgotten.

        Queued events and starts are also dropped, even if the chat can't be forgotten because of open
        payments.

        Args:
            before: events before this row count as too late; later events are for conversations that begin
                after this call.
        """
        self.mailbox.left(before)
        for earlier in [*self.mailbox.take_out(), *self.running.clear()]:
            self._drop(earlier, "left")
        self.services.outbox.drop(self.chat_id)
        ending = self.running.all()
        for conversation in ending:
            self._end(conversation, Ending.LEFT)
        return ending

    def ended(self, conversation: Conversation) -> None:
        """Handle the end of a conversation: start its successor, or route its queued events again."""
        if conversation.ending is None or self.work.cut:
            return
        if self.mailbox.shown is not None and self.mailbox.shown[0] is conversation:
            self.mailbox.shows_no_more()
        beside, kept_for = conversation in self.running.asides, self.running.kept_for
        if beside or conversation is self.running.live.get(conversation.facts.owner):
            # Computed before the removal, because the owner of an event depends on the live conversations.
            waiting = self.mailbox.waiting
            mine = self.running.queued_for(conversation, waiting) if waiting else ()
            following = self._following(conversation)
            again = mine and (beside or following is None)
            queued = self.mailbox.take_out(mine.__contains__) if again else ()
            # Messages that were kept only for this conversation, while the conversation was parked.
            typed = [one for one in queued if beside and isinstance(one.event, Message) and not kept_for(one)]
            for one in queued:
                if one in typed:
                    self._drop(one, "typed_while_parked")
                else:
                    # These events were queued before, so there is room for them.
                    self._act(self.routing.decide(one), one)
            if following is not None:
                self.start(following)
        self._made_room()
        if self.is_empty:
            self.calls.over(self)

    def _following(self, conversation: Conversation) -> Conversation | None:
        """Remove a conversation that has ended. Return the conversation that takes its place, if any."""
        due, owner = self.running.remove(conversation), conversation.facts.owner
        if due is not None and conversation.facts.beside:
            return Conversation.of(self.shared, self.kept, *due)
        if due is not None:
            return self.running.heirs.pop(owner, None) or self._heir(conversation, *due)
        if (writer := conversation.writer) is None or (successor := writer.successor) is None:
            return None
        begin = Carried(successor.first, conversation.facts.run_number + 1, writer.unit.position + 1)
        return Conversation.of(self.shared, self.kept, successor.start, successor.delivery, owner, begin)

    def _heir(self, conversation: Conversation, start: Start, delivery: Delivery) -> Conversation:
        """Return the conversation of the interrupt that has ended this one."""
        start = attrs.evolve(start, interrupted=conversation.facts.route.name)
        return Conversation.of(self.shared, self.kept, start, delivery, conversation.facts.owner)


def _cancelled() -> bool:
    """Return whether the current task is cancelled. If so, queued events must be left for other tasks."""
    return trio.current_effective_deadline() == -inf
