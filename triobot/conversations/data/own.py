"""What a chat keeps, as one conversation of it sees it: as of its turn, whatever others do meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from ...errors import ConfigError
from ..advice import Copy, is_changed

if TYPE_CHECKING:
    from ..conversation import Conversation


@final
class OwnData:
    """One conversation's view of it, by key, as text."""

    def __init__(self, there: Conversation) -> None:
        self._there = there

    def all(self) -> Mapping[str, str]:
        """Return all that is kept.

        Raises:
            ConfigError: no key was declared before the conversation began.
        """
        there = self._there
        there.check_task()
        if there.life.kept.values is None:
            raise ConfigError("a Key was declared too late: declare it at the top of its module")
        return there.journal.data

    def put(self, key: str, value: str | None) -> None:
        """Keep a value; it is written down with the turn.

        Raises: as `all`.
        """
        self.all()
        there, kept = self._there, self._there.life.kept
        there.copies = [copy for copy in there.copies if copy.key != key]
        there.money.gave()
        if there.journal.put_data(key, value, (kept.values or {}).get):
            kept.put(key, value, writer=there)

    def told(self, key: str, value: str | None) -> None:
        """Record, as a turn of its own, what another conversation or a program keeps."""
        there = self._there
        if there.listens:
            there.stirred()
            there.journal.put(key, value, stamp=there.services.clock.now())
            there.rested()

    def lent(self, copy: Copy) -> None:
        """Remember a copy that its reader may change, so that the developer can be warned of that."""
        self._there.copies.append(copy)

    def look_at_copies(self) -> None:
        """Tell of copies that were changed and not assigned."""
        there = self._there
        copies, there.copies = there.copies, []
        for copy in copies:
            if there.services.advice is not None and is_changed(copy):
                there.services.advice.unassigned(copy)
