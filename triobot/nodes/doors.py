"""Finds the owner of a place: in this process, or behind the door of the one that has its shard.

`Doors` is for the whole process, `FarPlaces` what one shard's conversations see of it. What is asked of a
shard that has no owner now waits until it has one again; the caller's own scopes bound that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeVar, cast, final
from uuid import uuid4

import attrs
import trio

from ..conversations.doors.calls import Halt
from ..errors import StoreError
from ..holding import wait_held
from ..seams import Arrival, Held, OnUnknown, Outbox, Urgency
from ..shards import home_of, shard_of
from ..wire.events import Event, InvoiceCallback, PayCallback, Press
from ..wire.ids import ChatId, Recipient
from ..wire.operations import Operation
from .frames import (
    FindPayment,
    Frame,
    PutKept,
    ReadKeptOf,
    ReadKeyed,
    ReplaceKept,
    Said,
    SettleKept,
    StartRoute,
    StopRoute,
    TellPlace,
)
from .owners import NoOwnerError, Owner

R = TypeVar("R")
_AGAIN_SECONDS: Final = 0.05
KEYED_PAGE: Final = 256


class Away(Protocol):
    """The shards that other processes have."""

    async def ask(self, shard: int, frame: Frame, held: Held | None = None) -> object:
        """Have the owner of a shard do this, if it is still `held`; raises as `Owner.answer` does."""
        ...


@final
@attrs.frozen
class Doors:
    """The ways to all shards of a store.

    Attributes:
        shards: how many there are.
        here: the owners in this process, by shard.
        away: the other processes; None: there are none.
    """

    shards: int
    here: Mapping[int, Owner]
    away: Away | None = None

    async def ask(self, shard: int, frame: Frame, held: Held | None = None) -> object:
        """Have a shard do this, as soon as it has an owner.

        Args:
            held: of the shard whose conversation asks: as long as another process may have that, and go on
                with the conversation, nothing is asked. What it asked there may be settled by then, and
                would be done once more.

        Raises:
            StoreError: it could not be done.
        """
        while True:
            if held is not None:
                await wait_held(held)
            try:
                if (owner := self.here.get(shard)) is not None:
                    return await owner.answer(frame)
                if self.away is not None:
                    return await self.away.ask(shard, frame, held)
            except NoOwnerError:
                pass
            await trio.sleep(_AGAIN_SECONDS)

    async def ask_all(self, frame: Frame) -> Sequence[object]:
        """Have all shards do this, at once, and return what comes back, in their order.

        Raises: as `ask`.
        """
        answers: list[object] = [None] * self.shards
        errors: list[StoreError] = []

        async def ask(shard: int) -> None:
            try:
                answers[shard] = await self.ask(shard, frame)
            except StoreError as error:
                errors.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for shard in range(self.shards):
                nursery.start_soon(ask, shard)
        if errors:
            raise errors[0]
        return answers

    @property
    def home(self) -> int:
        """Return the shard of what is the whole bot's."""
        return home_of(self.shards)

    async def shard_of_event(self, event: Event) -> int:
        """Return the shard whose event it is: its chat's, but a payment's own, which may be made anywhere.

        Raises:
            StoreError: a shard can't be read.
        """
        chats = shard_of(event.chat_id, self.shards)
        match event:
            case PayCallback(ref_id=number):
                find = FindPayment(number, invoice=False)
            case InvoiceCallback(invoice_id=number):
                find = FindPayment(number, invoice=True)
            case _:
                return chats
        if self.shards == 1 or await self.ask(chats, find):
            return chats
        found = await self.ask_all(find)
        return next((shard for shard, has in enumerate(found) if has), chats)


