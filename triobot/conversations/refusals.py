"""Events that no conversation takes: they are counted, dropped, or answered with a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, cast, final

from ..base.alarm_kinds import Alarm
from ..errors import StoreError
from ..seams.values import decode_value, encode_value
from ..seams.writes import PutData
from ..wire.events import Event, Message, Press, Submission
from ..wire.ids import ChatId
from ..wire.operations import SendMessage
from .data import OURS, Kept, words_for
from .routes.filters import Flood, is_payment
from .routes.routing import BOARD, Delivery, Queue, Start, token_of
from .shared import Shared
from .texts import Texts

AGAIN: Final = 60_000
"""Milliseconds during which a chat is told at most once that its conversation can't go on."""
TOLD: Final = f"{OURS}parked"
"""Key under which a chat stores the times and offers of its messages about parked conversations."""
# Milliseconds that a user needs to read the offer: a command that is repeated sooner doesn't accept the
# offer.
READ_IN: Final = 1_000
_LONGEST_COMMAND: Final = 64


@final
class Refusals:
    """Handles the events of a chat that no conversation takes."""

    def __init__(self, shared: Shared, chat_id: ChatId, kept: Kept) -> None:
        self._shared = shared
        self._work = shared.work
        self._chat_id = chat_id
        self._kept = kept
        self._services = shared.services
        self._kept_back: set[int] = set()
        self._told_at: int | None = None
        self._offers: dict[int, tuple[str, int]] = {}

    def drop(self, delivery: Delivery, why: str, say: str = "") -> None:
        """Drop an event, and count it under the name `why`. Send the text `say`, at most once a minute."""
        event = delivery.event
        self._work.count(why)
        self._work.commits.consumed([delivery.seq])
        if isinstance(event, Press):
            self._services.outbox.refuse_press(event, say)
        elif say:
            told = cast("Flood", self._services.memory.setdefault((TOLD, say), Flood(per_minute=1)))
            if not told.is_over(self._chat_id, delivery.seq, delivery.at):
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
        """Restore the times of messages about parked conversations, and the offers, from the stored data."""
        if (text := stored.get(TOLD)) is not None:
            self._told_at, self._offers = cast(
                "tuple[int | None, dict[int, tuple[str, int]]]", decode_value(text)
            )

    def answer(self, delivery: Delivery, conversation: int, start: Start | None) -> Queue | Start | None:
        """Answer a message for a parked live conversation.

        The user is told that the conversation can't go on. A command that starts a conversation is answered
        with an offer instead: the same command again ends the parked conversation, and starts anew.

        Args:
            start: the conversation that the message would start.

        Returns:
            Queue if the message must wait; `start` if the message accepts the offer; None otherwise.
        """
        name, at = self._offers.get(conversation, ("", 0))
        offered = at if start is not None and name == start.route.name else None
        # A message from before the offer was meant for the parked conversation. Without an offer, the start
        # of this process counts instead.
        since = self._services.store.opening().at if offered is None else offered
        if start is None or delivery.at < since:
            self._regret(delivery, conversation)
            return Queue()
        if offered is None:
            self._offer_afresh(delivery, conversation, start.route.name)
        elif delivery.at < offered + READ_IN:
            self.drop(delivery, "offered_afresh")
        else:
            return start
        return None

    def _regret(self, delivery: Delivery, conversation: int) -> None:
        """Tell the user that the conversation can't go on just now, at most once a minute."""
        told_at, now = self._told_at, self._services.clock.now()
        # A time in the future comes from a clock that was set back since.
        if told_at is None or told_at > now or delivery.at >= told_at + AGAIN:
            self._told_at = now
            self._say(lambda texts: texts.parked, conversation)

    def regretted(self) -> PutData:
        """Record that the user is being told; return the write, to be stored with the message."""
        self._told_at = self._services.clock.now()
        return self._record()

    def _offer_afresh(self, delivery: Delivery, conversation: int, route: str) -> None:
        """Offer to leave a parked conversation for a route; valid until that conversation goes on or ends."""
        event = delivery.event
        assert isinstance(event, Message)
        command = str(event.content).split(maxsplit=1)[0][:_LONGEST_COMMAND]
        self._work.count("offered_afresh")
        self._told_at = self._services.clock.now()
        self._offers[conversation] = route, delivery.at
        self._say(lambda texts: texts.afresh.replace("{command}", command), conversation, [delivery.seq])

    def over(self, conversation: int, *, last: bool) -> None:
        """Forget the offer to leave a parked conversation, because the conversation continues or has ended.

        Args:
            last: whether no other conversation is parked, so that everything is forgotten.
        """
        had = self._offers.pop(conversation, None) is not None
        if last and self._told_at is not None:
            self._told_at = None
            self._offers.clear()
            had = True
        if had:
            self._work.commits.consumed((), [self._record()])

    def _record(self) -> PutData:
        told = self._told_at, self._offers
        return PutData(self._chat_id, TOLD, None if self._told_at is None else encode_value(told))

    def _say(self, words: Callable[[Texts], str], conversation: int, answered: Sequence[int] = ()) -> None:
        """Send a text about a conversation, now or at the next start; the text and `_record` are one unit."""

        def say(said: str) -> None:
            told = self._shared.cleanup.tell(self._chat_id, conversation, said) if said else ()
            self._work.commits.consumed(answered, [self._record(), *told])

        self._choose(words, say)

    def keep(self, delivery: Delivery, conversation: int) -> None:
        """Tell the user that the event waits until its conversation can go on; once for each event."""
        if delivery.seq in self._kept_back:
            return
        self._kept_back.add(delivery.seq)
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
        self._work.count("expired")
        self._work.commits.consumed([delivery.seq])
        question = self.question_of(event)
        if question is not None and self._shared.answers.lately(question, delivery.at):
            self._tell(event, "")
        else:
            self._choose(lambda texts: texts.expired, partial(self._tell, event))

    def _choose(self, words: Callable[[Texts], str], say: Callable[[str], None]) -> None:
        """Call `say` with the chat's text: now if the chat's data is in memory, else later."""
        if self._kept.values is None and not isinstance(self._services.texts, Texts):
            self._work.beside(partial(self._choose_later, words, say))
        else:
            say(words(self._kept.texts))

    async def _choose_later(self, words: Callable[[Texts], str], say: Callable[[str], None]) -> None:
        stored: Mapping[str, str] = {}
        # Other code reports a store that can't be read. An answer in the default language is better than no
        # answer.
        with suppress(StoreError):
            stored = await self._shared.keeping.stored(self._chat_id)
        say(words(words_for(self._services.texts, stored.get)))

    def _tell(self, event: Event, said: str) -> None:
        if isinstance(event, Press):
            self._services.outbox.refuse_press(event, said)
        elif said:
            self._shared.cleanup.tidy(self._chat_id, SendMessage(self._chat_id, said))

    def question_of(self, event: Event) -> str | None:
        """Return an id of what the event is for: a form, a board, or a button of a question."""
        if isinstance(event, Submission):
            return f"{self._chat_id}:{event.message_id}"
        token = token_of(event)
        # The id contains the button: "No" a second after "Yes" is no double click, so the user must be told
        # that "No" came too late.
        return token if token is None or token.startswith(BOARD) else str(cast("Press", event).value)
