"""Isolation of a branch: messages, signals and data for other places are listed, and not delivered.

The branch has its own platform and its own store, with the branch's chat. Platform and store also keep
messages and data for other places, so that the code can read its own writes. But these messages reach no
person, and start no conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs

from ...base.frozen import guarded
from ...conversations.calls.signals import CALL, Call, Halt, Signal, asked_of, stored_event
from ...conversations.routes.schedules import Tick
from ...emulator.chats import ChatMessage, Deleted, Edited, PlatformChat, Shown
from ...emulator.world import ImpossibleActError, World
from ...seams.broadcasts import OpenBroadcast
from ...seams.inbox import Acceptance, Arrival, Beginning, InboxRow, Quota, Redelivered
from ...seams.rooms import place_name
from ...seams.writes import PutData, Write
from ...store import Store
from ...wire.content import Content, Media
from ...wire.ids import ChatId, MessageId, PhoneNumber, Recipient
from ...wire.operations import Operation

Leaves: TypeAlias = Literal["send", "edit", "delete", "signal", "start", "stop", "broadcast", "keep"]

_MOST: Final = 500
OLDER: Final = "(an older message)"
"""Placeholder for the text of a message that is older than the journals."""


@final
@guarded
class WouldLeave:
    """A message, signal or other effect that would have left the branch.

    Attributes:
        at: wall milliseconds of the branch.
        to: name of the chat, room or person, as `place_name` formats it.
    """

    at: int
    what: Leaves
    to: str
    text: str = attrs.field(repr=False)


@final
class Fence:
    """Detects and lists the effects that would have left the branch.

    Args:
        own: the conversation's chat or room.
        now: returns the branch's wall milliseconds.
    """

    def __init__(self, own: ChatId, world: World, now: Callable[[], int]) -> None:
        self.own = own
        self._world = world
        self._now = now
        self._list: list[WouldLeave] = []
        self._seen = 0

    def begin(self) -> None:
        """Ignore the platform's changes so far."""
        self._seen = self._world.seq

    @property
    def left(self) -> Sequence[WouldLeave]:
        """Effects that would have left the branch so far, oldest first."""
        self._look()
        return self._list

    def _look(self) -> None:
        """List the messages sent, edited or deleted in other chats since the last call."""
        for change in self._world.changes(self._seen):
            self._seen = change.seq
            if (what := change.what).chat_id == self.own:
                continue
            to = place_name(what.chat_id)
            match what:
                case Shown(entry=entry) if entry.author is None:
                    self._add("send", to, shortly(entry.content), change.at)
                case Edited(entry=entry, anew=True):
                    self._add("edit", to, shortly(entry.content), change.at)
                case Deleted(message_id=message_id):
                    self._add("delete", to, f"message {message_id}", change.at)
                case _:
                    pass

    def _add(self, what: Leaves, to: str, text: str, at: int | None = None) -> None:
        self._list.append(WouldLeave(self._now() if at is None else at, what, to, text[:_MOST]))

    def keeps_back(self, arrival: Arrival) -> bool:
        """Return whether an event is for another place; add such an event to the list."""
        if arrival.chat_id == self.own:
            return False
        self._look()
        row, to = _row_of(arrival), place_name(arrival.chat_id)
        match cast("object", stored_event(row)):
            case Call(name=name, args=args):
                self._add("start", to, f"{name}{args!r}" if args else name)
            case Halt(name=name):
                self._add("stop", to, name)
            case Signal() as signal:
                self._add("signal", to, repr(signal.value))
            case _:
                self._add("signal", to, "")
        return True

    def wrote(self, writes: Sequence[Write]) -> None:
        """List the broadcasts and the data of other places in `writes`."""
        self._look()
        for write in writes:
            match write:
                case OpenBroadcast(key=key):
                    self._add("broadcast", f"the broadcast {key}", "")
                case PutData(chat_id=place, key=key) if place != self.own:
                    self._add("keep", place_name(place), key)
                case _:
                    pass

    def welcome(self, operation: Operation[object]) -> None:
        """Create an operation's recipient and message on the branch's platform, if either is missing.

        A recipient or message is missing if it is older than the journals.
        """
        recipient: Recipient | None = getattr(operation, "chat_id", None)
        message_id: MessageId | None = getattr(operation, "message_id", None)
        if recipient is None:
            return
        try:
            chat = self._chat(recipient)
        except ImpossibleActError:
            return  # the platform will refuse the operation
        if message_id is not None and message_id not in chat.entries:
            chat.put(ChatMessage(message_id, None, OLDER, self._now()))

    def _chat(self, to: Recipient) -> PlatformChat:
        world = self._world
        if (found := world.find(to)) is not None:
            return found
        if isinstance(to, str) and not to.startswith("+"):
            return world.add_group(to)
        if isinstance(to, str):
            user = world.people.by_phone(PhoneNumber(to)) or world.add_user(f"chat {to}", phone=to)
        else:
            owner = (user for user in world.people if user.chat_id == to)
            user = next(owner, None) or world.add_user(f"chat {to}", chat_id=ChatId(to))
        chat = world.chat(user.chat_id)
        chat.members.add(user.id)
        return chat


def shortly(content: Content) -> str:
    """Return a text unchanged; for other content, return a short description."""
    if isinstance(content, str):
        return content
    return f"<{content.kind}> {content.caption}".strip() if isinstance(content, Media) else repr(content)


def _row_of(arrival: Arrival) -> InboxRow:
    return InboxRow(0, arrival.chat_id, arrival.at, arrival.content_type, arrival.body)


@final
class FencedStore:
    """A branch's store. Events for other places are listed, and not stored in the inbox."""

    def __init__(self, inner: Store, fence: Fence) -> None:
        self._inner = inner
        self._fence = fence

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def accept(
        self,
        arrival: Arrival,
        *,
        quota: Quota,
        also: Sequence[Write] = (),
        beginning: Beginning | None = None,
        on_commit: Callable[[InboxRow], None] | None = None,
    ) -> Acceptance:
        if arrival.content_type == CALL and _is_tick(arrival):
            return Redelivered()  # jobs don't run in a branch
        if not self._fence.keeps_back(arrival):
            return await self._inner.accept(
                arrival, quota=quota, also=also, beginning=beginning, on_commit=on_commit
            )
        await self._inner.commit(*also)
        return _row_of(arrival)

    async def commit(self, *writes: Write) -> None:
        self._fence.wrote(writes)
        await self._inner.commit(*writes)


def _is_tick(arrival: Arrival) -> bool:
    call = asked_of(stored_event(_row_of(arrival)))
    return isinstance(call, Call) and isinstance(call.value, Tick)
