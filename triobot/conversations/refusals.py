"""What becomes of what nobody takes: counted, dropped, or told that it has expired."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, final

from ..errors import StoreError
from ..seams import Alarm
from ..wire.events import Event, Press, Submission
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


@final
class Refusals:
    """Deals with what nobody in a chat takes."""

    def __init__(self, house: House, chat_id: ChatId, kept: Kept, services: Services) -> None:
        self._house = house
        self._chat_id = chat_id
        self._kept = kept
        self._services = services

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

    def expire(self, delivery: Delivery) -> None:
        """Say that a button or a form is over; the second click of a double click needs no word."""
        house, event = self._house, delivery.event
        house.count("expired")
        house.consumed([delivery.seq])
        question = self.question_of(event)
        if question is not None and house.was_answered(question):
            self._tell(event, "")
        elif self._kept.values is None and not isinstance(self._services.texts, Texts):
            house.beside(partial(self._tell_later, event))
        else:
            self._tell(event, self._kept.texts.expired)

    async def _tell_later(self, event: Event) -> None:
        """In words that what the chat keeps decides, where nothing goes on any more."""
        stored: Mapping[str, str] = {}
        # A store that can't be read is told elsewhere; the words matter less than the answer.
        with suppress(StoreError):
            stored = await self._house.keeping.stored(self._chat_id)
        self._tell(event, words_for(self._services.texts, stored).expired)

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
