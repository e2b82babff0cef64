"""How a conversation gets its incarnation: over what is stored of it, or from its first line."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, cast

from ..errors import UnrecordableError
from ..journal.incarnation import Incarnation
from ..journal.records import Start as StartRecord
from ..journal.world import World
from ..seams import Consume
from ..values import decode_value, encode_value
from .journaling import ConversationWorld

if TYPE_CHECKING:
    from .conversation import Conversation


def revived(there: Conversation, dry: World | None) -> tuple[ConversationWorld | None, Incarnation]:
    """The incarnation of a conversation that is stored; over a `dry` world it stops at its journal's end."""
    stored = there.stored
    assert stored is not None
    if dry is not None:
        return None, Incarnation(dry, stored.records, stored.rows, dry=True)
    world = ConversationWorld(there, stored.row, durable=True)
    return world, Incarnation(world, stored.records, stored.rows)


def begun(there: Conversation, at: int) -> tuple[ConversationWorld, Incarnation]:
    """The incarnation of a conversation that begins; `at` is when what started it came."""
    now = there.services.clock.now()
    opening: dict[str, object] = {"event": there.event, "interrupted": there.interrupted, "at": at}
    durable = there.route.durable
    try:
        text = encode_value({**opening, "value": there.value})
        there.value = there.given = cast("dict[str, object]", decode_value(text))["value"]
        args = encode_value(list(there.args))
    except UnrecordableError:
        # Its filter gave something that no record can hold: it lives as long as the process.
        durable, text, args = False, encode_value(None), encode_value([])
    world = ConversationWorld(there, None, durable=durable)
    seed, data = secrets.token_hex(16), dict(there.life.data or {})
    first = StartRecord(now, there.route.name, there.route.version, seed, args, text, data)
    return world, Incarnation(world, [first], begun=[Consume((there.seq,))])
