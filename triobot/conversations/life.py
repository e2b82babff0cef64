"""One chat that has something going on: its conversations, its mailbox, its place in the inbox.

A chat in which nothing is going on has no `ChatLife`: it costs nothing. The mailbox is bounded; when it is
full the chat is *behind*, and everything of it comes from the inbox, in order, until that is empty. What
can't wait (an ignored event, a leave, interrupts, asides, payments) goes ahead of the others even then.
"""

from __future__ import annotations

import logging
from bisect import insort
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final, final

import trio

from ..errors import StoreError
from ..seams import Alarm
from ..wire.events import Event, Leave, Press, Submission
from ..wire.ids import ChatId, MessageId
from ..wire.operations import SendMessage
from .conversation import Conversation, Ending, Services
from .data import any_declared
from .filters import Setting
from .house import House
from .lines import failing_line
from .routes import RouteKind, Table
from .routing import (
    Break,
    Decision,
    Drop,
    End,
    Expire,
    Give,
    Queue,
    Start,
    Tell,
    decide,
    end,
    jump,
    offer,
    token_of,
    unfit,
)
from .signals import is_signal
from .speaking import words_for
from .texts import Texts
from .waits import Broken, Delivery, Taken, Unfit, Wait, Watch, is_payment

log: Final = logging.getLogger("triobot.conversations")

# A person types a handful of messages ahead; whatever is above that waits in the inbox.
MAILBOX: Final = 16
# A reminder in a month is an aside, too; above this, they wait for one another.
ASIDES: Final = 64