@final
@attrs.frozen
class FarPlaces:
    """All shards' places as one shard sees them; see `triobot.conversations.doors.far.Far`."""

    _doors: Doors
    _own: int
    _held: Held | None = None

    def is_here(self, place: ChatId) -> bool:
        """Return whether this shard itself has the place."""
        return shard_of(place, self._doors.shards) == self._own

    async def tell(self, arrival: Arrival) -> None:
        """Store a signal in the inbox of its place, once."""
        await self._ask(arrival.chat_id, TellPlace(_known_again(arrival)))

    async def start(self, arrival: Arrival, run: Halt | None) -> bool:
        """Store a call there, unless what it starts runs already."""
        new = cast("bool", await self._ask(arrival.chat_id, StartRoute(_known_again(arrival), run)))
        # A key that is ours alone is new: if it was there, we had asked before.
        return new or (arrival.key is None and run is None)

    async def stop(self, halt: Halt) -> bool:
        """Have a route's runs ended there; False if none runs."""
        return cast("bool", await self._ask(halt.chat_id, StopRoute(halt)))

    async def data(self, place: ChatId) -> Mapping[str, str]:
        """Read what the place keeps."""
        return cast("Mapping[str, str]", await self._ask(place, ReadKeptOf(place)))

    async def put(self, place: ChatId, key: str, value: str | None, once: str) -> None:
        """Keep a value for the place, once; durable when it returns."""
        await self._ask(place, PutKept(place, key, value, once))

    async def replace(self, place: ChatId, key: str, old: str | None, new: str, once: str) -> str | None:
        """Put a value in the place of this one; None if that isn't there."""
        return cast("str | None", await self._ask(place, ReplaceKept(place, key, old, new, once)))

    async def settle(self, place: ChatId, once: str) -> None:
        """Let the owner forget that this was done: it won't be asked again."""
        # To forget it twice does no harm, and so no lease is asked for: a stop may wait for this.
        await self._doors.ask(shard_of(place, self._doors.shards), SettleKept(place, once))

    async def keyed(self, key: str, after: ChatId | None) -> Sequence[tuple[ChatId, str]]:
        """Read a page of the chats of all shards that keep a value under this key, by growing id."""
        pages = await self._doors.ask_all(ReadKeyed(key, after))
        return merged(cast("Sequence[Sequence[tuple[ChatId, str]]]", pages))

    async def _ask(self, place: ChatId, frame: Frame) -> object:
        return await self._doors.ask(shard_of(place, self._doors.shards), frame, self._held)


def _known_again(arrival: Arrival) -> Said:
    """Return it with a key, so that it is stored once however often it is asked for."""
    once = arrival.key or f"asked:{arrival.chat_id}:{uuid4().hex}"
    return Said(arrival.chat_id, arrival.at, arrival.content_type, arrival.body, once)


def merged(pages: Sequence[Sequence[tuple[ChatId, str]]]) -> Sequence[tuple[ChatId, str]]:
    """Return one page of several: as far as each of them is known to reach."""
    rows = sorted(row for page in pages for row in page)
    ends = [page[-1][0] for page in pages if len(page) >= KEYED_PAGE]
    return [row for row in rows if row[0] <= min(ends)] if ends else rows


@final
@attrs.frozen
class NodeOutbox:
    """Takes messages to chats of any shard: those of this process have lanes of their own.

    So a chat has one lane for all that is said to it in this process. What another process says to it has a
    lane there.
    """

    _shards: int
    _own: Outbox = attrs.field(repr=False)
    _others: Mapping[int, Outbox] = attrs.field(repr=False)

    async def perform(
        self,
        operation: Operation[R],
        *,
        urgency: Urgency = Urgency.REPLY,
        on_unknown: OnUnknown = OnUnknown.RESEND,
        doubted: Callable[[], None] | None = None,
        recorded: trio.Event | None = None,
    ) -> R:
        """Queue an operation in its recipient's lane, and wait for its result."""
        outbox = self._of(getattr(operation, "chat_id", None))
        return await outbox.perform(
            operation, urgency=urgency, on_unknown=on_unknown, doubted=doubted, recorded=recorded
        )

    def typing(self, chat: Recipient) -> AbstractContextManager[None]:
        """Show typing while the block runs."""
        return self._of(chat).typing(chat)

    def press_taken(self, press: Press[object]) -> None:
        """Have a press that a conversation took answered within a second."""
        self._own.press_taken(press)

    def press_due(self, press: Press[object]) -> None:
        """Answer this press now, without a word, unless it has been answered."""
        self._own.press_due(press)

    async def answer(self, press: Press[object], text: str, *, alert: bool) -> bool:
        """Answer a press with the author's words; False if it had been answered."""
        return await self._own.answer(press, text, alert=alert)

    def refuse_press(self, press: Press[object], text: str) -> None:
        """Answer a press that no wait takes."""
        self._own.refuse_press(press, text)

    def drop(self, chat: Recipient) -> None:
        """Forget what is still queued for a chat that was left."""
        self._of(chat).drop(chat)

    def _of(self, chat: object) -> Outbox:
        if not isinstance(chat, int):
            return self._own
        return self._others.get(shard_of(ChatId(chat), self._shards), self._own)
