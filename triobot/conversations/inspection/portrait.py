"""What goes on in a chat, as values for whoever looks on: tasks, lines, deadlines, what waits.

It changes nothing. There is no text of a message in here; but there are lines of the bot's own code.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, TypeAlias, final

import attrs
import trio

from ...engine.operations import Place
from ...engine.snapshot import OpenBlock, OpenBranch
from ...errors import ConversationEndedError
from ...wire.events import Event, Message
from ...wire.ids import ChatId, SenderId
from ..conversation import Conversation
from ..life import ChatLife
from ..running.lines import Position, frames_of, positions

State: TypeAlias = Literal["starts", "replays", "works", "waits", "ends", "stuck"]


_PLACES: Final = {Place.HOLDS: "holds", Place.QUEUED: "queued", Place.RESTS: "parked", Place.WORKS: "works"}


@final
@attrs.frozen
class TaskPortrait:
    """One task of a conversation.

    Attributes:
        path: empty for the coroutine itself; a child's begins with the number of its nursery.
        place: holds (it has the turn), queued, parked (in an operation, or waiting for its children), works.
        operation: the number of the chat operation in which it is, and its kind.
        due: when that ends by itself, in wall milliseconds.
        positions: where in the author's code it is, outermost first.
    """

    path: str
    place: str
    operation: str | None
    kind: str | None
    due: int | None
    positions: tuple[Position, ...]


@final
@attrs.frozen
class BlockPortrait:
    """An open block: its number, its deadline, and the filter of the event that would end it."""

    id: str
    due: int | None
    until: str | None
    cancelled: bool


@final
@attrs.frozen
class ConversationPortrait:
    """A conversation in memory.

    Attributes:
        id: its number, as ``triobot journal`` takes it.
        wake_at: when it will be looked at next, whatever happens.
    """

    id: int
    route: str
    kind: str
    owner: SenderId | None
    durable: bool
    state: State
    wake_at: int | None
    tasks: tuple[TaskPortrait, ...]
    blocks: tuple[BlockPortrait, ...]


@final
@attrs.frozen
class QueuedPortrait:
    """An event in the mailbox: its number in the inbox, when it came, and what kind it is."""

    seq: int
    at: int
    what: str


@final
@attrs.frozen
class ChatPortrait:
    """A chat in memory.

    Attributes:
        behind: more of it waits in the inbox.
        loading: it is being brought back from the store.
    """

    chat_id: ChatId
    group: bool
    behind: bool
    loading: bool
    mailbox: tuple[QueuedPortrait, ...]
    conversations: tuple[ConversationPortrait, ...]


def portray(life: ChatLife, when: Callable[[Conversation], int | None]) -> ChatPortrait:
    """Look at a chat.

    Args:
        when: the next deadline of a conversation.
    """
    return ChatPortrait(
        life.chat_id,
        life.group,
        life.behind,
        life.loading,
        tuple(QueuedPortrait(queued.seq, queued.at, _kind_of(queued.event)) for queued in life.mailbox),
        tuple(
            _conversation(there, when(there)) for there in (*life.places.live.values(), *life.places.asides)
        ),
    )


def _conversation(there: Conversation, wake_at: int | None) -> ConversationPortrait:
    tasks: tuple[TaskPortrait, ...] = ()
    blocks: tuple[BlockPortrait, ...] = ()
    replaying = False
    with suppress(ConversationEndedError):  # it may not have begun yet
        seen, running = there.run.describe(), there.run.tasks
        tasks = tuple(_task(branch, running.get(branch.path)) for branch in seen.branches)
        blocks = tuple(_block(there, block) for block in seen.blocks)
        replaying = not seen.live
    return ConversationPortrait(
        there.seq,
        there.route.name,
        "aside" if there.beside else there.route.kind.value,
        there.owner,
        there.route.durable,
        _state(there, tasks, replaying=replaying),
        wake_at,
        tasks,
        blocks,
    )


def _state(there: Conversation, tasks: tuple[TaskPortrait, ...], *, replaying: bool) -> State:
    if there.stuck:
        return "stuck"
    if there.ending is not None:
        return "ends"
    if not tasks:
        return "starts"
    if replaying:
        return "replays"
    return "waits" if there.quiescent else "works"


def _task(branch: OpenBranch, task: trio.lowlevel.Task | None) -> TaskPortrait:
    operation = branch.operation
    return TaskPortrait(
        branch.path,
        _PLACES[branch.place],
        None if operation is None else str(operation.id),
        None if operation is None else operation.kind,
        None if operation is None else operation.due,
        () if task is None or branch.place is Place.QUEUED else positions(frames_of(task)),
    )


def _block(there: Conversation, block: OpenBlock) -> BlockPortrait:
    until = next((watch.name for watch in there.watches if watch.scope == block.id), None)
    return BlockPortrait(str(block.id), block.due, until, block.ended)


def _kind_of(event: Event) -> str:
    """Return a word for an event, without anything of what it holds."""
    name = type(event).__name__
    if isinstance(event, Message):
        content = type(event.content).__name__
        return "text" if content == "str" else content.lower()
    return name.lower()
