"""The conversations of a store, those that only their event's row stands for included.

A conversation that has just begun is nothing but that row (`InboxRow.begun`) until something else of it is
written; such a row may stand for the newest record of one that takes the event, too. Who looks into a store
doesn't care where it is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from ..journals import ConversationId, ConversationRow, Journal, Lease
from ..seams import InboxRow, Store
from ..wire.ids import ChatId

Begun: TypeAlias = Callable[[InboxRow, Lease, int], Journal | None]
"""The journal of what has begun with a row, of a store in this epoch; None if that is nothing."""
WithTaken: TypeAlias = Callable[[Journal, Sequence[InboxRow]], Journal]
"""A journal with the record that one of these rows of its chat stands for, if one does."""

_PAGE: Final = 100


def _nothing(row: InboxRow, lease: Lease, epoch: int) -> Journal | None:
    return None


def _as_it_is(journal: Journal, rows: Sequence[InboxRow]) -> Journal:
    return journal


@final
class Filing:
    """Reads conversations, oldest first."""

    def __init__(self, store: Store, begun: Begun | None = None, with_taken: WithTaken | None = None) -> None:
        self._store = store
        self._begun = begun or _nothing
        self._with_taken = with_taken or _as_it_is

    async def journal(self, conversation: ConversationId) -> Journal | None:
        """Everything of one; None if there is none."""
        found = await self._store.journal(conversation)
        if found is not None:
            # Nothing else of its chat waited when the row came to stand for a record.
            if self._store.statistics().inbox:
                rows = await self._store.pending(found.row.chat_id, after=0, limit=1)
                found = self._with_taken(found, rows)
        else:
            rows = await self._store.backlog(after=conversation - 1, limit=1)
            begun = [one for one in self._of(rows) if one.row.id == conversation]
            # Perhaps it was written out meanwhile.
            found = begun[0] if begun else await self._store.journal(conversation)
        return found

    async def of_chat(self, chat_id: ChatId) -> Sequence[ConversationId]:
        """Those of a chat that have not ended."""
        # Nothing else of its chat waits when a conversation begins so.
        rows = await self._store.pending(chat_id, after=0, limit=1)
        stored = await self._store.conversations(chat_id)
        return sorted({one.row.id for one in self._of(rows)} | {row.id for row in stored})

    async def page(self, after: int) -> tuple[Sequence[ConversationId], int | None]:
        """Some of those behind `after`, and where to go on; None at the end."""
        rows, end = await self.rows(after)
        return [row.id for row in rows], end

    async def rows(self, after: int) -> tuple[Sequence[ConversationRow], int | None]:
        """The same with what is known of each."""
        # First the rows: what is written out meanwhile is found where it is then.
        rows = await self._store.backlog(after=after, limit=_PAGE)
        stored = await self._store.all_conversations(after=after, limit=_PAGE)
        # Beyond the end of a full page there may be more of the one sort, which comes before what is
        # known of the other.
        ends = [rows[-1].seq] if len(rows) == _PAGE else []
        ends += [stored[-1].id] if len(stored) == _PAGE else []
        end = min(ends, default=None)
        found = {one.row.id: one.row for one in self._of(rows)} | {row.id: row for row in stored}
        return [found[id] for id in sorted(found) if end is None or id <= end], end

    def _of(self, rows: Sequence[InboxRow]) -> Sequence[Journal]:
        epoch, store = self._store.opening().epoch, self._store
        leased = [(row, store.lease(row.chat_id)) for row in rows if row.begun is not None]
        found = [self._begun(row, lease, epoch) for row, lease in leased if lease is not None]
        return [journal for journal in found if journal is not None]
