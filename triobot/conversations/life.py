"""One chat that has something going on: its conversations, its mailbox, its place in the inbox.

A chat in which nothing is going on has no `ChatLife`: it costs nothing. The mailbox is bounded; when it is
full the chat is *behind*, and everything of it comes from the inbox, in order, until that is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol, final

from ..seams import Alarm
from ..wire.events import Event, InvoiceCallback, Leave, PayCallback, Press, Submission
from ..wire.ids import ChatId
from ..wire.operations import Operation, SendMessage
from .conversation import Conversation, Ending, Services
from .filters import Setting
from .routes import Route, RouteKind, Table
from .routing import Decision, Drop, Expire, Give, Queue, Start, Tell, decide, token_of, unfit
from .waits import Delivery, Taken, Unfit, Wait

# A person types a handful of messages ahead; whatever is above that waits in the inbox.
MAILBOX: Final = 16
ASIDES: Final = 16
# Enough to know the second click of a double click from a button of last week.
RECENT_QUESTIONS: Final = 8


class House(Protocol):
    """What a chat's life asks of the dispatcher."""

    def start(self, conversation: Conversation) -> None:
        """Run a conversation as a task."""
        ...

    def consumed(self, seqs: Sequence[int]) -> None:
        """These inbox rows have been dealt with."""
        ...

    def tidy(self, operation: Operation[object]) -> None:
        """Do this beside the conversations."""
        ...

    @property
    def stopping(self) -> bool:
        """The program is about to stop: conversations are cut, not ended."""
        ...

    def working(self, more: int) -> None:
        """This many more branches are at work, or fewer."""
        ...

    def count(self, what: str) -> None:
        """Count what happened, by word."""
        ...

    def room(self, life: ChatLife) -> None:
        """A chat that was behind has room again."""
        ...

    def over(self, life: ChatLife) -> None:
        """Nothing goes on in this chat any more."""
        ...


