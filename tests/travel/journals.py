"""Journals of bots that were driven, those that have ended included: what time travels to."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from triobot.conversations.revival.stored import Stored, read_stored
from triobot.conversations.services import Services
from triobot.seams.journals import ConversationId, EndConversation, Journal, JournalWrite
from triobot.store.journal_rows import JournalTables
from triobot.store.memory import MemoryRows


class Library:
    """The journals of bots that were driven, by the conversation's number."""

    def __init__(self) -> None:
        self._ended: dict[int, Journal] = {}
        self._living: dict[int, Journal] = {}

    def all(self) -> dict[int, Stored]:
        """Every journal, once its bot has stopped."""
        known = {**self._living, **self._ended}
        return {number: read_stored(journal) for number, journal in sorted(known.items())}

    def ends(self, tables: JournalTables, number: ConversationId) -> None:
        """Keep a journal that is about to end."""
        if (journal := tables.journal(number)) is not None:
            self._ended[number] = journal

    def stops(self, tables: JournalTables) -> None:
        """Keep the journals of a bot that stops."""
        self._living = {}
        for row in tables.every(after=0, limit=1_000):
            if (journal := tables.journal(row.id)) is not None:
                self._living[row.id] = journal


@contextmanager
def library(*, ended: bool = False) -> Generator[Library]:
    """Keep the journals of the bot that is driven while the block runs.

    Args:
        ended: those that are over have their end, as where such journals are kept.
    """
    kept, patch = Library(), pytest.MonkeyPatch()
    apply, close = JournalTables.apply, MemoryRows.close

    def applied(self: JournalTables, write: JournalWrite) -> None:
        if isinstance(write, EndConversation):
            kept.ends(self, write.conversation)
        apply(self, write)

    def closed(self: MemoryRows, now: int) -> None:
        kept.stops(self.tables.journals)
        close(self, now)

    patch.setattr(JournalTables, "apply", applied)
    patch.setattr(MemoryRows, "close", closed)
    if ended:
        patch.setattr(Services, "keep_ended", property(lambda _: True, lambda _, __: None))
    try:
        yield kept
    finally:
        patch.undo()
