"""The conversations that run in a chat, and the choice of the conversation that an event is for.

`RunningSet` has the live conversations by owner, and the asides beside them. A conversation belongs to the
chat or, with ``per="sender"``, to one member. A member's event goes to the member's own live conversation if
there is one, else to the chat's live conversation. `ChatRouting` decides about an event, and
`ChatActor` carries out the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Final, TypeAlias, TypeVar, final

import attrs

from ..seams.rooms import is_chat
from ..wire.events import Event, Join, Leave, Message, Press, Submission
from ..wire.ids import ChatId, RefId, SenderId
from .beginnings import DueStart, Successor
from .calls.signals import Place, is_signal, room_of
from .conversation import Conversation
from .data import Kept
from .mailbox import Mailbox
from .notices import Unheard, Untaken
from .routes import routing
from .routes.declarations import Table
from .routes.filters import Setting, is_payment
from .routes.routing import Case, Decision, Delivery, Give, Queue, Start, Unfit, Wait, Watch
from .running.failures import report_filter
from .shared import Shared

_IS_WAITING: Final = attrgetter("is_waiting")
W = TypeVar("W", Wait, Watch)
Waits: TypeAlias = Sequence[Wait]
MANY: Final = 8
"""Number of live conversations below which every event is offered to all of them."""


def _saw(taker: Wait | Watch, event: Event, at: int | None) -> bool:
    """Return whether a wait or block may take an event that came at the time `at`.

    A message was typed for the questions that were open at that time. So a wait that opened later, in another
    conversation, doesn't get the message. The arrival time is compared after a restart, too, when all waiting
    events are routed again. Events that aren't messages may be taken by later waits.
    """
    return at is None or taker.since <= at or not isinstance(event, Message)


def _in_order(takers: list[W], event: Event) -> list[W]:
    """Sort waits or blocks: those that belong to the event's sender come first, newer before older."""
    sender = None if event.sender is None else event.sender.id

    def place(taker: W) -> tuple[bool, int, tuple[int, int]]:
        return sender is not None and taker.owner == sender, taker.since, taker.opened

    return sorted(takers, key=place, reverse=True)


