"""The chat on the platform, when what new code made of the same answers takes its place."""

from __future__ import annotations

from ..conversations.revival.stored import Stored, read_opening
from ..emulator.chats import PlatformChat, Replayed
from ..emulator.world import World
from ..wire.events import Message
from ..wire.ids import MessageId
from .same_answers import Replacement
from .staging import sent_in


def show_instead(world: World, before: Stored, instead: Replacement, now: int) -> None:
    """Show what has taken a conversation's place, where people see its chat.

    What the conversation had sent, and what people had answered since it began, gives way; what was there
    before, and what others sent, stays. A line below tells of it.

    Args:
        before: the conversation as it was.
        now: on the platform's clock.
    """
    if instead.chat is None:
        return
    chat, gone = world.chat(instead.chat.id), _gone(world.chat(instead.chat.id), before)
    kept = {id: entry for id, entry in chat.entries.items() if id not in gone}
    chat.entries = {**kept, **instead.chat.entries}
    pressed = {id: one for id, one in chat.pressed.items() if one.message_id in kept}
    chat.pressed = {**pressed, **instead.chat.pressed}
    chat.reply_keyboard = instead.chat.reply_keyboard
    began = before.row.started_at
    earlier = [line for line in chat.lines if line.at < began]
    world.stand(chat.id, [*earlier, *(line for line in instead.chat.lines if line.at >= began)])
    world.record(now, Replayed(chat.id))
    world.rewritten()


def _gone(chat: PlatformChat, before: Stored) -> set[MessageId]:
    """Return the messages that were the conversation's, or answered it."""
    sent = {sent.id for sent in map(sent_in, before.records) if sent is not None}
    gone = {
        entry.id
        for entry in chat.entries.values()
        if entry.id in sent or (entry.author is not None and entry.at >= before.row.started_at)
    }
    opening = read_opening(before.records[0])
    event = None if opening is None else opening.event
    if isinstance(event, Message):
        # It was written a moment before the conversation began with it.
        earlier = [
            entry for entry in chat.entries.values() if entry.author is not None and entry.id not in gone
        ]
        gone |= {entry.id for entry in earlier[-1:] if entry.content == event.content}
    return gone
