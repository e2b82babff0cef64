"""Which effects may have happened before, although no record says so. Pure.

After a crash these are the ones that were under way: one a lane. After a backup was restored nobody knows
what the conversation did since the backup was made: every effect that it comes to by itself may have
happened, those after a deadline that has passed and those that follow on another one, too. That ends with the
first thing that can't have happened before the store was restored, such as an event that came since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, final

import attrs

from .branches import Nature
from .records import OperationId
from .stimuli import Completion, Stimulus


@final
@attrs.frozen
class Past:
    """What a conversation's records don't say of the time before.

    Attributes:
        jumped: where it begins: by how much the time of day had jumped in all (`jumps`).
        data: what the chat keeps now; a turn that is not known to have ended begins with it.
        unknown_until: what happened until then, in wall milliseconds, is not known: a backup was restored.
    """

    jumped: int = 0
    unknown_until: int | None = None
    data: Mapping[str, str] | None = attrs.field(default=None, repr=False)


PLAIN_PAST: Final = Past()


@final
class Doubts:
    """The effects of one incarnation that may have happened.

    Args:
        until: what happened until then, in wall milliseconds, is not known; None: everything is.
    """

    def __init__(self, until: int | None = None) -> None:
        self._until = until
        self._ids = set[OperationId]()

    def __contains__(self, id: OperationId) -> bool:
        return id in self._ids

    def revived(self, parked: Iterable[OperationId]) -> None:
        """These may have been under way when the last process ended."""
        self._ids.update(parked)

    def begins(self, id: OperationId) -> bool:
        """An effect is about to be performed; whether a lost past may have done that."""
        if self._until is not None:
            self._ids.add(id)
        return self._until is not None

    def took(self, stimulus: Stimulus) -> None:
        """This happens now; what an effect of one's own comes to is no news."""
        mine = isinstance(stimulus, Completion) and stimulus.parked.nature is Nature.EFFECT
        if self._until is not None and not mine and stimulus.stamp > self._until:
            self._until = None
