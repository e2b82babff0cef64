"""What chats and conversations ask of the dispatcher that they live in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ..seams import PutData, Write
from ..wire.ids import ChatId
from ..wire.operations import Operation

if TYPE_CHECKING:
    from .conversation import Conversation
    from .data.keeping import Keeping
    from .doors.elsewhere import Elsewhere
    from .inbox.consumption import Writer
    from .life import ChatLife
    from .questions.answered import Answered
    from .questions.tidying import Tidying
    from .revival.care import Care


class House(Protocol):
    """What a chat's life asks of the dispatcher."""

    @property
    def elsewhere(self) -> Elsewhere:
        """Signals, and routes that code starts and stops."""
        ...

    @property
    def keeping(self) -> Keeping:
        """What chats keep."""
        ...

    @property
    def care(self) -> Care:
        """Counts whose code is at work when the program is killed."""
        ...

    @property
    def tidying(self) -> Tidying:
        """What messages owe."""
        ...

    def life(self, chat_id: ChatId) -> ChatLife | None:
        """What goes on in a chat."""
        ...

    def start(self, conversation: Conversation) -> None:
        """Run a conversation as a task."""
        ...

    def consumed(self, seqs: Sequence[int], data: Sequence[PutData] = ()) -> None:
        """These inbox rows have been dealt with, and this was kept meanwhile."""
        ...

    def write(self, writes: Sequence[Write], writer: Writer | None = None) -> int:
        """Make this durable, as one, soon; returns what `wait_written` takes.

        Args:
            writer: told if the store refuses it; nothing that it writes behind that is stored.
        """
        ...

    def before_writing(self, look: Callable[[], None]) -> None:
        """Call this once, just before something is written, soon: it may have more to write."""
        ...

    def when_written(self, tell: Callable[[], None]) -> None:
        """Call this once what has been written by the end of the present step is durable."""
        ...

    async def wait_written(self, until: int | None = None) -> None:
        """Wait until everything that was to be written is durable, or this and all before it."""
        ...

    def wake_at(self, conversation: Conversation, when: int | None) -> None:
        """Tick a conversation once the wall clock shows this."""
        ...

    def all_came(self, conversation: Conversation, before: int) -> bool:
        """Whether all events that were accepted before this have been routed; if not, it is ticked then."""
        ...

    def retry(self, chat_id: ChatId) -> None:
        """Bring a chat back from the store once more, as soon as nobody is at work in it."""
        ...

    def start_task(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run this as a task that ends at once by itself."""
        ...

    def get_stuck(self, conversation: Conversation, because: str) -> None:
        """A conversation's code doesn't fit its journal."""
        ...

    def beside(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run this as a task of nobody's; it must not raise."""
        ...

    def tidy(self, chat_id: ChatId, operation: Operation[object], *, still: Callable[[], bool] = ...) -> None:
        """Do this beside the conversations, if it is `still` wanted; nobody waits for its result."""
        ...

    def let_go(self, conversation: Conversation) -> None:
        """Its coroutine doesn't end: it is waited for no more."""
        ...

    @property
    def stopping(self) -> bool:
        """No more events are given out."""
        ...

    @property
    def cut(self) -> bool:
        """The program stops: conversations are cancelled, and none of them has ended."""
        ...

    def working(self, more: int) -> None:
        """This many more branches are at work, or fewer."""
        ...

    def count(self, what: str) -> None:
        """Count what happened, by word."""
        ...

    def hold(self, life: ChatLife, seq: int) -> None:
        """A block has taken this row's event, and ends the row itself: it is routed to nobody."""
        ...

    def release(self, seq: int) -> None:
        """The block has given it back before its chat was ready for it: it is routed when its turn comes."""
        ...

    def holds(self, seq: int) -> bool:
        """Whether a block has taken this row's event."""
        ...

    @property
    def answers(self) -> Answered:
        """Which questions got their answer a moment ago."""
        ...

    def room(self, life: ChatLife) -> None:
        """A chat that was behind has room again."""
        ...

    def over(self, life: ChatLife) -> None:
        """Nothing goes on in this chat any more."""
        ...
