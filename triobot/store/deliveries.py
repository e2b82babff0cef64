"""When an arrival is a redelivery: the rule of `triobot.seams.Arrival`, pure.

The platform repeats a request whose 200 it did not get, and its events carry no id. A callback's id is
unique in itself, so a second one is dropped for a week. Anything else may honestly be said twice ("yes",
"yes"): an equal event is a redelivery only within a minute of one whose 200 was not fully written. Only
accepted deliveries count; a dropped one does not prolong the minute, because losing a message is worse
than hearing it twice.
"""

from __future__ import annotations

import re
from typing import Final, final

import attrs

from ..seams import Arrival
from ..wire.ids import ChatId

ONCE_FOR: Final = 7 * 24 * 60 * 60 * 1000
"""How long a key that is unique in itself is remembered, in milliseconds."""

REPEATED_WITHIN: Final = 60 * 1000
"""How long after an unacknowledged delivery an equal one is taken for its repetition, in milliseconds."""

UNSURE_BEFORE_A_CRASH: Final = 1000
"""Acknowledgements this close to a crash of the machine are not believed: its kernel may not have sent what
the process had written. In milliseconds."""


@final
@attrs.frozen
class Delivery:
    """The last accepted delivery of a key."""

    at: int
    acknowledged: bool


def is_redelivery(arrival: Arrival, previous: Delivery | None) -> bool:
    """Whether `arrival` is here already, given the last accepted delivery of its key."""
    if arrival.key is None or previous is None:
        return False
    if arrival.once:
        return arrival.at - previous.at < ONCE_FOR
    # Both ways, so that a clock that was set back by hours suppresses nothing.
    return not previous.acknowledged and abs(arrival.at - previous.at) <= REPEATED_WITHIN


def names_chat(key: str, chat_id: ChatId) -> bool:
    """Whether this is a key of the chat, or of what its conversations have sent to others; see `NAMING`."""
    _, _, rest = key.partition(":")
    return rest.startswith(f"{chat_id}:") or re.search(f":{chat_id}/[0-9]+/", key) is not None


NAMING: Final = "substr(key, instr(key, ':')) GLOB ':' || ?1 || ':*' OR key GLOB '*:' || ?1 || '/[0-9]*/*'"
"""The same in SQL. A key is a word, the chat it goes to, and behind that what tells it from others."""


@final
@attrs.frozen
class Cutoff:
    """Deliveries accepted before these instants decide nothing any more."""

    once: int
    repeatable: int


def cutoff(now: int) -> Cutoff:
    """What may be forgotten at `now`."""
    return Cutoff(once=now - ONCE_FOR, repeatable=now - REPEATED_WITHIN)
