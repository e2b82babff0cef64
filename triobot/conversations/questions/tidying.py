"""Operations beside the conversations: old buttons go, a stale form is told so. Nobody waits for them.

What a message is to show once its question is over is *owed*: it is kept with the turn that ended the
question, until the message shows it, so that a crash in between leaves nobody with buttons of the past. What
the runtime itself says of a conversation that ended badly is owed in the same way, until it has been said.

Which questions got their answer a moment ago is remembered: enough to know the second click of a double
click.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast, final

import attrs
import trio

from ...errors import NotDeliveredError, TriobotError
from ...seams.outbox import Outbox, Urgency
from ...seams.values import decode_value, encode_value
from ...seams.writes import PutData, Write
from ...wire.ids import ChatId, MessageId
from ...wire.operations import EditMessage, Operation, SendMessage
from ..data import OURS
from ..workload import EarlyEvent, Workload, holds

if TYPE_CHECKING:
    from ...store import Store

ANSWERED: Final = 10_000
"""So many are remembered; older buttons are answered as expired."""
DOUBLE_CLICK: Final = 3_000
"""A click that comes so many milliseconds after the one that answered was meant as the same."""

log: Final = logging.getLogger("triobot.conversations")
OWED: Final = f"{OURS}untidy"
"""Under this a chat keeps what its messages are to show, by their ids, and what is to be said, by a word."""
_SAY: Final = "say "
_PAGE: Final = 256
TIDYING: Final = 64
"""Operations of a chat that may be on their way; more are left undone."""


@final
class Answered:
    """The questions that were answered, newest last, each with the arrival of its answer."""

    def __init__(self) -> None:
        self._questions: dict[str, int] = {}

    def lately(self, question: str, at: int) -> bool:
        """Return whether what came `at` this wall time is a second click on an answered question."""
        answered = self._questions.get(question)
        return answered is not None and abs(at - answered) <= DOUBLE_CLICK

    def answered(self, question: str, at: int) -> None:
        """Remember that what came `at` this wall time answered a question; forget the oldest, if too many."""
        self._questions.pop(question, None)
        self._questions[question] = at
        if len(self._questions) > ANSWERED:
            del self._questions[next(iter(self._questions))]

    def reopened(self, question: str) -> None:
        """Forget that a question was answered: it has given its answer back."""
        self._questions.pop(question, None)


_Debt: TypeAlias = MessageId | str
"""A message that is to show something, or that something is to be said of a conversation."""


@final
@attrs.define(eq=False)
class _Owed:
    """What a message is to show, or what is to be said.

    Attributes:
        kept: the turn that ended its question, or its conversation, is on its way to the store.
    """

    text: str
    kept: bool


@final
class Tidying:
    """Tidies up, a bounded amount at once."""

    def __init__(self, outbox: Outbox, work: Workload, store: Store) -> None:
        self._outbox = outbox
        self._work = work
        self._store = store
        self._chats: Counter[ChatId] = Counter()
        self._owed: dict[ChatId, dict[_Debt, _Owed]] = {}
        self._saying: set[int] = set()

    def __len__(self) -> int:
        return len(self._chats)

    def tidy(
        self,
        chat_id: ChatId,
        operation: Operation[object],
        still: Callable[[], bool] = lambda: True,
        over: Callable[[], None] = lambda: None,
        taken: EarlyEvent | None = None,
    ) -> None:
        """Do this, if it is `still` wanted when its turn comes; then, or if it was refused, it is `over`.

        Args:
            taken: what it comes of, which isn't stored yet: nobody is to see what may be taken back.
        """
        if self._chats[chat_id] >= TIDYING:
            self._work.count("left_untidy")
            return

        async def tidy() -> None:
            beside = isinstance(operation, EditMessage)
            recorded = None if beside else trio.Event()
            try:
                if (taken is None or await holds(taken)) and still():
                    urgency = Urgency.BESIDE if beside else Urgency.REPLY
                    await self._outbox.perform(operation, urgency=urgency, recorded=recorded)
                over()
            except (TriobotError, OSError) as error:
                if not (isinstance(error, NotDeliveredError) and self._work.stopping):
                    over()  # else the next start does it
                self._work.count("tidying_failed")
                log.info("tidying up with %s failed: %s", operation.path, type(error).__name__)
            finally:
                if recorded is not None:
                    self._work.commits.when_written(recorded.set)
                self._chats[chat_id] -= 1
                if not self._chats[chat_id]:
                    del self._chats[chat_id]

        if self._work.beside(tidy):
            self._chats[chat_id] += 1

    def say(self, chat_id: ChatId, words: str, seq: int) -> None:
        """Say what this row of the inbox is there for; it goes once that has been said, or can't be."""

        def over() -> None:
            self._work.commits.consumed([seq])
            self._saying.discard(seq)

        if not words:
            over()
        elif seq not in self._saying:
            self._saying.add(seq)
            self.tidy(chat_id, SendMessage(chat_id, words), over=over)

    # --- what is owed

    def owe(
        self,
        chat_id: ChatId,
        message_id: MessageId,
        text: str,
        also: Callable[[str, Sequence[Write]], bool],
        taken: EarlyEvent | None,
    ) -> None:
        """Leave a message as this text without buttons: once, even if the turn that says so runs again.

        Args:
            also: has writes go with a record of the turn; returns False if they did, as on replay.
            taken: as for `tidy`.
        """
        if self._chats[chat_id] >= TIDYING:
            self._work.count("left_untidy")
        elif also(f"tidy {message_id}", [PutData(chat_id, OWED, str(message_id))]):
            self._begin(chat_id, message_id, _Owed(text, kept=False), taken)

    def owe_words(self, chat_id: ChatId, conversation: int, words: str) -> Sequence[Write]:
        """Say this of a conversation, now (`said`) or at the next start; this goes with its end."""
        self._owed.setdefault(chat_id, {})[f"{_SAY}{conversation}"] = _Owed(words, kept=False)
        return [PutData(chat_id, OWED, f"{_SAY}{conversation}")]

    def said(self, chat_id: ChatId, conversation: int) -> None:
        """Drop the words that `owe_words` or `tell` owed: they have been said, or can't be."""
        debt = f"{_SAY}{conversation}"
        if (owed := self._owed.get(chat_id, {}).get(debt)) is not None:
            self._settle(chat_id, debt, owed)

    def tell(self, chat_id: ChatId, conversation: int, words: str) -> Sequence[PutData]:
        """Say this of a conversation; what this returns is to be written with what it tells of."""
        self._begin(chat_id, f"{_SAY}{conversation}", _Owed(words, kept=True))
        return [self._all(chat_id)]

    def forget(self, chat_id: ChatId) -> None:
        """Drop all that is owed to this chat."""
        self._owed.pop(chat_id, None)

    def going(self, writes: Sequence[Write]) -> Sequence[Write]:
        """Return what is stored now, with what the chat is owed by now in place of what `owe` gave."""
        return [self._going(write) if isinstance(write, PutData) else write for write in writes]

    def touch(self, chat_id: ChatId, message_id: MessageId, recorded: Callable[[], bool]) -> None:
        """Drop what is owed to a message: a conversation's next operation shows something else in it.

        Args:
            recorded: says whether it did so long ago, and what is owed came after it.
        """
        owed = self._owed.get(chat_id, {}).get(message_id)
        if owed is not None and not recorded():
            self._settle(chat_id, message_id, owed)

    async def begin(self) -> None:
        """Go on with what the last process owed."""
        after: ChatId | None = None
        while page := await self._store.keyed(OWED, after=after, limit=_PAGE):
            for chat_id, text in page:
                after = chat_id
                for debt, shown in cast("dict[_Debt, str]", decode_value(text)).items():
                    self._begin(chat_id, debt, _Owed(shown, kept=True))

    def _begin(self, chat_id: ChatId, debt: _Debt, owed: _Owed, taken: EarlyEvent | None = None) -> None:
        self._owed.setdefault(chat_id, {})[debt] = owed
        pays: Operation[object] = (
            SendMessage(chat_id, owed.text)
            if isinstance(debt, str)
            else EditMessage(chat_id, MessageId(debt), owed.text)
        )
        self.tidy(
            chat_id,
            pays,
            lambda: self._owed.get(chat_id, {}).get(debt) is owed,
            partial(self._settle, chat_id, debt, owed),
            taken,
        )

    def _settle(self, chat_id: ChatId, debt: _Debt, owed: _Owed) -> None:
        debts = self._owed.get(chat_id, {})
        if debts.get(debt) is owed:
            del debts[debt]
            if owed.kept:
                self._work.commits.add([self._all(chat_id)])
            if not debts:
                del self._owed[chat_id]

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
