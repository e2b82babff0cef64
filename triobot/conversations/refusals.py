"""Events that no conversation takes are counted, and dropped or answered with a text.

If a chat's conversation is parked, the user gets a message, and can start another conversation instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, cast, final

import attrs

from ..base.alarm_kinds import Alarm
from ..errors import StoreError
from ..seams.journals import ConversationId, ParkConversation
from ..seams.rooms import is_chat
from ..seams.values import decode_value, encode_value
from ..seams.writes import PutData, Write
from ..wire.events import Event, Message, Press, Submission
from ..wire.ids import ChatId
from ..wire.operations import SendMessage
from .charges.paid import tell_parked
from .conversation import Conversation
from .data import OURS, Kept
from .routes.filters import Flood, is_payment
from .routes.routing import BOARD, Delivery, Queue, Start, token_of
from .running_set import ChatRouting, RunningSet
from .shared import Shared
from .texts import Texts

log: Final = logging.getLogger("triobot.conversations")

AGAIN: Final = 60_000
"""Minimum milliseconds between two messages to a chat about its parked conversation."""
TOLD: Final = f"{OURS}parked"
"""Key of a chat's data: the time of the last message about a parked conversation, and the open offers."""
# Milliseconds that a user needs to read the offer: a command that is repeated sooner doesn't accept the
# offer.
READ_IN: Final = 1_000
_LONGEST_COMMAND: Final = 64


