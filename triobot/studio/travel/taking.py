"""Shows the replacement of a conversation in the platform's chat."""

from __future__ import annotations

from ...conversations.revival.stored import Stored
from ...emulator.chats import PlatformChat, Replayed
from ...emulator.world import World
from ...wire.events import Message
from ...wire.ids import MessageId
from .same_answers import Replacement
from .staging import events_in, sent_in


def show_instead(world: World, before: Stored, instead: Replacement, now: int) -> None:
    """Replace a conversation's messages in the chat by the messages of the replacement.

    The conversation's messages, and people's messages since the conversation's start, are removed. Earlier
    messages and the bot's messages from other conversations stay. A line in the chat marks the replacement.

    Args:
        before: the replaced conversation.
        now: the platform's time, in wall milliseconds.
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
    """Return the ids of the messages that the conversation sent or received."""
    sent = {sent.id for sent in map(sent_in, before.records) if sent is not None}
    gone = {
        entry.id
        for entry in chat.entries.values()
        if entry.id in sent or (entry.author is not None and entry.at >= before.row.started_at)
    }
    # A message that waited for the conversation's start is slightly older than this start.
    heard = [event for _, event in events_in(before.records) if isinstance(event, Message)]
    theirs = [entry for entry in chat.entries.values() if entry.author is not None]
    earlier = [entry for entry in theirs if entry.id not in gone][-len(heard) :] if heard else []
    left = [*earlier, *(entry for entry in theirs if entry.id in gone)]
    for event in reversed(heard):
        found = next((n for n in reversed(range(len(left))) if left[n].content == event.content), None)
        if found is not None:
            gone.add(left[found].id)
            del left[found:]
    return gone
