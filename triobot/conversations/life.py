"""One chat that has something going on: what becomes of its events, and what runs there.

A chat in which nothing is going on has no `ChatLife`: it costs nothing. What waits is in its `Mailbox`, who
runs is in its `Places`; here it is decided, and done. While the chat is behind, what can't wait (an ignored
event, a leave, interrupts, asides, payments) goes ahead of the others.
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

# A reminder in a month is an aside, too; above this, they wait for one another.
ASIDES: Final = 64
# A second command that comes sooner was sent before its user could read the offer.
READ_IN: Final = 1_000


@final
@guarded
class DispatcherCalls:
    """What a chat asks its dispatcher to do.

    Attributes:
        start: run a conversation as a task.
        let_go: wait no more for a conversation whose coroutine doesn't end.
        park: park a conversation whose code doesn't fit its journal, because of this.
        room: read on for a chat that was behind, and has room again.
        over: drop a chat from memory, in which nothing goes on any more.
        take_back: bring a chat back: what it took when there were so many units isn't stored.
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
        mailbox: what waits for its conversations, here and in the inbox.
        places: who runs here.
        loading: its conversations are being brought back from the store; nothing is routed meanwhile.
        loads_at: since when, in wall milliseconds, if it is.
        born: when it came into memory.
        group: two different people were seen here.
        sender: who sent what came last.
        kept: what the chat keeps.
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
        # What has begun in the store with the end of what it interrupts, which is being told of that.
        self._heirs: dict[SenderId | None, Conversation] = {}
        self.born = 0

    def setting(self, delivery: Delivery) -> Setting:
        """What filters may know besides the event."""
        memory, username = self.services.memory, self.shared.username
        asked = self.work.commits.asked if delivery.seq > 0 else Verdicts()
        return Setting(username, self.group, delivery.seq, delivery.at, memory, self.kept.values, asked)

    @property
    def idle(self) -> bool:
        """Nothing goes on here."""
        anything = self.places.live or self.places.asides or self.mailbox.waiting
        return not (anything or self.mailbox.behind or self.loading)

    @property
    def may_leave(self) -> bool:
        """Whether something goes on here, and all can be brought back without anybody's noticing."""
        return not (self.mailbox.waiting or self.mailbox.behind or self.idle) and self.may_come_back

    @property
    def may_come_back(self) -> bool:
        """Whether all that goes on and waits here would be there again if it came from the store."""
        works = self.loading or self.places.next or self.places.asides_due
        return not works and all(one.quiescent and one.route.durable for one in self.places.all())

    @cached_property
    def refusals(self) -> Refusals:
        """What is said of what nobody takes."""
        return Refusals(self.shared, self.chat_id, self.kept)

    def runs(self, halt: Halt) -> bool:
        """Whether there is something here that this stops."""
        asked = (asked_of(delivery.event) for delivery in self.mailbox.waiting)
        return runs_behind(self.places.runs(halt), halt, asked)

    # --- in

    def deliver(self, delivery: Delivery) -> bool:
        """Put an event on its way; False, and nothing done, when there is no room for it now."""
        # Without `finally`: what leaves here ends the process, and the next one is to know at what.
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
        jumped = self.mailbox.behind and not self.loading  # `jump` has refused it before
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
        """While the chat is behind: take an event out of its turn if it can't wait.

        After an interrupt, what came before it is of no use to anybody, in the inbox as in the mailbox.
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
        """Who gets an event; nothing is done."""
        waits, live = self.places.waits(delivery.event, delivery.at, delivery.seq)
        watches = self.places.watches(delivery.event, delivery.at)
        if live is not None and self.places.is_typed_for_parked(delivery):
            return Queue()  # it came before the live conversation began
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
        if not is_chat(self.chat_id):  # nobody begins in a room but its own route
            room = room_of(event)
            table = table.in_room(None if room is None else room[0])

        def kept(_: Event) -> bool:
            return bool(self.places.kept_for(delivery))

        return Case(event, setting, table, failed, waits, live, watches, kept)

    def _jump(self, delivery: Delivery) -> Drop | Start | End | Halt | Order | None:
        return jump(self._case(delivery, self.places.watches(delivery.event, delivery.at)))

    def _has_room(self) -> bool:
        # While somebody is parked on a wait, the event that it waits for may be the next; so all of them are
        # looked at, and what is kept is bounded by the inbox's quota of a chat.
        # What is typed for an aside that can't go on doesn't keep its user from beginning something else.
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
        """Close a wait, or end a block, with this."""
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
            # What came before it is of no use to anybody; what it overtook, too.
            self._drop_earlier(delivery, owner)
        live = self.places.live.get(owner)
        if live is None:
            self._run(Conversation(self, start, delivery, owner))
        else:
            self.places.next[owner] = (start, delivery)
            live.end(Ending.INTERRUPTED, delivery.at, delivery.seq)

    def follow(self, conversation: Conversation, delivery: Delivery) -> None:
        """A conversation that comes back was being ended by this interrupt, which is to know it."""
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
        """Code stops a route: where it runs, and where it waits for its place."""
        if self.mailbox.behind:
            self.mailbox.halted(delivery.seq, halt)
        for conversation in self.places.all():
            typed = conversation.stuck and conversation not in self.places.asides
            if typed and halt.ends(conversation.route.name, conversation.key):
                self._drop_earlier(delivery, conversation.owner, "typed_while_parked")
        for queued in [*self.mailbox.take_out(partial(ends, halt)), *self.places.halt(halt)]:
            self._drop(queued, "stopped")
        self.work.commits.consumed([delivery.seq])  # behind what it has ended: not before that is stored

    # --- while a conversation is parked

    def _meets_parked(self, delivery: Delivery) -> bool:
        """A message has come to a conversation that is parked: False if it is to be kept like any other.

        Nobody is left without a word; and a command that starts a conversation shows the way out.
        """
        event = delivery.event
        conversation = self.places.live.get(self.places.owner_of(event))
        if conversation is None or not conversation.stuck or not isinstance(event, Message):
            return False
        start = afresh(self._case(delivery))
        offered = None if start is None else self.refusals.offered(conversation.seq, start.route.name)
        # What came before the offer, or before this run without one, was for the conversation itself.
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
        """Forget that a conversation was parked: it goes on, or has ended."""
        self.shared.care.parked_no_more(conversation.seq)
        others = any(other.stuck for other in self.places.all() if other is not conversation)
        self.refusals.over(conversation.seq, last=not others)

    def heals(self, conversation: Conversation, waiting: Sequence[Delivery]) -> None:
        """A conversation goes on that was parked while these came for its chat, in their order.

        Each question that its user has seen takes the first that answers it. The others would answer
        questions that nobody had asked yet: they are let go, but for the last where none was an answer, of a
        live conversation.
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
                # A live conversation that began later has asked nothing of this, either.
                waits = waits if live is None else [*waits, *live.waits]
            if not (mine and isinstance(event, Message | Press | Submission)):
                continue
            match self.decide_on(delivery):
                case Give(wait) | Break(wait) if wait in conversation.waits and wait not in taken:
                    taken.append(wait)
                case _ if not isinstance(event, Message):
                    pass  # what it could have answered is over, and it says so when its turn comes
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
        """Do what an operator wants of a parked conversation."""
        conversation = next((one for one in self.places.all() if one.seq == order.conversation), None)
        if order.end:
            if conversation is not None:
                if conversation not in self.places.asides:
                    self._drop_earlier(delivery, conversation.owner, "typed_while_parked")
                conversation.end(Ending.STOPPED)
            # The row stays until it has been said.
            said = order.say if is_chat(self.chat_id) else ""
            self.shared.tidying.say(self.chat_id, said, delivery.seq)
            return
        self.work.commits.consumed([delivery.seq])
        if conversation is not None and conversation.stuck and delivery.at > self.born:
            self.shared.care.retry(self.chat_id)

    def _left(self, delivery: Delivery) -> bool:
        """End what a leave ends; False if the event is to be routed yet.

        A member's ends the member's own conversation, and nobody else's. A private chat's ends whatever runs
        in it, and then only starts routes.
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
        """What was queued for this owner's conversation is of no use any more; but signals are."""
        self.mailbox.ended(owner, delivery.seq)
        live = self.places.live.get(owner)
        mine = self.mailbox.take_out(
            # A block that gives an interrupt back may have kept it while others came.
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

    # --- the mailbox, seen from a conversation

    def offer_queued(self, conversation: Conversation, wait: Wait, *, resting: bool = False) -> None:
        """Show the queued events to a wait that has just opened; the first that it takes is its answer.

        Once the task parks, what doesn't fit goes the way of the wait's `otherwise`.
        """
        if not resting:
            self.places.opens(conversation, wait)
        if conversation.replaying:
            return  # it took what it took
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
        """A block that an event may end has opened: what is queued may end it, too."""
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
        """Let an event go where it would have gone: the block was over before it could end that."""
        decision = self._jump(delivery)
        if decision is None or self.work.cut or conversation.ending is not None:
            self.give_back(conversation, delivery)
        else:
            self._act(decision, delivery)

    def bring_queued(self, conversation: Conversation) -> set[int]:
        """Give a run what is queued for it, to be drained; return the rows."""
        if _cancelled():
            return set()
        self._show(conversation)
        # In a chat signals wait for whoever takes them.
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
        """A wait ended before it looked at what it was given: the event is next for whoever waits."""
        if self.work.cut:
            return
        question = self.refusals.question_of(delivery.event)
        if question is not None and not question.startswith(BOARD):  # of a board, others have answered
            self.shared.answers.reopened(question)
        late = self.mailbox.overtaken(delivery, self.places.owner_of(delivery.event))
        if conversation.ending is not None and late:
            self._drop(delivery, conversation.ending.value)
        elif self.places.is_for(delivery, conversation) and conversation not in self.places.asides:
            self._act(Queue(), delivery)
        else:
            self._act(self.decide_on(delivery), delivery)

    # --- the mailbox of a conversation that comes back

    def _show(self, conversation: Conversation) -> None:
        """Queue what came before the turn that a conversation is in, and would have been queued."""
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
                # A block that was open before has the event, whatever opens now.
                self._act(decision if isinstance(decision, End) else Queue(), delivery)
                self.mailbox.found(delivery)

    # --- room

    def _made_room(self) -> None:
        if self.mailbox.behind and self._has_room():
            self.calls.room(self)

    # --- out

    def write_end(
        self, conversation: Conversation, writes: Sequence[Write], writer: UnitWriter | None = None
    ) -> int:
        """Write that a conversation ends; an interrupt that is to follow it begins with that, as one.

        Else the next process would not know what it had ended. So does the charge go on that waits for it, if
        this is the aside that gives what was bought: what it is told is what the ledger knows.
        """
        owner = conversation.owner
        giving = conversation.giving
        waiting = None if giving is None else self.places.waiting_for(conversation)
        if giving is not None and giving.ending is not None and waiting is not None:
            own, its = conversation.writer, waiting.writer
            # What may yet be taken back is told by the ledger, once it is stored.
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
        """End what runs, without a word: the chat was left, or is to be forgotten.

        What waits in it goes as well: one that isn't forgotten after all, for its open money, has heard the
        last of that. Rows from `before` on are another life's.
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
        """A conversation is over: its successor starts, or what is left is routed again from the top."""
        if conversation.ending is None or self.work.cut:
            return
        if self.mailbox.shown is not None and self.mailbox.shown[0] is conversation:
            self.mailbox.shows_no_more()
        owner, owner_of, kept_for = conversation.owner, self.places.owner_of, self.places.kept_for
        if conversation in self.places.asides:
            kept = self.mailbox.take_out(lambda queued: conversation in kept_for(queued))
            self.places.asides = [aside for aside in self.places.asides if aside is not conversation]
            # What was typed for it while it was parked, and for nothing else.
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
            # While it is there to be asked whose they are.
            mine = [queued for queued in self.mailbox.waiting if owner_of(queued.event) == owner]
            del self.places.live[owner]
            if owner in self.places.next:
                due, heir = self.places.next.pop(owner), self._heirs.pop(owner, None)
                self._run(heir or conversation.heir(*due))
            elif conversation.goes_on:
                self._run(conversation.next_run())
            elif mine:
                for queued in self.mailbox.take_out(lambda queued: queued in mine):
                    # There was room for it before, and nothing has been added since.
                    self._act(self.decide_on(queued), queued)
        if self.mailbox.behind:
            self._made_room()
        if self.idle:
            self.calls.over(self)


def _cancelled() -> bool:
    """Whether the current task is on its way out: what is queued is somebody else's then."""
    return trio.current_effective_deadline() == -inf
