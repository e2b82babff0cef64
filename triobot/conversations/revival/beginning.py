"""How a conversation gets its incarnation: over what is stored of it, or from its first line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...journal.doubts import Past
from ...journal.incarnation import Incarnation
from ...journal.world import World
from ...seams import Consume
from .journaling import ConversationWorld
from .opening import Opened, Opening, open_conversation

if TYPE_CHECKING:
    from ..conversation import Conversation


def revived(there: Conversation, dry: World | None) -> tuple[ConversationWorld | None, Incarnation]:
    """Return world and incarnation of a stored conversation; over a `dry` one it ends with its journal."""
    stored = there.stored
    assert stored is not None
    if dry is not None:
        return None, Incarnation(dry, stored.records, stored.rows, dry=True)
    world = ConversationWorld(there, stored.row, durable=True)
    kept = None if there.life.kept.values is None else dict(there.life.kept.values)
    past = Past(unknown_until=_unknown_until(there, stored.row.updated_at, stored.row.epoch), data=kept)
    return world, Incarnation(world, stored.records, stored.rows, past=past)


def _unknown_until(there: Conversation, at: int, epoch: int | None = None) -> int | None:
    """Return until when it isn't known what came of what was so at that time; None if it is known.

    After a backup was restored, whatever the store said before may have gone on since it was made.
    """
    opening = there.services.store.opening()
    older = at < opening.epoch_at or (epoch is not None and epoch < opening.epoch)
    return opening.epoch_at if older else None


def begun(there: Conversation, at: int) -> tuple[ConversationWorld, Incarnation]:
    """Return world and incarnation of a conversation that begins; `at` is when what started it came."""
    clock, data = there.services.clock, dict(there.life.kept.values or {})
    now, jumped = clock.now(), clock.jumped()
    opening = Opening(there.event, at, there.value, there.args, there.interrupted)
    made = open_conversation(there.route, opening, now=now, jumped=jumped, data=data)
    there.value = there.given = made.value
    world = ConversationWorld(there, None, durable=made.durable, first=made.records())
    past = Past(jumped, _unknown_until(there, at))
    return world, Incarnation(world, [made.first], begun=[Consume((there.seq,))], past=past)


def begun_elsewhere(there: Conversation, at: int) -> tuple[ConversationWorld, Incarnation] | None:
    """Return the same, for a first record that is written with what others write; None if it can't be.

    What the chat keeps is known: somebody runs there, or has run.
    """
    clock, data = there.services.clock, dict(there.life.kept.values or {})
    now, jumped = clock.now(), clock.jumped()
    opening = Opening(there.event, at, there.value, there.args, there.interrupted)
    made = open_conversation(there.route, opening, now=now, jumped=jumped, data=data)
    if not made.durable:
        return None
    there.value = there.given = made.value
    world = ConversationWorld(there, None, durable=True, opened=made)
    past = Past(jumped, _unknown_until(there, at))
    return world, Incarnation(world, [made.first], opened=True, past=past)


def opened(there: Conversation, made: Opened, at: int) -> tuple[ConversationWorld, Incarnation]:
    """Return world and incarnation of a conversation whose first record the event's row stands for.

    If somebody has put something for the chat to keep since, the event's row doesn't know of it: then it
    begins as every other, with a first record of its own.
    """
    if (there.life.kept.values or {}) != made.first.data:
        return begun(there, at)
    world = ConversationWorld(there, None, durable=True, opened=made)
    return world, Incarnation(world, [made.first], opened=True, past=Past(made.jumped))