@final
class Refusals:
    """Handles the events of a chat that no conversation takes, and the chat's parked conversations."""

    def __init__(
        self, shared: Shared, chat_id: ChatId, kept: Kept, running: RunningSet, routing: ChatRouting
    ) -> None:
        self._shared, self._work, self._services = shared, shared.work, shared.services
        self._chat_id, self._kept = chat_id, kept
        self._running, self._routing = running, routing
        self._kept_back: frozenset[int] = frozenset()
        self._notified_at: int | None = None
        self._offers: dict[int, tuple[str, int]] = {}

    def drop(self, delivery: Delivery, why: str, say: str = "") -> None:
        """Drop an event, and count the drop under the name `why`.

        The text `say` answers a press. For any other event, `say` is sent, at most once a minute.
        """
        event = delivery.event
        self._routing.advise(delivery, why)
        self._work.count(why)
        self._work.commits.consumed([delivery.seq])
        if isinstance(event, Press):
            self._services.outbox.refuse_press(event, say)
        elif say:
            flood = cast("Flood", self._services.memory.setdefault((TOLD, say), Flood(per_minute=1)))
            if not flood.is_over(self._chat_id, delivery.seq, delivery.at):
                self._tell(event, say)
        if is_payment(event):
            self._services.raise_alarm(
                Alarm(
                    "payment_unverified",
                    str(delivery.seq),
                    f"a payment callback of chat {self._chat_id} has no charge that waits for it; if it "
                    "was paid, the platform gives the money back within the hour",
                )
            )

    # --- while a conversation is parked

    def recall(self, stored: Mapping[str, str]) -> None:
        """Read the time of the last message about a parked conversation, and the offers, from `stored`."""
        if (text := stored.get(TOLD)) is not None:
            self._notified_at, self._offers = cast(
                "tuple[int | None, dict[int, tuple[str, int]]]", decode_value(text)
            )

    def park(self, conversation: Conversation, because: str, *, error: str | None = None) -> None:
        """Store that a conversation is parked. Alert an operator, and tell the user once."""
        facts, stored = conversation.facts, None if (replay := conversation.replay) is None else replay.stored
        self._work.count("parked")
        log.error("conversation %s of %s is parked: %s", facts.route.name, facts.place_name, because)
        todo = "deploy code that can go on with it, or end it"
        if conversation.writer is not None and conversation.writer.lost:
            todo = "start the bot again, and it goes on with what is stored"
        name = facts.route.name if stored is None else stored.row.route
        self._shared.crashes.tell_parked(name, facts.seq, because, todo)
        tell_parked(self._shared, self._chat_id, facts.key if stored is None else stored.row.key)
        now = self._services.clock.now()
        writes: list[Write] = [ParkConversation(ConversationId(facts.seq), now, because, error)]
        if stored is None:
            if conversation.writer is None or conversation.writer.over:
                return
            conversation.writer.write(writes)
            writes = []
        elif (stored.row.parked_because, stored.row.error) == (because, error):
            return  # the store already has the conversation as parked for this reason
        new = stored is None or stored.row.parked_because is None
        if (said := self._kept.texts.parked) and new and not facts.beside and is_chat(self._chat_id):
            self._notified_at = now
            writes += [*self._shared.cleanup.tell(self._chat_id, facts.seq, said), self._record()]
        self._work.commits.add(writes)

    def queue(self, delivery: Delivery) -> Queue | Start | None:
        """Answer an event that has to wait, if the awaited conversation is parked.

        The answer is a message that the conversation can't go on. If the event is a command that starts a
        route, the answer is an offer: the user may repeat the command to end the parked conversation and to
        start that route.

        Returns:
            Queue if the event must wait; the start if the event accepts the offer; None if the event was
            consumed.
        """
        live = self._running.live.get(self._running.owner_of(delivery.event))
        if live is not None and live.seat.parked and isinstance(delivery.event, Message):
            answer = self._answer(delivery, live, self._routing.afresh(delivery))
            if not isinstance(answer, Queue):
                return answer
        if waiting := self._running.kept_for(delivery):
            self._keep(delivery, waiting[0].facts.seq)
        return Queue()

    def _answer(self, delivery: Delivery, parked: Conversation, start: Start | None) -> Queue | Start | None:
        """Answer a message for the parked live conversation.

        Args:
            start: the start that the message would cause in a chat without conversations, or None.
        """
        conversation = parked.facts.seq
        name, at = self._offers.get(conversation, ("", 0))
        offered = at if start is not None and name == start.route.name else None
        # A message that is older than the offer was meant for the parked conversation. Without an offer, a
        # message that is older than this process was meant for that conversation.
        since = self._services.store.opening().at if offered is None else offered
        if start is None or delivery.at < since:
            self._regret(delivery, conversation)
            return Queue()
        if offered is None:
            self._offer_afresh(delivery, conversation, start.route.name)
        elif delivery.at < offered + READ_IN:
            self.drop(delivery, "offered_afresh")
        else:
            return attrs.evolve(start, interrupted=parked.facts.route.name)
        return None

    def _regret(self, delivery: Delivery, conversation: int) -> None:
        """Tell the user that the conversation can't go on just now, at most once a minute."""
        notified_at, now = self._notified_at, self._services.clock.now()
        # A time in the future comes from a clock that was set back since.
        if notified_at is None or notified_at > now or delivery.at >= notified_at + AGAIN:
            self._notified_at = now
            self._say(lambda texts: texts.parked, conversation)

    def _offer_afresh(self, delivery: Delivery, conversation: int, route: str) -> None:
        """Offer to end a parked conversation and to start `route`, if the user repeats the command.

        The offer is valid until the parked conversation continues or ends.
        """
        event = delivery.event
        assert isinstance(event, Message)
        command = str(event.content).split(maxsplit=1)[0][:_LONGEST_COMMAND]
        self._work.count("offered_afresh")
        self._notified_at = self._services.clock.now()
        self._offers[conversation] = route, delivery.at
        self._say(lambda texts: texts.afresh.replace("{command}", command), conversation, [delivery.seq])

    def over(self, conversation: Conversation) -> None:
        """Forget that a conversation was parked, because it continues or has ended."""
        self._shared.crashes.parked_no_more(conversation.facts.seq)
        had = self._offers.pop(conversation.facts.seq, None) is not None
        others = any(other.seat.parked for other in self._running.all() if other is not conversation)
        if not others and self._notified_at is not None:
            self._notified_at = None
            self._offers.clear()
            had = True
        if had:
            self._work.commits.consumed((), [self._record()])

    def _record(self) -> PutData:
        state = self._notified_at, self._offers
        return PutData(self._chat_id, TOLD, None if self._notified_at is None else encode_value(state))

    def _say(self, words: Callable[[Texts], str], conversation: int, answered: Sequence[int] = ()) -> None:
        """Send a text about a conversation, now or at the next start; one unit stores text and offers."""

        def say(said: str) -> None:
            owed = self._shared.cleanup.tell(self._chat_id, conversation, said)
            self._work.commits.consumed(answered, [self._record(), *owed])

        self._choose(words, say)

    def _keep(self, delivery: Delivery, conversation: int) -> None:
        """Tell the user, once for each event, that the event waits until its conversation can go on."""
        if delivery.seq in self._kept_back:
            return
        self._kept_back |= {delivery.seq}
        if not isinstance(delivery.event, Press):
            self._regret(delivery, conversation)
        if delivery.at < self._services.store.opening().at:
            return  # an earlier process answered the event
        self._work.count("kept_while_parked")
        if isinstance(delivery.event, Press):
            self._choose(lambda texts: texts.parked, partial(self._tell, delivery.event))

    # --- buttons and forms

    def expire(self, delivery: Delivery) -> None:
        """Answer a button or form as expired; the second click of a double click gets an empty answer."""
        event = delivery.event
        self._routing.advise(delivery, "expired")
        self._work.count("expired")
        self._work.commits.consumed([delivery.seq])
        question = self.question_of(event)
        if question is not None and self._shared.answers.lately(question, delivery.at):
            self._tell(event, "")
        else:
            self._choose(lambda texts: texts.expired, partial(self._tell, event))

    def _choose(self, words: Callable[[Texts], str], say: Callable[[str], None]) -> None:
        """Call `say` with the chat's text: now if the chat's data is in memory, else later."""

        async def choose() -> None:
            # Other code reports a store that can't be read. An answer in the default language is better than
            # no answer.
            with suppress(StoreError):
                await self._kept.load()
            say(words(self._kept.texts))

        if self._kept.is_unread and not isinstance(self._services.texts, Texts):
            self._work.beside(choose)
        else:
            say(words(self._kept.texts))

    def _tell(self, event: Event, said: str) -> None:
        if isinstance(event, Press):
            self._services.outbox.refuse_press(event, said)
        elif said:
            self._shared.cleanup.tidy(self._chat_id, SendMessage(self._chat_id, said))

    def question_of(self, event: Event) -> str | None:
        """Return the id of the form, the board or the pressed button that the event answers; else None."""
        if isinstance(event, Submission):
            return f"{self._chat_id}:{event.message_id}"
        token = token_of(event)
        # The id contains the button: "No" a second after "Yes" is no double click, so the user must be told
        # that "No" came too late.
        return token if token is None or token.startswith(BOARD) else str(cast("Press", event).value)
