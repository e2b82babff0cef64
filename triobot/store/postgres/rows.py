"""The tables of a shard, which know what a batch is about to ask before it asks.

On SQLite a question costs nothing; here each is a trip to the server. So before a batch that takes events in,
one trip reads for all of their chats who was seen there, whether a conversation is under way, and what the
chats keep. What the batch itself changes is known from then on. Whatever isn't known is asked as on SQLite.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, final

import psycopg
from psycopg.rows import TupleRow

from ...journals import BeginConversation, JournalWrite
from ...seams import Arrival, Forgotten, PutData
from ...wire.ids import ChatId, SenderId
from ..rules import Tally
from ..statements import CONSUME, SEE_SENDER, JournalTables, Tables, listed
from .session import Session

_SENDERS: Final = b"SELECT chat_id, first_sender, several FROM senders WHERE chat_id = ANY($1)"
_LIVE: Final = b"SELECT DISTINCT chat_id FROM conversations WHERE chat_id = ANY($1) AND ended_at IS NULL"
_DATA: Final = b"SELECT chat_id, key, value FROM data WHERE chat_id = ANY($1)"


@final
class ShardJournals(JournalTables):
    """The conversations of a shard.

    Attributes:
        live: of some chats, whether they have conversations that have not ended.
    """

    def __init__(self, session: Session, tally: Tally) -> None:
        super().__init__(session, tally)
        self.live: dict[ChatId, bool] = {}

    def apply(self, write: JournalWrite) -> None:
        """Do one write."""
        super().apply(write)
        if isinstance(write, BeginConversation):
            self.live[write.chat_id] = True
        else:
            self.live.clear()

    def has(self, chat_id: ChatId) -> bool:
        """Return whether a chat has conversations that have not ended."""
        known = self.live.get(chat_id)
        return super().has(chat_id) if known is None else known


@final
class ShardTables(Tables):
    """The rows of a shard."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._conversations = ShardJournals(session, self.tally)
        self.journals = self._conversations
        # Of some chats: the first sender, and whether there were several; None: none was seen.
        self._seen: dict[ChatId, tuple[SenderId, bool] | None] = {}
        self._kept: dict[ChatId, dict[str, str]] = {}

    def look_ahead(self, chats: Collection[ChatId], *, begins: bool) -> Callable[[], None]:
        """Ask what events of these chats will need to know, and return what takes the answers.

        Args:
            begins: whether something may begin with one of them, which asks for what a chat keeps.
        """
        run, each = self._session.run, list(chats)
        seen = run(_SENDERS, (each,))
        live = run(_LIVE, (each,)) if self.tally["conversations"] else None
        kept = run(_DATA, (each,)) if begins else None

        def take() -> None:
            self._seen = dict.fromkeys(each)
            self._seen.update((chat, (first, bool(several))) for chat, first, several in _rows(seen))
            if live is not None:
                self._conversations.live = dict.fromkeys(each, False)
                self._conversations.live.update((chat, True) for (chat,) in _rows(live))
            if kept is not None:
                self._kept = {chat: {} for chat in each}
                for chat, key, value in _rows(kept):
                    self._kept[chat][key] = value

        return take

    def forget_ahead(self) -> None:
        """Know nothing ahead any more: the batch has ended."""
        self._seen = {}
        self._kept = {}
        self._conversations.live = {}

    def undo(self, mark: int = 0) -> None:
        """Take the tally back to its mark, and drop what is remembered."""
        super().undo(mark)
        self.forget_ahead()

    def data(self, chat_id: ChatId) -> dict[str, str]:
        """Return all values of a chat, by their keys."""
        known = self._kept.get(chat_id)
        return super().data(chat_id) if known is None else dict(known)

    def forget(self, chat_id: ChatId) -> Forgotten:
        """Delete everything of a chat."""
        self.forget_ahead()
        return super().forget(chat_id)

    def _put_data(self, write: PutData) -> None:
        self._kept.pop(write.chat_id, None)
        super()._put_data(write)

    def _consume(self, seqs: Collection[int]) -> None:
        self._session.later(self._session.execute(CONSUME, (listed(seqs),)), self._count_gone)

    def _is_group(self, arrival: Arrival) -> bool:
        chat_id, sender_id = arrival.chat_id, arrival.sender_id
        if chat_id in self._alone or chat_id not in self._seen:
            return super()._is_group(arrival)
        first, several = self._seen[chat_id] or (None, False)
        if several or sender_id is None:
            return several
        if first != sender_id:
            self._session.execute(SEE_SENDER, (chat_id, sender_id))
            if first is not None:
                self._seen[chat_id] = (first, True)
                return True
        self._seen[chat_id] = (sender_id, False)
        self._remember(chat_id, sender_id)
        return False


def _rows(found: psycopg.Cursor[TupleRow]) -> Sequence[TupleRow]:
    return found.fetchall()
