"""A chat with conversations or waiting events. `ChatLife` routes events, starts and ends conversations.

An idle chat has no `ChatLife`, and takes no memory. A chat's waiting events are in its `Mailbox`, its running
conversations in its `Places`. `ChatLife` reads both to decide about an event, and carries the decision out.
While the chat is behind, urgent events (ignored events, leaves, interrupts, starts of asides, payments) are
handled ahead of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from math import inf
from operator import is_
from typing import Final, final

import trio

from ..base.frozen import guarded
from ..seams.rooms import is_chat
from ..seams.writes import PutData, Write
from ..wire.events import Event, Join, Leave, Message, Press, Submission
from ..wire.ids import ChatId, SenderId
from .conversation import Conversation, Ending
from .data import JOINED, joined
from .doors.calls import Halt, Order, asked_of, is_signal, room_of, runs_behind
from .mailbox import Mailbox, ends
from .notices import Unheard, Untaken
from .places import Places
from .refusals import Refusals
from .revival.care import LOOKED_AT
from .routes.filters import Setting
from .routes.routing import (
    BOARD,
    UNHEARD,
    Answer,
    Break,
    Broken,
    Case,
    Decision,
    Delivery,
    Drop,
    End,
    Expire,
    Give,
    Queue,
    Start,
    Taken,
    Tell,
    Unfit,
    Wait,
    Watch,
    afresh,
    begins,
    decide,
    end,
    interrupts,
    is_beside,
    jump,
    offer,
    token_of,
    unfit,
)
from .routes.verdicts import Verdicts
from .running.failures import report_filter
from .shared import Shared
from .workload import UnitWriter

# Asides that may run in a chat; further ones wait for a free place. Long sleeps, as for reminders, count as
# well.
ASIDES: Final = 64
# Milliseconds: if the command is repeated sooner, the user can't have read the offer before.
READ_IN: Final = 1_000


@final
@guarded
class DispatcherCalls:
    """The dispatcher's functions that a chat calls.

    Attributes:
        start: start a conversation's task.
        let_go: stop waiting for a conversation's coroutine that doesn't end.
        park: park a conversation, for the given reason.
        room: read more of the inbox for a chat that was behind, and has room again.
        over: drop an idle chat from memory.
        take_back: reload a chat from the store: events that it took early, from the given unit on, aren't
            stored.
    """

    start: Callable[[Conversation], None]
    let_go: Callable[[Conversation], None]
    park: Callable[[Conversation, str], None]
    room: Callable[[ChatLife], None]
    over: Callable[[ChatLife], None]
    take_back: Callable[[ChatLife, int], None]


@final
class ChatLife:
    """A chat with conversations or waiting events.

    Attributes:
        mailbox: the chat's waiting events, and its position in the inbox.
        places: the chat's running conversations.
        loading: whether the conversations are being loaded from the store; nothing is routed meanwhile.
        loads_at: start of the loading, in wall milliseconds.
        born: time when the chat came into memory, in wall milliseconds.
        group: whether two different users were seen in the chat.
        sender: the sender of the newest event.
        kept: the chat's data.
    """

    def __init__(self, shared: Shared, calls: DispatcherCalls, chat_id: ChatId, cursor: int) -> None:
        self.chat_id = chat_id
        self.mailbox: Final = Mailbox(cursor, cursor)
        self.shared = shared
        self.work: Final = shared.work
        self.calls = calls
        self.loading = False
        self.loads_at = 0
        self.services: Final = shared.services
        self.group = False
        self.sender: SenderId | None = None
        self.places: Final = Places(shared.table)
        self.kept: Final = shared.keeping.begin_life(chat_id)
        self.kept.writers = self.places.writers
        # Interrupts by owner that were stored in the unit that ends the interrupted conversation. They start
        # when that conversation has ended.
        self._heirs: dict[SenderId | None, Conversation] = {}
        self.born = 0

    def setting(self, delivery: Delivery) -> Setting:
        """Return what a filter gets besides the event."""
        memory, username = self.services.memory, self.shared.username
        asked = self.work.commits.asked if delivery.seq > 0 else Verdicts()
        return Setting(username, self.group, delivery.seq, delivery.at, memory, self.kept.values, asked)

    @property
    def idle(self) -> bool:
        """Whether the chat has no conversations and no waiting events."""
        anything = self.places.live or self.places.asides or self.mailbox.waiting
        return not (anything or self.mailbox.behind or self.loading)

    @property
    def may_leave(self) -> bool:
        """Whether the chat can be evicted: nothing waits, and all its conversations can be revived."""
        return not (self.mailbox.waiting or self.mailbox.behind or self.idle) and self.may_come_back

    @property
    def may_come_back(self) -> bool:
        """Whether a reload from the store would bring back everything that runs and waits here."""
        works = self.loading or self.places.next or self.places.asides_due
        return not works and all(one.quiescent and one.route.durable for one in self.places.all())

    @cached_property
    def refusals(self) -> Refusals:
        """Replies to events that no conversation takes."""
        return Refusals(self.shared, self.chat_id, self.kept)

    def runs(self, halt: Halt) -> bool:
        """Return whether `halt` would stop something here, once the queued calls have been routed."""
        asked = (asked_of(delivery.event) for delivery in self.mailbox.waiting)
        return runs_behind(self.places.runs(halt), halt, asked)

    # --- incoming events

    def deliver(self, delivery: Delivery) -> bool:
        """Route an event. Return False, with nothing done, if the mailbox has no room."""
        # Without `finally`: an error here ends the process. The next start reads from this slot which event
        # it was.
        self.shared.care.at_work[LOOKED_AT] = delivery.seq
        delivered = self._deliver(delivery)
        self.shared.care.at_work[LOOKED_AT] = 0
        return delivered

    def _deliver(self, delivery: Delivery) -> bool:
        self.group = self.group or delivery.group
        self.sender = None if delivery.event.sender is None else delivery.event.sender.id
        if delivery.seq in self.mailbox.passed:
            self.mailbox.passed -= {delivery.seq}
            return True
        if self.mailbox.overtaken(delivery, self.places.owner_of(delivery.event)):
            self._drop(delivery, "interrupted")
            return True
        if self.mailbox.stopped(delivery):
            self._drop(delivery, "stopped")
            return True
        if isinstance(delivery.event, Join):
            self.work.commits.consumed((), [joined(self.chat_id)])
        jumped = self.mailbox.behind and not self.loading  # `jump` left the event in its turn
        if isinstance(delivery.event, Leave) and not (jumped and self.group) and self._left(delivery):
            return True
        decision = self.decide_on(delivery, jumped=jumped)
        if isinstance(decision, Queue) and self._meets_parked(delivery):
            return True
        if isinstance(decision, Queue) and (waiting := self.places.kept_for(delivery)):
            self.refusals.keep(delivery, waiting[0].seq)
        if isinstance(decision, Queue) and is_signal(delivery.event):
            if None not in self.places.live:
                self.work.count("signal_kept")
        elif isinstance(decision, Queue) and not self._has_room():
            return False
        self._act(decision, delivery)
        return True

    def jump(self, delivery: Delivery) -> None:
        """Handle an event ahead of its turn if it is urgent; used while the chat is behind.

        An interrupt makes all earlier events useless, in the inbox as well as in the mailbox.
        """
        self.shared.care.at_work[LOOKED_AT] = delivery.seq
        self._jump_ahead(delivery)
        self.shared.care.at_work[LOOKED_AT] = 0

    def _jump_ahead(self, delivery: Delivery) -> None:
        self.group = self.group or delivery.group
        if delivery.seq in self.mailbox.passed:
            return
        if isinstance(delivery.event, Leave) and self._left(delivery):
            pass
        elif (decision := self._jump(delivery)) is not None:
            self._act(decision, delivery)
        elif not self._meets_parked(delivery):
            if waiting := self.places.kept_for(delivery):
                self.refusals.keep(delivery, waiting[0].seq)
            return
        if isinstance(delivery.event, Join):
            self.work.commits.consumed((), [joined(self.chat_id)])
        self.mailbox.passed |= {delivery.seq}
        self._made_room()

    def decide_on(self, delivery: Delivery, *, jumped: bool = False) -> Decision:
        """Return the decision about an event, without carrying it out."""
        waits, live = self.places.waits(delivery.event, delivery.at, delivery.seq)
        watches = self.places.watches(delivery.event, delivery.at)
        if live is not None and self.places.is_typed_for_parked(delivery):
            return Queue()  # typed for the parked aside
        return decide(self._case(delivery, watches, waits, live), jumped=jumped)

    def _case(
        self,
        delivery: Delivery,
        watches: Sequence[Watch] = (),
        waits: Sequence[Wait] = (),
        live: Sequence[Wait] | None = None,
    ) -> Case:
        event = delivery.event
        failed = partial(report_filter, self.services, self.work.count, self.chat_id)
        setting, table = self.setting(delivery), self.shared.table
        if not is_chat(self.chat_id):  # only a room's own route starts in it
            room = room_of(event)
            table = table.in_room(None if room is None else room[0])

        def kept(_: Event) -> bool:
            return bool(self.places.kept_for(delivery))

        return Case(event, setting, table, failed, waits, live, watches, kept)

    def _jump(self, delivery: Delivery) -> Drop | Start | End | Halt | Order | None:
        return jump(self._case(delivery, self.places.watches(delivery.event, delivery.at)))

    def _has_room(self) -> bool:
        # While a task rests in a wait, the next event may be the awaited one, so no event is held back. The
        # inbox's quota for a chat then bounds the queue. Messages for a parked aside don't count: their user
        # may still start something else.
        return self.mailbox.has_room(self.places.is_typed_for_parked) or any(
            wait.resting for conversation in self.places.all() for wait in conversation.waits
        )

    def _act(self, decision: Decision, delivery: Delivery) -> None:
        match decision:
            case Drop(why, say):
                self._drop(delivery, why, say)
            case Start():
                self._start(decision, delivery)
            case End(taker, value) | Give(taker, value):
                self.give(taker, Taken(delivery, value))
            case Break(wait, error):
                self.give(wait, Broken(delivery, error))
            case Tell(wait):
                self.give(wait, Unfit(delivery))
            case Queue():
                self.mailbox.put(delivery)
            case Expire():
                if token_of(delivery.event) is None and isinstance(delivery.event, Press):
                    self._advise(delivery)
                self.refusals.expire(delivery)
            case Halt():
                self._halt(decision, delivery)
            case Order():
                self._obey(decision, delivery)

    def give(self, taker: Wait | Watch, answer: Answer) -> None:
        """Give an answer to the conversation with this wait or block, and mark its question as answered."""
        if (conversation := self.places.who_has(taker)) is not None:
            conversation.give(taker, answer)
        event = answer.delivery.event
        asked = None if isinstance(event, Message) else self.refusals.question_of(event)
        if asked is not None and isinstance(answer, Taken):
            self.shared.answers.answered(asked, answer.delivery.at)

    def _start(self, start: Start, delivery: Delivery) -> None:
        if is_beside(start):
            if len(self.places.asides) < ASIDES:
                self._run(Conversation(self, start, delivery))
            else:
                self.work.count("aside_waits")
                self.places.asides_due = [*self.places.asides_due, (start, delivery)]
            return
        owner = self.places.owner_for(start, delivery.event)
        if interrupts(start):
            # An interrupt makes earlier events useless, even events that the interrupt has overtaken.
            self._drop_earlier(delivery, owner)
        live = self.places.live.get(owner)
        if live is None:
            self._run(Conversation(self, start, delivery, owner))
        else:
            self.places.next[owner] = (start, delivery)
            live.end(Ending.INTERRUPTED, delivery.at, delivery.seq)

    def follow(self, conversation: Conversation, delivery: Delivery) -> None:
        """Make the interrupt that was ending a revived conversation start after the conversation's end."""
        self.group = self.group or delivery.group
        decision = self._jump(delivery)
        if isinstance(decision, Start) and interrupts(decision):
            conversation.ending = Ending.INTERRUPTED
            self.places.next[conversation.owner] = (decision, delivery)
            self.mailbox.passed |= {delivery.seq}

    def _run(self, conversation: Conversation) -> None:
        self.places.take(conversation)
        self.calls.start(conversation)

    def _halt(self, halt: Halt, delivery: Delivery) -> None:
        if self.mailbox.behind:
            self.mailbox.halted(delivery.seq, halt)
        for conversation in self.places.all():
            typed = conversation.stuck and conversation not in self.places.asides
            if typed and halt.ends(conversation.route.name, conversation.key):
                self._drop_earlier(delivery, conversation.owner, "typed_while_parked")
        for queued in [*self.mailbox.take_out(partial(ends, halt)), *self.places.halt(halt)]:
            self._drop(queued, "stopped")
        self.work.commits.consumed([delivery.seq])  # stored after those ends

    # --- while a conversation is parked

    def _meets_parked(self, delivery: Delivery) -> bool:
        """Handle a message for a parked live conversation. Return False if the message must be queued.

        The user is told that the conversation can't go on. A command that starts a conversation is answered
        with an offer instead: the same command again ends the parked conversation, and starts anew.
        """
        event = delivery.event
        conversation = self.places.live.get(self.places.owner_of(event))
        if conversation is None or not conversation.stuck or not isinstance(event, Message):
            return False
        start = afresh(self._case(delivery))
        offered = None if start is None else self.refusals.offered(conversation.seq, start.route.name)
        # A message from before the offer (without an offer: from before this process) was meant for the
        # parked conversation.
        since = self.services.store.opening().at if offered is None else offered
        if start is None or delivery.at < since:
            self.refusals.regret(delivery, conversation.seq)
            return False
        if offered is None:
            self.refusals.offer_afresh(delivery, conversation.seq, start.route.name)
        elif delivery.at < offered + READ_IN:
            self._drop(delivery, "offered_afresh")
        else:
            self._drop_earlier(delivery, conversation.owner)
            self.places.next[conversation.owner] = (start, delivery)
            conversation.end(Ending.INTERRUPTED, delivery.at)
        return True

    def parked_no_more(self, conversation: Conversation) -> None:
        """Forget that a conversation was parked: it has been revived, or has ended."""
        self.shared.care.parked_no_more(conversation.seq)
        others = any(other.stuck for other in self.places.all() if other is not conversation)
        self.refusals.over(conversation.seq, last=not others)

    def heals(self, conversation: Conversation, waiting: Sequence[Delivery]) -> None:
        """Sort out the events that came while a conversation was parked, now that it goes on.

        Each question that the user has seen gets the first event that answers it. Other messages came before
        their questions were asked, so they are dropped. If no event was an answer, the last message is kept,
        unless the conversation is an aside.

        Args:
            waiting: the events, in order.
        """
        typed, taken = list[Delivery](), list[Wait]()
        beside = conversation in self.places.asides
        for delivery in waiting:
            event = delivery.event
            live, waits = self.places.live.get(self.places.owner_of(event)), conversation.waits
            mine = live is conversation
            if beside:
                free = not self.places.was_live(delivery) and not self.places.kept_for(delivery)
                mine = free and delivery.seq not in self.mailbox.passed
                # The live conversation began later: the message can't answer its questions either.
                waits = waits if live is None else [*waits, *live.waits]
            if not (mine and isinstance(event, Message | Press | Submission)):
                continue
            match self.decide_on(delivery):
                case Give(wait) | Break(wait) if wait in conversation.waits and wait not in taken:
                    taken.append(wait)
                case _ if not isinstance(event, Message):
                    pass  # such an event is refused in its turn
                case Give(wait) | Break(wait) | Tell(wait) if wait in waits:
                    typed.append(delivery)
                case Queue():
                    typed.append(delivery)
                case _:
                    pass
        if typed and not taken and not beside:
            typed.pop()
        for delivery in typed:
            self.mailbox.passed |= {delivery.seq}
            self._drop(delivery, "typed_while_parked")

    def _obey(self, order: Order, delivery: Delivery) -> None:
        """Carry out an operator's order about a parked conversation."""
        conversation = next((one for one in self.places.all() if one.seq == order.conversation), None)
        if order.end:
            if conversation is not None:
                if conversation not in self.places.asides:
                    self._drop_earlier(delivery, conversation.owner, "typed_while_parked")
                conversation.end(Ending.STOPPED)
            # The row stays in the inbox until the text is sent.
            said = order.say if is_chat(self.chat_id) else ""
            self.shared.tidying.say(self.chat_id, said, delivery.seq)
            return
        self.work.commits.consumed([delivery.seq])
        if conversation is not None and conversation.stuck and delivery.at > self.born:
            self.shared.care.retry(self.chat_id)

    def _left(self, delivery: Delivery) -> bool:
        """End the conversations that a user's leave ends. Return False if the event still has to be routed.

        In a group, a member's leave ends the member's own conversation and no other. In a private chat, a
        leave ends every conversation; after that, the leave can only start a route.
        """
        if self.group:
            sender = delivery.event.sender
            if sender is not None and sender.id in self.places.live:
                self._drop_earlier(delivery, sender.id, "left")
                self.places.live[sender.id].end(Ending.STOPPED)
            return False
        self.end_all(delivery.seq)
        self.work.commits.consumed((), [PutData(self.chat_id, JOINED, None)])
        self._act(decide(self._case(delivery)), delivery)
        return True

    def _drop_earlier(self, delivery: Delivery, owner: SenderId | None, why: str = "interrupted") -> None:
        """Drop queued events for the owner's conversation that are older than `delivery`, except signals."""
        self.mailbox.ended(owner, delivery.seq)
        live = self.places.live.get(owner)
        mine = self.mailbox.take_out(
            # An interrupt that a block gave back may be older than queued events.
            lambda earlier: (
                earlier.seq < delivery.seq
                and self.places.owner_of(earlier.event) == owner
                and not is_signal(earlier.event)
                and all(conversation is live for conversation in self.places.kept_for(earlier))
            )
        )
        if owner in self.places.next:
            mine.append(self.places.next.pop(owner)[1])
        for earlier in mine:
            self._drop(earlier, why)

    def _drop(self, delivery: Delivery, why: str, say: str = "") -> None:
        if why == "nobody" or (why == "unasked" and isinstance(delivery.event, Join)):
            self._advise(delivery)
        elif why == UNHEARD and self.services.notice is not None:
            room = room_of(delivery.event)
            begins = [route.filter.name for route in self._case(delivery).table.conversations]
            self.services.notice(Unheard(delivery.event, room, begins))
        self.refusals.drop(delivery, why, say)

    def _advise(self, delivery: Delivery) -> None:
        if (notice := self.services.notice) is not None:
            event, table, begun = delivery.event, self.shared.table, None
            if (live := self.places.live.get(self.places.owner_of(event))) is not None:
                start = begins(self._case(delivery))
                begun = None if start is None else (start.route, live.route)
            notice(Untaken(event, table.routes_of_chats, self.shared.username, begun))

    # --- queued events for a conversation

    def offer_queued(self, conversation: Conversation, wait: Wait, *, resting: bool = False) -> None:
        """Offer the queued events to a wait that has just opened. The first event that fits is the answer.

        Args:
            resting: the task rests in the wait, so that events that don't fit are dealt with by the wait's
                `otherwise`.
        """
        if not resting:
            self.places.opens(conversation, wait)
        if conversation.replaying:
            return  # the journal decides
        if self.mailbox.shown is not None:
            self._show(conversation)
        if self.mailbox.waiting and not _cancelled():
            self._look_through(conversation, wait, resting=resting)
        if self.mailbox.behind and resting:
            self.calls.room(self)
        elif self.mailbox.behind:
            self._made_room()

    def _look_through(self, conversation: Conversation, wait: Wait, *, resting: bool) -> None:
        queued = self.mailbox.take_out()
        while queued and wait.open:
            delivery = queued.pop(0)
            event, setting = delivery.event, self.setting(delivery)
            mine = self.places.is_for(delivery, conversation)
            decision: Decision | None = offer(event, setting, wait) if mine else Queue()
            if decision is None:
                queues = not resting or self.places.kept_for(delivery)
                decision = Queue() if queues else unfit(event, setting, wait)
            self._act(decision, delivery)
        self.mailbox.waiting = [*self.mailbox.waiting, *queued]

    def open_watch(self, conversation: Conversation, watch: Watch) -> None:
        """Register a block that has just opened, and offer the queued events to it."""
        self.places.opens(conversation, watch)
        watch.owner = conversation.owner
        conversation.watches = [*conversation.watches, watch]
        if conversation.replaying:
            return
        self._show(conversation)
        for delivery in self.mailbox.waiting:
            if not self.places.is_for(delivery, conversation):
                continue
            if (ended := end(self._case(delivery, (watch,)))) is not None:
                self.mailbox.take_out(partial(is_, delivery))
                self._act(ended, delivery)
                self._made_room()
                return

    def give_up(self, conversation: Conversation, delivery: Delivery) -> None:
        """Route an event again that was to end a block: the block was over before it took the event."""
        decision = self._jump(delivery)
        if decision is None or self.work.cut or conversation.ending is not None:
            self.give_back(conversation, delivery)
        else:
            self._act(decision, delivery)

    def bring_queued(self, conversation: Conversation) -> set[int]:
        """Deliver a conversation's queued events to its run, for a drain. Return the rows of these events."""
        if _cancelled():
            return set()
        self._show(conversation)
        # In a chat, signals are not drained: they stay queued for a wait.
        drains = not is_chat(self.chat_id)
        brought = self.mailbox.take_out(
            lambda queued: (
                self.places.is_for(queued, conversation)
                and (drains or not is_signal(queued.event))
                and not self.places.kept_for(queued)
            )
        )
        for queued in brought:
            conversation.bring(queued)
        self._made_room()
        return {queued.seq for queued in brought}

    def give_back(self, conversation: Conversation, delivery: Delivery) -> None:
        """Route an event again that was given to a wait: the wait ended before it took the event."""
        if self.work.cut:
            return
        question = self.refusals.question_of(delivery.event)
        # A board's question stays answered, since a board takes several taps.
        if question is not None and not question.startswith(BOARD):
            self.shared.answers.reopened(question)
        late = self.mailbox.overtaken(delivery, self.places.owner_of(delivery.event))
        if conversation.ending is not None and late:
            self._drop(delivery, conversation.ending.value)
        elif self.places.is_for(delivery, conversation) and conversation not in self.places.asides:
            self._act(Queue(), delivery)
        else:
            self._act(self.decide_on(delivery), delivery)

    # --- queued events of a revived conversation

    def _show(self, conversation: Conversation) -> None:
        """Queue the shown events that were queued before the restart, when the repeated turn first ran."""
        if conversation.replaying:
            return
        for delivery in self.mailbox.unseen(conversation, conversation.seq, conversation.run.now()):
            self.group = self.group or delivery.group
            if self.mailbox.is_full or not self.places.is_for(delivery, conversation):
                continue
            self.shared.care.at_work[LOOKED_AT] = delivery.seq
            try:
                decision = self.decide_on(delivery)
            finally:
                self.shared.care.at_work[LOOKED_AT] = 0
            if isinstance(decision, Queue | Give | Tell | Break | End):
                # A block that was open before this turn gets the event, whatever this turn opens.
                self._act(decision if isinstance(decision, End) else Queue(), delivery)
                self.mailbox.found(delivery)

    # --- room

    def _made_room(self) -> None:
        if self.mailbox.behind and self._has_room():
            self.calls.room(self)

    # --- ends

    def write_end(
        self, conversation: Conversation, writes: Sequence[Write], writer: UnitWriter | None = None
    ) -> int:
        """Add the writes that end a conversation to the commit queue. Return the unit's number.

        If an interrupt follows, its conversation begins in the same unit. Otherwise, after a crash between
        two units, its record couldn't name the conversation that the interrupt ended. If the ended
        conversation is the aside that delivers goods, the waiting charge gets the result in the same unit, so
        that charge and ledger agree.
        """
        owner = conversation.owner
        giving = conversation.giving
        waiting = None if giving is None else self.places.waiting_for(conversation)
        if giving is not None and giving.ending is not None and waiting is not None:
            own, its = conversation.writer, waiting.writer
            # While an event may still be taken back, the charge isn't notified here: the ledger notifies the
            # charge after the unit is stored.
            if own is not None and its is not None and not (own.ahead or its.ahead):
                waiting.awaited[giving.paid.id](giving.ending)
                return its.flush(within=lambda more: self.work.commits.add([*writes, *more], writer))
        due = self.places.next.get(owner)
        if due is not None and conversation is self.places.live.get(owner):
            heir = conversation.heir(*due)
            written = heir.begin_within(lambda more: self.work.commits.add([*writes, *more], writer))
            if written is not None:
                self._heirs[owner] = heir
                return written
        return self.work.commits.add(writes, writer)

    def end_all(self, before: int) -> Sequence[Conversation]:
        """End all conversations without a message: the user has left, or the chat is to be forgotten.

        Queued events and starts are dropped, too, even if open payments keep the chat from being forgotten.

        Args:
            before: events before this row count as too late; later events are for conversations that begin
                after this call.
        """
        self.mailbox.left(before)
        for earlier in [*self.mailbox.take_out(), *self.places.clear()]:
            self._drop(earlier, "left")
        self.services.outbox.drop(self.chat_id)
        ending = self.places.all()
        for conversation in ending:
            conversation.end(Ending.LEFT)
        return ending

    def ended(self, conversation: Conversation) -> None:
        """Handle the end of a conversation: start its successor, or route its queued events again."""
        if conversation.ending is None or self.work.cut:
            return
        if self.mailbox.shown is not None and self.mailbox.shown[0] is conversation:
            self.mailbox.shows_no_more()
        owner, owner_of, kept_for = conversation.owner, self.places.owner_of, self.places.kept_for
        if conversation in self.places.asides:
            kept = self.mailbox.take_out(lambda queued: conversation in kept_for(queued))
            self.places.asides = [aside for aside in self.places.asides if aside is not conversation]
            # Messages that were kept for this conversation only, while it was parked.
            typed = [queued for queued in kept if isinstance(queued.event, Message) and not kept_for(queued)]
            for queued in kept:
                if queued in typed:
                    self._drop(queued, "typed_while_parked")
                else:
                    self._act(self.decide_on(queued), queued)
            if conversation.goes_on:
                self._run(conversation.next_run())
            elif self.places.asides_due:
                due, *self.places.asides_due = self.places.asides_due
                self._run(Conversation(self, *due))
        elif conversation is self.places.live.get(owner):
            # Before the removal: `owner_of` depends on `live`.
            mine = [queued for queued in self.mailbox.waiting if owner_of(queued.event) == owner]
            del self.places.live[owner]
            if owner in self.places.next:
                due, heir = self.places.next.pop(owner), self._heirs.pop(owner, None)
                self._run(heir or conversation.heir(*due))
            elif conversation.goes_on:
                self._run(conversation.next_run())
            elif mine:
                for queued in self.mailbox.take_out(lambda queued: queued in mine):
                    # These were queued before, so there is room.
                    self._act(self.decide_on(queued), queued)
        if self.mailbox.behind:
            self._made_room()
        if self.idle:
            self.calls.over(self)


def _cancelled() -> bool:
    """Return whether the current task is cancelled: then queued events are left for others."""
    return trio.current_effective_deadline() == -inf