@final
class ChatLife:
    """A chat with conversations or waiting events.

    Attributes:
        cursor: every event of the chat up to this one was put on its way.
        latest: the newest that the dispatcher came to; when the chat is behind, it is beyond the cursor.
        behind: events between the two wait in the inbox.
        jumped: those of them that went ahead of the others.
        data: what the chat keeps, by key; None until it is read.
        untidy: messages whose question is over, until their buttons are being taken away.
    """

    def __init__(
        self,
        house: House,
        services: Services,
        table: Table,
        chat_id: ChatId,
        username: str | None,
        cursor: int,
    ) -> None:
        self.chat_id = chat_id
        self.cursor = cursor
        self.latest = cursor
        self.behind = False
        self.jumped: set[int] = set()
        self.untidy: dict[MessageId, object] = {}
        self.data: dict[str, str] | None = None
        self.house = house
        self._services = services
        self._table = table
        self._username = username
        self._group = False
        self._live: Conversation | None = None
        self._asides: list[Conversation] = []
        self._asides_due: deque[tuple[Start, Delivery]] = deque()
        self._next: tuple[Start, Delivery] | None = None
        self._ended_by = 0
        self._opened = 0
        self._mailbox: list[Delivery] = []
        self._put_early: dict[str, str | None] = {}

    @property
    def group(self) -> bool:
        """Two different people were seen here."""
        return self._group

    def setting(self, delivery: Delivery) -> Setting:
        """What filters may know besides the event."""
        memory = self._services.memory
        return Setting(self._username, self._group, delivery.seq, delivery.at, memory)

    @property
    def idle(self) -> bool:
        """Nothing goes on here."""
        return self._live is None and not self._asides and not self._mailbox and not self.behind

    # --- what it keeps

    async def load_data(self) -> None:
        """Read what the chat keeps, unless that has been done or no key was declared."""
        if self.data is None and any_declared():
            stored = await self.house.stored_data(self.chat_id)
            if self.data is None:  # another conversation of the chat may have been faster
                self.data = dict(stored)
                for key, value in self._put_early.items():
                    self.put_data(key, value)

    @property
    def texts(self) -> Texts:
        """The runtime's own words, as this chat is to hear them."""
        return words_for(self._services.texts, self.data)

    def put_data(self, key: str, value: str | None) -> None:
        """Keep this, or with None nothing, under a key."""
        if self.data is None:
            self._put_early[key] = value
        elif value is None:
            self.data.pop(key, None)
        else:
            self.data[key] = value

    # --- in

    def deliver(self, delivery: Delivery, *, group: bool, jumped: bool = False) -> bool:
        """Put an event on its way; False, and nothing done, when there is no room for it now.

        Args:
            group: the chat is a group.
            jumped: `jump` refused it before.
        """
        self._group = self._group or group
        if delivery.seq < self._ended_by and not is_signal(delivery.event):
            self._drop(delivery, "interrupted")
            return True
        if isinstance(delivery.event, Leave) and not self._group:
            self._leave(delivery)
            return True
        decision = self._decide(delivery, jumped=jumped)
        if isinstance(decision, Queue) and is_signal(delivery.event):
            if self._live is None:
                self.house.count("signal_kept")
        elif isinstance(decision, Queue) and not self._has_room():
            return False
        self._act(decision, delivery)
        return True

    def jump(self, delivery: Delivery, *, group: bool) -> None:
        """While the chat is behind: take an event out of its turn if it can't wait.

        After an interrupt, what came before it is of no use to anybody, in the inbox as in the mailbox.
        """
        self._group = self._group or group
        event = delivery.event
        if isinstance(event, Leave) and not self._group:
            self._leave(delivery)
        elif is_payment(event):
            self._act(self._decide(delivery), delivery)
        elif (decision := self._jump(delivery)) is not None:
            self._act(decision, delivery)
        else:
            return
        self.jumped.add(delivery.seq)
        self._made_room()

    def _decide(self, delivery: Delivery, *, jumped: bool = False) -> Decision:
        waits = [wait for conversation in self._all() for wait in conversation.waits]
        waits.sort(key=lambda wait: wait.opened, reverse=True)
        live = None if self._live is None else [wait for wait in waits if wait in self._live.waits]
        event, setting, table = delivery.event, self.setting(delivery), self._table
        watches, failed = self._watches(), self._filter_failed
        return decide(event, setting, table, waits, live, failed, jumped=jumped, watches=watches)

    def _jump(self, delivery: Delivery) -> Drop | Start | End | None:
        return jump(delivery.event, self.setting(delivery), self._table, self._filter_failed, self._watches())

    def _watches(self) -> list[Watch]:
        watches = [watch for conversation in self._all() for watch in conversation.watches]
        return sorted(watches, key=lambda watch: watch.opened, reverse=True)

    def _filter_failed(self, name: str, error: Exception) -> None:
        self.house.count("filter_failed")
        line = failing_line(error.__traceback__)
        log.error(
            "filter %s failed on an event of chat %s: %s at %s",
            name,
            self.chat_id,
            type(error).__name__,
            line,
        )

    def _all(self) -> list[Conversation]:
        newest_asides = list(reversed(self._asides))
        return [*newest_asides, self._live] if self._live is not None else newest_asides

    def _has_room(self) -> bool:
        # While somebody is parked on a wait, the event that it waits for may be the next; so all of them are
        # looked at, and what is kept is bounded by the inbox's quota of a chat.
        # Signals are bounded where they come in, and take nobody else's place.
        return sum(not is_signal(queued.event) for queued in self._mailbox) < MAILBOX or any(
            wait.parked for conversation in self._all() for wait in conversation.waits
        )

    def _act(self, decision: Decision, delivery: Delivery) -> None:
        match decision:
            case Drop(why):
                self._drop(delivery, why)
            case Start():
                self._start(decision, delivery)
            case End(watch, value):
                self._end(watch, Taken(delivery, value))
            case Give(wait, value):
                self._give(wait, Taken(delivery, value))
            case Break(wait, error):
                wait.give(Broken(delivery, error))
            case Tell(wait):
                wait.give(Unfit(delivery))
            case Queue():
                insort(self._mailbox, delivery, key=lambda queued: queued.seq)
            case Expire():
                self._expire(delivery)

    def _give(self, wait: Wait, answer: Taken) -> None:
        if wait.open:
            wait.give(answer)
            if (question := self._question_of(answer.delivery.event)) is not None:
                self.house.answered(question)
        else:
            wait.hints.append(answer)

    def _end(self, watch: Watch, taken: Taken) -> None:
        watch.take(taken)
        if (question := self._question_of(taken.delivery.event)) is not None:
            self.house.answered(question)

    def _start(self, start: Start, delivery: Delivery) -> None:
        if start.route.kind is RouteKind.ASIDE:
            if len(self._asides) < ASIDES:
                self._begin_aside(start, delivery)
            else:
                self.house.count("aside_waits")
                self._asides_due.append((start, delivery))
        elif start.route.kind is RouteKind.INTERRUPT:
            # What came before it is of no use to anybody; what it overtook, too.
            self._drop_earlier(delivery, "interrupted", signals=False)
            if self._live is None:
                self._begin(start, delivery, None)
            else:
                self._next = (start, delivery)
                self._live.end(Ending.INTERRUPTED)
        else:
            self._begin(start, delivery, None)

    def _begin(self, start: Start, delivery: Delivery, interrupted: str | None) -> None:
        self._live = Conversation(
            self._services, self, start.route, start.value, delivery, interrupted=interrupted
        )
        self.house.start(self._live)

    def _begin_aside(self, start: Start, delivery: Delivery) -> None:
        aside = Conversation(self._services, self, start.route, start.value, delivery)
        self._asides.append(aside)
        self.house.start(aside)

    def _leave(self, delivery: Delivery) -> None:
        """A private chat was left: that ends whatever runs in it, and then only starts routes."""
        self._services.outbox.drop(self.chat_id)
        self._drop_earlier(delivery, "left")
        while self._asides_due:
            self._drop(self._asides_due.popleft()[1], "left")
        for conversation in self._all():
            conversation.end(Ending.LEFT)
        self._act(
            decide(delivery.event, self.setting(delivery), self._table, (), None, self._filter_failed),
            delivery,
        )

    def _drop_earlier(self, delivery: Delivery, why: str, *, signals: bool = True) -> None:
        self._ended_by = max(self._ended_by, delivery.seq)
        kept = [queued for queued in self._mailbox if is_signal(queued.event) and not signals]
        queued = [queued for queued in self._mailbox if queued not in kept]
        self._mailbox = kept
        if self._next is not None:
            queued.append(self._next[1])
            self._next = None
        for earlier in queued:
            self._drop(earlier, why)

    def _drop(self, delivery: Delivery, why: str) -> None:
        self.house.count(why)
        self.house.consumed([delivery.seq])
        event = delivery.event
        if isinstance(event, Press):
            self._services.outbox.refuse_press(event, "")
        if is_payment(event):
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
        self.house.count("expired")
        self.house.consumed([delivery.seq])
        question = self._question_of(event)
        if question is not None and self.house.was_answered(question):
            self._refuse(event, "")
        elif self.data is None and not isinstance(self._services.texts, Texts):
            self.house.beside(partial(self._refuse_expired, event))
        else:
            self._refuse(event, self.texts.expired)

    async def _refuse_expired(self, event: Event) -> None:
        """In words that what the chat keeps decides, where nothing goes on any more."""
        stored: Mapping[str, str] = {}
        # A store that can't be read is told elsewhere; the words matter less than the answer.
        with suppress(StoreError):
            stored = await self.house.stored_data(self.chat_id)
        self._refuse(event, words_for(self._services.texts, stored).expired)

    def _refuse(self, event: Event, said: str) -> None:
        if isinstance(event, Press):
            self._services.outbox.refuse_press(event, said)
        elif said:
            self.house.tidy(self.chat_id, SendMessage(self.chat_id, said))

    def _question_of(self, event: Event) -> str | None:
        return f"{self.chat_id}:{event.message_id}" if isinstance(event, Submission) else token_of(event)

    # --- the mailbox, seen from a conversation

    def offer_queued(self, conversation: Conversation, wait: Wait, *, parking: bool = False) -> None:
        """Show the queued events to a wait that has just opened; the first that it takes is its answer.

        Once the task parks, what doesn't fit goes the way of the wait's `otherwise`.
        """
        if not parking:
            wait.opened = self._opened = self._opened + 1
        if not _cancelled():
            self._look_through(wait, parking=parking, signals_only=conversation is not self._live)
        if self.behind and parking:
            self.house.room(self)
        else:
            self._made_room()

    def _look_through(self, wait: Wait, *, parking: bool, signals_only: bool) -> None:
        queued, self._mailbox = deque(self._mailbox), []
        while queued and wait.open:
            delivery = queued.popleft()
            mine = is_signal(delivery.event) or not signals_only
            decision: Decision | None = (
                offer(delivery.event, self.setting(delivery), wait) if mine else Queue()
            )
            if decision is None:
                decision = unfit(delivery.event, wait) if parking else Queue()
            self._act(decision, delivery)
        self._mailbox.extend(queued)

    def open_watch(self, conversation: Conversation, watch: Watch) -> None:
        """A block that an event may end has opened: what is queued may end it, too."""
        watch.opened = self._opened = self._opened + 1
        conversation.watches.append(watch)
        for delivery in self._mailbox:
            if conversation is not self._live and not is_signal(delivery.event):
                continue
            if (
                ended := end(delivery.event, self.setting(delivery), (watch,), self._filter_failed)
            ) is not None:
                self._mailbox.remove(delivery)
                self._act(ended, delivery)
                self._made_room()
                return

    def give_up(self, conversation: Conversation, delivery: Delivery) -> None:
        """A block was over before the event could end it: the event goes where it would have gone."""
        decision = self._jump(delivery)
        if decision is None or self.house.cut or conversation.ending is not None:
            self.give_back(conversation, delivery)
        else:
            self._act(decision, delivery)

    def drain(self, conversation: Conversation) -> Sequence[Delivery]:
        """Take what is queued, without waiting."""
        if conversation is not self._live or _cancelled():
            return ()
        taken = [queued for queued in self._mailbox if not is_signal(queued.event)]
        self._mailbox = [queued for queued in self._mailbox if is_signal(queued.event)]
        self._made_room()
        return taken

    def give_back(self, conversation: Conversation, delivery: Delivery) -> None:
        """A wait ended before it looked at what it was given: the event is next for whoever waits."""
        if self.house.cut:
            return
        if (question := self._question_of(delivery.event)) is not None:
            self.house.answered(question, again=True)
        payment = is_payment(delivery.event)
        overtaken = delivery.seq < self._ended_by and not (payment or is_signal(delivery.event))
        if conversation.ending is not None and overtaken:
            self._drop(delivery, conversation.ending.value)
        elif conversation is self._live and not payment:
            self._act(Queue(), delivery)
        else:
            self._act(self._decide(delivery), delivery)

    def _made_room(self) -> None:
        if self.behind and self._has_room():
            self.house.room(self)

    # --- out

    def ended(self, conversation: Conversation) -> None:
        """A conversation is over: its successor starts, or what is left is routed again from the top."""
        if conversation.ending is None or self.house.cut:
            return
        if conversation in self._asides:
            self._asides.remove(conversation)
            if self._asides_due:
                self._begin_aside(*self._asides_due.popleft())
        elif conversation is self._live:
            self._live = None
            if self._next is not None:
                (start, delivery), self._next = self._next, None
                self._begin(start, delivery, conversation.route.name)
            else:
                self._route_again()
        self._made_room()
        if self.idle:
            self.house.over(self)

    def _route_again(self) -> None:
        queued, self._mailbox = self._mailbox, []
        for delivery in queued:
            # There was room for it before, and nothing has been added since.
            self._act(self._decide(delivery), delivery)


def _cancelled() -> bool:
    """Whether the current task is on its way out: what is queued is somebody else's then."""
    return trio.current_effective_deadline() == -inf