@final
class RunningSet:
    """The conversations of one chat that run, or are about to run.

    Attributes:
        live: live conversations by owner; the chat's own has the key None.
        asides: running asides, oldest first.
        asides_due: asides that start when fewer asides are running.
    """

    __slots__ = ("_opened", "_table", "asides", "asides_due", "live")

    def __init__(self, table: Table) -> None:
        self.live: Final[dict[SenderId | None, Conversation]] = {}
        # Most chats never use these fields, so the fields are allocated at the first use.
        self.asides: Sequence[Conversation] = ()
        self.asides_due: Sequence[DueStart] = ()
        self._table = table
        self._opened = 0

    def take(self, conversation: Conversation) -> None:
        """Register a conversation: as an aside, or as its owner's live conversation."""
        if conversation.facts.beside:
            self.asides = [*self.asides, conversation]
        else:
            self.live[conversation.facts.owner] = conversation

    def remove(self, conversation: Conversation) -> DueStart | Successor | None:
        """Remove a conversation that has ended. Return the conversation to start next, if any.

        That is the ended conversation's successor or, after an aside, the next aside that is due.
        """
        beside = conversation in self.asides
        if beside:
            self.asides = [aside for aside in self.asides if aside is not conversation]
        else:
            del self.live[conversation.facts.owner]
        if (writer := conversation.writer) is not None and writer.successor is not None:
            return writer.successor
        if not (beside and self.asides_due):
            return None
        due, *self.asides_due = self.asides_due
        return due

    @property
    def is_waiting(self) -> bool:
        """Whether all conversations wait and no aside is due, so that a reload would restore all of them."""
        return not self.asides_due and all(map(_IS_WAITING, self.all()))

    def all(self) -> list[Conversation]:
        """Return all conversations: the asides, newest first, then the live conversations."""
        return [*self.asides[::-1], *self.live.values()]

    def concerned(self, event: Event) -> list[Conversation]:
        """Return the conversations that may get an event (`concerns`), the newest aside first.

        Other members' conversations are left out where possible: a group may have thousands of them.
        """
        sender = event.sender
        if sender is None or len(self.live) < MANY or is_signal(event) or is_payment(event):
            return self.all()
        own = [self.live[owner] for owner in (None, sender.id) if owner in self.live]
        if (token := routing.token_of(event)) is not None:
            # A member may press the button of another member's question. The answer is then that the question
            # is not for this member.
            own += [
                one
                for one in self.live.values()
                for wait in one.seat.waits
                if wait.token == token and one not in own
            ]
        return [*self.asides[::-1], *own]

    # --- owners

    def owner_of(self, event: Event) -> SenderId | None:
        """Return the owner, as in `live`, of the conversation that an event is for."""
        sender = event.sender
        return sender.id if sender is not None and sender.id in self.live else None

    def owner_for(self, start: Start, event: Event) -> SenderId | None:
        """Return the owner of the conversation that `start` will begin; None for the chat."""
        sender = None if event.sender is None else event.sender.id
        if start.call is not None and start.call.place in (Place.LIVE, Place.SENDER):
            return sender if start.call.place is Place.SENDER else None
        if not routing.interrupts(start):
            return sender if start.route.per_sender else None
        chats_own = None in self.live or not self._table.per_sender
        return sender if sender in self.live or not chats_own else None

    def is_for(self, delivery: Delivery, conversation: Conversation) -> bool:
        """Return whether a queued event waits for this conversation. A signal waits for any conversation."""
        if is_signal(delivery.event):
            return True
        mine = self.live.get(self.owner_of(delivery.event)) is conversation
        return mine and not (isinstance(delivery.event, Message) and self.kept_for(delivery))

    def queued_for(self, conversation: Conversation, waiting: Sequence[Delivery]) -> Sequence[Delivery]:
        """Return the queued events that must be routed again when a conversation ends."""
        if conversation in self.asides:
            return [queued for queued in waiting if conversation in self.kept_for(queued)]
        return [queued for queued in waiting if self.owner_of(queued.event) == conversation.facts.owner]

    # --- waits and blocks

    def opens(self, conversation: Conversation, taker: Wait | Watch) -> None:
        """Set the number and the opening time of a new wait or block."""
        self._opened += 1
        taker.opened = conversation.facts.seq, self._opened
        if conversation.run is not None:
            taker.since = conversation.run.journal.since()

    def who_has(self, taker: Wait | Watch) -> Conversation | None:
        """Return the conversation that has this wait or block open; None if the wait or block has closed."""
        own = self.live.get(taker.owner)
        likely = [*self.asides, *([] if own is None else [own])]
        return next((it for it in likely if taker in it.seat.waits or taker in it.seat.watches), None)

    def waits(self, event: Event, at: int | None = None) -> tuple[list[Wait], list[Wait] | None]:
        """Return all waits that may take an event, and the live conversation's share of these waits.

        The second result is None if the event has no live conversation.

        Args:
            at: the event's arrival time. Waits that other conversations opened later are left out. Waits
                that the live conversation opened later come last, in the order in which they opened: a
                queued event is offered to them in that order.
        """
        alone = not self.asides and len(self.live) == 1
        if alone and (own := self.live.get(None)) and len(own.seat.waits) == 1:
            return own.seat.waits, own.seat.waits  # the chat has no other wait
        conversations, owner = self.concerned(event), self.owner_of(event)
        if isinstance(event, Leave) and owner is not None:
            # The leave ends the member's own conversation, so the waits there don't count.
            conversations, owner = [other for other in conversations if other.facts.owner != owner], None
        own = self.live.get(owner)
        seen = [wait for one in conversations for wait in one.seat.waits if _saw(wait, event, at)]
        waits = _in_order(seen, event)
        if own is None:
            return waits, None
        waits += _in_order([wait for wait in own.seat.waits if wait not in seen], event)[::-1]
        mine = list(own.seat.waits)
        if own.seat.awaited:
            # While the charge waits, the aside that gives the goods may ask questions instead of the live
            # conversation.
            mine += [wait for one in self.asides if self.waiting_for(one) is own for wait in one.seat.waits]
        return waits, [wait for wait in waits if wait in mine]

    def waiting_for(self, aside: Conversation) -> Conversation | None:
        """Return the conversation with a charge that waits until this aside has given the goods, or None."""
        giving = aside.giving
        return None if giving is None or not giving.owes else self.awaiting(giving.paid.id)

    def awaiting(self, payment: RefId) -> Conversation | None:
        """Return the conversation with a charge that waits for the goods of a payment, or None."""
        return next((one for one in self.all() if payment in one.seat.awaited), None)

    def was_live(self, delivery: Delivery) -> bool:
        """Return whether the event's live conversation had already begun when the event came."""
        live = self.live.get(self.owner_of(delivery.event))
        return live is not None and live.facts.seq < delivery.seq

    def kept_for(self, delivery: Delivery) -> list[Conversation]:
        """Return the parked conversations that may be waiting for an event.

        A press or a form may be for any parked conversation. A message may be for a parked aside, but only if
        no live conversation ran when the message came: a live conversation gets all messages of its time.
        """
        event = delivery.event
        if isinstance(event, Message):
            if self.was_live(delivery):
                return []
            return [conversation for conversation in reversed(self.asides) if conversation.seat.parked]
        if not isinstance(event, Press | Submission):
            return []
        return [
            conversation
            for conversation in self.concerned(event)
            if conversation.seat.parked and routing.concerns(event, conversation.facts.owner)
        ]

    def watches(self, event: Event, at: int | None = None) -> Sequence[Watch]:
        """Return all open blocks that an event may end; `at` as for `waits`."""
        alone = not self.asides and len(self.live) == 1
        if alone and (only := self.live.get(None)) and not only.seat.watches:
            return only.seat.watches  # no block is open
        own = self.live.get(self.owner_of(event))
        seen = [
            watch
            for one in self.concerned(event)
            for watch in one.seat.watches
            if one is own or _saw(watch, event, at)
        ]
        return _in_order(seen, event) if len(seen) > 1 else seen

    # --- stops

    def take_out(self, which: Callable[[Delivery], bool]) -> Sequence[Delivery]:
        """Remove the starts that wait for a conversation's end, if `which` is true for the start's event.

        Return the events of the removed starts.
        """
        dropped = [due.delivery for due in self.asides_due if which(due.delivery)]
        self.asides_due = [due for due in self.asides_due if due.delivery not in dropped]
        for conversation in self.all():
            if (due := conversation.heir) is not None and which(due.delivery):
                dropped.append(due.delivery)
                conversation.heir = None
            writer = conversation.writer
            if writer is not None and (later := writer.successor) is not None and which(later.delivery):
                dropped.append(later.delivery)
                writer.successor = None
        return dropped


