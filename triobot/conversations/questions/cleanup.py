"""Cleanup operations beside the conversations: remove old buttons, tell users that a form is out of date.

No conversation waits for a cleanup operation.

A text is *owed* if a message must show this text because the message's question is over. An owed text is
stored with the turn that ends the question, and deleted once the message shows it. After a crash in between,
the next start edits the message, and so removes the old buttons. A conversation's failure message is owed in
the same way, until the failure message is sent.

Recently answered questions are remembered, to recognize the second click of a double click.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast, final

import attrs
import trio

from ...errors import NotDeliveredError, TriobotError
from ...seams.outbox import Outbox, Urgency
from ...seams.rooms import is_chat
from ...seams.values import decode_value, encode_value
from ...seams.writes import PutData, Write
from ...wire.ids import ChatId, MessageId
from ...wire.operations import EditMessage, Operation, SendMessage
from ..data import OURS
from ..workload import EarlyEvent, Workload, holds

if TYPE_CHECKING:
    from ...store import Store

ANSWERED: Final = 10_000
"""Number of answered questions that are remembered; presses for older questions are answered as expired."""
DOUBLE_CLICK: Final = 3_000
"""A press within this number of milliseconds of the answering press counts as a double click."""

log: Final = logging.getLogger("triobot.conversations")
OWED: Final = f"{OURS}untidy"
"""Data key under which a chat stores its owed texts: by message id, or by `_SAY` and conversation number."""
_SAY: Final = "say "
_PAGE: Final = 256
CLEANUPS: Final = 64
"""Limit of a chat's cleanup operations in flight; `tidy` and `owe` skip further operations."""


@final
class Answered:
    """Recently answered questions with the arrival times of their answers, newest last."""

    def __init__(self) -> None:
        self._questions: dict[str, int] = {}

    def lately(self, question: str, at: int) -> bool:
        """Whether an event at `at` is a double click's second click, soon after the click that answered.

        Args:
            at: wall milliseconds.
        """
        answered = self._questions.get(question)
        return answered is not None and abs(at - answered) <= DOUBLE_CLICK

    def answered(self, question: str, at: int) -> None:
        """Remember that an event at `at` answered a question; above `ANSWERED` questions, drop the oldest.

        Args:
            at: wall milliseconds.
        """
        self._questions.pop(question, None)
        self._questions[question] = at
        if len(self._questions) > ANSWERED:
            del self._questions[next(iter(self._questions))]

    def reopened(self, question: str) -> None:
        """Forget a question whose answer was returned to the chat."""
        self._questions.pop(question, None)


_Debt: TypeAlias = MessageId | str
"""Key of an owed text: the id of a message, or `_SAY` with a conversation's number."""


@final
@attrs.define(eq=False)
class _Owed:
    """Text that a message must show, or that must be sent.

    Attributes:
        kept: whether the end of the question or conversation is stored, or is being stored.
    """

    chat_id: ChatId
    debt: _Debt
    text: str
    kept: bool

    @property
    def operation(self) -> Operation[object]:
        """The operation that shows or sends the text."""
        if isinstance(self.debt, str):
            return SendMessage(self.chat_id, self.text)
        return EditMessage(self.chat_id, MessageId(self.debt), self.text)


