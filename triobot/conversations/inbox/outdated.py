"""Rows of the inbox that may not know of a conversation: it was begun, and left memory, after they were read.

A row says whether its chat has conversations as of when it was read. That counts only for chats that are not
in memory; so it is wrong only for a chat that has left memory since.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import final

from .consumption import Consumption


@final
class Outdated:
    """Says of which rows the store has to be asked once more."""

    def __init__(self, consumption: Consumption) -> None:
        self._consumption = consumption
        self._newest = 0
        self._until = 0
        self._evicted_at = 0
        self._evictions = 0

    def __contains__(self, seq: int) -> bool:
        return seq <= self._until

    def came(self, seq: int) -> None:
        """Note that rows up to this one were read."""
        self._newest = max(self._newest, seq)
        if not self._consumption.is_written(self._evicted_at):
            self._until = self._newest

    def evicted(self) -> None:
        """Note that a chat leaves memory: rows that are read before all is written know too little."""
        self._evictions += 1
        self._evicted_at, self._until = self._consumption.added, self._newest

    @contextmanager
    def reading(self) -> Generator[None]:
        """Watch for evictions while rows are being read: those rows know too little then."""
        before = self._evictions
        yield
        if self._evictions != before:
            self._until = self._newest