@final
@attrs.define(eq=False, repr=False)
class ChatRouting:
    """Decides about the events of one chat; changes neither the chat's mailbox nor its `RunningSet`.

    Attributes:
        group: whether two different users were seen in the chat.
    """

    _shared: Shared
    _chat_id: ChatId
    _kept: Kept
    _mailbox: Mailbox
    _places: RunningSet
    group: bool = attrs.field(default=False, init=False)

    def _setting(self, delivery: Delivery) -> Setting:
        shared, memory = self._shared, self._shared.services.memory
        return Setting(shared.username, self.group, delivery.seq, delivery.at, memory, self._kept.values)

    def _case(
        self, delivery: Delivery, watches: Sequence[Watch] = (), waits: Waits = (), live: Waits | None = None
    ) -> Case:
        event, shared = delivery.event, self._shared
        failed = partial(report_filter, shared.services, shared.work.count, self._chat_id)
        setting, table = self._setting(delivery), shared.table
        if not is_chat(self._chat_id):  # in a room, only the room's own route starts
            room = room_of(event)
            table = table.in_room(None if room is None else room[0])
        kept = self._places.kept_for
        return Case(event, setting, table, failed, waits, live, watches, lambda _: bool(kept(delivery)))

    # --- incoming events

    def decide(self, delivery: Delivery, *, at_rest: bool = False) -> Decision:
        """Decide where the next event of the chat goes.

        Args:
            at_rest: whether to decide as in a chat without conversations.
        """
        if at_rest:
            return routing.decide(self._case(delivery))
        waits, live = self._places.waits(delivery.event, delivery.at)
        watches = self._places.watches(delivery.event, delivery.at)
        if live is not None and isinstance(delivery.event, Message) and self._places.kept_for(delivery):
            return Queue()  # the message is for the parked aside
        return routing.decide(self._case(delivery, watches, waits, live))

    def jump(self, delivery: Delivery) -> Decision:
        """Decide about an event before older events. An event that isn't urgent is queued."""
        watches = self._places.watches(delivery.event, delivery.at)
        return routing.jump(self._case(delivery, watches)) or Queue()

    def afresh(self, delivery: Delivery) -> Start | None:
        """Return the start of the conversation that a command would start in a chat without conversations."""
        return routing.afresh(self._case(delivery))

    def too_late(self, delivery: Delivery) -> str | None:
        """Return the name under which a late event is dropped; None for an event in time."""
        if self._mailbox.overtaken(delivery, self._places.owner_of(delivery.event)):
            return "interrupted"
        return "stopped" if self._mailbox.stopped(delivery) else None

    @property
    def has_room(self) -> bool:
        """Whether another event may be queued.

        While a task rests in a wait, the next event may be the awaited event, so the mailbox has no limit.
        Then only the inbox's quota for a chat bounds the queue. Events that are kept for a parked
        conversation don't count: their user may still start another conversation.
        """
        return self._mailbox.has_room(lambda queued: bool(self._places.kept_for(queued))) or any(
            wait.resting for conversation in self._places.all() for wait in conversation.seat.waits
        )

    def advise(self, delivery: Delivery, why: str) -> None:
        """Notify the developer about an event that is dropped as `why`, if the drop looks like a mistake."""
        event, table, notice = delivery.event, self._shared.table, self._shared.services.notice
        if notice is None:
            return
        if why == routing.UNHEARD:
            rooms = self._case(delivery).table.conversations
            notice(Unheard(event, room_of(event), [route.filter.name for route in rooms]))
            return
        press = isinstance(event, Press) and routing.token_of(event) is None
        if why == "nobody" or (why == "unasked" and isinstance(event, Join)) or (why == "expired" and press):
            live = self._places.live.get(self._places.owner_of(event))
            start = None if live is None else routing.begins(self._case(delivery))
            begun = None if live is None or start is None else (start.route, live.facts.route)
            notice(Untaken(event, table.routes_of_chats, self._shared.username, begun))

    # --- queued events

    def is_overtaken(self, owner: SenderId | None, seq: int, queued: Delivery) -> bool:
        """Return whether a queued event is useless after row `seq` has ended the owner's conversation.

        Signals stay useful. An event that another, parked conversation may be waiting for stays useful, too.
        """
        running, live = self._places, self._places.live.get(owner)
        # An interrupt that was given to a block, and is routed again, may be older than queued events.
        mine = queued.seq < seq and running.owner_of(queued.event) == owner and not is_signal(queued.event)
        return mine and all(conversation is live for conversation in running.kept_for(queued))

    def offer(
        self, delivery: Delivery, conversation: Conversation, taker: Wait | Watch, *, resting: bool
    ) -> Decision:
        """Decide whether a conversation's wait takes a queued event, or whether the event ends the block.

        Args:
            resting: whether the task rests in the wait. If so, the wait's `otherwise` handles events that
                don't fit.
        """
        if not self._places.is_for(delivery, conversation):
            return Queue()
        if isinstance(taker, Watch):
            return routing.end(self._case(delivery, (taker,))) or Queue()
        event, setting = delivery.event, self._setting(delivery)
        if (taken := routing.offer(event, setting, taker)) is not None:
            return taken
        queues = not resting or self._places.kept_for(delivery)
        return Queue() if queues else routing.unfit(event, setting, taker)

    def drains(self, conversation: Conversation, queued: Delivery) -> bool:
        """Return whether a drain of a conversation takes a queued event.

        In a chat, signals are not drained: they stay queued for a wait.
        """
        stays = is_signal(queued.event) and is_chat(self._chat_id)
        return not stays and self._places.is_for(queued, conversation) and not self._places.kept_for(queued)

    def typed_while_parked(
        self, conversation: Conversation, waiting: Sequence[Delivery]
    ) -> Sequence[Delivery]:
        """Return messages that came too early for a conversation that goes on after it was parked.

        Each question that the user has seen gets the first event that answers the question. The other
        messages, which were sent before their questions were asked, are returned. If no event was an answer,
        the last message is returned only if the conversation is an aside.

        Args:
            waiting: the events, in order.
        """
        typed, taken, own = list[Delivery](), list[Wait | Watch](), conversation.seat.waits
        running, beside = self._places, conversation in self._places.asides
        for delivery in waiting:
            event = delivery.event
            live, waits = running.live.get(running.owner_of(event)), own
            mine = live is conversation
            if beside:
                free = not running.was_live(delivery) and not running.kept_for(delivery)
                mine = free and delivery.seq not in self._mailbox.passed
                # The live conversation began later: the message can't answer the live conversation's
                # questions either.
                waits = waits if live is None else [*waits, *live.seat.waits]
            if not (mine and isinstance(event, Message | Press | Submission)):
                continue
            match self.decide(delivery):
                case Give(wait, answer) if (
                    wait in own and wait not in taken and not isinstance(answer, Unfit)
                ):
                    taken.append(wait)
                case Give(wait) if isinstance(event, Message) and wait in waits:
                    typed.append(delivery)
                case Queue() if isinstance(event, Message):
                    typed.append(delivery)
                case _:
                    pass  # other events are refused when they are routed
        return typed if taken or beside else typed[:-1]
