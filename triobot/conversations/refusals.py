"""What becomes of what nobody takes: counted, dropped, told that it has expired, or told to wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, final

import trio

from ..errors import StoreError
from ..seams import Alarm
from ..wire.events import Event, Message, Press, Submission
from ..wire.ids import ChatId
from ..wire.operations import SendMessage
from .routes.routing import token_of
from .running.waits import Delivery, is_payment
from .services import Services
from .speaking import words_for
from .texts import Texts

if TYPE_CHECKING:
    from .data.keeping import Kept
    from .house import House

AGAIN: Final = 60.0
"""Seconds in which a chat hears at most once that its conversation can't go on."""
_LONGEST_COMMAND: Final = 64


@final
class Refusals:
    """Deals with what nobody in a chat takes."""

    def __init__(self, house: House, chat_id: ChatId, kept: Kept, services: Services) -> None:
        self._house = house
        self._chat_id = chat_id
        self._kept = kept
        self._services = services
        self._regretted = -inf
        self._kept_back: set[int] = set()

    def drop(self, delivery: Delivery, why: str) -> None:
        """Forget an event, and count it under this word."""
        house, event = self._house, delivery.event
        house.count(why)
        house.consumed([delivery.seq])
        if isinstance(event, Press):
            self._services.outbox.refuse_press(event, "")
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

    def regret(self) -> None:
        """Say that what was begun can't go on just now, unless that was said within the minute."""
        if (now := trio.current_time()) >= self._regretted + AGAIN:
            self._regretted = now
            self._say(lambda texts: texts.parked)

    def regretted(self) -> None:
        """That has just been said."""
        self._regretted = trio.current_time()

    def offer_afresh(self, delivery: Delivery) -> None:
        """Say how to leave what can't go on."""
        event, house = delivery.event, self._house
        assert isinstance(event, Message)
        command = str(event.content).split(maxsplit=1)[0][:_LONGEST_COMMAND]
        house.count("offered_afresh")
        house.consumed([delivery.seq])
        self._regretted = trio.current_time()
        self._say(lambda texts: texts.afresh.replace("{command}", command))

    def _say(self, words: Callable[[Texts], str]) -> None:
        def say(said: str) -> None:
            if said:
                self._house.tidy(self._chat_id, SendMessage(self._chat_id, said))

        self._choose(words, say)

    def keep(self, delivery: Delivery) -> None:
        """Say of a press or a form, once, that it waits until its conversation can go on."""
        if delivery.seq in self._kept_back or delivery.at < self._services.store.opening().at:
            return
        self._kept_back.add(delivery.seq)
        self._house.count("kept_while_parked")
        if isinstance(delivery.event, Press):
            self._choose(lambda texts: texts.parked, partial(self._tell, delivery.event))
        else:
            self.regret()

    # --- buttons and forms

    def expire(self, delivery: Delivery) -> None:
        """Say that a button or a form is over; the second click of a double click needs no word."""
        house, event = self._house, delivery.event
        house.count("expired")
        house.consumed([delivery.seq])
        question = self.question_of(event)
        if question is not None and house.answers.lately(question, delivery.at):
            self._tell(event, "")
        else:
            self._choose(lambda texts: texts.expired, partial(self._tell, event))

    def _choose(self, words: Callable[[Texts], str], say: Callable[[str], None]) -> None:
        """Say something as this chat is to hear it, at once if that is known."""
        if self._kept.values is None and not isinstance(self._services.texts, Texts):
            self._house.beside(partial(self._choose_later, words, say))
        else:
            say(words(self._kept.texts))

    async def _choose_later(self, words: Callable[[Texts], str], say: Callable[[str], None]) -> None:
        """In words that what the chat keeps decides, where no conversation has read that."""
        stored: Mapping[str, str] = {}
        # A store that can't be read is told elsewhere; the words matter less than the answer.
        with suppress(StoreError):
            stored = await self._house.keeping.stored(self._chat_id)
        say(words(words_for(self._services.texts, stored)))

    def _tell(self, event: Event, said: str) -> None:
        if isinstance(event, Press):
            self._services.outbox.refuse_press(event, said)
        elif said:
            self._house.tidy(self._chat_id, SendMessage(self._chat_id, said))

    def question_of(self, event: Event) -> str | None:
        """What tells the question apart to which a press or a form belongs."""
        if isinstance(event, Submission):
            return f"{self._chat_id}:{event.message_id}"
        return token_of(event)