@final
class ChatLife:
    """A chat with conversations or waiting events."""

    def __init__(
        self, house: House, services: Services, table: Table, chat_id: ChatId, username: str | None
    ) -> None:
        self.chat_id = chat_id
        self.behind = False
        self.interrupted_at = 0
        self.cursor = 0
        self.latest = 0
        self._house = house
        self._services = services
        self._table = table
        self._username = username
        self._group = False
        self._live: Conversation | None = None
        self._asides: list[Conversation] = []
        self._next: tuple[Start, Delivery] | None = None
        self._opened = 0
        self._mailbox: deque[Delivery] = deque()
        self._asked: deque[str] = deque(maxlen=RECENT_QUESTIONS)

    @property
    def group(self) -> bool:
        """Two different people were seen here."""
        return self._group

    @property
    def setting(self) -> Setting:
        """What filters may know of this chat."""
        return Setting(self._username, self._group)

    @property
    def idle(self) -> bool:
        """Nothing goes on here."""
        return self._live is None and not self._asides and not self._mailbox and not self.behind

    # --- in

    def deliver(self, delivery: Delivery, *, group: bool) -> bool:
        """Put an event on its way; False, and nothing done, when there is no room for it now."""
        self._group = self._group or group
        event = delivery.event
        if isinstance(event, Leave) and not self._group:
            self._end_all(Ending.LEFT)
        decision = self._decide(event)
        if isinstance(decision, Queue) and len(self._mailbox) >= MAILBOX:
            return False
        if isinstance(decision, Start) and not self._has_room(decision.route):
            return False
        self._act(decision, delivery)
        return True

    def jump(self, delivery: Delivery) -> bool:
        """While the chat is behind: take this event out of its turn if it is an interrupt or an aside.

        After an interrupt, what came before it is of no use to anybody, in the inbox as in the mailbox.
        """
        for route in (*self._table.interrupts, *self._table.asides):
            value = route.filter.look(delivery.event, self.setting)
            if value is None:
                continue
            if not self._has_room(route):
                return False
            if route.kind is RouteKind.INTERRUPT:
                self.interrupted_at = delivery.seq
            self._start(Start(route, value), delivery)
            self._made_room()
            return True
        return False

    def _decide(self, event: Event) -> Decision:
        waits = [wait for conversation in self._all() for wait in conversation.waits]
        waits.sort(key=lambda wait: wait.opened, reverse=True)
        live = None if self._live is None else [wait for wait in waits if wait in self._live.waits]
        return decide(event, self.setting, self._table, waits, live)

    def _all(self) -> list[Conversation]:
        newest_asides = list(reversed(self._asides))
        return [*newest_asides, self._live] if self._live is not None else newest_asides

    def _has_room(self, route: Route) -> bool:
        return route.kind is not RouteKind.ASIDE or len(self._asides) < ASIDES

    def _act(self, decision: Decision, delivery: Delivery) -> None:
        match decision:
            case Drop(why):
                self._drop(delivery, why)
            case Start():
                self._start(decision, delivery)
            case Give(wait, value):
                self._asked_and_answered(delivery.event)
                wait.give(Taken(delivery, value))
            case Tell(wait):
                wait.give(Unfit(delivery))
            case Queue():
                self._mailbox.append(delivery)
            case Expire():
                self._expire(delivery)

    def _start(self, start: Start, delivery: Delivery) -> None:
        if start.route.kind is RouteKind.ASIDE:
            conversation = Conversation(self._services, self, start.route, start.value, delivery)
            self._asides.append(conversation)
            self._house.start(conversation)
            return
        if self._live is None:
            self._begin(start, delivery, None)
            return
        # An interrupt: what came before it is of no use to anybody; what it overtook, too.
        for earlier in self._mailbox:
            self._drop(earlier, "interrupted")
        self._mailbox.clear()
        if self._next is not None:
            self._drop(self._next[1], "interrupted")
        self._next = (start, delivery)
        self._live.end(Ending.INTERRUPTED)

    def _begin(self, start: Start, delivery: Delivery, interrupted: str | None) -> None:
        self._live = Conversation(
            self._services, self, start.route, start.value, delivery, interrupted=interrupted
        )
        self._house.start(self._live)

    def _drop(self, delivery: Delivery, why: str) -> None:
        self._house.count(why)
        self._house.consumed([delivery.seq])
        event = delivery.event
        if isinstance(event, Press):
            self._services.outbox.refuse_press(event, "")
        if isinstance(event, PayCallback | InvoiceCallback):
            self._services.raise_alarm(
                Alarm(
                    "payment_unverified",
                    str(delivery.seq),
                    f"a payment callback of chat {self.chat_id} has no charge that waits for it; if it was "
                    "paid, the platform gives the money back within the hour",
                )
            )

    def _expire(self, delivery: Delivery) -> None:
        """Say that a button or a form is over; the second click of a double click needs no word."""
        event = delivery.event
        self._house.count("expired")
        self._house.consumed([delivery.seq])
        if isinstance(event, Press):
            again = token_of(event) in self._asked
            self._services.outbox.refuse_press(event, "" if again else self._services.texts.expired)
        elif isinstance(event, Submission) and str(event.message_id) not in self._asked:
            self._house.tidy(SendMessage(self.chat_id, self._services.texts.expired))

    def _asked_and_answered(self, event: Event) -> None:
        if isinstance(event, Submission):
            self._asked.append(str(event.message_id))
        elif (token := token_of(event)) is not None:
            self._asked.append(token)

    # --- the mailbox, seen from a conversation

    def offer_queued(self, conversation: Conversation, wait: Wait, *, parking: bool = False) -> None:
        """Show the queued events to a wait that has just opened; the first that it takes is its answer.

        Once the task parks, what doesn't fit goes the way of the wait's `otherwise`.
        """
        if not parking:
            wait.opened = self._opened = self._opened + 1
        if conversation is not self._live or not wait.open:
            return
        kept: deque[Delivery] = deque()
        while self._mailbox and wait.open:
            delivery = self._mailbox.popleft()
            value = wait.look(delivery.event, self.setting)
            if value is not None:
                self._asked_and_answered(delivery.event)
                wait.give(Taken(delivery, value))
            elif not parking or isinstance(decision := unfit(delivery.event, wait), Queue):
                kept.append(delivery)
            else:
                self._act(decision, delivery)
        kept.extend(self._mailbox)
        self._mailbox = kept
        self._made_room()

    def drain(self, conversation: Conversation) -> Sequence[Event]:
        """Take what is queued, without waiting."""
        if conversation is not self._live:
            return ()
        taken = list(self._mailbox)
        self._mailbox.clear()
        self._house.consumed([delivery.seq for delivery in taken])
        self._made_room()
        return [delivery.event for delivery in taken]

    def give_back(self, conversation: Conversation, delivery: Delivery) -> None:
        """A wait ended before it looked at what it was given: the event is next for whoever waits."""
        if conversation.ending is None and conversation is self._live:
            self._mailbox.appendleft(delivery)
        else:
            self._drop(delivery, "interrupted")

    def _made_room(self) -> None:
        if self.behind and len(self._mailbox) < MAILBOX:
            self._house.room(self)

    # --- out

    def ended(self, conversation: Conversation) -> None:
        """A conversation is over: its successor starts, or what is left is routed again from the top."""
        if conversation in self._asides:
            self._asides.remove(conversation)
        if conversation is self._live and conversation.ending is not None:
            self._live = None
            if self._next is not None:
                (start, delivery), self._next = self._next, None
                self._begin(start, delivery, conversation.route.name)
            else:
                self._route_again(left=conversation.ending is Ending.LEFT)
        if conversation.ending is not None:
            self._made_room()
        if self.idle:
            self._house.over(self)

    def _route_again(self, *, left: bool) -> None:
        queued, self._mailbox = self._mailbox, deque()
        for delivery in queued:
            if left:
                self._drop(delivery, "left")
            else:
                # There was room for it before, and nothing has been added since.
                self._act(self._decide(delivery.event), delivery)

    def _end_all(self, ending: Ending) -> None:
        self._services.outbox.drop(self.chat_id)
        for conversation in self._all():
            conversation.end(ending)

    # --- what conversations pass on

    def consumed(self, seqs: Sequence[int]) -> None:
        """These inbox rows have been dealt with."""
        self._house.consumed(seqs)

    def working(self, more: int) -> None:
        """This many more branches are at work, or fewer."""
        self._house.working(more)

    def count(self, what: str) -> None:
        """Count what happened."""
        self._house.count(what)

    def tidy(self, operation: Operation[object]) -> None:
        """Do this outside the author's operations."""
        self._house.tidy(operation)

    @property
    def stopping(self) -> bool:
        """The program is about to stop: conversations are cut, not ended."""
        return self._house.stopping

    @property
    def conversations(self) -> Sequence[Conversation]:
        """All that run here, asides first."""
        return self._all()
