"""What goes on in a chat, as JSON for whoever looks on: tasks, lines, deadlines, what waits.

It changes nothing. There is no text of a message in here; but there are lines of the bot's own code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Literal, TypeAlias

import attrs
import trio

from ...engine.core import Where
from ...engine.run import OpenBlock, OpenBranch
from ...errors import ConversationEndedError
from ...seams.rooms import is_chat, told
from ...wire.events import Event, Message
from ..conversation import Conversation
from ..doors.calls import room_of
from ..life import ChatLife
from ..running.lines import frames_of, positions
from ..workload import Workload

_RUN: Final = Workload.run_alone.__code__

Portrait: TypeAlias = Mapping[str, object]
State: TypeAlias = Literal["starts", "replays", "works", "waits", "ends", "stuck"]

_PLACES: Final = {Where.HOLDS: "holds", Where.QUEUED: "queued", Where.RESTS: "rests", Where.WORKS: "works"}


def whose(task: trio.lowlevel.Task) -> tuple[Conversation, str | None] | None:
    """Return the conversation whose task this is, or is above it, and the id of the operation that is open.

    Looks at the tasks themselves, so that a conversation that nobody looks for pays nothing.
    """
    tasks = [task]
    while (frame := getattr(tasks[-1].coro, "cr_frame", None)) is None or frame.f_code is not _RUN:
        if (nursery := tasks[-1].parent_nursery) is None:
            return None
        tasks.append(nursery.parent_task)
    if (live := getattr(frame.f_locals["run"], "cr_frame", None)) is None:
        return None  # it rests
    conversation: Conversation = live.f_locals["conversation"]
    with suppress(ConversationEndedError):  # it may not have begun yet, or be over
        paths = {running: path for path, running in conversation.run.tasks.items()}
        path = next((paths[one] for one in tasks if one in paths), None)
        for branch in conversation.run.describe().branches:
            if branch.path == path and branch.operation is not None:
                return conversation, str(branch.operation.id)
    return conversation, None


def portray(life: ChatLife, when: Callable[[Conversation], int | None]) -> Portrait:
    """Look at a chat in memory, or at a room.

    ``place``: what a room is called, None for a chat; a room's number is more than a page can hold.
    ``behind``: more of it waits in the inbox; ``loading``: it is being brought back from the store;
    ``mailbox``: the events that wait in memory: number in the inbox, when it came, and its kind.

    Args:
        when: the next deadline of a conversation.
    """
    running = (*life.places.live.values(), *life.places.asides)
    return {
        "chat_id": life.chat_id,
        "place": None if is_chat(life.chat_id) else _room(life),
        "group": life.group,
        "behind": life.mailbox.behind,
        "loading": life.loading,
        "mailbox": [
            {"seq": queued.seq, "at": queued.at, "what": _kind_of(queued.event)}
            for queued in life.mailbox.waiting
        ],
        "conversations": [_conversation(conversation, when(conversation)) for conversation in running],
    }


def _room(life: ChatLife) -> str:
    """Return a room's name and key, as the signals that are there say them."""
    events = [conversation.event for conversation in life.places.all()] + [
        queued.event for queued in life.mailbox.waiting
    ]
    names = (room_of(event) for event in events)
    return next((" ".join(filter(None, name)) for name in names if name), told(life.chat_id))


def _conversation(conversation: Conversation, wake_at: int | None) -> Portrait:
    """Describe a conversation. ``id``: as ``triobot journal`` takes it; ``wake_at``: seen to by then."""
    tasks: list[Portrait] = []
    blocks: list[Portrait] = []
    replaying = False
    with suppress(ConversationEndedError):  # it may not have begun yet
        seen, running = conversation.run.describe(), conversation.run.tasks
        tasks = [_task(branch, running.get(branch.path)) for branch in seen.branches]
        blocks = [_block(conversation, block) for block in seen.blocks]
        replaying = not seen.live
    return {
        "id": conversation.seq,
        "route": conversation.route.name,
        "kind": conversation.kind,
        "owner": conversation.owner,
        "durable": conversation.route.durable,
        "state": _state(conversation, begun=bool(tasks), replaying=replaying),
        "wake_at": wake_at,
        "tasks": tasks,
        "blocks": blocks,
    }


def _state(conversation: Conversation, *, begun: bool, replaying: bool) -> State:
    if conversation.stuck:
        return "stuck"
    if conversation.ending is not None:
        return "ends"
    if not begun:
        return "starts"
    if replaying:
        return "replays"
    return "waits" if conversation.quiescent else "works"


def _task(branch: OpenBranch, task: trio.lowlevel.Task | None) -> Portrait:
    """Describe a task of a conversation.

    ``path``: empty for the coroutine itself; a child's begins with the number of its nursery. ``place``:
    holds (it has the turn), queued, rests (in an operation, or waiting for its children), works.
    ``operation``, ``kind``, ``due``: the chat operation in which it is, and when that ends by itself.
    ``positions``: where in the author's code it is, outermost first.
    """
    operation = branch.operation
    at = () if task is None or branch.place is Where.QUEUED else positions(frames_of(task))
    return {
        "path": branch.path,
        "place": _PLACES[branch.place],
        "operation": None if operation is None else str(operation.id),
        "kind": None if operation is None else operation.kind,
        "due": None if operation is None else operation.due,
        "positions": [attrs.asdict(position) for position in at],
    }


def _block(conversation: Conversation, block: OpenBlock) -> Portrait:
    """Describe an open block: its number, its deadline, and the filter of the event that would end it."""
    until = next((watch.name for watch in conversation.watches if watch.scope == block.id), None)
    return {"id": str(block.id), "due": block.due, "until": until, "cancelled": block.ended}


def _kind_of(event: Event) -> str:
    """Return a word for an event, without anything of what it holds."""
    name = type(event).__name__
    if isinstance(event, Message):
        content = type(event.content).__name__
        return "text" if content == "str" else content.lower()
    return name.lower()
