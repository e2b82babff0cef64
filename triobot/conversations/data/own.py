"""What a chat keeps, as one conversation of it sees it: what a turn has read stays so for that turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast, final

from ...errors import ConfigError
from ..advice import Copy, is_changed
from .slots import declared_keys

if TYPE_CHECKING:
    from ..conversation import Conversation


@final
class View(Mapping[str, str]):
    """What is kept, by key, as text; each read is recorded once a turn."""

    def __init__(self, there: Conversation) -> None:
        self._there = there

    def __getitem__(self, key: str) -> str:
        text = cast("str | None", self._there.run.read(key))
        if text is None:
            raise KeyError(key)
        return text

    def __iter__(self) -> Iterator[str]:
        return iter([key.name for key in declared_keys() if key.name in self])

    def __len__(self) -> int:
        return len(list(iter(self)))


@final
class OwnData:
    """One conversation's view of it, by key, as text."""

    def __init__(self, there: Conversation) -> None:
        self._there = there

    def view(self) -> Mapping[str, str]:
        """Return what is kept."""
        return View(self._there)

    def all(self) -> Mapping[str, str]:
        """Return what is kept.

        Raises:
            ConfigError: no key was declared before the conversation began.
        """
        there = self._there
        there.check_task()
        if there.life.kept.values is None:
            raise ConfigError("a Key was declared too late: declare it at the top of its module")
        return self.view()

    def put(self, key: str, value: str | None) -> None:
        """Keep a value; it is durable with the turn.

        Raises: as `all`.
        """
        self.all()
        there = self._there
        there.copies = [copy for copy in there.copies if copy.key != key]
        there.money.gave()
        if value is None:
            there.run.delete(key)
        else:
            there.run.write(key, value)

    def lent(self, copy: Copy) -> None:
        """Note that a copy of a value is out, which its reader may change."""
        self._there.copies.append(copy)

    def look_at_copies(self) -> None:
        """Tell of copies that were changed and not assigned."""
        there = self._there
        copies, there.copies = there.copies, []
        for copy in copies:
            if there.services.advice is not None and is_changed(copy):
                there.services.advice.unassigned(copy)
