"""Description of a chat in memory as JSON: tasks, code lines, deadlines, waiting events.

Describing a chat changes nothing. A description contains lines of the bot's own code, but no text of a
message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import attrs
import trio

from ...engine import Run, Scope
from ...engine.core import Branch
from ...seams.rooms import is_chat, place_name
from ...wire.events import Event, Message
from ..calls.signals import room_of
from ..chat_actor import ChatActor
from ..conversation import Conversation
from ..routes.routing import kind_of
from ..running.lines import frames_of, positions
from ..workload import Workload

_RUN: Final = Workload.run_alone.__code__

Portrait: TypeAlias = Mapping[str, object]
State: TypeAlias = Literal["starts", "replays", "works", "waits", "ends", "stuck"]


def whose(task: trio.lowlevel.Task) -> tuple[Conversation, str | None] | None:
    """Return the conversation that `task` belongs to, and the id of the task's open operation.

    The search reads the frames of the task and its parents. So conversations need no index of their tasks.
    """
    tasks = [task]
    while (frame := getattr(tasks[-1].coro, "cr_frame", None)) is None or frame.f_code is not _RUN:
        if (nursery := tasks[-1].parent_nursery) is None:
            return None
        tasks.append(nursery.parent_task)
    if (live := getattr(frame.f_locals["run"], "cr_frame", None)) is None:
        return None  # the conversation waits
    conversation: Conversation = live.f_locals["conversation"]
    if (run := conversation.run) is not None:
        running = {branch.task: branch for branch in run.branches}
        own = next((running[one] for one in tasks if one in running), None)
        for op in run.resting:
            if op.branch is own:
                return conversation, str(op.id)
    return conversation, None


def portray(actor: ChatActor) -> Portrait:
    """Describe a chat or a room in memory.

    * ``place``: a room's name and key, None for a chat. A room's number is too large for JavaScript.
    * ``behind``: whether more of the chat's events wait in the inbox.
    * ``loading``: whether the chat is being loaded from the store.
    * ``mailbox``: events that wait in memory: number in the inbox, time of arrival, kind.
    """
    running = (*actor.running.live.values(), *actor.running.asides)
    return {
        "chat_id": actor.chat_id,
        "place": None if is_chat(actor.chat_id) else _room(actor),
        "behind": actor.mailbox.behind,
        "loading": actor.loading,
        "mailbox": [
            {"seq": queued.seq, "at": queued.at, "what": _kind_of(queued.event)}
            for queued in actor.mailbox.waiting
        ],
        "conversations": [_conversation(conversation) for conversation in running],
    }


def _room(actor: ChatActor) -> str:
    """Return the room's name and key from one of its signals; without a signal, the room's number."""
    events = [conversation.facts.event for conversation in actor.running.all()] + [
        queued.event for queued in actor.mailbox.waiting
    ]
    names = (room_of(event) for event in events)
    return next((" ".join(filter(None, name)) for name in names if name), place_name(actor.chat_id))


def _conversation(conversation: Conversation) -> Portrait:
    """Describe a conversation. ``id`` is the number that ``triobot journal`` shows."""
    facts, run = conversation.facts, conversation.run
    return {
        "id": facts.seq,
        "route": facts.route.name,
        "kind": kind_of(facts.route, beside=facts.beside),
        "state": _state(conversation),
        "tasks": [] if run is None else [_task(run, branch) for branch in run.branches],
        "blocks": [] if run is None else [_block(conversation, block) for block in run.blocks],
    }


def _state(conversation: Conversation) -> State:
    if conversation.seat.parked:
        return "stuck"
    if conversation.ending is not None:
        return "ends"
    if (run := conversation.run) is None or not run.branches:
        return "starts"
    if conversation.replaying:
        return "replays"
    return "waits" if conversation.is_waiting else "works"


def _task(run: Run, branch: Branch) -> Portrait:
    """Describe a task of a conversation.

    * ``path``: empty for the coroutine itself; a child's path begins with its nursery's number.
    * ``place``: "holds" (has the turn), "queued" (to be started), "works" (in an effect's body), or "rests"
      (in an operation, or waiting for its children).
    * ``operation``, ``kind``, ``due``: id, kind and deadline of the open operation.
    * ``positions``: the task's lines in the author's code, outermost first.
    """
    operation, task = next((op for op in run.resting if op.branch is branch), None), branch.task
    place = "works" if branch.outside is not None else "rests"
    if branch is run.holder:
        place = "holds"
    elif task is None:
        place = "queued"
    at = () if task is None else positions(frames_of(task))
    return {
        "path": branch.path,
        "place": place,
        "operation": None if operation is None else str(operation.id),
        "kind": None if operation is None else operation.kind,
        "due": None if operation is None else operation.due,
        "positions": [attrs.asdict(position) for position in at],
    }


def _block(conversation: Conversation, block: Scope) -> Portrait:
    """Describe an open block: number, deadline, and the filter of events that end the block."""
    until = next((watch.name for watch in conversation.seat.watches if watch.scope == block.id), None)
    return {"id": str(block.id), "due": block.due, "until": until, "cancelled": block.cancel_called}


def _kind_of(event: Event) -> str:
    """Name the event's kind in one word, without any content of the event."""
    name = type(event).__name__
    if isinstance(event, Message):
        content = type(event.content).__name__
        return "text" if content == "str" else content.lower()
    return name.lower()