@final
class Cleanup:
    """Sender of cleanup operations, with a limit for each chat."""

    def __init__(self, outbox: Outbox, work: Workload, store: Store) -> None:
        self._outbox = outbox
        self._work = work
        self._store = store
        self._chats: Counter[ChatId] = Counter()
        self._owed: dict[ChatId, dict[_Debt, _Owed]] = {}

    def __len__(self) -> int:
        return len(self._chats)

    def tidy(self, chat_id: ChatId, operation: Operation[object]) -> None:
        """Send a cleanup operation later, or skip it if too many of the chat's operations are in flight."""
        if self._chats[chat_id] >= CLEANUPS:
            self._work.count("left_untidy")
        else:
            self._send(chat_id, partial(self._perform, operation))

    def _send(self, chat_id: ChatId, perform: Callable[[], Awaitable[None]]) -> None:
        """Call `perform` in a task of its own, which counts as one of the chat's operations in flight."""

        async def tidy() -> None:
            try:
                await perform()
            finally:
                self._chats[chat_id] -= 1
                if not self._chats[chat_id]:
                    del self._chats[chat_id]

        if self._work.beside(tidy):
            self._chats[chat_id] += 1

    async def _perform(
        self, operation: Operation[object], owed: _Owed | None = None, taken: EarlyEvent | None = None
    ) -> None:
        """Send an operation, then drop its owed text. Skip the operation if the text is no longer owed.

        The owed text is dropped once the operation was sent, was skipped or has failed. But if the program's
        stop prevents the send, the text stays owed, and the next start sends the operation.

        Args:
            taken: event that led to the operation and may not be stored yet. The operation waits until the
                event is stored, and is skipped if the store refuses the event.
        """
        beside = isinstance(operation, EditMessage)
        recorded = None if beside else trio.Event()
        try:
            if (taken is None or await holds(taken)) and (owed is None or self._is_due(owed)):
                urgency = Urgency.BESIDE if beside else Urgency.REPLY
                await self._outbox.perform(operation, urgency=urgency, recorded=recorded)
            self._settle(owed)
        except (TriobotError, OSError) as error:
            if not (isinstance(error, NotDeliveredError) and self._work.stopping):
                self._settle(owed)  # after a stop, the text stays owed: the next start sends it
            self._work.count("tidying_failed")
            log.info("tidying up with %s failed: %s", operation.path, type(error).__name__)
        finally:
            if recorded is not None:
                self._work.commits.when_written(recorded.set)

    # --- owed texts

    def owe(
        self,
        chat_id: ChatId,
        message_id: MessageId,
        text: str,
        also: Callable[[str, Sequence[Write]], bool],
        taken: EarlyEvent | None,
    ) -> None:
        """Edit a message to `text` without buttons, in another task; until then, the text is owed.

        If the turn runs again, a second call has no effect. Nothing is sent or owed while `CLEANUPS` of the
        chat's operations are in flight.

        Args:
            also: adds writes to a record of the turn; returns False if the writes are stored already, as on a
                replay.
            taken: as for `_perform`.
        """
        if self._chats[chat_id] >= CLEANUPS:
            self._work.count("left_untidy")
        elif also(f"tidy {message_id}", [PutData(chat_id, OWED, str(message_id))]):
            self._begin(_Owed(chat_id, message_id, text, kept=False), taken)

    def owe_words(self, chat_id: ChatId, conversation: int, words: str) -> Sequence[Write]:
        """Register the message that users get at a conversation's end; the message is owed until it is sent.

        Call `say_owed` once the conversation has ended. After a crash, the next start sends the message.

        Returns:
            The write that stores the owed text, for the transaction that ends the conversation.
        """
        debt = f"{_SAY}{conversation}"
        self._owed.setdefault(chat_id, {})[debt] = _Owed(chat_id, debt, words, kept=False)
        return [PutData(chat_id, OWED, debt)]

    async def say_owed(self, chat_id: ChatId, conversation: int, taken: EarlyEvent | None) -> None:
        """Send the message registered by `owe_words`, ahead of the chat's next message."""
        if (owed := self._owed.get(chat_id, {}).get(f"{_SAY}{conversation}")) is not None:
            self._work.working(1)
            try:
                await self._perform(owed.operation, owed, taken)
            finally:
                self._work.working(-1)

    def tell(self, chat_id: ChatId, conversation: int, words: str) -> Sequence[PutData]:
        """Queue a message about a conversation; the message's text is owed until the message is sent.

        An empty text, or a text for a room, is not sent.

        Returns:
            Writes that store the owed text. Add these writes to the transaction of the change that the
            message reports.
        """
        if not (words and is_chat(chat_id)):
            return ()
        self._begin(_Owed(chat_id, f"{_SAY}{conversation}", words, kept=True))
        return [self._all(chat_id)]

    def forget(self, chat_id: ChatId) -> None:
        """Drop all owed texts of a chat."""
        self._owed.pop(chat_id, None)

    def going(self, writes: Sequence[Write]) -> Sequence[Write]:
        """Return a turn's writes; a write of one owed text becomes a write of all the chat's owed texts."""
        return [self._going(write) if isinstance(write, PutData) else write for write in writes]

    def touch(self, chat_id: ChatId, message_id: MessageId, recorded: Callable[[], bool]) -> None:
        """Drop the text owed to a message, because the conversation's next operation changes the message.

        Args:
            recorded: returns whether the journal has the next operation's result. Such an operation ended
                before the text was owed, so the text stays.
        """
        owed = self._owed.get(chat_id, {}).get(message_id)
        if owed is not None and not recorded():
            self._settle(owed)

    async def begin(self) -> None:
        """Send the texts that the last process stored as owed."""
        after: ChatId | None = None
        while page := await self._store.keyed(OWED, after=after, limit=_PAGE):
            for chat_id, text in page:
                after = chat_id
                for debt, shown in cast("dict[_Debt, str]", decode_value(text)).items():
                    self._begin(_Owed(chat_id, debt, shown, kept=True))

    def _begin(self, owed: _Owed, taken: EarlyEvent | None = None) -> None:
        self._owed.setdefault(owed.chat_id, {})[owed.debt] = owed
        self._send(owed.chat_id, partial(self._perform, owed.operation, owed, taken))

    def _is_due(self, owed: _Owed) -> bool:
        return self._owed.get(owed.chat_id, {}).get(owed.debt) is owed

    def _settle(self, owed: _Owed | None) -> None:
        if owed is not None and self._is_due(owed):
            debts = self._owed[owed.chat_id]
            del debts[owed.debt]
            if owed.kept:
                self._work.commits.add([self._all(owed.chat_id)])
            if not debts:
                del self._owed[owed.chat_id]

    def _going(self, write: PutData) -> Write:
        if write.key != OWED or write.value is None:
            return write
        debt = write.value if write.value.startswith(_SAY) else MessageId(int(write.value))
        if (owed := self._owed.get(write.chat_id, {}).get(debt)) is not None:
            owed.kept = True
        return self._all(write.chat_id)

    def _all(self, chat_id: ChatId) -> PutData:
        kept = {debt: owed.text for debt, owed in self._owed.get(chat_id, {}).items() if owed.kept}
        return PutData(chat_id, OWED, encode_value(kept) if kept else None)
